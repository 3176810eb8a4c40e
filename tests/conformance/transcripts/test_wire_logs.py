"""What debug and trace logging say about a client, and what they keep secret."""

from __future__ import annotations

import re

from support.servers import Both
from support.transcript import Script, Talk, connect_line, each, hpub, pub

GUARDED = 'authorization { users: [ { user: bob, password: secret, permissions: { publish: "ok" } } ] }\n'


def trace_of(talk: Talk, position: int) -> str:
    """Operations in the log since a position, with their direction; heartbeats come when they will and are left out."""
    lines = talk.server.log_lines[position:]
    found = [match for line in lines if (match := re.search(r"\[TRC\] 127\.0\.0\.1:.* (<<-|->>) (.*)", line))]
    return "\n".join(f"{match[1]} {match[2]}" for match in found if not re.search(r"\[P[IO]NG\]", match[2]))


def operations(talk: Talk) -> None:
    position = len(talk.server.log_lines)
    peer = talk.connect()
    peer.send(b"SUB foo 1\r\nSUB bar q 2\r\nUNSUB 2\r\nUNSUB 1 5\r\n" + pub("foo", b"hello", "re") + pub("foo")).sync()
    peer.send(hpub("foo", b"A: b\r\n", b"x")).sync()
    peer.send(b"FOO\r\n").until_closed()
    talk.server.wait_for_log("Client connection closed", after=position)
    talk.note(trace_of(talk, position))


def long_payloads_are_cut(talk: Talk) -> None:
    position = len(talk.server.log_lines)
    peer = talk.connect()
    peer.send(b"SUB foo 1\r\n" + pub("foo", b"x" * 100)).sync()
    peer.send(b"FOO\r\n").until_closed()
    talk.server.wait_for_log("Client connection closed", after=position)
    talk.note(trace_of(talk, position))


def secrets_are_not_logged(talk: Talk) -> None:
    position = len(talk.server.log_lines)
    for password in ("secret", "wrong secret"):
        peer = talk.open()
        peer.send(connect_line(user="bob", auth_token="secret token", sig="secret sig", **{"pass": password})).sync()
        peer.send(pub("no") + b"FOO\r\n").until_closed()
        talk.server.wait_for_log("Client connection closed", after=position)
        talk.note(trace_of(talk, position))
        position = len(talk.server.log_lines)
    talk.note([line for line in talk.server.log_lines if "secret" in line])


@each([operations])
def test_trace_lines(both: Both, script: Script) -> None:
    both.fresh("", "-DV").agree(script)


def test_long_payloads(both: Both) -> None:
    both.fresh("max_traced_msg_len: 10", "-DV").agree(long_payloads_are_cut)


def test_secrets(both: Both) -> None:
    both.fresh(GUARDED, "-DV").agree(secrets_are_not_logged)
