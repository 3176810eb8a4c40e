"""Tokens of operator mode whose claims are anything: missing, null, of another type, huge, by a key of the wrong kind.

The signature is right, by whoever the claims name as issuer if the key is one of ours: what lies behind it is reached.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from zoneinfo import ZoneInfo

from fuzz.target import Target, option
from slipstream.accounts.claimed import Claimed
from slipstream.auth.identity import Denied, Granted, NeedsAccount, NeedsCallout, PeerFacts
from slipstream.auth.jwt.checks import account_findings, activation_findings, answer_findings, operator_findings
from slipstream.auth.jwt.claims import AccountClaims
from slipstream.auth.jwt.token import (
    InvalidToken,
    decode_account,
    decode_activation,
    decode_answer,
    decode_operator,
    decode_user,
)
from slipstream.auth.jwt.trust import trust_of
from slipstream.auth.jwt.verifier import TokenVerifier
from slipstream.config.options import Options
from slipstream.errors import ConfigError
from slipstream.protocol.info import ConnectInfo
from slipstream.units import SECOND_NS
from support.jwt import ACCOUNT, HEADER, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import url_base64
from support.normalise import Json

NOW_S = 1_800_000_000
operator, account, signer, scoped = Key(OPERATOR, "o"), Key(ACCOUNT, "a"), Key(ACCOUNT, "s"), Key(ACCOUNT, "scope")
user = Key(USER, "u")
KEYS = {key.public: key for key in (operator, account, signer, scoped, user)}
TEMPLATE: Json = {"pub": {"allow": ["p.{{name()}}", "{{tag(x)}}"]}, "sub": {"deny": ["d.{{tag(y)}}"]}, "subs": 7}
SCOPE: Json = {"kind": "user_scope", "key": scoped.public, "role": "r", "template": TEMPLATE}


class _Known:
    """The accounts of the world."""

    def __init__(self) -> None:
        text = token(operator, account, account_claims(signing_keys=[signer.public, SCOPE]))
        self.claims = decode_account(text)

    def claims_of(self, name: str) -> AccountClaims | None:
        return self.claims if name == account.public else None


@cache
def _verifier() -> TokenVerifier:
    trust = trust_of((token(operator, operator, {}),), ())
    return TokenVerifier(Options(), trust, _Known(), lambda: NOW_S * SECOND_NS, _zone)


def _zone(name: str) -> ZoneInfo | None:
    return ZoneInfo("UTC") if name in ("", "UTC", "Local") else None


def _signed(body: bytes) -> str:
    """A token with these claims."""
    try:
        issuer = json.loads(body)["iss"]
        key = KEYS.get(issuer, user)
    except (ValueError, TypeError, KeyError, RecursionError):
        key = user
    text = f"{url_base64(json.dumps(HEADER).encode())}.{url_base64(body)}"
    return f"{text}.{url_base64(key.sign(text.encode()))}"


def claims(data: bytes) -> None:
    """Read or refused with a reason; judged without an exception; and a user is let in by its own account alone."""
    kind, body = option(data)
    text = _signed(body)
    try:
        match kind % 5:
            case 0:
                _login(text)
            case 1:
                found = decode_account(text)
                account_findings(found, NOW_S)
                _taken_over(found, text)
            case 2:
                operator_findings(decode_operator(text), NOW_S)
            case 3:
                activation_findings(decode_activation(text), NOW_S)
            case _:
                list(answer_findings(decode_answer(text), NOW_S))
    except InvalidToken as error:
        str(error).encode("utf-8", "backslashreplace")


def _login(text: str) -> None:
    verdict = _verifier().authenticate(ConnectInfo(jwt=text), PeerFacts(ip="127.0.0.1"), proxied=False)
    assert isinstance(verdict, Granted | Denied | NeedsAccount | NeedsCallout)
    if isinstance(verdict, Granted):
        said = decode_user(text)
        # Without a signed nonce nobody comes in but a bearer, with a key that the account knows, in time.
        assert said.iss in (account.public, signer.public, scoped.public)
        assert verdict.identity.account == account.public
        assert verdict.identity.token is not None and verdict.identity.token.is_bearer
        assert not said.exp or said.exp > NOW_S
        assert not said.nbf or said.nbf <= NOW_S


def _taken_over(found: AccountClaims, text: str) -> None:
    try:
        Claimed(found, text, NOW_S * SECOND_NS)
    except ConfigError as error:
        str(error).encode("utf-8", "backslashreplace")


def claims_seeds() -> list[bytes]:
    def body(kind: int, made: str) -> bytes:
        part = made.split(".")[1]
        return bytes([kind]) + base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    bearer = user_claims(bearer_token=True)
    rights: dict[str, Json] = {
        "pub": {"allow": ["a.>"], "deny": ["a.b"]},
        "sub": {"allow": ["q w"]},
        "resp": {"max": 1, "ttl": 10**9},
        "src": ["127.0.0.0/8"],
        "times": [{"start": "00:00:00", "end": "23:59:59"}],
        "times_location": "UTC",
        "allowed_connection_types": ["STANDARD"],
    }
    export: Json = {"name": "e", "subject": "e.*", "type": "service", "token_req": True, "account_token_position": 2}
    entry: Json = {"name": "i", "subject": "i.>", "account": signer.public, "type": "stream", "local_subject": "l.>"}
    own: Json = {"name": "ring", "subject": "r", "account": account.public, "type": "service"}
    full = account_claims(
        exports=[export],
        imports=[entry, own],
        signing_keys=[signer.public, SCOPE],
        revocations={user.public: 1, "*": 2},
        mappings={"m": [{"subject": "n", "weight": 50}]},
        default_permissions={"pub": {"deny": ["x"]}, "sub": {}},
        authorization={"auth_users": [user.public], "allowed_accounts": ["*"]},
        trace={"dest": "t", "sampling": 7},
        tags=["x:1"],
    )
    scope_user: dict[str, Json] = {"issuer_account": account.public, "tags": ["x:t.>", "y:z"]}
    return [
        body(0, token(account, user, bearer)),
        body(0, token(account, user, bearer | rights, exp=NOW_S + 60, nbf=1)),
        body(0, token(signer, user, bearer | {"issuer_account": account.public})),
        body(0, token(scoped, user, {"bearer_token": True} | scope_user)),
        body(0, token(user, user, bearer)),  # the wrong kind of key
        body(1, token(operator, account, full)),
        body(1, token(account, account, full)),
        body(2, token(operator, operator, {"signing_keys": [signer.public], "system_account": account.public})),
        body(3, token(account, account, {"type": "activation", "subject": "e.x", "kind": "service"})),
        body(4, token(account, user, {"type": "authorization_response", "jwt": "x.y.z"}, aud="N")),
    ]


WORDS = (
    *(b"null", b"true", b"false", b"0", b"-1", b"1e999", b"9" * 400, b'""', b"[]", b"{}", b"[[[[", b'{"a":' * 8),
    *(b'"nats":', b'"iss":', b'"sub":', b'"exp":', b'"nbf":', b'"iat":', b'"type":', b'"version":', b'"limits":'),
    *(b'"imports":', b'"exports":', b'"signing_keys":', b'"pub":', b'"allow":', b'"deny":', b'"times":', b'"src":'),
    *(key.encode() for key in KEYS),
    *(key.encode()[:30] for key in KEYS),  # cut off
    *(
        b'"user"',
        b'"account"',
        b'"operator"',
        b'"activation"',
        b"{{name()}}",
        b"{{tag(x)}}",
        b"{{",
        b"*",
        b">",
        b"a..b",
    ),
)

TARGETS = (Target("operator-claims", claims, claims_seeds, WORDS, cost=3),)
