"""Auth callouts: the same service asked by both servers about the same clients; requests and verdicts side by side."""

from __future__ import annotations

import json
import re
import time
from typing import Self

from slipstream.auth.callout.keys import ServerKeys
from support.callout_service import ISSUER, STRANGER, XKEYS, Answer, Outcome, Request, Service, try_login
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.normalise import Json
from support.raw_client import RawClient
from support.servers import Both, Pair

CONFIG = f"""
server_name: callout
server_tags: [one, two]
accounts {{
  AUTH {{ users [{{user: auth, password: pwd}}] }}
  FOO {{ users [{{user: foo, password: foo}}], default_permissions {{ publish: "d.>" }} }}
  BAR {{ users [{{user: bar, password: bar}}] }}
  SYS {{ users [{{user: sys, password: sys}}] }}
}}
system_account: SYS
authorization {{
  timeout: 1
  auth_callout {{ issuer: {ISSUER.public}, account: AUTH, auth_users: [auth] %s }}
}}
"""


def connect(**fields: Json) -> bytes:
    said = {"verbose": False, "pedantic": False, "headers": True, "protocol": 1, "lang": "x", "version": "1"} | fields
    return b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n"


def let_in(account: str, **claims: Json) -> Answer:
    return lambda request: request.answer(jwt=request.user_token(account=account, **claims))  # type: ignore[arg-type]


def wrong_user(request: Request) -> bytes:
    return request.answer(jwt=request.user_token(account="FOO", user=Key(USER, "somebody").public))


NOW = int(time.time())
PERMISSIONS: dict[str, Json] = {"pub": {"allow": ["p.>"], "deny": ["p.no"]}, "sub": {"allow": ["s.>"]}}
# name → what the client says, what the service answers (None: it must not be asked)
CASES: dict[str, tuple[dict[str, Json], Answer | None]] = {
    "a user": ({"user": "dlc", "pass": "zzz"}, let_in("FOO")),
    "a name": ({"user": "dlc", "pass": "zzz", "name": "app"}, let_in("FOO", name="dave")),
    "a token": ({"auth_token": "t"}, let_in("FOO")),
    "a key": ({"nkey": Key(USER, "k").public, "sig": "abc"}, let_in("FOO")),
    "nothing": ({}, let_in("BAR")),
    "a jwt is not passed on": ({"jwt": "eyJ.x.y", "user": "j"}, let_in("BAR")),
    "a known user": ({"user": "foo", "pass": "foo"}, let_in("BAR")),
    "a known user, wrong password": ({"user": "foo", "pass": "no"}, let_in("FOO")),
    "rights": ({"user": "r"}, let_in("BAR", **PERMISSIONS)),
    "into the account of the service": ({"user": "r"}, let_in("AUTH")),
    "into the system account": ({"user": "r"}, let_in("SYS")),
    "auth user": ({"user": "auth", "pass": "pwd"}, None),
    "auth user, wrong password": ({"user": "auth", "pass": "no"}, None),
    "an empty answer": ({"user": "u"}, lambda _: b""),
    "an error": ({"user": "u"}, lambda request: request.answer(error="WRONG PASSWORD")),
    "no token": ({"user": "u"}, lambda _: b"hello"),
    "neither jwt nor error": ({"user": "u"}, lambda request: request.answer()),
    "both": ({"user": "u"}, lambda request: request.answer(jwt="x", error="y")),
    "no user token": ({"user": "u"}, lambda request: request.answer(jwt="x")),
    "another server": (
        {"user": "u"},
        lambda request: request.answer(jwt=request.user_token(account="FOO"), aud=Key(ACCOUNT, "x").public),
    ),
    "another request": (
        {"user": "u"},
        lambda request: request.answer(jwt=request.user_token(account="FOO"), sub=Key(USER, "x").public),
    ),
    "an old answer": (
        {"user": "u"},
        lambda request: request.answer(jwt=request.user_token(account="FOO"), exp=NOW - 60),
    ),
    "an answer of tomorrow": (
        {"user": "u"},
        lambda request: request.answer(jwt=request.user_token(account="FOO"), nbf=NOW + 86400),
    ),
    "another user": ({"user": "u"}, wrong_user),
    "an expired user": ({"user": "u"}, let_in("FOO", top={"exp": NOW - 60})),
    "a user of tomorrow": ({"user": "u"}, let_in("FOO", top={"nbf": NOW + 86400})),
    "another issuer": (
        {"user": "u"},
        lambda request: request.answer(jwt=request.user_token(STRANGER, account="FOO")),
    ),
    "issuer account": ({"user": "u"}, let_in("FOO", issuer_account=ISSUER.public)),
    "no such account": ({"user": "u"}, let_in("NOPE")),
    "no account": ({"user": "u"}, let_in("")),
    "a proxy is needed": ({"user": "u"}, let_in("FOO", proxy_required=True)),
    "no kind of connection that is known": ({"user": "u"}, let_in("FOO", allowed_connection_types=["NONE"])),
}


def explored(client: RawClient, outcome: Outcome) -> None:
    """What a client that came in may do, and who it is."""
    client.send(b"SUB s.a 1\r\nSUB t.a 2\r\nSUB _INBOX.x 3\r\n")
    for subject in (b"p.a", b"p.no", b"q", b"d.x", b"$SYS.REQ.USER.AUTH"):
        client.send(b"PUB %b 0\r\n\r\n" % subject)
    client.send(b"PING\r\n")
    lines = client.read_until(rb"PONG\r\n").decode()
    account = re.search('"remote_account":"([^"]+)"', lines)
    assert account is not None
    outcome.details += [account[1], re.sub(r"INFO [^\r]*\r\n", "", lines)]


def run(pair: Pair, said: dict[str, Json], answer: Answer | None, services: list[Service]) -> list[Outcome]:
    outcomes = []
    for server, service in zip((pair.real, pair.ours), services, strict=True):
        with RawClient(server.port) as client:
            client.read_until(rb"\r\n")
            outcome = try_login(client, service, connect(**said), answer)
            if outcome.came:
                explored(client, outcome)
            outcomes.append(outcome)
    return outcomes


SEALED = f", xkey: {XKEYS.xkey}"
NARROW = ", allowed_accounts: [FOO]"


class World:
    """Both servers under one configuration, each with its service."""

    def __init__(self, both: Both, more: str = "", *, sealed: bool = False) -> None:
        self.pair = both(CONFIG % more)
        xkeys = XKEYS if sealed else None
        self.services = [Service(server.port, xkeys=xkeys) for server in (self.pair.real, self.pair.ours)]

    def agree(self, said: dict[str, Json], answer: Answer | None) -> Outcome:
        """What becomes of a client, on both servers."""
        real, ours = run(self.pair, said, answer, self.services)
        assert ours == real
        return ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for service in self.services:
            service.close()


def test_the_same_verdicts(both: Both) -> None:
    with World(both) as world:
        came = {name for name, (said, answer) in CASES.items() if world.agree(said, answer).came}
        assert came == set(list(CASES)[:12])


def test_sealed_requests_and_answers(both: Both) -> None:
    with World(both, SEALED, sealed=True) as world:
        real, ours = world.services

        def sealed(request: Request) -> bytes:
            return ours.sealed(request, let_in("FOO")(request))

        def broken(request: Request) -> bytes:
            return sealed(request)[:-1] + b"?"

        def foreign(request: Request) -> bytes:
            stranger = ServerKeys(b"t" * 32, b"y" * 32)
            xkey = request.claims["nats"]["server_id"]["xkey"]  # type: ignore[index,call-overload]
            return stranger.seal(let_in("FOO")(request), str(xkey), b"n" * 24)

        assert world.agree({"user": "u"}, sealed).came
        assert world.agree({"user": "u"}, let_in("FOO")).came  # not sealed, but signed
        assert not world.agree({"user": "u"}, broken).came
        assert not world.agree({"user": "u"}, foreign).came
        assert real.xkeys is ours.xkeys


def test_users_of_accounts_that_the_service_does_not_decide_for(both: Both) -> None:
    with World(both, NARROW) as world:
        assert world.agree({"user": "bar", "pass": "bar"}, None).came
        assert not world.agree({"user": "bar", "pass": "no"}, lambda _: b"").came
        assert world.agree({"user": "foo", "pass": "foo"}, let_in("FOO")).came


def test_no_answer_is_a_refusal(both: Both) -> None:
    with World(both) as world:
        clients = [RawClient(server.port) for server in (world.pair.real, world.pair.ours)]
        for client, service in zip(clients, world.services, strict=True):
            client.send(connect(user="u"))
            service.request()
        for client in clients:
            assert b"-ERR 'Authorization Violation'" in client.read_to_close()
            client.close()


def test_a_login_that_ends_cuts_the_connection(both: Both) -> None:
    with World(both) as world:
        clients = [RawClient(server.port) for server in (world.pair.real, world.pair.ours)]
        for client, service in zip(clients, world.services, strict=True):
            client.read_until(rb"\r\n")
            short = let_in("FOO", top={"exp": int(time.time()) + 3})
            assert try_login(client, service, connect(user="u"), short).came
        for client in clients:
            assert b"-ERR 'User Authentication Expired'" in client.read_to_close()
            client.close()


def test_nothing_passes_before_connect(both: Both) -> None:
    with World(both) as world:
        for early in (b"PING\r\n", b"SUB > 1\r\n", b"PUB a 0\r\n\r\n"):
            answers = []
            for server in (world.pair.real, world.pair.ours):
                with RawClient(server.port) as client:
                    client.read_until(rb"\r\n")
                    client.send(early + b"PING\r\n")
                    answers.append(client.read_to_close())
            assert answers[0] == answers[1]
            assert b"-ERR 'Authorization Violation'" in answers[1]


def test_a_client_that_leaves_while_the_service_thinks_harms_nobody(both: Both) -> None:
    with World(both) as world:
        for server, service in zip((world.pair.real, world.pair.ours), world.services, strict=True):
            with RawClient(server.port) as client:
                client.send(connect(user="gone"))
                asked = service.request()
            service.respond(asked, let_in("FOO")(asked))
        assert world.agree({"user": "next"}, let_in("FOO")).came


operator, system = Key(OPERATOR, "operator"), Key(ACCOUNT, "SYS")
asked, allowed, forbidden = Key(ACCOUNT, "AUTH"), Key(ACCOUNT, "ALLOWED"), Key(ACCOUNT, "FORBIDDEN")
signer = Key(ACCOUNT, "signer of ALLOWED")
serving, sentinel = Key(USER, "service"), Key(USER, "sentinel")
SENTINEL = token(asked, sentinel, user_claims(bearer_token=True, pub={"deny": [">"]}, sub={"deny": [">"]}))


def operator_config(xkey: str = "") -> str:
    external: dict[str, Json] = {"auth_users": [serving.public], "allowed_accounts": [allowed.public]}
    external |= {"xkey": xkey} if xkey else {}
    accounts = {
        system: account_claims(),
        asked: account_claims(authorization=external),
        allowed: account_claims(signing_keys=[signer.public]),
        forbidden: account_claims(),
    }
    preload = "".join(f"  {key.public}: {token(operator, key, claims)}\n" for key, claims in accounts.items())
    claim = token(operator, operator, {"system_account": system.public})
    return f"operator: {claim}\nresolver: MEMORY\nresolver_preload: {{\n{preload}}}\nauthorization {{ timeout: 1 }}\n"


def by(issuer: Key, answering: Key = asked, **claims: Json) -> Answer:
    return lambda request: request.answer(answering, jwt=request.user_token(issuer, **claims))  # type: ignore[arg-type]


def test_operator_mode(both: Both) -> None:
    pair = both(operator_config())
    creds = (serving, token(asked, serving, user_claims()))
    services = [Service(server.port, creds=creds) for server in (pair.real, pair.ours)]
    cases: list[tuple[Answer, bool]] = [
        (by(asked), True),
        (by(allowed), True),
        (by(allowed, name="dave", pub={"allow": ["p.>"]}), True),
        (by(signer, issuer_account=allowed.public), True),
        (by(forbidden), False),
        (by(STRANGER), False),
        (by(STRANGER, issuer_account=allowed.public), False),
        (by(allowed, STRANGER), False),
        (lambda request: request.answer(asked, error="NO"), False),
        (lambda _: b"", False),
    ]
    for answer, comes in cases:
        real, ours = run(pair, {"jwt": SENTINEL, "user": "u", "pass": "p"}, answer, services)
        assert ours == real
        assert ours.came == comes
    for service in services:
        service.close()
