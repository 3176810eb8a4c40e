"""Clients that misbehave on the client port. Each of them is dealt with, and another client does not notice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import socket

import bcrypt
import pytest

from support.abuse import Witness, resident_bytes
from support.monitoring import get
from support.raw_client import RawClient
from support.servers import Launcher
from support.transcript import connect_line, hpub, pub

MIB = 1024 * 1024
CONFIG = """
http: "127.0.0.1:-1"
max_pending: 2MB
write_deadline: "2s"
accounts {
  A: { users = [{ user: a, password: a }], exports = [{ service: "svc.>" }] }
  B: { users = [{ user: b, password: b }], imports = [{ service: { account: A, subject: "svc.>" } }] }
  SYS: { users = [{ user: s, password: s }] }
}
system_account: SYS
no_auth_user: a
"""


@pytest.fixture
def witness(ours: Launcher) -> Witness:
    return Witness(ours(CONFIG))


def _client(witness: Witness, data: bytes = b"", *, user: str | None = None) -> RawClient:
    """A client of its own; the password of a user is its name."""
    client = RawClient(witness.server.port, timeout_s=20)
    client.send(connect_line(user=user, **{"pass": user}) + data)
    return client


def test_a_client_that_only_talks(witness: Witness) -> None:
    """It never reads the answers to its PINGs: they may not pile up without end."""
    before = resident_bytes(witness.server)
    with witness, RawClient(witness.server.port, timeout_s=5) as client:
        client.send(connect_line())
        sent = 0
        try:
            while sent < 200 * MIB:
                client._socket.sendall(b"PING\r\n" * 10_000)
                sent += 60_000
        except OSError:
            pass
        assert sent < 200 * MIB, "it was cut off"
        assert resident_bytes(witness.server) - before < 40 * MIB
        witness.is_alone()


def test_a_subscriber_that_never_reads(witness: Witness) -> None:
    with witness, _client(witness, b"SUB flood.> 1\r\n") as sleeper, _client(witness) as writer:
        sleeper.read_until(b"INFO")
        sleeper.send(b"PING\r\n")
        sleeper.read_until(b"PONG")
        cid = json.loads(get(witness.server, "/connz").body)["num_connections"]
        assert cid == 3
        payload = b"x" * 100_000
        for number in range(200):
            writer.send(pub(f"flood.{number}", payload))
            if number % 20 == 0:
                witness.round_trip()
        writer.send(b"PING\r\n")
        writer.read_until(b"PONG")
        witness.server.wait_for_log("Slow Consumer Detected")
        writer.close()
        witness.is_alone()
        closed = json.loads(get(witness.server, "/connz?state=closed&sort=stop&limit=2").body)["connections"]
        assert "Slow Consumer" in closed[0]["reason"] + closed[1]["reason"]


def test_header_bombs(witness: Witness) -> None:
    """Many lines, one endless line, no lines: through a service import and a trace, where headers are looked at."""
    bombs = [
        b"A: b\r\n" * 100_000,
        b"A" * 900_000 + b"\r\n",
        b"Nats-Trace-Dest: t\r\n" * 20_000,
        b"Nats-Request-Info: {}\r\n" * 20_000,
        b"\r\n" * 100_000,
        b":\r\n" * 100_000,
        b" folded\r\n" * 50_000,
        b"\x00" * 500_000,
        b"traceparent: " + b"0-" * 200_000 + b"01\r\n",
    ]
    with witness, _client(witness, user="b") as client:
        with _client(witness, b"SUB svc.> 1\r\nSUB t 2\r\n") as service:
            for bomb in bombs:
                client.send(hpub("svc.x", bomb, b"x", "reply") + hpub("svc.x", b"Nats-Trace-Dest: t\r\n" + bomb, b"x"))
                client.send(b"PING\r\n")
                client.read_until(b"PONG\r\n")
                service.send(b"PING\r\n")
                service.read_until(b"PONG\r\n")
                witness.round_trip()
        client.close()
        witness.is_alone()


LONG_SUBJECTS = [
    b".".join([b"t"] * 255),
    b".".join([b"t"] * 2000),
    b"x" * 4000,
    b".".join([b"*"] * 2000),
    b".".join([b"t", b"*"] * 1000),
    b".".join([b"*"] * 255) + b".>",
]


def test_subjects_as_long_as_a_line(witness: Witness) -> None:
    """255 tokens, 2,000 tokens, 4,000 bytes, with wildcards in every place."""
    with witness, _client(witness) as client:
        for number, subject in enumerate(LONG_SUBJECTS):
            literal = subject.replace(b"*", b"t").replace(b">", b"t")
            client.send(
                b"SUB %b %d\r\n" % (subject, number) + b"PUB %b 1\r\nx\r\nUNSUB %d\r\nPING\r\n" % (literal, number)
            )
            assert b"MSG %b %d 1\r\n" % (literal, number) in client.read_until(b"PONG\r\n")
            witness.round_trip()
        client.close()
        witness.is_alone()


def test_a_flood_of_subscriptions(witness: Witness) -> None:
    """Many of them, then UNSUBs of those and of others that never were, then the end without goodbye."""
    dice = random.Random(7)
    with witness, _client(witness) as client:
        subs = [f"SUB flood.{dice.randrange(500)}.{dice.choice('a*>')} {number}\r\n" for number in range(20_000)]
        client.send("".join(subs).encode() + b"PING\r\n")
        client.read_until(b"PONG\r\n")
        witness.round_trip()
        unsubs = [f"UNSUB {dice.randrange(40_000)} {dice.choice(['', '0', '1', 'x', '-5'])}\r\n" for _ in range(20_000)]
        client.send("".join(unsubs).encode() + b"PING\r\n")
        client.read_until(b"PONG\r\n")
        client.close()
        witness.is_alone()
        assert json.loads(get(witness.server, "/subsz?acc=A&subs=1").body)["total"] <= 10


JSON_BOMBS = [
    b"[" * 4000,
    b"{" * 4000,
    b'{"a":' * 800 + b"1" + b"}" * 800,
    b'{"name":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'{"protocol":' + b"9" * 4000 + b"}",
    b'{"protocol":1e99999999}',
    b'{"protocol":-0.0}',
    b'{"name":"' + b"\\u0000" * 600 + b'"}',
    b'{"name":"' + b"\\ud800" * 600 + b'"}',
    b'{"verbose":' * 300,
    b'{"name":"x",' * 300 + b"}" * 300,
    b"{" + b'"a":1,' * 600 + b'"b":2}',
    b'"' + b"A" * 4000,
    b"{}" + b" " * 4000 + b"x",
    b"\xff\xfe{}",
    b"NaN",
]


@pytest.mark.parametrize("bomb", JSON_BOMBS, ids=range(len(JSON_BOMBS)))
def test_connect_bombs(witness: Witness, bomb: bytes) -> None:
    """JSON that is deep, long or wrong in CONNECT: refused or understood, and nothing else."""
    with witness, RawClient(witness.server.port) as client:
        client.send(b"CONNECT " + bomb + b"\r\nPING\r\n")
        client.read_until_or_close(b"PONG\r\n")
        client.close()
        witness.is_alone()


SYS_SUBJECTS = ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.A.SUBSZ", "$SYS.REQ.USER.INFO"]
OWN_SUBJECTS = ["$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.STATZ", "$SYS.REQ.USER.INFO"]
BODIES = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"offset":-9223372036854775808,"limit":-9223372036854775808}',
    b'{"offset":9223372036854775807,"limit":9223372036854775807}',
    b'{"offset":99999999999999999999999,"limit":1e400}',
    b'{"limit":"' + b"9" * 100_000 + b'"}',
    b'{"sort":"' + b"x" * 100_000 + b'"}',
    b'{"acc":"' + b"\\u0000" * 10_000 + b'"}',
    b'{"filter_subject":"' + b"*." * 10_000 + b'>","acc":"A"}',
    b'{"cid":-1,"state":99,"subscriptions":"x"}',
    b"[1,2,3]",
    b"\x00" * 10_000,
    b"x" * 900_000,
    b" " * 900_000 + b"{}",
]


@pytest.mark.parametrize("user", ["s", "a"])
def test_system_request_bombs(witness: Witness, user: str) -> None:
    """Advisory 2026-28: offsets and limits at their extremes, depth, size and nonsense in `$SYS` requests."""
    subjects = SYS_SUBJECTS if user == "s" else OWN_SUBJECTS
    with witness, _client(witness, b"SUB in 1\r\n", user=user) as client:
        for subject in subjects:
            for body in BODIES:
                client.send(pub(subject, body, "in") + b"PING\r\n")
                client.read_until(b"PONG\r\n")
                witness.round_trip()
            client.send(pub(subject, b"", "last") + b"SUB last 2\r\n" + pub(subject, b"", "last"))
            client.read_until(rb"H?MSG last 2 [^\n]*\r\n(?:NATS/1.0\r\n[^{]*)?\{")
        client.close()
        witness.is_alone()


GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPUB a 1\r\nx\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    b"\x00" * 100_000,
    b"\xff" * 100_000,
    b"\r\n" * 50_000,
    b"*1\r\n$4\r\nPING\r\n",
    b"EHLO example.com\r\n",
    b"SSH-2.0-OpenSSH_9.0\r\n",
    b"\x10\x16\x00\x04MQTT\x04\x02\x00\x3c\x00\x0ahi",
    b'{"jsonrpc":"2.0"}\n',
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    b"RS+ A foo\r\nRMSG A foo 1\r\nx\r\n",
    b"INFO {" + b"x" * 100_000,
    b"MSG foo 1 5\r\nhello\r\n",
    b"PUB foo 5\r\nhel",
    b"HPUB foo 1 1000000\r\nx",
]


def test_other_protocols_on_the_client_port(witness: Witness) -> None:
    dice = random.Random(42)
    noise = [dice.randbytes(dice.randrange(1, 2000)) for _ in range(50)]
    with witness:
        for data in GARBAGE + noise:
            with RawClient(witness.server.port) as client:
                client.send(data)
                client.shut_down_writing()
                client.read_to_close()
        witness.is_alone()


def test_resets_in_the_middle(witness: Witness) -> None:
    """Connections that end with a reset, at every point of a conversation."""
    talk = connect_line() + b"SUB foo 1\r\nPUB foo 5\r\nhello\r\nPING\r\nPUB foo 100000\r\n" + b"x" * 50_000
    with witness:
        for at in [0, 1, 5, 20, 100, 200, 250, 1000, len(talk)]:
            client = RawClient(witness.server.port)
            client.send(talk[:at])
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            client.close()
        witness.is_alone()


def test_a_flood_of_logins(ours: Launcher) -> None:
    """bcrypt takes a core for as long as it likes: connected clients and plain logins do not wait for it."""
    slow = bcrypt.hashpw(b"right", bcrypt.gensalt(9)).decode()
    server = ours(
        f"""
        http: "127.0.0.1:-1"
        authorization {{ timeout: 30, users = [
          {{ user: slow, password: "{slow}" }}
          {{ user: plain, password: plain }}
        ] }}
        """
    )
    with Witness(server, user="plain", **{"pass": "plain"}) as witness:
        flood = [RawClient(server.port, timeout_s=30) for _ in range(60)]
        for client in flood:
            client.send(connect_line(user="slow", **{"pass": "wrong"}) + b"PING\r\n")
        witness.round_trip()
        with RawClient(server.port) as guest:
            guest.send(connect_line(user="plain", **{"pass": "plain"}) + b"PING\r\n")
            guest.read_until(b"PONG\r\n")
        given_up, patient = flood[::2], flood[1::2]
        for client in given_up:
            client.close()
        witness.round_trip()
        for client in patient:
            assert b"-ERR 'Authorization Violation'" in client.read_to_close()
            client.close()
        with RawClient(server.port, timeout_s=30) as late:
            late.send(connect_line(user="slow", **{"pass": "right"}) + b"PING\r\n")
            late.read_until(b"PONG\r\n")
        witness.is_alone()


def test_more_clients_than_descriptors(ours: Launcher) -> None:
    """No descriptors are left: who is connected is served, and who comes later too when there are some again."""
    server = ours.fresh('http: "127.0.0.1:-1"')
    with Witness(server) as witness:
        used = len(os.listdir(f"/proc/{server.pid}/fd"))
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 20, hard))
        with contextlib.ExitStack() as held:
            for _ in range(100):
                held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            for _ in range(20):
                witness.round_trip()
        # The event loop takes a client and drops it while there is no descriptor for it. There are some again when
        # the server has seen that the others left.
        while len(os.listdir(f"/proc/{server.pid}/fd")) > used:
            witness.round_trip()
        with RawClient(server.port, timeout_s=20) as late:
            late.send(connect_line() + b"PING\r\n")
            late.read_until(b"PONG\r\n")
        witness.is_alone()
