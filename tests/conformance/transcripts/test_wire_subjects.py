"""Subjects: which are valid, which match, what odd bytes do."""

from __future__ import annotations

from support.servers import Both
from support.transcript import Case, Deliberate, Script, Talk, case, each, in_any_order, pub

CONTROL_BYTES = "control bytes in subjects are refused: ADR 4"

LITERALS = [
    "a",
    "a.b",
    "a.b.c",
    "b",
    "a.b.c.d",
    "A",
    "a.bb",
    "ab",
    "a.b.",
    ".a",
    "a..b",
    "a.*",
    "a.>",
    "*",
    ">",
    "a.*.c",
]
PATTERNS = ["a", "a.b", "*", ">", "a.*", "*.b", "*.*", "a.>", "a.*.c", "*.*.>", "a.b.*", "a.b.>", "*.>", "a.b.c"]
LITERAL_WILDCARDS = ["a*", "*a", "a>", ">a", "a.b*", "a.>b", "a.**", "a.>>", "a.*b.c", "**"]
INVALID = [">.a", "a.>.b", "a..b", ".a", "a.", ".", "..", "*.>.*", ">.>", "a.*.", ".*", ">."]


def matches(pattern: str) -> Case:
    """A script that publishes every literal to one subscription."""
    data = f"SUB {pattern} 1\r\n".encode() + b"".join(pub(literal, b"x") for literal in LITERALS)
    return case(f"SUB {pattern}", data, rb"PONG")


CASES = [
    *[matches(pattern) for pattern in PATTERNS],
    *[matches(pattern) for pattern in LITERAL_WILDCARDS],
    *[case(f"invalid {subject}", f"SUB {subject} 1\r\n".encode(), rb"Invalid Subject") for subject in INVALID],
    case("invalid verbose", b"SUB a..b 1\r\n" + b"SUB foo 1\r\n" + pub("foo"), rb"MSG foo 1", verbose=True),
    case("invalid pedantic", b"SUB a..b 1\r\nSUB a.> 2\r\n", rb"Invalid Subject", pedantic=True),
    case("invalid with queue", b"SUB a..b q 1\r\n", rb"Invalid Subject"),
    case("id of an invalid SUB is free", b"SUB a..b 1\r\nSUB foo 1\r\n" + pub("foo"), rb"MSG foo 1"),
    case("literal wildcards match themselves", b"SUB a* 1\r\n" + pub("a*", b"x") + pub("ab", b"y"), rb"MSG a\* 1"),
    case("literal subject with star in it", b"SUB x.a* 1\r\nSUB x.* 2\r\n" + pub("x.a*"), rb"MSG x.a\* 2"),
    case("publish star to star", b"SUB s.* 1\r\n" + pub("s.*", b"x"), rb"PONG"),
    case("publish > to literal", b"SUB s.a 1\r\n" + pub("s.>", b"x"), rb"PONG"),
    case("case matters", b"SUB foo 1\r\nSUB FOO 2\r\n" + pub("Foo") + pub("FOO"), rb"MSG FOO 2"),
    case("UTF-8", "SUB été.日本 1\r\n".encode() + pub("été.日本", b"x"), rb"MSG .* 1 1"),
    case("invalid UTF-8", b"SUB \xff\xfe 1\r\nPUB \xff\xfe 0\r\n\r\n"),
    Deliberate(case("NUL in SUB", b"SUB a\x00b 1\r\nPUB a\x00b 0\r\n\r\n"), CONTROL_BYTES),
    Deliberate(case("NUL in PUB", b"SUB > 1\r\nPUB a\x00b 0\r\n\r\nUNSUB 1\r\n"), CONTROL_BYTES),
    case("control bytes", b"SUB a\x01\x1f\x7f 1\r\nPUB a\x01\x1f\x7f 0\r\n\r\n"),
    case("vertical tab", b"SUB a\x0bb 2\r\nPUB a\x0bb 0\r\n\r\n", rb"MSG"),
    Deliberate(case("form feed", b"SUB a\x0cb 1\r\nPUB a\x0cb 0\r\n\r\n"), CONTROL_BYTES),
    Deliberate(case("CR inside", b"SUB a\rb 1\r\n"), CONTROL_BYTES),
    Deliberate(case("CR inside PUB", b"PUB a\rb 0\r\n\r\n"), CONTROL_BYTES),
    case("no-break space", "SUB a\u00a0b 1\r\nPUB a\u00a0b 0\r\n\r\n".encode()),
    case("quotes and braces", b"SUB {\"a\"}.'b' 1\r\nPUB {\"a\"}.'b' 0\r\n\r\n", rb"MSG"),
    case("reply with odd bytes", b"SUB foo 1\r\nPUB foo r\x01\xff.> 0\r\n\r\n", rb"MSG foo 1"),
    Deliberate(case("NUL in a reply", b"SUB foo 1\r\nPUB foo r\x00r 0\r\n\r\n"), CONTROL_BYTES),
    Deliberate(case("NUL in a queue", b"SUB foo q\x00q 1\r\nPUB foo 0\r\n\r\n"), CONTROL_BYTES),
    case("queue with odd bytes", b"SUB foo q\x01\xff 1\r\nPUB foo 0\r\n\r\n"),
    case("queue with wildcard", b"SUB foo a.* 1\r\nSUB foo > 2\r\nSUB foo a..b 3\r\nPUB foo 0\r\n\r\n"),
    case("many tokens", b"SUB " + b"t." * 254 + b"t 1\r\nPUB " + b"t." * 254 + b"t 0\r\n\r\n", rb"MSG t"),
    case("more than 255 tokens", b"SUB " + b"t." * 600 + b"t 1\r\nPUB " + b"t." * 600 + b"t 0\r\n\r\n"),
    case("many wildcards", b"SUB " + b"*." * 99 + b"> 1\r\nPUB " + b"t." * 120 + b"t 0\r\n\r\n", rb"MSG t"),
    case("long token", b"SUB " + b"x" * 3000 + b" 1\r\nPUB " + b"x" * 3000 + b" 0\r\n\r\n", rb"MSG x"),
    case("both kinds of match", b"SUB a.b 1\r\nSUB a.* 2\r\nSUB a.> 3\r\nSUB > 4\r\n" + pub("a.b") + b"UNSUB 4\r\n"),
]


def many_subscriptions_then_few(talk: Talk) -> None:
    """The table must shrink as well as grow: removed patterns match no more."""
    peer = talk.connect()
    patterns = [f"{a}.{b}" for a in ("x", "y", "*") for b in ("1", "2", "*", ">")]
    peer.send(b"".join(f"SUB {pattern} {index}\r\n".encode() for index, pattern in enumerate(patterns)))
    peer.send(pub("x.1", b"all")).sync()
    peer.send(b"".join(f"UNSUB {index}\r\n".encode() for index in range(0, len(patterns), 2)))
    peer.send(pub("x.1", b"odd") + pub("y.2.z", b"odd")).sync()


def cached_match_sees_new_interest(talk: Talk) -> None:
    reader, writer = talk.connect("reader"), talk.connect("writer")
    writer.send(pub("cache.1", b"nobody") * 3).sync()
    reader.send(b"SUB cache.* 1\r\n").sync()
    writer.send(pub("cache.1", b"one")).sync()
    reader.send(b"SUB cache.1 2\r\nSUB > 3\r\n").sync()
    writer.send(pub("cache.1", b"three")).sync()
    reader.send(b"UNSUB 3\r\n").sync()


SCRIPTS = [many_subscriptions_then_few, cached_match_sees_new_interest]


@each([*CASES, *SCRIPTS])
def test_subjects(both: Both, script: Script) -> None:
    both().agree(in_any_order(script))
