"""The parser kernel against its plain model: the same calls, however the bytes are cut into reads."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from models import wire as model
from slipstream.kernels.wire import parser as wire
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest

MAX_LINE = 40
MAX_PAYLOAD = 200_000
KINDS = {
    wire.UNKNOWN_OPERATION: "unknown",
    wire.BAD_ARGUMENTS: "args",
    wire.CONTROL_LINE_TOO_LONG: "line",
    wire.PAYLOAD_TOO_LARGE: "payload",
    wire.HEADERS_NOT_NEGOTIATED: "headers",
}


class Recorder:
    """A sink that writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_connect(self, text: bytes) -> None:
        self.events.append(("connect", text))

    def on_publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        self.events.append(("publish", subject, reply, header_size, body))

    def on_sub(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self.events.append(("sub", subject, queue, sid))

    def on_unsub(self, sid: bytes, max_msgs: int) -> None:
        self.events.append(("unsub", sid, max_msgs))

    def on_ping(self) -> None:
        self.events.append(("ping",))

    def on_pong(self) -> None:
        self.events.append(("pong",))

    def on_peer_error(self, text: bytes) -> None:
        self.events.append(("-err",))

    def on_peer_info(self) -> None:
        self.events.append(("info",))

    def on_violation(self, kind: int, line: bytes) -> None:
        self.events.append(("violation", KINDS[kind]))


def new_parser(recorder: Recorder) -> wire.Parser:
    parser = wire.Parser(recorder, recorder, Delivery(1), MAX_PAYLOAD, MAX_LINE)  # type: ignore[arg-type]
    parser.headers = True
    parser.rebind(Interest())
    return parser


def fed(chunks: list[bytes]) -> list[tuple[object, ...]]:
    recorder = Recorder()
    parser = new_parser(recorder)
    for chunk in chunks:
        parser.feed(chunk)
    return recorder.events


def lent(chunks: list[bytes]) -> list[tuple[object, ...]]:
    """The way of the listener: the parser says where to read to."""
    recorder = Recorder()
    parser = new_parser(recorder)
    shared = bytearray(262_144)
    for chunk in chunks:
        while chunk:
            room = memoryview(parser.lend(shared))
            size = min(len(room), len(chunk))
            room[:size] = chunk[:size]
            room.release()
            parser.filled(shared, size)
            chunk = chunk[size:]
    return recorder.events


token = st.binary(min_size=1, max_size=8).filter(lambda b: not set(b) & set(b" \t\r\n"))
blank = st.sampled_from([b" ", b"  ", b"\t", b" \t "])
ending = st.sampled_from([b"\r\n", b"\n"])


@st.composite
def good_operation(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["pub", "hpub", "sub", "unsub", "connect", "ping", "pong", "+ok"]))
    gap, end = draw(blank), draw(ending)
    verb = draw(st.sampled_from([kind.upper(), kind, kind.title()])).encode()
    if kind in ("ping", "pong", "+ok"):
        return verb + draw(st.sampled_from([b"", b" x", b"junk"])) + end
    if kind == "connect":
        return verb + b" " + draw(st.binary(max_size=20).filter(lambda b: b"\n" not in b)) + end
    names = draw(st.lists(token, min_size=1, max_size=2))
    if kind == "sub":
        return gap.join([verb, *names, draw(token)]) + end
    if kind == "unsub":
        return gap.join([verb, names[0], *draw(st.sampled_from([[], [b"5"], [b"x"]]))]) + end
    body = draw(st.one_of(st.binary(max_size=30), st.sampled_from([b"z" * 70_000, b"\r\nPING\r\n"])))
    sizes = [str(len(body)).encode()]
    if kind == "hpub":
        sizes.insert(0, str(draw(st.integers(0, len(body)))).encode())
    return gap.join([verb, *names, *sizes]) + end + body + b"\r\n"


noise = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [
            b"PUB a -1\r\n",
            b"PUB a 99999999999\r\n",
            b"PUB a 200001\r\n",
            b"HPUB a 5 2\r\n",
            b"SUB\r\n",
            b"UNSUB \r\n",
            b"PUB \r\n",
        ]
    ),
    st.sampled_from(
        [b"INFO {}\r\n", b"-ERR 'x'\r\n", b"MSG a 1 2\r\n", b"PUB a 3\r\nabcdef\r\n", b"SUB " + b"a" * 60 + b" 1\r\n"]
    ),
)


@st.composite
def split_stream(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    parts = draw(st.lists(good_operation(), max_size=6))
    if draw(st.booleans()):
        parts.append(draw(noise))
    data = b"".join(parts)
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    edges = [0, *cuts, len(data)]
    return data, [data[a:b] for a, b in itertools.pairwise(edges)]


@given(split_stream())
@example((b"PUB a 3\r\nabcX", [b"PUB a 3\r\nabcX"]))
@example((b"pi", [b"p", b"i"]))
@example((b"C" + b"o" * 3, [b"Cooo"]))
@example((b"-ERR " + b"x" * 400 + b"\r\n", [b"-ERR " + b"x" * 390, b"x" * 10 + b"\r\n"]))
@example((b"INFO" + b"x" * 400 + b"\r\n", [b"INFO" + b"x" * 390, b"x" * 10 + b"\r\n"]))
def test_every_split_gives_the_calls_of_the_model(case: tuple[bytes, list[bytes]]) -> None:
    data, chunks = case
    expected = model.parse(data, max_line=MAX_LINE, max_payload=MAX_PAYLOAD)
    assert fed([data]) == expected
    assert fed(chunks) == expected
    assert lent(chunks) == expected


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_break_the_parser(data: bytes) -> None:
    expected = model.parse(data, max_line=MAX_LINE, max_payload=MAX_PAYLOAD)
    assert fed([data]) == expected
    assert fed([data[i : i + 1] for i in range(len(data))]) == expected


def test_a_large_message_is_received_in_place() -> None:
    body = bytes(range(256)) * 700
    data = b"PUB big 179200\r\n" + body + b"\r\nPING\r\n"
    chunks = [data[i : i + 1000] for i in range(0, len(data), 1000)]
    assert lent(chunks) == [("publish", b"big", None, 0, body), ("ping",)]


def test_what_is_held_is_bounded_by_the_limits() -> None:
    recorder = Recorder()
    parser = new_parser(recorder)
    parser.feed(b"PUB a 150000\r\n" + b"x" * 1000)
    assert parser.unparsed.held <= 150_000 + MAX_LINE
    parser = new_parser(recorder)
    parser.feed(b"SUB " + b"a" * 500)
    assert parser.dead and parser.unparsed.held == 0
