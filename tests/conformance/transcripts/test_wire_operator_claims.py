"""Tokens of accounts over the system account: `$SYS.REQ.CLAIMS.*`, and what they change for clients that are there."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both
from support.transcript import connect_line, pub

operator, stranger = Key(OPERATOR, "operator"), Key(OPERATOR, "stranger")
system, app, other, signer = (Key(ACCOUNT, name) for name in ("SYS", "APP", "OTHER", "app signer"))
ann, bob, boss = Key(USER, "ann"), Key(USER, "bob"), Key(USER, "boss")
ROOT = f"operator: {token(operator, operator, {'system_account': system.public})}\n"


def account(key: Key, at: int = 0, issuer: Key = operator, **claims: Json) -> str:
    """A token of an account, issued at some time."""
    return token(issuer, key, account_claims(**claims), iat=1_700_000_000 + at)


def preload(*accounts: tuple[Key, str]) -> str:
    """The tokens that a server starts with."""
    return "resolver_preload {\n" + "".join(f"  {key.public}: {text}\n" for key, text in accounts) + "}\n"


EXPORT: Json = {"name": "n", "subject": "news.>", "type": "stream"}
IMPORT: Json = {"name": "n", "subject": "news.>", "account": app.public, "type": "stream"}
START = preload(
    (system, account(system)),
    (app, account(app, signing_keys=[signer.public])),
    (other, account(other)),
)
MEMORY = ROOT + "resolver: MEMORY\n" + START
FULL = ROOT + "resolver { type: full, dir: jwts, allow_delete: true }\n" + START
KEEPING = ROOT + "resolver { type: full, dir: jwts, limit: 3 }\n" + START
CACHE = ROOT + 'resolver { type: cache, dir: jwts, ttl: "1h" }\n' + START


class Member(RawClient):
    """A client with a token."""

    present: ClassVar[list[Member]] = []

    def __init__(self, server: ServerProcess, text: str, key: Key = ann) -> None:
        super().__init__(server.port)
        self.present.append(self)
        proof = url_base64(key.sign(nonce_of(self.read_until(b"\r\n")).encode()))
        self.send(connect_line(jwt=text, sig=proof) + b"SUB _INBOX.> 1\r\n")
        self.greeting, self.refused = self.sync()

    def sync(self, data: bytes = b"") -> tuple[bytes, bool]:
        """What the server says until it has seen everything; and whether it closed."""
        self.send(data + b"PING\r\n")
        return self.read_until_or_close(b"PONG\r\n")

    def answer(self, subject: str, body: str = "") -> bytes:
        """The answer to a request."""
        self.send(pub(subject, body.encode(), "_INBOX.a"))
        size = self.read_until(rb"MSG _INBOX\.a 1 +\d+\r\n").split()[-1]
        return self.read_exactly(int(size) + 2)[:-2]

    def ask(self, subject: str, body: str = "") -> dict[str, Json]:
        """The same without what is different on every server."""
        answer: dict[str, Json] = json.loads(self.answer(subject, body))
        assert answer.pop("server")
        return answer

    def push(self, text: str, key: Key = app) -> None:
        """Give the server another token of an account."""
        answer = self.ask(f"$SYS.REQ.ACCOUNT.{key.public}.CLAIMS.UPDATE", text)
        assert answer["data"] == {"account": key.public, "code": 200, "message": "jwt updated"}


@pytest.fixture(autouse=True)
def everybody_leaves() -> Iterator[None]:
    """No client stays after a test."""
    yield
    while Member.present:
        Member.present.pop().close()


def chief(server: ServerProcess) -> Member:
    """A user of the system account."""
    return Member(server, token(system, boss, user_claims()), boss)


def _of(key: Key, what: str = "UPDATE") -> str:
    return f"$SYS.REQ.ACCOUNT.{key.public}.CLAIMS.{what}"


def _deletes(issuer: Key, of: Key, **part: Json) -> str:
    return token(issuer, of, {"type": "generic"} | part)


UPDATES = {
    "another token": (_of(app), account(app, 1)),
    "the old subject": (f"$SYS.ACCOUNT.{app.public}.CLAIMS.UPDATE", account(app, 2)),
    "the same again": (_of(app), account(app, 2)),
    "nothing": (_of(app), ""),
    "no token": (_of(app), "a.b.c"),
    "a token of a user": (_of(app), token(app, ann, user_claims())),
    "of another account": (_of(other), account(app, 4)),
    "of an account that nobody uses": (_of(signer), account(signer, 4)),
    "with mistakes": (_of(app), account(app, 5, exports=[{"subject": "a..b", "type": "stream"}])),
    "with a mapping that cannot be": (_of(app), account(app, 6, mappings={"a.*": [{"subject": "b.$2"}]})),
    "with a mapping to many": (_of(app), account(app, 7, mappings={"a": [{"subject": "b"}], "b": [{"subject": "*"}]})),
}
STORED = {
    "without naming it": ("$SYS.REQ.CLAIMS.UPDATE", account(app, 6)),
    "no token without naming it": ("$SYS.REQ.CLAIMS.UPDATE", "a.b.c"),
    "mistakes without naming it": (
        "$SYS.REQ.CLAIMS.UPDATE",
        account(app, 7, imports=[{"subject": "a", "type": "stream"}]),
    ),
    "list": ("$SYS.REQ.CLAIMS.LIST", ""),
    "delete nothing": ("$SYS.REQ.CLAIMS.DELETE", ""),
    "delete by a stranger": ("$SYS.REQ.CLAIMS.DELETE", _deletes(stranger, stranger, accounts=[other.public])),
    "delete not self signed": ("$SYS.REQ.CLAIMS.DELETE", _deletes(operator, app, accounts=[other.public])),
    "delete without accounts": ("$SYS.REQ.CLAIMS.DELETE", _deletes(operator, operator)),
    "delete what is no account": ("$SYS.REQ.CLAIMS.DELETE", _deletes(operator, operator, accounts=["../x"])),
    "delete the system account": ("$SYS.REQ.CLAIMS.DELETE", _deletes(operator, operator, accounts=[system.public])),
    "delete": ("$SYS.REQ.CLAIMS.DELETE", _deletes(operator, operator, accounts=[other.public])),
    "list what is left": ("$SYS.REQ.CLAIMS.LIST", ""),
}


@pytest.mark.parametrize(
    ("config", "requests"),
    [(MEMORY, UPDATES), (FULL, UPDATES | STORED), (KEEPING, UPDATES | STORED), (CACHE, UPDATES | STORED)],
    ids=["memory", "full", "without deletion", "cache"],
)
def test_answers(both: Both, config: str, requests: dict[str, tuple[str, str]]) -> None:
    pair = both.fresh(config)
    answers = []
    for server in (pair.real, pair.ours):
        member, asker = Member(server, token(app, ann, user_claims())), chief(server)
        answers.append({name: asker.ask(*request) for name, request in requests.items()})
        assert not member.sync()[1], "nobody is cut off by any of this"
    assert answers[1] == answers[0]


# --- clients that are there ------------------------------------------------------------------------------------------

UNLIMITED: dict[str, Json] = account_claims()["limits"]  # type: ignore[assignment]  # it is a dict
PLAIN = token(app, ann, user_claims())
BEARER = token(app, ann, user_claims(bearer_token=True))
SIGNED = token(signer, ann, user_claims(issuer_account=app.public))
RESTRICTED = token(app, ann, user_claims(pub={"allow": ["a", "_INBOX.>"]}, sub={"allow": [">"]}))
LATER = 4_000_000_000


def effect(server: ServerProcess, **claims: Json) -> dict[str, object]:
    """What each kind of client sees after its account got another token, and whether it may come again."""
    asker, first = chief(server), Member(server, PLAIN)
    first.close()
    asker.push(account(app, 100, signing_keys=[signer.public]))
    kinds = {"plain": PLAIN, "bearer": BEARER, "signed": SIGNED, "restricted": RESTRICTED}
    members = {kind: Member(server, text) for kind, text in kinds.items()}
    for member in members.values():
        member.sync(b"SUB d 2\r\n" + pub("a") * 2)
    asker.push(account(app, 101, **claims))
    seen: dict[str, object] = {}
    for kind, member in members.items():
        heard, closed = member.sync(b"SUB b 3\r\nUNSUB 3\r\n" + pub("b", b"x" * 20) + pub("c", b"y") + pub("a"))
        told = [line for line in heard.split(b"\r\n") if line.startswith((b"-ERR", b"INFO", b"+OK"))]
        again = Member(server, kinds[kind])
        seen[kind] = (told, closed, again.refused)
    for member in Member.present:
        member.close()
    return seen


SIGNERS: dict[str, Json] = {"signing_keys": [signer.public]}
EFFECTS: dict[str, dict[str, Json]] = {
    "nothing": SIGNERS,
    "signing key gone": {},
    "revoked": SIGNERS | {"revocations": {ann.public: LATER}},
    "all revoked": SIGNERS | {"revocations": {"*": LATER}},
    "revoked long ago": SIGNERS | {"revocations": {ann.public: 1_600_000_000, "*": 1_600_000_000}},
    "no bearer": SIGNERS | {"limits": UNLIMITED | {"disallow_bearer": True}},
    "mapping": SIGNERS | {"mappings": {"a": [{"subject": "mapped", "weight": 100}]}},
    "payload": SIGNERS | {"limits": UNLIMITED | {"payload": 10}},
    "default permissions": SIGNERS | {"default_permissions": {"pub": {"deny": ["c"]}, "sub": {"deny": ["b"]}}},
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_on_clients(both: Both, name: str) -> None:
    pair = both(MEMORY)
    assert effect(pair.ours, **EFFECTS[name]) == effect(pair.real, **EFFECTS[name])


def test_subscriptions_that_are_too_many(both: Both) -> None:
    pair = both.fresh(MEMORY)
    for server in (pair.real, pair.ours):
        asker, few, many = chief(server), Member(server, PLAIN), Member(server, PLAIN)
        many.sync(b"SUB a 2\r\nSUB b 3\r\n")
        asker.push(account(app, 40, limits=UNLIMITED | {"subs": 3}))
        assert b"-ERR 'maximum subscriptions exceeded'" in many.read_to_close()
        assert not few.sync()[1]


def test_connections_that_are_too_many(both: Both) -> None:
    pair = both.fresh(MEMORY)
    for server in (pair.real, pair.ours):
        asker = chief(server)
        members = [Member(server, PLAIN) for _ in range(4)]
        asker.push(account(app, 50, limits=UNLIMITED | {"conn": 2}))
        assert [member.sync()[1] for member in members] == [False, False, True, True]
        assert b"maximum account active connections exceeded" in Member(server, PLAIN).greeting


def test_an_import_comes_and_goes(both: Both) -> None:
    pair = both.fresh(MEMORY)
    for server in (pair.real, pair.ours):
        asker, owner, taker = chief(server), Member(server, PLAIN), Member(server, token(other, ann, user_claims()))
        taker.sync(b"SUB news.> 2\r\n")
        heard = []
        for exports, imports in (([], []), ([EXPORT], []), ([EXPORT], [IMPORT]), ([], [IMPORT]), ([EXPORT], [IMPORT])):
            asker.push(account(app, 60, exports=exports))
            asker.push(account(other, 60 + len(heard), imports=imports), other)
            owner.sync(pub("news.x", b"1"))
            heard.append(b"MSG news.x 2" in taker.sync()[0])
        assert heard == [False, False, True, False, True]


def test_an_account_ends(both: Both) -> None:
    pair = both.fresh(FULL)
    for server in (pair.real, pair.ours):
        asker, member = chief(server), Member(server, PLAIN)
        asker.push(token(operator, app, account_claims(), exp=int(time.time()) + 2))
        assert b"-ERR 'Account Authentication Expired'" in member.read_to_close()
        assert Member(server, PLAIN).refused
        asker.push(account(app, 200))
        assert not Member(server, PLAIN).refused


def test_a_deleted_account(both: Both) -> None:
    pair = both.fresh(FULL)
    for server in (pair.real, pair.ours):
        asker, member = chief(server), Member(server, PLAIN)
        asker.ask("$SYS.REQ.CLAIMS.DELETE", _deletes(operator, operator, accounts=[app.public]))
        assert b"-ERR 'Account Authentication Expired'" in member.read_to_close()
        assert Member(server, PLAIN).refused
        asker.push(account(app, 300))
        assert not Member(server, PLAIN).refused


def test_jetstream_comes_and_goes(both: Both) -> None:
    pair = both.fresh(MEMORY + "jetstream { store_dir: js }\n")
    limits: dict[str, Json] = {"mem_storage": -1, "disk_storage": 1_000_000, "streams": 2, "consumer": 3}
    stream = json.dumps({"name": "S", "subjects": ["s.>"], "max_bytes": 1000})
    for server in (pair.real, pair.ours):
        asker, member = chief(server), Member(server, PLAIN)
        shown = []
        for at, given in enumerate(({}, limits, limits | {"streams": 5}, {}, limits)):
            asker.push(account(app, 400 + at, limits=UNLIMITED | given))
            found = json.loads(member.answer("$JS.API.INFO"))
            problem = found.get("error", {}).get("err_code")
            shown.append((problem, found.get("limits", {}).get("max_streams"), found.get("streams")))
            if at == 1:
                assert "error" not in json.loads(member.answer("$JS.API.STREAM.CREATE.S", stream))
        assert shown == [(10039, None, None), (None, 2, 0), (None, 5, 1), (10039, None, None), (None, 2, 1)]


@pytest.mark.parametrize("tier", ["R1", "R3"])
def test_tiers(both: Both, tier: str) -> None:
    limits: Json = {tier: {"mem_storage": 1000, "disk_storage": 100_000, "streams": 1, "consumer": 3}}
    pair = both.fresh(MEMORY + "jetstream { store_dir: js }\n")
    shown = []
    for server in (pair.real, pair.ours):
        asker, member = chief(server), Member(server, PLAIN)
        asker.push(account(app, 700, limits=UNLIMITED | {"tiered_limits": limits}))
        errors = [
            json.loads(member.answer(f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name, "max_bytes": 10}))).get(
                "error"
            )
            for name in ("S", "T")
        ]
        info = json.loads(member.answer("$JS.API.INFO"))
        shown.append(
            (errors, {key: info[key] for key in ("limits", "tiers", "streams", "storage", "reserved_storage")})
        )
    assert shown[1] == shown[0]


ROOM: dict[str, Json] = {"mem_storage": 10**6, "disk_storage": 10**6, "streams": 5, "consumer": 5}
LOWERED: dict[str, dict[str, Json]] = {
    "disk below what is used": {"disk_storage": 5000},
    "memory below what is used": {"mem_storage": 5000},
    "fewer streams than there are": {"streams": 1},
    "no number of streams": {"streams": 0},
    "fewer consumers than there are": {"consumer": 1},
    "no number of consumers": {"consumer": 0},
    "fewer acks pending": {"max_ack_pending": 10},
    "streams with a size": {"max_bytes_required": True},
    "smaller streams": {"disk_max_stream_bytes": 1000, "mem_max_stream_bytes": 1000},
    "no disk": {"disk_storage": 0},
    "no memory": {"mem_storage": 0},
    "no limits": dict.fromkeys(ROOM, -1),
}


def test_limits_of_jetstream_that_are_lowered(both: Both) -> None:
    """What is there stays, and goes on as far as the new limits let it."""
    pair = both.fresh(MEMORY + "jetstream { store_dir: js }\n")
    shown = []
    for server in (pair.real, pair.ours):
        asker, member = chief(server), Member(server, PLAIN)
        asker.push(account(app, 800, limits=UNLIMITED | ROOM))

        def ask(subject: str, body: Json = "", member: Member = member) -> Json:
            text = body if isinstance(body, str) else json.dumps(body)
            found = json.loads(member.answer(subject, text))
            kept = ("seq", "memory", "storage", "streams", "consumers", "limits")
            return found.get("error") or {key: found[key] for key in kept if key in found}

        def stream(name: str, storage: str, **more: Json) -> Json:
            return {"name": name, "subjects": [name], "storage": storage} | more

        def consumer(name: str) -> Json:
            return {
                "stream_name": "S",
                "config": {"durable_name": name, "ack_policy": "explicit", "max_ack_pending": 50},
            }

        seen: list[Json] = [ask("$JS.API.STREAM.CREATE.S", stream("S", "file"))]
        seen.append(ask("$JS.API.STREAM.CREATE.T", stream("T", "memory")))
        seen += [ask(f"$JS.API.CONSUMER.CREATE.S.{name}", consumer(name)) for name in ("c", "d")]
        seen += [ask(subject, "x" * 1000) for subject in "STST" * 4]
        for at, (name, limits) in enumerate(LOWERED.items()):
            asker.push(account(app, 801 + at, limits=UNLIMITED | ROOM | limits))
            seen += [name, ask("$JS.API.INFO"), ask("S", "y" * 100), ask("T", "y" * 100)]
            seen.append(ask("$JS.API.STREAM.CREATE.N", stream("N", "file")))
            seen.append(ask("$JS.API.STREAM.CREATE.M", stream("M", "memory", max_bytes=500)))
            seen.append(ask("$JS.API.CONSUMER.CREATE.S.e", consumer("e")))
            seen.append(ask("$JS.API.STREAM.UPDATE.S", stream("S", "file", description=name)))
            for left in ("STREAM.DELETE.N", "STREAM.DELETE.M", "CONSUMER.DELETE.S.e"):
                ask(f"$JS.API.{left}")
        shown.append(seen)
    assert shown[1] == shown[0]


# --- what monitoring shows -------------------------------------------------------------------------------------------


def test_monitoring_shows_who_vouches(both: Both) -> None:
    pair = both.fresh(MEMORY + "http: 127.0.0.1:-1\n")
    claims = user_claims(issuer_account=app.public, tags=["team:a"], pub={"allow": ["_INBOX.>", "$SYS.>"]})
    text = token(signer, ann, claims, exp=LATER)
    shown = []
    for server in (pair.real, pair.ours):
        member = Member(server, text)

        def get(path: str, port: int = server.monitor_port) -> dict[str, Json]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                found: dict[str, Json] = json.load(answer)
                return found

        [connection] = get("/connz?auth=1")["connections"]  # type: ignore[misc]
        detail, server_facts = get(f"/accountz?acc={app.public}")["account_detail"], get("/varz")
        user = member.ask("$SYS.REQ.USER.INFO")["data"]
        assert isinstance(connection, dict)
        assert isinstance(detail, dict)
        assert isinstance(user, dict)
        assert detail["decoded_jwt"]["sub"] == app.public  # type: ignore[call-overload, index]
        assert user.pop("expires") > 0  # type: ignore[operator]
        user["permissions"]["publish"]["allow"].sort()  # type: ignore[call-overload, index, union-attr]  # a Go map's order
        shown.append(
            [
                {
                    key: connection[key]
                    for key in ("jwt", "issuer_key", "name_tag", "tags", "account", "authorized_user")
                },
                {key: detail[key] for key in ("jwt", "issuer_key", "name_tag", "expired", "complete", "account_name")},
                {key: server_facts.get(key) for key in ("trusted_operators_jwt", "system_account", "auth_required")},
                user,
            ]
        )
    assert shown[1] == shown[0]
    bearer = Member(pair.ours, BEARER)
    url = f"http://127.0.0.1:{pair.ours.monitor_port}/connz?auth=1"
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert BEARER not in answer.read().decode(), "whoever reads it could come in with it"
    bearer.close()


# --- directories -----------------------------------------------------------------------------------------------------


def test_packed(both: Both) -> None:
    """What `nsc pull` does: all tokens, one in a message, and an empty message at the end."""
    pair = both.fresh(FULL)
    packs = []
    for server in (pair.real, pair.ours):
        asker = chief(server)
        asker.send(pub("$SYS.REQ.CLAIMS.PACK", b"", "_INBOX.p"))
        data = asker.read_until(rb"MSG _INBOX\.p 1 +0\r\n\r\n")
        packs.append(sorted(line for line in data.split(b"\r\n") if b"|" in line))
        assert asker.answer(_of(app, "LOOKUP")).decode() == account(app, signing_keys=[signer.public])
        assert asker.answer(_of(signer, "LOOKUP")) == b""
    assert packs[0] == packs[1]
    assert len(packs[0]) == 3


def test_the_first_push(both: Both) -> None:
    """A server whose directory is empty lets users of the system account in, who push everything else."""
    pair = both.fresh(ROOT + "resolver { type: full, dir: jwts }\n")
    for server in (pair.real, pair.ours):
        asker = chief(server)
        assert not asker.refused
        assert Member(server, PLAIN).refused
        asker.push(account(system), system)
        asker.push(account(app))
        assert not Member(server, PLAIN).refused
        assert not asker.sync()[1]


def test_a_directory_changes_hands(both: Both) -> None:
    """What one server kept the other takes over."""
    pair = both.fresh(FULL)
    kept = []
    for server in (pair.real, pair.ours):
        chief(server).push(account(app, 500))
        kept.append({file.name: file.read_text() for file in (server.directory / "jwts").iterdir()})
    assert kept[0] == kept[1]
    assert len(kept[0]) == 3


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.fixture
def address() -> Iterator[str]:
    """A server of tokens."""
    tokens = {key.public: account(key) for key in (system, app)}

    class Tokens(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            self.send_response(200 if name in tokens or not name else 404)
            self.end_headers()
            self.wfile.write(tokens.get(name, "").encode())

        def log_message(self, *_args: object) -> None:
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}/jwt/v1/accounts"
        http.shutdown()
        thread.join()


def test_accounts_behind_an_address(both: Both, address: str) -> None:
    pair = both.fresh(f'{ROOT}resolver: URL("{address}")\n')
    for server in (pair.real, pair.ours):
        asker = chief(server)
        assert not asker.refused
        assert not Member(server, PLAIN).refused
        assert Member(server, token(other, ann, user_claims())).refused
        asker.push(account(app, 600, revocations={"*": LATER}))
        assert Member(server, PLAIN).refused
