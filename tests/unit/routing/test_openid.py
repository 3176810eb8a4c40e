"""Keys of OpenID issuers without sockets: when they are fetched, who waits, what an issuer that fails leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from jwt.algorithms import OKPAlgorithm

from slipstream.auth.authenticator import Authenticator
from slipstream.auth.identity import Denied, Granted, NeedsIssuer, PeerFacts
from slipstream.config.oidc_options import OidcOptions
from slipstream.config.options import Options
from slipstream.protocol.info import ConnectInfo
from slipstream.routing.openid import REFETCH_MIN_NS, STALE_MAX_NS, OpenIdLogins
from slipstream.units import MINUTE_NS, SECOND_NS
from support.config_loading import options
from support.openid_issuer import encoded

START_NS = 1_800_000_000 * SECOND_NS


@cache
def private(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))


def key_set(*names: str) -> bytes:
    keys = [
        {**OKPAlgorithm.to_jwk(private(name).public_key(), as_dict=True), "kid": name, "use": "sig"} for name in names
    ]
    return json.dumps({"keys": keys}).encode()


def token(name: str, issuer: str = "https://a") -> str:
    claims = {"iss": issuer, "aud": "nats", "sub": "ann", "exp": START_NS // SECOND_NS + 10**6}
    text = f"{encoded({'alg': 'EdDSA', 'kid': name})}.{encoded(claims)}"
    return f"{text}.{encoded(private(name).sign(text.encode()))}"


class Timer:
    def __init__(self, when_ns: int, callback: Callable[[], object]) -> None:
        self.when_ns, self.callback, self.cancelled = when_ns, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Issuers, a clock, timers and fetches that move when told to."""

    def __init__(self, config: str) -> None:
        self.now_ns = START_NS
        self.timers: list[Timer] = []
        self.fetches: list[tuple[str, Callable[[bytes, str], None]]] = []
        self.log: list[str] = []
        self.verdicts: list[Granted | Denied] = []
        self.authenticator = Authenticator(Options())
        self.logins = OpenIdLogins(
            lambda: self.authenticator, self, self, lambda: self.now_ns, lambda _, text: self.log.append(text)
        )
        self.use(config)

    def use(self, config: str) -> None:
        loaded = options(f"authorization {{ oidc [ {config} ] }}")
        self.authenticator = Authenticator(loaded)
        self.logins.use(loaded.authorization.oidc)

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> Timer:
        self.timers.append(Timer(self.now_ns + delay_ns, callback))
        return self.timers[-1]

    def fetch(self, issuer: OidcOptions, done: Callable[[bytes, str], None]) -> None:
        self.fetches.append((issuer.issuer, done))

    def close(self) -> None:
        self.fetches.clear()

    def answer(self, document: bytes = b"", why: str = "") -> None:
        self.fetches.pop(0)[1](document, why)

    def pass_time(self, length_ns: int) -> None:
        self.now_ns += length_ns
        due = [timer for timer in self.timers if timer.when_ns <= self.now_ns and not timer.cancelled]
        self.timers = [timer for timer in self.timers if timer not in due and not timer.cancelled]
        for timer in due:
            timer.callback()

    def login(self, text: str) -> None:
        asked = self.authenticator.authenticate(ConnectInfo(auth_token=text), PeerFacts())
        assert isinstance(asked, NeedsIssuer)
        self.logins.decide(asked, "STANDARD", lambda verdict: self.verdicts.append(verdict))

    def came(self) -> list[bool]:
        """Whether those who logged in came in, since the last time."""
        found, self.verdicts = [isinstance(verdict, Granted) for verdict in self.verdicts], []
        return found


ISSUER = '{ issuer: "https://a", audience: nats }'


def test_logins_wait_for_the_first_keys_and_share_them() -> None:
    world = World(ISSUER)
    assert len(world.fetches) == 1
    for name in ("k1", "k2", "k1"):
        world.login(token(name))
    assert world.came() == []
    world.answer(key_set("k1"))
    assert world.came() == [True, False, True]
    assert not world.fetches
    world.login(token("k1"))
    assert world.came() == [True]


def test_an_unknown_key_is_asked_for_once_in_a_while() -> None:
    world = World(ISSUER)
    world.answer(key_set("old"))
    for _ in range(1000):
        world.login(token("new"))
    assert world.came() == [False] * 1000 and not world.fetches
    world.pass_time(REFETCH_MIN_NS)
    for _ in range(1000):
        world.login(token("new"))
    world.login(token("old"))
    assert world.came() == [True]  # who has a key that is known does not wait with the others
    assert len(world.fetches) == 1
    world.answer(key_set("new"))
    assert world.came() == [True] * 1000
    world.login(token("old"))
    assert world.came() == [False]


def test_keys_are_fetched_again_by_the_clock() -> None:
    world = World('{ issuer: "https://a", audience: nats, refresh: "1m" }')
    world.answer(key_set("old"))
    world.pass_time(MINUTE_NS)
    world.login(token("old"))
    assert world.came() == [True]  # meanwhile the old ones count
    world.answer(key_set("new"))
    world.login(token("old"))
    world.pass_time(MINUTE_NS)
    assert world.came() == [False] and len(world.fetches) == 1


def test_keys_outlive_an_issuer_that_fails_for_a_day() -> None:
    world = World(ISSUER)
    world.answer(key_set("old"))
    world.pass_time(10 * MINUTE_NS)
    world.answer(why="connection refused")
    world.login(token("old"))
    assert world.came() == [True]
    world.pass_time(REFETCH_MIN_NS)
    world.answer(b"junk")
    world.pass_time(STALE_MAX_NS)
    world.login(token("old"))
    assert world.came() == []  # it waits for the fetch that is under way
    world.answer(why="connection refused")
    assert world.came() == [False]
    assert [text.partition("had: ")[2] for text in world.log] == [
        "connection refused",
        "what came is no set of keys",
        "connection refused",
    ]


def test_a_clock_that_is_set_back_keeps_no_keys_away() -> None:
    world = World(ISSUER)
    world.answer(key_set("old"))
    world.now_ns -= 100 * SECOND_NS
    world.login(token("new"))
    world.answer(key_set("new"))
    assert world.came() == [True]


def test_a_reload_keeps_the_keys_of_issuers_that_stay() -> None:
    world = World(ISSUER)
    world.answer(key_set("k"))
    world.use(f'{ISSUER.replace("audience: nats", "audience: [nats, x]")}, {{ issuer: "https://b", audience: nats }}')
    assert [issuer for issuer, _ in world.fetches] == ["https://b"]
    world.login(token("k"))
    world.login(token("k", "https://b"))
    assert world.came() == [True]
    asked = world.authenticator.authenticate(ConnectInfo(auth_token=token("k")), PeerFacts())
    assert isinstance(asked, NeedsIssuer)
    world.use('{ issuer: "https://a", audience: nats, jwks: "https://c" }')
    assert world.came() == [False]  # whoever waited for b
    assert [issuer for issuer, _ in world.fetches] == ["https://b", "https://a"]
    world.answer(key_set("k"))  # of an issuer that is gone: nothing happens
    world.answer(key_set("k"))
    world.use('{ issuer: "https://b", audience: nats }')
    world.logins.decide(asked, "STANDARD", world.verdicts.append)
    assert world.came() == [False]


def test_what_is_changed_while_a_login_waits_counts() -> None:
    world = World(ISSUER)
    world.login(token("k"))
    world.use(ISSUER.replace("audience: nats", "audience: mail"))
    world.answer(key_set("k"))
    assert world.came() == [False]


def test_nothing_runs_on_after_the_end() -> None:
    world = World(ISSUER)
    world.answer(key_set("k"))
    world.logins.close()
    assert all(timer.cancelled for timer in world.timers)


@pytest.mark.parametrize(
    "keys",
    [
        [{"kty": "oct", "k": "AAAA"}],
        [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "use": "enc"}],
        [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "key_ops": ["encrypt"]}],
        [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "HS256"}],
        [{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}],
        [{"kty": "OKP", "crv": "X25519", "x": "AA"}],
        [{"kty": "OKP", "crv": "Ed25519", "x": "AA", "alg": "RS256"}],
        [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}] * 65,
        [7, None, [], {}],
    ],
)
def test_sets_without_a_key_for_signatures(keys: list[object]) -> None:
    world = World(ISSUER)
    world.answer(json.dumps({"keys": keys}).encode())
    assert "cannot be had" in world.log[0]
    world.login(token("k"))
    assert world.came() == [False]


def test_keys_that_are_weak_or_wrong_let_nobody_in() -> None:
    world = World(ISSUER)
    short = {"kty": "OKP", "crv": "Ed25519", "x": encoded(b"short"), "kid": "k"}
    world.answer(json.dumps({"keys": [short]}).encode())
    world.login(token("k"))
    assert world.came() == [False]
    from cryptography.hazmat.primitives.asymmetric import rsa
    from jwt.algorithms import RSAAlgorithm

    weak = rsa.generate_private_key(65537, 1024)
    world.pass_time(10 * MINUTE_NS)
    jwk = {**RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True), "kid": "weak"}
    world.answer(json.dumps({"keys": [jwk]}).encode())
    claims = {"iss": "https://a", "aud": "nats", "sub": "ann", "exp": START_NS // SECOND_NS + 10**6}
    text = f"{encoded({'alg': 'RS256', 'kid': 'weak'})}.{encoded(claims)}"
    world.login(f"{text}.{encoded(RSAAlgorithm(RSAAlgorithm.SHA256).sign(text.encode(), weak))}")
    assert world.came() == [False]
