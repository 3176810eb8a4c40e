"""Tokens that something else is wrong with than a field of a user or an account: how they are written, who signed them,
activations, rings of imports, and those of operators. Both servers take the same.

Short form: some of each. Long form (`-m long`): all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slipstream.errors import SlipstreamError
from slipstream.server.logins.operators import with_tokens
from slipstream.testing import ServerThread
from support.config_loading import options
from support.jwt import ACCOUNT, HEADER, OPERATOR, USER, Key, account_claims, token, user_claims
from support.normalise import Json
from support.odd_claims import (
    GONE,
    ODD_SERVER,
    VALUES,
    World,
    app,
    body,
    changed,
    fields,
    other,
    signed,
    signed_texts,
    signer,
    user,
)
from support.server_process import ServerProcess, ServerStartError
from support.servers import Both, server_binary
from support.shared_trees import OPERATOR_KEY, SYSTEM

ACCOUNT_PART = account_claims(
    imports=[{"name": "j", "subject": "priv.>", "account": other.public, "type": "stream", "token": ""}],
    signing_keys=[signer.public],
)
USER_PART = user_claims(bearer_token=True, issuer_account="")
NOW = int(time.time())
HEADS: tuple[Any, ...] = (
    *(changed(HEADER, (name,), value) for name in HEADER for value in VALUES),
    *(HEADER | {"kid": value} for value in VALUES if value is not GONE),
    *(HEADER | {"typ": value} for value in ("jwt", "Jwt", "JWS")),
    *(HEADER | {"alg": value} for value in ("ed25519", "ED25519-NKEY", "none", "HS256", "EdDSA", "ed25519-nkey ")),
    None, [], "", {}, 1, {"TYP": "JWT", "ALG": "ed25519-nkey"},
)  # fmt: skip
TEXTS = {
    "without a signature": "{head}.{claims}",
    "with an empty signature": "{head}.{claims}.",
    "with an empty header": ".{claims}.{proof}",
    "with empty claims": "{head}..{proof}",
    "with a fourth part": "{head}.{claims}.{proof}.x",
    "with a dot before": ".{head}.{claims}.{proof}",
    "turned round": "{claims}.{head}.{proof}",
    "padded": "{head}.{claims}.{proof}==",
    "with a line's end": "{head}.{claims}.{proof}\n",
    "with a line's end of Windows": "{head}.{claims}.{proof}\r\n",
    "with a signature in two lines": "{head}.{claims}.{proof:.40}\n{rest}",
    "with a line's end in the header": "{head}\n.{claims}.{proof}",
    "with a blank before": " {head}.{claims}.{proof}",
    "with a blank behind": "{head}.{claims}.{proof} ",
    "with a zero behind": "{head}.{claims}.{proof}\0",
    "with a longer signature": "{head}.{claims}.{proof}AAAA",
    "a little shorter": "{head}.{claims}.{proof:.85}",
    "shorter": "{head}.{claims}.{proof:.84}",
    "of dots": "..",
    "of nothing": "",
}
FORMS: dict[str, Callable[[str], str]] = {
    "the issuer twice": lambda text: text[:-1] + ',"iss":"x"}',
    "another issuer before": lambda text: '{"iss":"x",' + text[1:],
    "names in capitals": lambda text: text.replace('"iss"', '"ISS"').replace('"nats"', '"NATS"'),
    "names in both": lambda text: text.replace('"sub"', '"Sub"').replace('"type"', '"Type"'),
    "names in escapes": lambda text: text.replace('"iss"', '"\\u0069ss"'),
    "half a character": lambda text: text.replace(" with odd claims", "\\ud800"),
    "two wrong halves": lambda text: text.replace(" with odd claims", "\\udc00\\ud800x"),
    "bytes that are no text": lambda text: text.replace(" with odd claims", "\udcff"),
    "a control character": lambda text: text.replace(" with odd claims", "\x01"),
    "an unknown escape": lambda text: text.replace(" with odd claims", "\\x"),
    "another field": lambda text: text[:-1] + ',"extra":{"a":[1,{"b":null}]}}',
    "a field that is too large a number": lambda text: text[:-1] + f',"extra":{"9" * 5000}}}',
    "a field that is too large a fraction": lambda text: text[:-1] + ',"extra":1e999}',
    "an infinite field": lambda text: text[:-1] + ',"extra":Infinity}',
    **{
        f"not before {number[:9]}": methodcaller("replace", '"nbf": 0', f'"nbf": {number}')
        for number in ("NaN", "0.0", "1e2", "-0", "00", "+1", "9" * 30, "9" * 5000, "1e999", "0x1", ".5", "5.")
    },
    "a comma too many": lambda text: text[:-1] + ",}",
    "a comment": lambda text: text + "// x",
    "something behind": lambda text: text + "x",
    "twice": lambda text: text + text,
    "blanks around": lambda text: f"\n {text}\t",
    "a mark before": lambda text: "\ufeff" + text,
    "other quotes": lambda text: text.replace('"', "'"),
    "a list": lambda text: f"[{text}]",
    **{f"{one or 'nothing'} alone": one.format for one in ("null", "1", '"x"', "")},
    "many levels": lambda text: text[:-1] + f',"x":{"[" * 500}{"]" * 500}}}',
}  # fmt: skip
ACTIVATION: dict[str, Any] = body(
    {"subject": "priv.>", "kind": "stream", "issuer_account": other.public, "tags": ["a"]}, other, app, "activation"
)
STRANGERS = (app, other, signer, user, OPERATOR_KEY, Key(OPERATOR, "o"), Key(USER, "u"), Key(ACCOUNT, "a"))
KINDS = (
    "operator", "account", "user", "activation", "authorization_request", "authorization_response", "generic", "server",
    "cluster", "x", "",
)  # fmt: skip


class Offer(NamedTuple):
    """A token, as that of an account or of a user, and what is wrong with it."""

    to_push: bool
    wrong: object
    text: str
    comes_twice: bool = False  # at nats-server: what an account imports from itself by its own name


def _account(number: object) -> dict[str, Any]:
    """Claims of the account, for a token that there was not yet."""
    return body(ACCOUNT_PART, OPERATOR_KEY, app, "account") | {"jti": str(number)}


def _user() -> dict[str, Any]:
    return body(USER_PART, app, user, "user")


def written() -> Iterator[Offer]:
    """Headers, texts and JSON in all forms."""
    for number, head in enumerate(HEADS):
        yield Offer(False, head, signed(_user(), app, head))
        yield Offer(True, head, signed(_account(number), OPERATOR_KEY, head))
    for name, text in TEXTS.items():
        for to_push, good in ((False, signed(_user(), app)), (True, signed(_account(name), OPERATOR_KEY))):
            head, claims, proof = good.split(".")
            yield Offer(to_push, name, text.format(head=head, claims=claims, proof=proof, rest=proof[40:]))
    for name, form in FORMS.items():
        for to_push, made, key in ((False, _user(), app), (True, _account(name), OPERATOR_KEY)):
            raw = form(json.dumps(made)).encode("utf-8", "surrogateescape")
            yield Offer(to_push, name, signed_texts(json.dumps(HEADER), raw, key))


def activations() -> Iterator[Offer]:
    """Tokens that would let an account import, inside that of the account."""
    more = (other.public, "priv.x", "service", "Stream", OPERATOR_KEY.public, NOW + 3600, NOW - 30)
    offers: list[tuple[object, str]] = [
        ((path, str(value)[:70]), signed(changed(ACTIVATION, path, value), other))
        for path in fields(ACTIVATION)
        for value in (*VALUES, *more)
    ]
    offers += [(("by", key.name), signed(ACTIVATION | {"iss": key.public}, key)) for key in STRANGERS]
    offers += [(("instead", key.name), signed(ACTIVATION, key)) for key in STRANGERS]
    offers += [(text, text) for text in ("http://127.0.0.1:1/x", "a.b.c", "file:///etc/passwd", "..")]
    for number, (name, text) in enumerate(offers):
        yield Offer(True, name, signed(changed(_account(number), ("nats", "imports", 0, "token"), text), OPERATOR_KEY))
        yield Offer(False, name, signed(_user(), app))


def signers() -> Iterator[Offer]:
    """Keys of all kinds, who sign for themselves or for others, claims of all kinds."""
    for key, said in product(STRANGERS, STRANGERS):
        for of in ("", app.public, other.public, user.public, said.public):
            claims = changed(_user(), ("nats", "issuer_account"), of) | {"iss": said.public}
            yield Offer(False, (key.name, said.name, of), signed(claims, key))
    for key, kind in product(STRANGERS, KINDS):
        for name, by in (("iss", key), ("sub", app)):
            claims = changed(_user(), ("nats", "type"), kind) | {name: key.public}
            yield Offer(False, (name, key.name, kind), signed(claims, by))
        if kind != "account":  # see below
            claims = changed(_account(f"{key.name}{kind}"), ("nats", "type"), kind)
            yield Offer(True, ("sub", key.name, kind), signed(claims | {"sub": key.public}, OPERATOR_KEY))
            yield Offer(True, ("iss", key.name, kind), signed(claims | {"iss": key.public}, key))


def rings() -> Iterator[Offer]:
    """Accounts that import from each other, or from themselves."""
    ways = product(("stream", "service"), range(1, 5), ("a", "*", ">"), ("", "local_subject", "to"), range(2))
    for number, (kind, size, subject, renamed, _) in enumerate(ways):
        keys = [Key(ACCOUNT, f"ring {place}") for place in range(size)]
        for key, source in zip(keys, keys[1:] + keys[:1], strict=True):
            entry: dict[str, Json] = {"name": "i", "subject": subject, "account": source.public, "type": kind}
            entry |= {renamed: f"q.{subject}" if renamed == "to" else subject} if renamed else {}
            exports: list[Json] = [{"name": "e", "subject": subject, "type": kind}]
            claims = body(account_claims(exports=exports, imports=[entry]), OPERATOR_KEY, key, "account")
            yield Offer(True, (kind, size, subject, renamed), signed(claims | {"jti": str(number)}, OPERATOR_KEY))
        for key in keys:
            text = signed(body(USER_PART, key, user, "user"), key)
            yield Offer(False, (kind, size, subject, renamed), text, kind == "stream" and size == 1)


def once(lines: list[bytes]) -> list[bytes]:
    """Without lines that came before."""
    return list(dict.fromkeys(lines))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("offers", "which"),
    [
        (written, slice(0, None, 23)),
        (activations, slice(0, None, 46)),
        (signers, slice(0, None, 23)),
        (rings, slice(24)),
        *(
            pytest.param(all_of, slice(None), marks=pytest.mark.long)
            for all_of in (written, activations, signers, rings)
        ),
    ],
)
def test_the_same_tokens_are_taken(both: Both, offers: Callable[[], Iterator[Offer]], which: slice) -> None:
    """Advisories 2020-26521 and 2022-28357: keys, kinds and texts that are not what they should be."""
    with World(both.fresh(ODD_SERVER)) as world:
        assert world.push(signed(_account("good"), OPERATOR_KEY)) == [True, True]
        assert all(lines[-1] == b"PONG" for lines in world.login(signed(_user(), app)))
        for offer in list(offers())[which]:
            if offer.to_push:
                world.same_push(offer.text, offer.wrong)
            else:
                world.same_login(offer.text, offer.wrong, of_real=once if offer.comes_twice else list)
        world.check()


@pytest.mark.parametrize(
    ("claims", "by"),
    [
        ({"iss": app.public}, app),
        ({"iss": Key(OPERATOR, "o").public}, Key(OPERATOR, "o")),
        ({"sub": user.public}, OPERATOR_KEY),
        ({"sub": OPERATOR_KEY.public}, OPERATOR_KEY),
    ],
)
def test_what_could_not_be_loaded_is_not_stored(both: Both, claims: dict[str, Any], by: Key) -> None:
    """nats-server keeps accounts that no operator signed, or that are none, and has no account when it starts again."""
    with World(both(ODD_SERVER)) as world:
        assert world.push(signed(_account("good"), OPERATOR_KEY)) == [True, True]
        assert world.push(signed(_account("bad") | claims, by)) == [True, False]


OPERATOR_PART: dict[str, Json] = {
    "signing_keys": [Key(OPERATOR, "signer").public],
    "account_server_url": "http://a/jwt/v1",
    "operator_service_urls": ["nats://a:4222"],
    "system_account": SYSTEM.public,
    "assert_server_version": "2.0.0",
    "strict_signing_key_usage": False,
    "tags": ["a"],
    "description": "d",
    "info_url": "http://a/b",
}
OPERATOR_VALUES = (
    *VALUES, OPERATOR_KEY.public, "2.99.0", "2.x.0", "-1.0.0", "2.0", "http://x y", "nats://a", "http://a/b",
    ["nats://a b"], [OPERATOR_KEY.public], [user.public], [OPERATOR_KEY.public[:-1]], NOW - 50, NOW + 3600,
)  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.long)])
def test_the_same_operators_are_trusted(tmp_path: Path, step: int) -> None:
    """A server starts with the same tokens of operators as nats-server."""
    good = body(OPERATOR_PART, OPERATOR_KEY, OPERATOR_KEY, "operator")
    system = token(OPERATOR_KEY, SYSTEM, account_claims())
    offers = [(path, value) for path in fields(good) for value in OPERATOR_VALUES][::step]
    differing = []
    for number, (path, value) in enumerate([((), None), *offers]):
        text = signed(changed(good, path, value) if path else good, OPERATOR_KEY)
        config = f"operator: {text}\nresolver: MEMORY\nresolver_preload {{ {SYSTEM.public}: {system} }}\nport: -1\n"
        directory = tmp_path / str(number)
        directory.mkdir()
        real, ours = _real_starts(config, directory), _ours_starts(config)
        assert path or (real and ours)
        if real != ours:
            differing.append((path, value, real, ours))
    assert not differing


def _real_starts(config: str, directory: Path) -> bool:
    try:
        with ServerProcess(server_binary("real"), directory, config=config):
            return True
    except ServerStartError:
        return False


def _ours_starts(config: str) -> bool:
    try:
        with ServerThread(with_tokens(options(config))):
            return True
    except SlipstreamError:
        return False
