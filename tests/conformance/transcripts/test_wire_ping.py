"""Keeping connections alive: the server's own PINGs, silent clients, slow readers and slow writers."""

from __future__ import annotations

import re

from support.servers import Both
from support.transcript import Script, Talk, each, pub

QUICK_PINGS = 'ping_interval: "150ms"\nping_max: 2\n'
SMALL_PENDING = "max_pending: 65536\nmax_payload: 32768\n"
SHORT_DEADLINE = 'write_deadline: "300ms"\nmax_pending: 64MB\n'

PAYLOAD = b"x" * 30000


def silent_client_is_stale(talk: Talk) -> None:
    peer = talk.connect()
    peer.until_closed()
    talk.must_show(rb"-ERR 'Stale Connection'")
    talk.note(bytes(peer.received).count(b"PING\r\n"))


def silent_client_without_connect_is_stale(talk: Talk) -> None:
    peer = talk.open()
    peer.until_closed()
    talk.note(bytes(peer.received).count(b"PING\r\n"))


def answered_pings_keep_the_connection(talk: Talk) -> None:
    peer = talk.connect()
    for _ in range(5):
        peer.until(rb"PING\r\n")
        peer.send(b"PONG\r\n")
    peer.sync()


def first_ping_follows_connect(talk: Talk) -> None:
    """With the usual interval of minutes: early for whoever sent CONNECT, not at all for whoever has not."""
    stranger, anonymous = talk.open("stranger"), talk.open("anonymous")
    anonymous.send(b"SUB foo 1\r\n").sync()
    for name in ("first", "second"):  # the second begins when the first one's has come: the stranger's would have too
        peer = talk.connect(name)
        peer.until(rb"PING\r\n")
        peer.send(b"PONG\r\n").sync()
    for peer in (stranger, anonymous):
        peer.sync()
        talk.note(bytes(peer.received).count(b"PING\r\n"))


def slow_reader_is_cut_off(talk: Talk) -> None:
    """A client that does not read: its connection ends without an -ERR, the publisher and others go on."""
    reader, other, writer = talk.connect("reader"), talk.connect("other"), talk.connect("writer")
    reader.send(b"SUB big 1\r\n").sync()
    other.send(b"SUB small 1\r\n").sync()
    position = len(talk.server.log_lines)
    for _ in range(60):
        writer.send(pub("big", PAYLOAD) * 5).sync()
        if any("Slow Consumer" in line for line in talk.server.log_lines[position:]):
            break
    line = talk.server.wait_for_log("Slow Consumer Detected", after=position)
    talk.note(line.partition(" - Slow Consumer")[2])
    writer.send(pub("small", b"x")).sync()
    other.sync()
    data = reader.until_closed()
    talk.note(b"-ERR" in data)
    reader.received.clear()
    writer.received.clear()


def slow_reader_meets_the_write_deadline(talk: Talk) -> None:
    reader, writer = talk.connect("reader"), talk.connect("writer")
    reader.send(b"SUB big 1\r\n").sync()
    position = len(talk.server.log_lines)
    writer.send(pub("big", PAYLOAD) * 600).sync()
    line = talk.server.wait_for_log("Slow Consumer Detected", after=position)
    talk.note(re.sub(r"\d+ chunks of \d+", "N chunks of N", line.partition("Slow Consumer")[2]))
    talk.note(b"-ERR" in reader.until_closed())
    reader.received.clear()
    writer.received.clear()


@each([silent_client_is_stale, silent_client_without_connect_is_stale, answered_pings_keep_the_connection])
def test_pings(both: Both, script: Script) -> None:
    both(QUICK_PINGS).agree(script)


def test_first_ping(both: Both) -> None:
    both().agree(first_ping_follows_connect)


def test_slow_reader(both: Both) -> None:
    both(SMALL_PENDING).agree(slow_reader_is_cut_off)


def test_write_deadline(both: Both) -> None:
    both(SHORT_DEADLINE).agree(slow_reader_meets_the_write_deadline)
