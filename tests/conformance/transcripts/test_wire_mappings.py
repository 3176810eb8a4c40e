"""Subject mappings: every function of a destination, weights, and the order with permissions and no responders."""

from __future__ import annotations

from collections import Counter

from support.servers import Both
from support.transcript import Deliberate, Script, Talk, case, each, hpub, pub

CONFIG = """
mappings {
  "old": "new"
  "same.*": "same.$1"
  "move.*": "moved.$1"
  "swap.*.*": "s.{{wildcard(2)}}.{{wildcard(1)}}"
  "dollar.*.*": "d.$2.$1"
  "tail.>": "t.>"
  "tok.*.>": "tk.$1.>"
  "part.*": "p.{{partition(4,1)}}.{{wildcard(1)}}"
  "part2.*.*": "p2.{{partition(10,1,2)}}.$1.$2"
  "whole.*": "wh.{{partition(7)}}.$1"
  "split.*": "sp.{{split(1,-)}}"
  "splitl.*": "sl.{{splitFromLeft(1,3)}}"
  "splitr.*": "sr.{{splitFromRight(1,3)}}"
  "slicel.*": "cl.{{sliceFromLeft(1,2)}}"
  "slicer.*": "cr.{{sliceFromRight(1,2)}}"
  "left.*": "l.{{left(1,2)}}"
  "right.*": "r.{{right(1,2)}}"
  "chain.one": "chain.two"
  "chain.two": "chain.three"
  "rand.*": "rnd.{{random(3)}}.$1"
  "weigh": [ { destination: "w.a", weight: 20% }, { destination: "w.b", weight: 80% } ]
  "rest": [ { destination: "rest.a", weight: 50% } ]
  "lossy": [ { destination: "lossy", weight: 50% } ]
}
authorization {
  users: [
    { user: free, password: p }
    { user: tight, password: p, permissions: { publish: ["old", "move.*"], subscribe: ">" } }
    { user: dest, password: p, permissions: { publish: "new", subscribe: ">" } }
  ]
}
"""
SUBJECTS = {
    "static": ["old", "old.x", "new", "OLD"],
    "wildcards": ["same.a", "move.a", "move.a.b", "move.*", "swap.a.b", "dollar.x.y", "tail.a", "tail.a.b.c", "tail"],
    "tokens": ["tok.a.b", "tok.a.b.c", "tok.a"],
    "partition": [f"part.{word}" for word in ("a", "b", "c", "d", "hello", "été", "0", "1", "x" * 100)],
    "partition of two": ["part2.a.b", "part2.b.a", "part2.foo.bar", "part2.1.2", "part2.12.x", "part2.1.2x"],
    "partition of all": ["whole.a", "whole.b", "whole.c", "whole.d"],
    "split": ["split.a-b-c", "split.abc", "split.-a-", "split.a--b"],
    "split from left": ["splitl.abcdef", "splitl.abc", "splitl.ab", "splitl.été"],
    "split from right": ["splitr.abcdef", "splitr.abc", "splitr.ab"],
    "slice from left": ["slicel.abcdefg", "slicel.ab", "slicel.a", "slicel.abcd"],
    "slice from right": ["slicer.abcdefg", "slicer.ab", "slicer.a", "slicer.abcd"],
    "left": ["left.abc", "left.ab", "left.a"],
    "right": ["right.abc", "right.ab", "right.a"],
    "chain": ["chain.one", "chain.two"],
}
FREE = {"user": "free", "pass": "p"}


def published(name: str, subjects: list[str]) -> Script:
    """A script that publishes subjects and sees what they become."""
    data = b"SUB > 1\r\n" + b"".join(pub(subject, b"x") for subject in subjects)
    return case(name, data, rb"MSG", **FREE)


CASES: list[Script] = [
    Deliberate(published("split of a separator", ["split.-", "split.a-b"]), "no token is ever empty: ADR 4"),
    *[published(name, subjects) for name, subjects in SUBJECTS.items()],
    case("headers and reply", b"SUB new 1\r\n" + hpub("old", b"A: b\r\n", b"x", "old"), rb"HMSG new 1 old", **FREE),
    case("no interest in the source", b"SUB old 1\r\n" + pub("old", b"x"), rb"PONG", **FREE),
    case("no responders", b"SUB in 1\r\n" + pub("old", b"x", "in"), rb"503", **FREE),
    case("answered", b"SUB in 1\r\nSUB new 2\r\n" + pub("old", b"x", "in"), rb"MSG new 2 in 1", **FREE),
    case(
        "right for the source", b"SUB > 1\r\n" + pub("old") + pub("move.x") + pub("new"), user="tight", **{"pass": "p"}
    ),
    case("right for the destination", b"SUB > 1\r\n" + pub("old") + pub("new"), user="dest", **{"pass": "p"}),
    case("verbose", b"SUB new 1\r\n" + pub("old"), rb"\+OK", verbose=True, **FREE),
    case("pedantic", b"SUB > 1\r\n" + pub("move.*"), rb"Invalid", pedantic=True, **FREE),
    case("echo off", b"SUB new 1\r\n" + pub("old"), rb"PONG", echo=False, **FREE),
]


def tally(talk: Talk, subject: str, count: int = 600) -> Counter[str]:
    """Where so many messages of one subject went."""
    peer = talk.connect(**FREE)
    data = peer.send(b"SUB > 1\r\n" + pub(subject, b"x") * count).sync()
    peer.received.clear()
    return Counter(line.split(b" ")[1].decode() for line in data.split(b"\r\n") if line.startswith(b"MSG "))


def note_shares(talk: Talk, counts: Counter[str], expected: dict[str, float]) -> None:
    """Notes which destinations were used and whether each share is within a fifth of all of what it should be.

    For 600 messages that is ten standard deviations: chance does not fail it.
    """
    total = 600
    talk.note(sorted(counts))
    talk.note({name: abs(counts[name] / total - share) < 0.2 for name, share in expected.items()})


def weights(talk: Talk) -> None:
    counts = tally(talk, "weigh")
    note_shares(talk, counts, {"w.a": 0.2, "w.b": 0.8})
    talk.note(sum(counts.values()))


def rest_keeps_its_subject(talk: Talk) -> None:
    counts = tally(talk, "rest")
    note_shares(talk, counts, {"rest.a": 0.5, "rest": 0.5})
    talk.note(sum(counts.values()))


def loss(talk: Talk) -> None:
    note_shares(talk, tally(talk, "lossy"), {"lossy": 0.5})


def random_token(talk: Talk) -> None:
    note_shares(talk, tally(talk, "rand.x"), {"rnd.0.x": 0.33, "rnd.1.x": 0.33, "rnd.2.x": 0.33})


ACCOUNT_CONFIG = """
accounts {
  A {
    users: [ { user: a, password: p } ]
    mappings: { "x.*": "y.$1" }
    exports: [ { service: "svc" }, { stream: "y.>" } ]
  }
  B {
    users: [ { user: b, password: p } ]
    mappings: { "go": "svc", "y.in": "z.in" }
    imports: [ { service: { account: A, subject: "svc" } }, { stream: { account: A, subject: "y.>" } } ]
  }
}
"""


def mapping_of_one_account(talk: Talk) -> None:
    a, b = talk.connect("a", user="a", **{"pass": "p"}), talk.connect("b", user="b", **{"pass": "p"})
    b.send(b"SUB > 1\r\n").sync()
    a.send(b"SUB > 1\r\n" + pub("x.1", b"a")).sync()
    b.send(pub("x.1", b"b")).sync()
    a.sync()


def mapping_into_an_import(talk: Talk) -> None:
    a, b = talk.connect("a", user="a", **{"pass": "p"}), talk.connect("b", user="b", **{"pass": "p"})
    a.send(b"SUB svc 1\r\n").sync()
    b.send(b"SUB z.> 1\r\nSUB y.> 2\r\n" + pub("go", b"?")).sync()
    a.send(pub("y.in", b"x")).sync()
    b.sync()
    a.sync()


@each([*CASES, weights, rest_keeps_its_subject, loss, random_token])
def test_mappings(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)


@each([mapping_of_one_account, mapping_into_an_import])
def test_account_mappings(both: Both, script: Script) -> None:
    both(ACCOUNT_CONFIG).agree(script)
