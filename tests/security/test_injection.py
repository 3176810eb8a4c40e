"""Bytes of one client in the stream of another: nothing may end a protocol line but the server itself."""

from __future__ import annotations

import pytest

from support.hub_world import HubWorld
from support.transcript import frames, hpub

WITNESS = b"SUB > 1\r\n"
FORGED = b"PING\r\nMSG secret 1 5\r\nevil!\r\n"
REFUSED_BYTES = [b"\x00", b"\x0c", b"\r"]


def _operations(received: bytes) -> list[bytes]:
    """What a client makes of its stream: each operation's line, which must hold no control byte."""
    lines = [frame.split(b"\r\n")[0] for frame in frames(received)]
    for line in lines:
        assert not any(byte < 32 for byte in line), line
    return lines


@pytest.mark.parametrize("byte", REFUSED_BYTES)
@pytest.mark.parametrize(
    "line",
    [
        b"PUB fo?o 2",
        b"PUB foo? 2",
        b"PUB ?foo 2",
        b"PUB foo in?box 2",
        b"HPUB fo?o 0 2",
        b"HPUB foo in?box 0 2",
        b"SUB fo?o 9",
        b"SUB foo q?q 9",
        b"SUB foo 9?9",
        b"UNSUB 1?1",
        b"PUB foo 2?",
    ],
)
def test_bytes_that_break_lines_end_the_connection(line: bytes, byte: bytes) -> None:
    """Advisory 2026-22: NUL, form feed and CR have no place on a control line; LF, blank and tab separate."""
    world = HubWorld()
    witness = world.connect().send(WITNESS)
    sender = world.connect().send(line.replace(b"?", byte) + b"\r\nhi\r\nPUB after 0\r\n\r\n")
    assert sender.is_closed
    assert _operations(witness.take()) == []


@pytest.mark.parametrize("byte", [b"\x01", b"\x0b", b"\x1b", b"\x1f", b"\x7f", b"\x80", b"\xff", b"'", b'"'])
def test_other_odd_bytes_pass_as_they_are(byte: bytes) -> None:
    """Advisory 2026-22: they cannot end a line, so nothing is to be gained by them."""
    world = HubWorld()
    witness = world.connect().send(WITNESS)
    world.connect().send(b"PUB a" + byte + b" r" + byte + b" 2\r\nhi\r\n")
    assert witness.take() == b"MSG a" + byte + b" 1 r" + byte + b" 2\r\nhi\r\n"


@pytest.mark.parametrize("only", [b"", b"Nats-Trace-Only: true\r\n"])
@pytest.mark.parametrize(
    "destination",
    [
        b"a b",
        b"a\tb",
        b"a 1 0\n" + FORGED.replace(b"\r\n", b"\n"),
        b"a\rb",
        b"a\nb",
        b"a\x00b",
        b"a\x0cb",
        b"a.*",
        b">",
        b"a..b",
        b".a",
        b"a.",
        b"a\n\n",
    ],
)
def test_a_trace_goes_to_a_subject_or_nowhere(destination: bytes, only: bytes) -> None:
    """Advisory 2026-22, CVE-2026-33249: a header names the subject on which the server publishes."""
    world = HubWorld()
    witness = world.connect().send(WITNESS)
    sender = world.connect().send(hpub("foo", b"Nats-Trace-Dest: " + destination + b"\r\n" + only, b"x"))
    assert not sender.is_closed
    operations = _operations(witness.take())
    assert [line.split()[1] for line in operations] == ([] if only else [b"foo"])


def test_a_trace_needs_the_right_to_publish_where_it_goes() -> None:
    """CVE-2026-33249, advisory 2026-20: the destination of a trace is under the publisher's permissions."""
    world = HubWorld(
        """
        authorization { users = [
          { user: a, password: a, permissions: { publish: { allow: ["foo", "trace.>"], deny: "trace.secret" } } }
          { user: all, password: all }
        ] }
        """
    )
    witness = world.connect(user="all", **{"pass": "all"}).send(WITNESS)
    sender = world.connect(user="a", **{"pass": "a"})
    for destination, allowed in ((b"trace.me", True), (b"other", False), (b"trace.secret", False), (b"$SYS.X", False)):
        for only in (b"", b"Nats-Trace-Only: true\r\n"):
            sender.send(hpub("foo", b"Nats-Trace-Dest: " + destination + b"\r\n" + only, b"x"))
            subjects = [line.split()[1] for line in _operations(witness.take())]
            assert (destination in subjects) is allowed
            assert (b"Permissions Violation for Publish to" in sender.take()) is not allowed
            assert allowed or subjects == [], "nor is the message itself published"


def test_the_server_s_own_subjects_are_no_destination_of_a_trace() -> None:
    """CVE-2026-33249: neither are the subjects that no client may publish to."""
    world = HubWorld()
    witness = world.connect().send(WITNESS)
    for destination in (b"$GR.x.y", b"_GR_.x", b"$NRG.x"):
        sender = world.connect().send(hpub("foo", b"Nats-Trace-Dest: " + destination + b"\r\n", b"x"))
        assert b"Permissions Violation" in sender.take()
        assert _operations(witness.take()) == []


@pytest.mark.parametrize(
    "line",
    [
        b"SUB a\x1b[2Jb'\" 1",
        b"SUB foo q\x1b'\"\xff 1",
        b"PUB a\x1b'\x80\" 0",
        b"PUB foo $JS.ACK.\x1b'\x9b 0",
        b"SUB \xe2\x80\xa8 1",
    ],
)
def test_errors_repeat_names_escaped(line: bytes) -> None:
    """Advisory 2026-22: what a client sent comes back in -ERR as text, never as bytes of the protocol."""
    world = HubWorld(
        """
        authorization { users = [{ user: a, password: a, permissions: {
            publish: foo, subscribe: { allow: foo, deny: "foo *" } } }] }
        """
    )
    client = world.connect(user="a", **{"pass": "a"}).send(line + (b"\r\n\r\n" if line.startswith(b"PUB") else b"\r\n"))
    answer = client.take()
    assert answer.startswith(b"-ERR 'Permissions Violation") and answer.count(b"\r\n") == 1
    assert all(32 <= byte < 127 for byte in answer.removesuffix(b"\r\n")), answer
