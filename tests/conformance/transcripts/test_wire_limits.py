"""Limits and the errors that close a connection: unknown operations, line and payload sizes, counts."""

from __future__ import annotations

from support.servers import Both
from support.transcript import Script, Talk, case, each, hpub, pub, unconnected

UNKNOWN = [
    b"FOO",
    b"GET / HTTP/1.1",
    b"P",
    b"X",
    b"CONN",
    b"PON",
    b"PI",
    b"H",
    b"HPU",
    b"HPING",
    b"UNS",
    b"\x00",
    b"\xff",
]
ROUTE_OPS = [
    b"MSG foo 1 2",
    b"HMSG foo 1 2 2",
    b"RMSG $G foo 2",
    b"LMSG a b 2",
    b"RS+ $G foo",
    b"LS+ foo",
    b"A+ x",
    b"A- x",
]

OPERATIONS: list[Script] = [
    *[case(f"unknown {op!r}", op + b"\r\n", rb"Unknown Protocol Operation|<closed>") for op in UNKNOWN],
    *[case(f"of a route {op.decode()}", op + b"\r\nhi\r\n", rb"Unknown Protocol Operation") for op in ROUTE_OPS],
    unconnected("unknown before CONNECT", b"FOO\r\n", rb"Unknown Protocol Operation"),
    case("blank line", b"\r\n", rb"Unknown Protocol Operation"),
    case("blank", b" \r\n", rb"Unknown Protocol Operation"),
    case("LF only", b"\n", rb"Unknown Protocol Operation"),
    case("unknown while verbose", b"FOO\r\n", rb"Unknown Protocol Operation", verbose=True),
    case("nothing after the error is done", b"SUB foo 1\r\nFOO\r\n" + pub("foo"), rb"Unknown Protocol Operation"),
    case("messages before the error arrive", b"SUB foo 1\r\n" + pub("foo", b"x") + b"FOO\r\n", rb"MSG foo 1 1"),
    case("TLS hello in clear", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", rb"Unknown Protocol Operation"),
]


def subject_of(length: int) -> bytes:
    """A subject of that many bytes."""
    return b"x" * length


# The line's argument part is what counts: "SUB " is not in it, blanks and the id are.
CONTROL_LINES: list[Script] = [
    *[case(f"SUB of {n} bytes", b"SUB " + subject_of(n - 2) + b" 1\r\n") for n in (4000, 4095, 4096, 4097, 5000)],
    *[case(f"PUB of {n} bytes", b"PUB " + subject_of(n - 2) + b" 0\r\n\r\n") for n in (4000, 4095, 4096, 4097, 5000)],
    *[case(f"UNSUB of {n} bytes", b"UNSUB " + subject_of(n) + b"\r\n") for n in (4096, 4097)],
    *[
        case(f"HPUB of {n} bytes", b"HPUB " + subject_of(n - 6) + b" 12 12\r\nNATS/1.0\r\n\r\n\r\n")
        for n in (4095, 4097)
    ],
    case("unfinished line", b"SUB " + b"x" * 6000, rb"maximum control line exceeded"),
    case("PING and a long tail", b"PING" + b"x" * 6000 + b"\r\n"),
    case("blanks count", b"SUB " + b" " * 5000 + b"foo 1\r\n"),
]


def line_in_pieces_over_the_limit(talk: Talk) -> None:
    peer = talk.connect()
    for _ in range(10):
        peer.send(b"SUB " + b"x" * 10 + b" 1\r\n")
    peer.send(b"SUB ")
    for _ in range(6):
        peer.send(b"y" * 1000)
    peer.until_closed()


SMALL = "max_payload: 100\nmax_control_line: 256\nmax_subscriptions: 3\nmax_sub_tokens: 4\n"

PAYLOADS: list[Script] = [
    case("at the limit", b"SUB foo 1\r\n" + pub("foo", b"x" * 100), rb"MSG foo 1 100"),
    case("over the limit", pub("foo", b"x" * 101), rb"Maximum Payload Violation"),
    case("far over the limit", b"PUB foo 999999999\r\n", rb"Maximum Payload Violation"),
    case("ten digits", b"PUB foo 2000000000\r\n", rb"<closed>"),
    case("headers count", hpub("foo", b"A: b\r\n", b"x" * 83), rb"Maximum Payload Violation"),
    case("headers at the limit", b"SUB foo 1\r\n" + hpub("foo", b"A: b\r\n", b"x" * 82), rb"HMSG foo 1 18 100"),
    case("verbose over the limit", pub("foo", b"x" * 101), rb"Maximum Payload Violation", verbose=True),
    unconnected("over the limit before CONNECT", pub("foo", b"x" * 101), rb"Maximum Payload Violation"),
    case("line of 256", b"SUB " + subject_of(254) + b" 1\r\n"),
    case("line of 257", b"SUB " + subject_of(255) + b" 1\r\n"),
    case("CONNECT over the line limit", b'CONNECT {"name":"' + b"x" * 300 + b'"}\r\n'),
    case("third subscription", b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n", rb"PONG"),
    case("fourth subscription", b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\n", rb"maximum subscriptions exceeded"),
    case(
        "fourth after UNSUB",
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\nUNSUB 1\r\nSUB d 4\r\n" + pub("d"),
        rb"MSG d 4",
        verbose=True,
    ),
    case("duplicate ids at the limit", b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB c 3\r\nSUB c 3\r\n"),
    case("four tokens", b"SUB a.b.c.d 1\r\n" + pub("a.b.c.d"), rb"MSG a.b.c.d"),
    case("five tokens", b"SUB a.b.c.d.e 1\r\n", rb"too many tokens"),
    case("five tokens with queue", b"SUB a.b.c.d.e q 1\r\n", rb"too many tokens"),
    case("five tokens verbose", b"SUB a.b.c.d.e 1\r\nSUB a.*.*.*.> 2\r\n", rb"too many tokens", verbose=True),
    case("publish to five tokens", b"SUB > 1\r\n" + pub("a.b.c.d.e"), rb"MSG a.b.c.d.e"),
]

DEFAULT_PAYLOADS: list[Script] = [
    case("over 1 MiB", b"PUB foo 1048577\r\n", rb"Maximum Payload Violation"),
    case("2^31-1", b"PUB foo 2147483647\r\n", rb"Maximum Payload Violation|<closed>"),
]


def connections_over_the_limit(talk: Talk) -> None:
    talk.connect("one")
    two = talk.connect("two")
    talk.open("three").until_closed()
    talk.must_show(rb"maximum connections exceeded")
    # A place is free once the server has seen the end of another connection.
    two.send(b"PUB\r\n").until_closed()
    talk.connect("four")


@each([*OPERATIONS, *CONTROL_LINES, line_in_pieces_over_the_limit, *DEFAULT_PAYLOADS])
def test_operations_and_lines(both: Both, script: Script) -> None:
    both().agree(script)


@each(PAYLOADS)
def test_small_limits(both: Both, script: Script) -> None:
    both(SMALL).agree(script)


def test_max_connections(both: Both) -> None:
    both.fresh("max_connections: 2").agree(connections_over_the_limit)
