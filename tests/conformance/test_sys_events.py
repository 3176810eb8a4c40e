"""The events of the system account: the same happenings on both servers, every event side by side."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from support.monitoring import VOLATILE, Asker, Load, agree, outline
from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Launcher, Pair

CONFIG = """
server_name: events
accounts {
  SYS { users [{user: sys, password: s}] }
  A { users [{user: a, password: a}, {nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}] }
}
system_account: SYS
"""
# The address is the only thing about a client that both servers cannot agree on.
HIDDEN = VOLATILE | {"num_subscriptions", "subscriptions"}


class Listener:
    """A system user that listens to one pattern."""

    def __init__(self, server: ServerProcess, pattern: str) -> None:
        self.server = server
        self.asker = Asker(server, inbox=b"in." + pattern.encode().translate(None, b"$.*"), user="sys", **{"pass": "s"})
        self.server_id = json.loads(self.asker.ask("$SYS.REQ.SERVER.PING.IDZ"))["id"]
        self.asker.client.send(b"SUB %b 2\r\nPING\r\n" % pattern.encode())
        self.asker.client.read_until(rb"PONG\r\n")

    def next(self) -> str:
        """The next event as text that both servers can agree on."""
        subject, body = self.asker.next_message()
        return subject.replace(self.server_id, "<id>") + "\n" + outline(json.loads(body), HIDDEN)

    def close(self) -> None:
        self.asker.close()


class Pairing:
    """Listeners on both servers, and what happens there."""

    def __init__(self, pair: Pair, pattern: str) -> None:
        self.pair = pair
        self.listeners = [Listener(server, pattern) for server in (pair.real, pair.ours)]

    def agree(self, *, count: int = 1, any_order: bool = False) -> list[str]:
        """The next events of both servers, compared."""
        events = [[listener.next() for _ in range(count)] for listener in self.listeners]
        if any_order:
            events = [sorted(found) for found in events]
        for real, ours in zip(*events, strict=True):
            agree(real, ours, real.partition("\n")[0])
        return events[0]

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()


@pytest.fixture
def pair(both: Both) -> Pair:
    return both.fresh(CONFIG)


@pytest.fixture
def loads(pair: Pair) -> Iterator[list[Load]]:
    both_loads = [Load(server) for server in (pair.real, pair.ours)]
    yield both_loads
    for load in both_loads:
        load.close()


def _user(user: str, /, **more: Json) -> dict[str, Json]:
    return {"user": user, "pass": user, **more}


def test_clients_come_and_go(pair: Pair, loads: list[Load]) -> None:
    events = Pairing(pair, "$SYS.ACCOUNT.*.*")
    clients = [
        load.client(b"SUB foo 1\r\nPUB foo 5\r\nhello\r\n", **_user("a", name="worker", lang="raw", version="1.2"))
        for load in loads
    ]
    assert events.agree()[0].startswith("$SYS.ACCOUNT.A.CONNECT\n")
    for client in clients:
        client.close()
    gone = events.agree()[0]
    assert gone.startswith("$SYS.ACCOUNT.A.DISCONNECT\n")
    assert "reason: 'Client Closed'" in gone
    events.close()


def test_client_without_anything_to_say(pair: Pair, loads: list[Load]) -> None:
    events = Pairing(pair, "$SYS.ACCOUNT.*.*")
    for load in loads:
        load.client(**_user("a", name=None, lang=None, version=None))
    events.agree()
    events.close()


def test_connections_are_counted(pair: Pair, loads: list[Load]) -> None:
    events = Pairing(pair, "$SYS.*.A.SERVER.CONNS")
    old = Pairing(pair, "$SYS.SERVER.ACCOUNT.A.CONNS")
    first = [load.client(**_user("a")) for load in loads]
    assert "conns: 1" in events.agree()[0]
    assert "conns: 1" in old.agree()[0]
    for load in loads:
        load.client(**_user("a"))
    assert "conns: 2" in events.agree()[0]
    assert "conns: 2" in old.agree()[0]
    for client in first:
        client.close()
    assert "conns: 1" in events.agree()[0]
    events.close()
    old.close()


@pytest.mark.parametrize(
    "connect",
    [
        {"user": "a", "pass": "wrong", "name": "intruder"},
        {"user": "nobody", "pass": "x"},
        {"auth_token": "hush-hush"},
        {"nkey": "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4", "sig": "x"},
        {},
    ],
)
def test_refused_clients(pair: Pair, connect: dict[str, str]) -> None:
    events = Pairing(pair, "$SYS.SERVER.*.CLIENT.AUTH.ERR")
    goodbyes = Pairing(pair, "$SYS.ACCOUNT.*.DISCONNECT")
    for server in (pair.real, pair.ours):
        intruder = RawClient(server.port)
        intruder.read_until(rb"INFO [^\n]*\r\n")
        intruder.send(b"CONNECT " + json.dumps({"lang": "raw", **connect}).encode() + b"\r\n")
        intruder.read_to_close()
        intruder.close()
    event = events.agree()[0]
    assert event.startswith("$SYS.SERVER.<id>.CLIENT.AUTH.ERR\n")
    assert "reason: 'Authentication Failure'" in event
    assert "hush" not in event
    goodbye = goodbyes.agree()[0]
    assert goodbye.startswith("$SYS.ACCOUNT.$G.DISCONNECT\n")
    events.close()
    goodbyes.close()


def test_refused_clients_are_told_to_the_account_they_are_in_until_then(both: Both) -> None:
    """The global account, where a listener has to be a user of it."""
    pair = both.fresh("authorization { users: [{user: g, password: g}] }")
    told = []
    for server in (pair.real, pair.ours):
        listener = Asker(server, inbox=b"in", user="g", **{"pass": "g"})
        listener.client.send(b"SUB $SYS.ACCOUNT.CLIENT.AUTH.ERR 2\r\nPING\r\n")
        listener.client.read_until(rb"PONG\r\n")
        with RawClient(server.port) as intruder:
            intruder.send(b'CONNECT {"user": "g", "pass": "wrong", "name": "intruder"}\r\n')
            intruder.read_to_close()
        subject, body = listener.next_message()
        told.append(f"{subject}\n{outline(json.loads(body), HIDDEN | {'name', 'feature_flags'})}")
        listener.close()
    agree(*told, "$SYS.ACCOUNT.CLIENT.AUTH.ERR")


def test_numbers_are_sent_on_request_and_by_the_clock(launcher: Launcher) -> None:
    server = launcher.fresh(CONFIG)
    listener = Listener(server, "$SYS.SERVER.*.STATSZ")
    listener.asker.client.send(b"PUB $SYS.REQ.SERVER.PING.STATSZ 0\r\n\r\n")
    first, second = listener.next(), listener.next()
    for event in (first, second):
        assert event.startswith("$SYS.SERVER.<id>.STATSZ\n")
        assert "statsz {" in event
    listener.close()


def test_numbers(pair: Pair, loads: list[Load]) -> None:
    for load in loads:
        load.client(b"SUB foo 1\r\nPUB foo 5\r\nhello\r\n", **_user("a"))
    shown = []
    for server in (pair.real, pair.ours):
        asker = Asker(server, user="sys", **{"pass": "s"})
        answer = asker.ask("$SYS.REQ.SERVER.PING.STATSZ", barrier="STATSZ")
        shown.append(outline(json.loads(answer), HIDDEN | {"msgs", "bytes"}))
        asker.close()
    agree(*shown, what="STATSZ")


def test_server_says_good_bye(pair: Pair) -> None:
    events = Pairing(pair, "$SYS.SERVER.*.SHUTDOWN")
    for server in (pair.real, pair.ours):
        server.send_signal(signal.SIGTERM)
    assert events.agree()[0].startswith("$SYS.SERVER.<id>.SHUTDOWN\n")
    events.close()


def test_lame_duck_is_announced(pair: Pair) -> None:
    events = Pairing(pair, "$SYS.SERVER.*.LAMEDUCK")
    for server in (pair.real, pair.ours):
        server.lame_duck()
    assert events.agree()[0].startswith("$SYS.SERVER.<id>.LAMEDUCK\n")
    events.close()


def test_reason_of_the_server(pair: Pair) -> None:
    events = Pairing(pair, "$SYS.ACCOUNT.A.DISCONNECT")
    for server, listener in zip((pair.real, pair.ours), events.listeners, strict=True):
        load = Load(server)
        load.client(**_user("a", name="victim"))
        asker = Asker(server, user="sys", **{"pass": "s"})
        page = json.loads(asker.ask(f"$SYS.REQ.SERVER.{listener.server_id}.CONNZ", b'{"acc":"A"}'))["data"]
        asker.ask(f"$SYS.REQ.SERVER.{listener.server_id}.KICK", b'{"cid":%d}' % page["connections"][0]["cid"])
        asker.close()
        load.close()
    assert "reason: 'Kicked'" in events.agree()[0]
    events.close()


def test_nobody_else_hears_events(launcher: Launcher) -> None:
    server = launcher(CONFIG)
    stranger = Asker(server, user="a", **{"pass": "a"})
    stranger.client.send(b"SUB $SYS.> 2\r\nSUB > 3\r\nPING\r\n")
    stranger.client.read_until(rb"PONG\r\n")
    other = Load(server)
    other.client(**_user("a"))
    other.close()
    # What was asked below is the first thing that arrives, although clients came and went before.
    stranger.client.send(b"PUB in.only 3\r\nyes\r\n")
    assert stranger.next_message() == ("in.only", b"yes")
    stranger.close()
