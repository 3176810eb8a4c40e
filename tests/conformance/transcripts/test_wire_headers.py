"""HPUB and HMSG: grammar, sizes, header blocks as they pass, stripping, no responders."""

from __future__ import annotations

from support.servers import Both
from support.transcript import Script, Talk, case, each, hpub, pub

SUB = b"SUB foo 1\r\n"
BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"  # 18 bytes


def raw_block(block: bytes, payload: bytes = b"") -> bytes:
    """HPUB of a block as it is."""
    return b"HPUB foo %d %d\r\n" % (len(block), len(block) + len(payload)) + block + payload + b"\r\n"


CASES = [
    case("plain", SUB + raw_block(BLOCK, b"hi"), rb"HMSG foo 1 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi"),
    case("lower case", SUB + b"hpub foo 18 20\r\n" + BLOCK + b"hi\r\n", rb"HMSG foo 1 18 20"),
    case("reply", SUB + b"HPUB foo bar 18 20\r\n" + BLOCK + b"hi\r\n", rb"HMSG foo 1 bar 18 20"),
    case("tabs and blanks", SUB + b"HPUB\t foo  bar\t18 20 \r\n" + BLOCK + b"hi\r\n", rb"HMSG foo 1 bar 18 20"),
    case("line ends with LF", SUB + b"HPUB foo 18 20\n" + BLOCK + b"hi\r\n", rb"HMSG foo 1 18 20"),
    case("payload ends with LF", SUB + b"HPUB foo 18 20\r\n" + BLOCK + b"hi\n"),
    case("empty payload", SUB + raw_block(BLOCK), rb"HMSG foo 1 18 18"),
    case("header size 0", SUB + b"HPUB foo 0 2\r\nhi\r\n", rb"MSG foo 1"),
    case("both sizes 0", SUB + b"HPUB foo 0 0\r\n\r\n"),
    case("header larger than total", b"HPUB foo 20 18\r\n" + BLOCK + b"hi\r\n", rb"<closed>"),
    case("negative header size", b"HPUB foo -1 18\r\n" + BLOCK + b"\r\n"),
    case("negative total", b"HPUB foo 18 -1\r\n" + BLOCK + b"\r\n"),
    case("text for header size", b"HPUB foo x 18\r\n" + BLOCK + b"\r\n"),
    case("text for total", b"HPUB foo 18 x\r\n" + BLOCK + b"\r\n"),
    case("huge header size", b"HPUB foo 99999999999 99999999999\r\n" + BLOCK + b"\r\n"),
    case("header size over 2^31", b"HPUB foo 2147483648 2147483648\r\n" + BLOCK + b"\r\n"),
    case("no arguments", b"HPUB\r\n"),
    case("one argument", b"HPUB foo\r\n"),
    case("two arguments", b"HPUB foo 18\r\n" + BLOCK + b"\r\n"),
    case("five arguments", b"HPUB foo bar baz 18 18\r\n" + BLOCK + b"\r\n"),
    case("headers not negotiated", raw_block(BLOCK), rb"<closed>", headers=False, no_responders=False),
    case("headers absent in CONNECT", raw_block(BLOCK), rb"<closed>", headers=None, no_responders=None),
    case("verbose", SUB + raw_block(BLOCK, b"hi"), rb"\+OK", verbose=True),
    case("pedantic wildcard", b"HPUB a.* 18 18\r\n" + BLOCK + b"\r\n", rb"Invalid Publish", pedantic=True),
    case("garbage block", SUB + raw_block(b"garbage"), rb"HMSG foo 1 7 7\r\ngarbage"),
    case("binary block", SUB + raw_block(b"\x00\xff\r\n\r\n"), rb"HMSG foo 1 6 6"),
    case("status line", SUB + raw_block(b"NATS/1.0 503\r\n\r\n"), rb"NATS/1.0 503"),
    case("status with text", SUB + raw_block(b"NATS/1.0 404 No Messages\r\n\r\n"), rb"404 No Messages"),
    case("no final blank line", SUB + raw_block(b"NATS/1.0\r\nA: b\r\n"), rb"HMSG"),
    case("repeated key", SUB + hpub("foo", b"A: 1\r\nA: 2\r\na: 3\r\n", b"x"), rb"A: 1\r\nA: 2\r\na: 3"),
    case("odd values", SUB + hpub("foo", b"A:\r\nB:  two  \r\nC: \xc3\xa9:,;\r\n"), rb"B:  two  "),
    case("block of 64 KiB", SUB + hpub("foo", b"A: " + b"x" * 65600 + b"\r\n"), rb"HMSG"),
    case(
        "reserved header passes", SUB + hpub("foo", b"Nats-Msg-Id: 1\r\nNats-Expected-Stream: S\r\n"), rb"Nats-Msg-Id"
    ),
    case("echo off", SUB + raw_block(BLOCK), rb"PONG", echo=False),
    case("request info is spoofed", SUB + hpub("foo", b"Nats-Request-Info: {}\r\nA: b\r\n", b"x"), rb"HMSG|MSG"),
    case("request info alone", SUB + hpub("foo", b"Nats-Request-Info: {}\r\n", b"x")),
    case("request info other case", SUB + hpub("foo", b"nats-request-info: {}\r\n", b"x")),
]


def headers_are_stripped_for_plain_clients(talk: Talk) -> None:
    plain = talk.connect("plain", headers=False, no_responders=False)
    plain.send(SUB).sync()
    talk.connect("writer").send(raw_block(BLOCK, b"hi") + raw_block(BLOCK)).sync()
    plain.sync()
    talk.must_show(rb"MSG foo 1 2\r\nhi")


def headers_with_reply_are_stripped(talk: Talk) -> None:
    talk.any_order = True
    plain = talk.connect("plain", headers=False, no_responders=False)
    plain.send(SUB + b"SUB foo q 2\r\n").sync()
    talk.connect("writer").send(b"HPUB foo re.ply 18 20\r\n" + BLOCK + b"hi\r\n").sync()
    plain.sync()


def header_in_pieces(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(SUB).sync()
    for piece in (b"HP", b"UB foo 1", b"8 20\r\nNATS/1", b".0\r", b"\nA: b\r\n\r\nh", b"i", b"\r", b"\n"):
        peer.send(piece)
    peer.sync()
    talk.must_show(rb"HMSG foo 1 18 20")


def one_inbox_of_two_is_told(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(b"SUB in 1\r\nSUB in 2\r\n" + pub("none.5", b"", "in"))
    talk.note(peer.sync().count(b"503"))
    peer.received.clear()


NO_RESPONDERS: list[Script] = [
    one_inbox_of_two_is_told,
    case(
        "nobody",
        b"SUB in 1\r\n" + pub("none.1", b"x", "in"),
        rb"HMSG in 1 \d+ \d+\r\nNATS/1.0 503\r\nNats-Subject: none.1",
    ),
    case("nobody with header", b"SUB in 1\r\n" + hpub("none.2", b"A: b\r\n", b"x", "in"), rb"503"),
    case("nobody, wildcard inbox", b"SUB in.* 9\r\n" + pub("none.3", b"", "in.7"), rb"HMSG in.7 9"),
    case("nobody, queue inbox", b"SUB in q 1\r\n" + pub("none.4", b"", "in"), rb"PONG"),
    case("nobody, no inbox", pub("none.6", b"", "in"), rb"PONG"),
    case("no reply", b"SUB none.7 1\r\nUNSUB 1\r\n" + pub("none.7"), rb"PONG"),
    case("not asked for", b"SUB in 1\r\n" + pub("none.8", b"", "in"), rb"PONG", no_responders=False),
    case("somebody", b"SUB in 1\r\nSUB some 2\r\n" + pub("some", b"", "in"), rb"MSG some 2 in 0"),
    case("own sub with echo off", b"SUB in 1\r\nSUB own 2\r\n" + pub("own", b"", "in"), rb"PONG", echo=False),
    case("inbox with auto unsubscribe", b"SUB in 1\r\nUNSUB 1 1\r\n" + pub("none.9", b"", "in") * 2, rb"503"),
    case("verbose", b"SUB in 1\r\n" + pub("none.10", b"", "in"), rb"503", verbose=True),
    case("subject with wildcard", b"SUB in 1\r\n" + pub("none.*", b"", "in"), rb"PONG"),
    case("reply is the subject", b"SUB in 1\r\n" + pub("none.11", b"", "none.11"), rb"PONG"),
    case("echo off still tells", b"SUB in 1\r\n" + pub("none.12", b"", "in"), rb"PONG", echo=False),
]

SCRIPTS = [headers_are_stripped_for_plain_clients, headers_with_reply_are_stripped, header_in_pieces]


@each([*CASES, *SCRIPTS])
def test_headers(both: Both, script: Script) -> None:
    both().agree(script)


@each(NO_RESPONDERS)
def test_no_responders(both: Both, script: Script) -> None:
    both().agree(script)
