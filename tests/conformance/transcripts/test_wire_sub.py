"""SUB and UNSUB: grammar, ids, duplicates, automatic unsubscribe."""

from __future__ import annotations

from support.servers import Both
from support.transcript import Script, Talk, case, each, hpub, in_any_order, pub

HI = pub("foo", b"hi")

SUB_GRAMMAR: list[Script] = [
    case("plain", b"SUB foo 1\r\n" + HI, rb"MSG foo 1 2"),
    case("lower case", b"sub foo 1\r\n" + HI, rb"MSG foo 1 2"),
    case("tabs and blanks", b"SUB\t foo \t 1 \t\r\n" + HI, rb"MSG foo 1 2"),
    case("line ends with LF", b"SUB foo 1\n" + HI, rb"MSG foo 1 2"),
    case("queue", b"SUB foo q 1\r\n" + HI, rb"MSG foo 1 2"),
    case("id is text", b"SUB foo my-id_1.x*>\r\n" + HI, rb"MSG foo my-id_1.x\*> 2"),
    case("id is long", b"SUB foo " + b"9" * 300 + b"\r\n" + HI, rb"MSG foo 9{300} 2"),
    case("id is binary", b"SUB foo \x01\xff\r\n" + HI, rb"MSG foo \x01\xff 2"),
    case("no arguments", b"SUB\r\n"),
    case("blank argument", b"SUB \r\n", rb"<closed>"),
    case("one argument", b"SUB foo\r\n", rb"<closed>"),
    case("four arguments", b"SUB foo q 1 2\r\n", rb"<closed>"),
    case("no blank after op", b"SUBfoo 1\r\n"),
    case("op cut short", b"SU foo 1\r\n", rb"Unknown Protocol"),
    case("op is longer", b"SUBS foo 1\r\n"),
    case("verbose", b"SUB foo 1\r\nSUB bar q 2\r\nUNSUB 1\r\nUNSUB 9\r\n", rb"(\+OK\r\n){4}", verbose=True),
    case("same id twice", b"SUB foo 1\r\nSUB bar 1\r\n" + pub("foo") + pub("bar"), rb"MSG foo 1", verbose=True),
    case("same id and subject twice", b"SUB foo 1\r\nSUB foo 1\r\n" + HI, rb"MSG foo 1"),
    case("same id with queue", b"SUB foo q 1\r\nSUB foo 1\r\n" + HI, rb"MSG foo 1"),
    case("id again after UNSUB", b"SUB foo 1\r\nUNSUB 1\r\nSUB bar 1\r\n" + HI + pub("bar"), rb"MSG bar 1"),
    in_any_order(case("two ids", b"SUB foo 1\r\nSUB foo 2\r\nSUB > 3\r\n" + HI, rb"MSG foo 2")),
    case("id 0", b"SUB foo 0\r\n" + HI, rb"MSG foo 0 2"),
    in_any_order(case("id 01 is not id 1", b"SUB foo 1\r\nSUB foo 01\r\n" + HI + b"UNSUB 01\r\n" + HI, rb"MSG foo 1")),
]

UNSUB_GRAMMAR: list[Script] = [
    case("unsub", b"SUB foo 1\r\nUNSUB 1\r\n" + HI, rb"PONG"),
    case("unsub lower case", b"SUB foo 1\r\nunsub 1\r\n" + HI, rb"PONG"),
    case("unsub tabs and blanks", b"SUB foo 1\r\nUNSUB\t 1 \t\r\n" + HI, rb"PONG"),
    case("unsub LF", b"SUB foo 1\r\nUNSUB 1\n" + HI, rb"PONG"),
    case("unsub unknown id", b"UNSUB 77\r\n", rb"\+OK", verbose=True),
    case("unsub unknown id with max", b"UNSUB 77 3\r\nSUB foo 77\r\n" + HI * 5, rb"MSG"),
    case("unsub no arguments", b"UNSUB\r\n"),
    case("unsub blank argument", b"UNSUB \r\n", rb"<closed>"),
    case("unsub three arguments", b"UNSUB 1 2 3\r\n", rb"<closed>"),
    case("unsub text for max", b"SUB foo 1\r\nUNSUB 1 x\r\n" + HI),
    case("unsub negative max", b"SUB foo 1\r\nUNSUB 1 -1\r\n" + HI),
    case("unsub huge max", b"SUB foo 1\r\nUNSUB 1 99999999999999999999\r\n" + HI),
    case("unsub max 0", b"SUB foo 1\r\nUNSUB 1 0\r\n" + HI),
    case("unsub op cut short", b"UNSU 1\r\n", rb"Unknown"),
]

AUTO_UNSUB = [
    case("max 1", b"SUB foo 1\r\nUNSUB 1 1\r\n" + HI * 3, rb"MSG foo 1"),
    case("max 2", b"SUB foo 1\r\nUNSUB 1 2\r\n" + HI * 3, rb"MSG foo 1"),
    case("max counts from SUB", b"SUB foo 1\r\n" + HI * 2 + b"UNSUB 1 3\r\n" + HI * 3, rb"MSG foo 1"),
    case("max already reached", b"SUB foo 1\r\n" + HI * 2 + b"UNSUB 1 2\r\n" + HI * 2, rb"MSG foo 1"),
    case("max already passed", b"SUB foo 1\r\n" + HI * 3 + b"UNSUB 1 1\r\n" + HI * 2, rb"MSG foo 1"),
    case("max raised", b"SUB foo 1\r\nUNSUB 1 1\r\nUNSUB 1 3\r\n" + HI * 5, rb"MSG foo 1"),
    case("max lowered", b"SUB foo 1\r\nUNSUB 1 9\r\nUNSUB 1 2\r\n" + HI * 5, rb"MSG foo 1"),
    case("max then plain UNSUB", b"SUB foo 1\r\nUNSUB 1 3\r\n" + HI + b"UNSUB 1\r\n" + HI, rb"MSG foo 1"),
    case("max then 0", b"SUB foo 1\r\nUNSUB 1 3\r\n" + HI + b"UNSUB 1 0\r\n" + HI, rb"MSG foo 1"),
    case("max on queue", b"SUB foo q 1\r\nUNSUB 1 2\r\n" + HI * 4, rb"MSG foo 1"),
    case("max on wildcard", b"SUB f.> 1\r\nUNSUB 1 2\r\n" + pub("f.a") + pub("f.b") + pub("f.c"), rb"MSG f.b"),
    case("id again after max", b"SUB foo 1\r\nUNSUB 1 1\r\n" + HI + b"SUB bar 1\r\n" + HI + pub("bar"), rb"MSG bar"),
    case("same id while max runs", b"SUB foo 1\r\nUNSUB 1 2\r\nSUB bar 1\r\n" + HI * 3 + pub("bar"), rb"MSG"),
    case("header messages count", b"SUB foo 1\r\nUNSUB 1 2\r\n" + hpub("foo", b"A: b\r\n") * 3, rb"HMSG"),
    case("verbose", b"SUB foo 1\r\nUNSUB 1 1\r\n" + HI * 2, rb"MSG", verbose=True),
]


def unsubscribed_in_time_for_another_publisher(talk: Talk) -> None:
    talk.any_order = True
    reader, writer = talk.connect("reader"), talk.connect("writer")
    reader.send(b"SUB foo 1\r\nSUB foo 2\r\n").sync()
    writer.send(HI).sync()
    reader.send(b"UNSUB 1\r\n").sync()
    writer.send(HI).sync()
    reader.sync()


def max_is_exact_for_another_publisher(talk: Talk) -> None:
    reader, writer = talk.connect("reader"), talk.connect("writer")
    reader.send(b"SUB foo 1\r\nUNSUB 1 10\r\n").sync()
    writer.send(HI * 25).sync()
    reader.sync()
    talk.note(bytes(reader.received).count(b"MSG foo 1 2"))


def max_on_queue_members_hands_over(talk: Talk) -> None:
    first, second, writer = talk.connect("first"), talk.connect("second"), talk.connect("writer")
    first.send(b"SUB foo q 1\r\nUNSUB 1 5\r\n").sync()
    second.send(b"SUB foo q 2\r\nUNSUB 2 5\r\n").sync()
    writer.send(HI * 30).sync()
    first.sync()
    second.sync()


def ids_belong_to_their_connection(talk: Talk) -> None:
    a, b = talk.connect("a"), talk.connect("b")
    a.send(b"SUB foo 1\r\n").sync()
    b.send(b"SUB bar 1\r\nUNSUB 1\r\n").sync()
    b.send(HI).sync()
    a.sync()


def closed_client_gets_nothing_more(talk: Talk) -> None:
    a, b = talk.connect("a"), talk.connect("b")
    a.send(b"SUB gone 1\r\nSUB\r\n").until_closed()
    b.send(b"SUB in 1\r\n" + pub("gone", b"x", "in")).sync()
    talk.must_show(rb"503")


CASES: list[Script] = [*SUB_GRAMMAR, *UNSUB_GRAMMAR, *AUTO_UNSUB]
SCRIPTS = [
    unsubscribed_in_time_for_another_publisher,
    max_is_exact_for_another_publisher,
    max_on_queue_members_hands_over,
    ids_belong_to_their_connection,
    closed_client_gets_nothing_more,
]


@each([*CASES, *SCRIPTS])
def test_subscribe(both: Both, script: Script) -> None:
    both().agree(script)
