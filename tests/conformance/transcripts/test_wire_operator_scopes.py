"""Scoped signing keys: every function of a template, with values good and odd, and every right a template can give."""

from __future__ import annotations

import random

import pytest

from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both
from support.transcript import connect_line, pub

operator, system, app = Key(OPERATOR, "operator"), Key(ACCOUNT, "SYS"), Key(ACCOUNT, "APP")
PROXY = Key(USER, "proxy")
FUNCTIONS = (
    "name()",
    "subject()",
    "account-name()",
    "account-subject()",
    "tag(team)",
    "tag(zone)",
    "tag(none)",
    "account-tag(zone)",
    "account-tag(none)",
    "NAME()",
    " name() ",
    "Tag(Team)",
    "tag(TEAM)",
    "tag()",
    "name",
    "name(x)",
    "unknown()",
    "account-tag(ZONE)",
    "",
    "tag(a:b)",
)
TAGS = (
    "team:a",
    "team:b",
    "Team:C",
    "zone:eu",
    "zone:eu.west",
    "zone:*",
    "zone:",
    "zone:a b",
    "a:b:c",
    "none",
    "team:>",
)
NAMES = ("ann", "ann lee", "a.b", "*", ">", "", "ANN", "ä")


def config(scopes: dict[Key, dict[str, Json]], more: str = "", **claims: Json) -> str:
    """A server with one account that has these scopes."""
    entries: list[Json] = [
        {"kind": "user_scope", "key": key.public, "role": key.name, "template": template}
        for key, template in scopes.items()
    ]
    accounts = {system: account_claims(), app: account_claims(signing_keys=entries, **claims)}
    preload = "".join(f"  {key.public}: {token(operator, key, part)}\n" for key, part in accounts.items())
    root = token(operator, operator, {"system_account": system.public})
    return f"operator: {root}\nresolver: MEMORY\nresolver_preload {{\n{preload}}}\n{more}"


def _template(chance: random.Random) -> dict[str, Json]:
    def entry() -> str:
        words = [
            chance.choice(
                ["x", "*", "{{" + chance.choice(FUNCTIONS) + "}}", "{{" + chance.choice(FUNCTIONS[:9]) + "}}"]
            )
            for _ in range(chance.randint(1, 3))
        ]
        return ".".join(words)

    def side(rate: float) -> list[Json]:
        return [entry() for _ in range(chance.randint(1, 3))] if chance.random() < rate else []

    return user_claims(pub={"allow": side(0.7), "deny": side(0.15)}, sub={"allow": side(0.7), "deny": side(0.15)})


def _outcome(
    server: ServerProcess, text: str, key: Key, data: bytes, *, proxy: bool = False, signs: bool = True
) -> bytes:
    with RawClient(server.port) as client:
        nonce = nonce_of(client.read_until(b"\r\n")).encode()
        said: dict[str, Json] = {"jwt": text} | ({"sig": url_base64(key.sign(nonce))} if signs else {})
        if proxy:
            said["proxy_sig"] = url_base64(PROXY.sign(nonce))
        client.send(connect_line(**said) + b"PING\r\n")
        lines, closed = client.read_until_or_close(rb"PONG\r\n")
        if not closed and data:
            client.send(data + b"PING\r\n")
            lines += client.read_until_or_close(rb"PONG\r\n")[0]
        return b"\r\n".join(line for line in lines.split(b"\r\n") if not line.startswith(b"INFO"))


@pytest.mark.parametrize("seed", range(3))
def test_random_templates(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    scopes = {Key(ACCOUNT, f"scope {seed} {number}"): _template(chance) for number in range(60)}
    pair = both.fresh(config(scopes, tags=chance.sample(TAGS, 4)))
    subjects = [
        "x",
        "ann",
        "a",
        "b",
        "eu",
        app.public,
        "APP",
        "eu.west",
        "ann.a",
        "x.eu",
        "a.x",
        "x.x",
        "b.ann",
        "APP.x",
    ]
    for number, (scope, template) in enumerate(scopes.items()):
        user = Key(USER, f"user {seed} {number}")
        own: dict[str, Json] = {"issuer_account": app.public, "tags": chance.sample(TAGS, chance.randrange(5))}  # type: ignore[dict-item]
        text = token(scope, user, own, name=chance.choice(NAMES))
        mine = [*subjects, user.public, f"x.{user.public}", f"a.{app.public}"]
        data = b"".join(b"SUB %b %d\r\n" % (s.encode(), at) + b"UNSUB %d\r\n" % at for at, s in enumerate(mine))
        data += b"".join(pub(subject) for subject in mine)
        real, ours = (_outcome(server, text, user, data) for server in (pair.real, pair.ours))
        assert ours == real, (template, own)


RIGHTS: dict[str, dict[str, Json]] = {
    "nothing": {},
    "bearer": {"bearer_token": True},
    "proxy": {"proxy_required": True},
    "proxy and bearer": {"proxy_required": True, "bearer_token": True},
    "from here": {"src": ["127.0.0.0/8"]},
    "from elsewhere": {"src": ["10.0.0.0/8"]},
    "networks as text": {"src": "10.0.0.0/8, 127.0.0.1/32"},
    "no network": {"src": ["127.0.0.1"]},
    "never": {"times": [{"start": "00:00:00", "end": "00:00:01"}], "times_location": "UTC"},
    "no time": {"times": [{"start": "x", "end": "00:00:01"}]},
    "no place": {"times": [{"start": "00:00:00", "end": "23:59:59"}], "times_location": "No/Where"},
    "websocket": {"allowed_connection_types": ["WEBSOCKET"]},
    "standard": {"allowed_connection_types": ["Standard", "WEBSOCKET"]},
    "unknown kind": {"allowed_connection_types": ["odd"]},
    "subscriptions": {"subs": 2},
    "payload and subscriptions": {"subs": 1, "payload": 5},
    "payload": {"payload": 3},
    "no payload": {"payload": 0},
    "responses": {"pub": {"deny": ["z"]}, "resp": {"max": 1, "ttl": 0}},
    "responses alone": {"resp": {"max": 2, "ttl": 10**9}},
    "responses without end": {"resp": {"max": -1, "ttl": -1}},
    "queues": {"sub": {"allow": ["a q", "b", "c *.q"], "deny": ["b bad"]}},
    "a queue to publish to": {"pub": {"allow": ["a q"]}},
    "allowed nothing": {"pub": {"allow": [], "deny": ["z"]}, "sub": {"allow": [], "deny": ["z"]}},
    "allowed and denied nothing": {"pub": {"allow": [], "deny": []}, "sub": {"allow": [], "deny": []}},
    "nulls": {"pub": None, "sub": {"allow": None, "deny": ["z"]}, "resp": None, "src": None},
    "no subject": {"pub": {"allow": ["a..b"]}},
    "blank": {"pub": {"allow": [" "]}, "sub": {"allow": [" ", "a b c", "b"]}},
    "null among times": {"times": [{"start": "00:00:00", "end": "23:59:59"}, None]},
    "IPv4 in IPv6": {"src": ["::ffff:127.0.0.0/104"]},
    "no network after a good one": {"src": ["127.0.0.0/8", "bad"]},
    "no network before a good one": {"src": ["bad", "127.0.0.0/8"]},
}
WORK = (
    b"SUB a 1\r\nSUB a q 2\r\nSUB b bad 3\r\nSUB c x.q 4\r\nSUB z 5\r\nUNSUB 1\r\n"
    + pub("a", b"123")
    + pub("a", b"x", "z")
    + pub("z")
    + pub("y", b"1234")
)


@pytest.mark.parametrize("name", RIGHTS)
@pytest.mark.parametrize("of", ["scope", "user", "defaults"])
def test_rights(both: Both, name: str, of: str) -> None:
    """Every right in a template, in a token of a user, and as far as there are such, as default of an account."""
    rights, scope, user = RIGHTS[name], Key(ACCOUNT, "scope"), Key(USER, "user")
    more = f"proxies {{ trusted: [{{ key: {PROXY.public} }}] }}\n"
    if of == "scope":
        pair = both(config({scope: user_claims(**rights)}, more))
        text = token(scope, user, {"issuer_account": app.public})
    elif of == "user":
        pair = both(config({}, more))
        text = token(app, user, user_claims(**rights))
    else:
        pair = both(config({}, more, default_permissions={"pub": {}, "sub": {}} | rights))
        text = token(app, user, user_claims())
    for proxy in (False, True):
        for signs in (True, False):
            real, ours = (
                _outcome(server, text, user, WORK, proxy=proxy, signs=signs) for server in (pair.real, pair.ours)
            )
            assert ours == real, (proxy, signs)
