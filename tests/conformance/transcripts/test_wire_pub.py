"""PUB: grammar of the line, payload framing, sizes, verbose, pedantic and echo."""

from __future__ import annotations

from support.servers import Both
from support.transcript import Deliberate, Script, Talk, case, each, pub

SUB = b"SUB foo 1\r\n"
BAD_SIZES = [b"-1", b"+1", b"1x", b"x", b"0x1", b"1.0", b"1,0", b"2147483648", b"4294967296", b"9223372036854775808"]

GRAMMAR = [
    case("plain", SUB + b"PUB foo 2\r\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("lower case", SUB + b"pub foo 2\r\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("mixed case", SUB + b"pUb foo 2\r\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("tabs", SUB + b"PUB\tfoo\t2\r\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("runs of blanks", SUB + b"PUB  \t foo \t  2\r\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("trailing blanks", SUB + b"PUB foo 2  \t\r\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("leading blank before op", b" PUB foo 2\r\nhi\r\n"),
    case("blank line before op", b"\r\nPUB foo 2\r\nhi\r\n"),
    case("line ends with LF", SUB + b"PUB foo 2\nhi\r\n", rb"MSG foo 1 2\r\nhi"),
    case("payload ends with LF", SUB + b"PUB foo 2\r\nhi\n"),
    case("payload too long", SUB + b"PUB foo 2\r\nhello\r\n"),
    case("payload too short", SUB + b"PUB foo 5\r\nhi\r\nxx\r\n"),
    case("CR CR LF ends line", SUB + b"PUB foo 2\r\r\nhi\r\n"),
    case("reply", SUB + b"PUB foo bar 2\r\nhi\r\n", rb"MSG foo 1 bar 2\r\nhi"),
    case("empty payload", SUB + b"PUB foo 0\r\n\r\n", rb"MSG foo 1 0\r\n\r\n"),
    case("payload with CRLF", SUB + b"PUB foo 4\r\n\r\n\r\n\r\n", rb"MSG foo 1 4\r\n\r\n\r\n\r\n"),
    case("payload looks like an op", SUB + pub("foo", b"UNSUB 1\r\n"), rb"MSG foo 1 9\r\nUNSUB 1"),
    case("binary payload", SUB + b"PUB foo 4\r\n\x00\xff\x80\x0a\r\n", rb"MSG foo 1 4\r\n\x00\xff\x80\x0a"),
    Deliberate(case("leading zeros", SUB + b"PUB foo 0002\r\nhi\r\n"), "sizes are written as numbers: ADR 4"),
    case("many leading zeros", SUB + b"PUB foo 000000000002\r\nhi\r\n"),
    case("no arguments", b"PUB\r\n"),
    case("blank argument", b"PUB \r\n"),
    case("one argument", b"PUB foo\r\n"),
    case("only a size", b"PUB 2\r\nhi\r\n"),
    case("four arguments", b"PUB foo bar baz 2\r\nhi\r\n"),
    case("no blank after op", b"PUBfoo 2\r\nhi\r\n"),
    case("op cut short", b"PU foo 2\r\nhi\r\n", rb"Unknown Protocol Operation"),
    case("op too long", b"PUBX foo 2\r\nhi\r\n", rb""),
    case("several in one write", SUB + pub("foo", b"1") + pub("foo", b"22") + pub("foo", b"333"), rb"MSG foo 1 3"),
]

SIZES = [case(f"size {size.decode()}", b"PUB foo " + size + b"\r\nhi\r\n") for size in BAD_SIZES]

MODES = [
    case("verbose", SUB + pub("foo", b"hi"), rb"\+OK", verbose=True),
    case("verbose without interest", pub("foo", b"hi"), rb"\+OK", verbose=True),
    case("verbose then bad args", pub("foo") + b"PUB foo\r\n", rb"\+OK", verbose=True),
    case("pedantic good subject", SUB + pub("foo"), rb"MSG foo 1 0", pedantic=True),
    case("pedantic wildcard", pub("a.*"), rb"Invalid Publish Subject", pedantic=True),
    case("pedantic full wildcard", pub("a.>"), rb"Invalid Publish Subject", pedantic=True),
    case("pedantic lone wildcards", pub("*") + pub(">"), rb"Invalid Publish Subject", pedantic=True),
    case("pedantic empty tokens", pub("a..b") + pub(".a") + pub("a."), rb"Invalid Publish Subject", pedantic=True),
    case("pedantic literal star", pub("a*b.c>d"), rb"PONG", pedantic=True),
    case("pedantic bad reply", pub("foo", b"", "a..b") + pub("foo", b"", "a.*"), rb"PONG", pedantic=True),
    case("pedantic verbose wildcard", pub("a.*"), rb"Invalid Publish Subject", pedantic=True, verbose=True),
    case("pedantic still delivers", b"SUB a.> 1\r\n" + pub("a.*", b"x"), rb"Invalid", pedantic=True),
    case("relaxed wildcard", b"SUB a.> 1\r\n" + pub("a.*", b"x"), rb"PONG"),
    case("echo on", SUB + pub("foo", b"hi"), rb"MSG foo", echo=True),
    case("echo off", SUB + pub("foo", b"hi"), rb"PONG", echo=False),
    case("echo off queue", b"SUB foo q 1\r\n" + pub("foo", b"hi"), rb"PONG", echo=False),
]


def echo_off_still_reaches_others(talk: Talk) -> None:
    other = talk.connect("other")
    other.send(SUB).sync()
    writer = talk.connect("writer", echo=False)
    writer.send(SUB + pub("foo", b"hi")).sync()
    other.sync()
    talk.must_show(rb"MSG foo 1 2")


def echo_off_skips_own_queue_member(talk: Talk) -> None:
    other = talk.connect("other")
    other.send(b"SUB foo q 1\r\n").sync()
    writer = talk.connect("writer", echo=False)
    writer.send(b"SUB foo q 2\r\n" + pub("foo", b"x") * 20).sync()
    other.sync()


def payload_in_pieces(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(SUB).sync()
    for piece in (b"PU", b"B fo", b"o 1", b"0\r", b"\n01234", b"56789", b"\r", b"\n"):
        peer.send(piece)
    peer.sync()
    talk.must_show(rb"MSG foo 1 10\r\n0123456789")


def large_payload(talk: Talk) -> None:
    peer = talk.connect()
    answer = peer.send(SUB + pub("foo", b"x" * 1048576)).sync()
    talk.note(answer == b"MSG foo 1 1048576\r\n" + b"x" * 1048576 + b"\r\nPONG\r\n")
    peer.received.clear()


SCRIPTS = [echo_off_still_reaches_others, echo_off_skips_own_queue_member, payload_in_pieces, large_payload]
CASES = [*GRAMMAR, *SIZES, *MODES]


@each([*CASES, *SCRIPTS])
def test_publish(both: Both, script: Script) -> None:
    both().agree(script)
