"""What OpenID issuers and the clients with their tokens send: key sets, tokens, claims.

Signatures are made right where a target wants to see what lies behind them.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache

import msgspec
from cryptography.hazmat.primitives.asymmetric import ed25519
from jwt.algorithms import OKPAlgorithm

from fuzz.target import Target
from slipstream.auth.authenticator import Authenticator
from slipstream.auth.identity import Denied, Granted, NeedsIssuer, PeerFacts
from slipstream.auth.oidc.keys import IssuerKey, UnusableKeys, address_of_keys, parse_keys
from slipstream.auth.permissions import Permissions
from slipstream.config.subject_rules import is_valid_subject
from slipstream.protocol.info import ConnectInfo
from slipstream.units import SECOND_NS
from support.config_loading import options
from support.openid_issuer import encoded

NOW_NS = 1_800_000_000 * SECOND_NS
CONFIG = """
accounts { A { users: [{user: u, password: p}] }, SYS {} }
system_account: SYS
authorization {
  oidc {
    issuer: "https://a", audience: nats, account: "{{claim(t)}}"
    rules: [ { match { "r.x": [a, b] }, account: A }, {} ]
    permissions {
      publish { allow: ["p.{{claim(sub)}}.{{claim(g)}}", "{{subjects(s)}}"], deny: "d.{{claim(g)}}" }
      subscribe: ["q.{{claim(g)}} {{claim(g)}}", "{{subjects(s)}}"]
    }
  }
}
"""


@cache
def _private() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)


@cache
def _world() -> tuple[Authenticator, IssuerKey]:
    jwk = {**OKPAlgorithm.to_jwk(_private().public_key(), as_dict=True), "kid": "k"}
    key = parse_keys(json.dumps({"keys": [jwk]}).encode()).find("k", "EdDSA")
    assert key is not None
    return Authenticator(options(CONFIG)), key


def _decided(text: str) -> Granted | Denied | None:
    """What becomes of a token; None if it was nobody's."""
    authenticator, key = _world()
    asked = authenticator.authenticate(ConnectInfo(auth_token=text), PeerFacts())
    if not isinstance(asked, NeedsIssuer):
        assert isinstance(asked, Denied)
        return None
    assert authenticator.openid is not None
    return authenticator.openid.decided(asked, key, "STANDARD", NOW_NS)


def claims(data: bytes) -> None:
    """Signed claims let somebody in whom they name, in an account that is there, for a while; or nobody."""
    text = f"{encoded({'alg': 'EdDSA', 'kid': 'k'})}.{encoded(data)}"
    verdict = _decided(f"{text}.{encoded(_private().sign(text.encode()))}")
    if not isinstance(verdict, Granted):
        return
    identity, said = verdict.identity, msgspec.json.decode(data)
    assert identity.account in ("A", "$G") and identity.openid is not None
    assert identity.user == str(said["sub"]) and said["iss"] == "https://a"
    assert NOW_NS < identity.openid.until_ns <= 10**12 * SECOND_NS
    rights = identity.permissions
    assert isinstance(rights, Permissions) and rights.options.publish is not None
    for entry in rights.options.publish.allow or ():
        assert is_valid_subject(entry)
        if entry.startswith("p."):
            # No claim adds tokens or wildcards to what the configuration says.
            assert entry.count(".") == 2 and "*" not in entry and ">" not in entry


def token(data: bytes) -> None:
    """A token that was changed in any way lets nobody in, unless it was not changed at all."""
    text = data.decode("latin-1")
    assert not isinstance(_decided(text), Granted) or text == _good()


@cache
def _good() -> str:
    said = {"iss": "https://a", "aud": "nats", "sub": "ann", "exp": NOW_NS // SECOND_NS + 60, "t": "A", "g": "x"}
    text = f"{encoded({'alg': 'EdDSA', 'kid': 'k'})}.{encoded(said)}"
    return f"{text}.{encoded(_private().sign(text.encode()))}"


def keys(data: bytes) -> None:
    """A key set has keys for signatures that can be tried, or is refused; none is ever symmetric."""
    try:
        found = parse_keys(data)
    except UnusableKeys:
        found = None
    if found is not None:
        assert 0 < len(found) <= 64
        for algorithm in ("HS256", "HS384", "HS512", "none", ""):
            assert found.find("", algorithm) is None
        for algorithm in ("RS256", "ES256", "ES512", "EdDSA"):
            key = found.find("", algorithm)
            if key is not None:
                with suppress(ValueError):
                    assert key.verifying(algorithm).algorithm_name == algorithm
    with suppress(UnusableKeys):
        assert address_of_keys(data, "https://a").lower().startswith("https://")


def claims_seeds() -> list[bytes]:
    base = {"iss": "https://a", "aud": "nats", "sub": "ann", "exp": NOW_NS // SECOND_NS + 60, "t": "A", "g": "x"}
    more = [
        {},
        {"aud": ["x", "nats"], "nbf": 1, "iat": 1.5, "r": {"x": "a"}},
        {"g": ["x", "y"], "s": ["a.>", "b queue"], "r.x": ["b"], "t": "$G"},
        {"sub": 7, "g": True, "s": "*", "t": None, "r": {"x": ["b", 7, None, {}]}},
        {"exp": 10**300},
        {"cnf": {}},
    ]
    return [json.dumps(base | one).encode() for one in more]


def token_seeds() -> list[bytes]:
    good = _good().encode()
    head, body, signature = good.split(b".")
    none = encoded({"alg": "none", "kid": "k"}).encode()
    return [good, b".".join((none, body, b"")), b".".join((head, body, signature[:-1]))]


def keys_seeds() -> list[bytes]:
    jwk = {**OKPAlgorithm.to_jwk(_private().public_key(), as_dict=True), "kid": "k", "use": "sig"}
    rsa = {"kty": "RSA", "n": encoded(b"\xc1" * 256), "e": "AQAB", "kid": "r", "alg": "RS256", "key_ops": ["verify"]}
    curve = {"kty": "EC", "crv": "P-256", "x": encoded(b"x" * 32), "y": encoded(b"y" * 32)}
    return [
        json.dumps({"keys": [jwk]}).encode(),
        json.dumps({"keys": [rsa, curve, {"kty": "oct", "k": "AAAA", "alg": "HS256"}]}).encode(),
        json.dumps({"issuer": "https://a", "jwks_uri": "https://a/keys"}).encode(),
    ]


WORDS = (
    *(b'"iss"', b'"aud"', b'"sub"', b'"exp"', b'"nbf"', b'"iat"', b'"cnf"', b'"t"', b'"g"', b'"s"', b'"r"', b'"r.x"'),
    *(b"null", b"true", b"[]", b"{}", b"1e308", b"-1", b'"*"', b'">"', b'"a.b"', b'"a b"', b'"\\ud800"', b'"$SYS"'),
    *(b'"SYS"', b'"kty"', b'"RSA"', b'"oct"', b'"kid"', b'"alg"', b'"none"', b'"HS256"', b"eyJ", b"."),
)

TARGETS = (
    Target("openid-claims", claims, claims_seeds, WORDS),
    Target("openid-token", token, token_seeds, WORDS),
    Target("openid-keys", keys, keys_seeds, WORDS),
)
