"""The kernels of the client's end of the wire against the plain model, fed in every split."""

import itertools
import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import loadgen as model
from slipstream.kernels.client import pubframes, serverdecode, serverscan
from slipstream.limits import LOADGEN_FRAME_BYTES_MAX, LOADGEN_LINE_BYTES_MAX

ERROR_BYTES_KEPT = 1024  # of the first -ERR

words = st.sampled_from([b"a", b"foo.bar", b"_INBOX.x", b"\xc3\xa9", b"PING", b"7"])
sids = st.sampled_from([b"1", b"22", b"2147483647"])
blanks = st.sampled_from([b" ", b" ", b"\t", b"  "])
payloads = st.binary(max_size=24) | st.sampled_from([b"PING\r\n", b"MSG a 1 0\r\n\r\n", b"x" * 200])
ends = st.sampled_from([b"\r\n", b"\r\n", b"\n"])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    header = draw(st.sampled_from([None, None, b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n"]))
    payload = draw(payloads)
    args = [draw(words), draw(sids)] + ([draw(words)] if draw(st.booleans()) else [])
    if header is not None:
        args.append(b"%d" % len(header))
    args.append(b"%d" % (len(header or b"") + len(payload)))
    verb = b"MSG" if header is None else b"HMSG"
    head = draw(blanks).join([verb, *args]) + draw(st.sampled_from([b"", b"", b" "]))
    return head + draw(ends) + (header or b"") + payload + b"\r\n"


stamped_messages = st.builds(
    lambda source, seq, sent: b"MSG s 1 20\r\n" + struct.pack("<QQ", source << 48 | seq, sent) + b"tail\r\n",
    st.integers(0, 300),
    st.integers(0, 5),
    st.integers(0, 1000),
)
lines = st.sampled_from(
    [b"+OK\r\n", b"PING\r\n", b"PONG \r\n", b"-ERR 'Stale Connection'\r\n", b'INFO {"a":1} \r\n', b"-ERR\n"]
)
hostile = st.sampled_from(
    [
        b"MSG a 1 99999999999\r\n",
        b"MSG a 1 2147483648\r\n",
        b"MSG a 1 2147483647\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 1x\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 b c 1\r\n",
        b"MSG\r\n",
        b"HMSG a 1 5 4\r\n",
        b"HMSG a 1 5\r\n",
        b"MSG a 1 2\r\nabc\r\n",
        b"MSG a 1 2\r\nab\rX",
        b"msg a 1 0\r\n\r\n",
        b"PINGX\r\n",
        b"\r\n",
        b"\n",
        b"MSG a 1 3\r\nab",
        b"MSG a",
        b"\0",
    ]
)
streams = st.lists(messages() | messages() | stamped_messages | lines, max_size=6).map(b"".join)
any_stream = st.tuples(streams, st.just(b"") | hostile | st.binary(max_size=8), streams).map(b"".join)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(at % (len(data) + 1) for at in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


def scan(pieces: list[bytes], now_ns: int = 0) -> tuple[serverscan.Scanner, bytes, bool]:
    scanner, replies = serverscan.Scanner(stamped=True, reply_payload=b"yes"), b""
    for piece in pieces:
        before = scanner.messages
        try:
            completed = scanner.feed(piece, now_ns=now_ns)
        except ValueError:
            return scanner, replies + scanner.take_replies(), True
        assert completed == scanner.messages - before
        replies += scanner.take_replies()
    return scanner, replies, False


def decode(pieces: list[bytes]) -> tuple[serverdecode.Decoder, list[serverdecode.Message]]:
    decoder = serverdecode.Decoder()
    return decoder, [message for piece in pieces for message in decoder.feed(piece)]


def assert_scanner_agrees(data: bytes, pieces: list[bytes]) -> None:
    reading = model.read(data)
    scanner, replies, broken = scan(pieces, now_ns=500)
    assert broken == reading.broken
    assert scanner.messages == len(reading.messages)
    assert scanner.header_messages == sum(m.has_header for m in reading.messages)
    assert scanner.payload_bytes == sum(len(m.header) + len(m.payload) for m in reading.messages)
    counts = (scanner.pings, scanner.pongs, scanner.oks, scanner.errors, scanner.infos)
    assert counts == tuple(len(reading.lines[verb]) for verb in (b"PING", b"PONG", b"+OK", b"-ERR", b"INFO"))
    errors = reading.lines[b"-ERR"]
    assert scanner.first_error == (
        errors[0][:ERROR_BYTES_KEPT].decode(errors="surrogateescape").strip("'") if errors else None
    )
    assert replies == b"".join(b"PUB %b 3\r\nyes\r\n" % m.reply for m in reading.messages if m.reply)
    assert (scanner.lost, scanner.repeated) == model.losses(reading.stamps())
    latencies = sorted(max(500 - sent, 0) for _, _, sent in reading.stamps())
    if latencies:
        assert latencies[-1] <= scanner.latency_ns(1.0) <= latencies[-1] * 1.032
        assert latencies[0] <= scanner.latency_ns(0.0) <= latencies[0] * 1.032


@pytest.mark.parametrize("kernel", [pubframes, serverdecode, serverscan])
def test_compiled_kernel_is_the_one_loaded(kernel: ModuleType) -> None:
    assert kernel.__file__ is not None and kernel.__file__.endswith(".so")


@given(data=any_stream, cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_scanner_agrees_with_model(data: bytes, cuts: list[int]) -> None:
    assert_scanner_agrees(data, cut(data, cuts))


EVERYTHING = (
    b'INFO {"server_id":"x"} \r\nPONG\r\n+OK\r\nMSG foo 1 5\r\nhello\r\nMSG foo 1 5\r\nPING\n\r\n'
    b"HMSG foo 1 reply.to 12 14\r\nNATS/1.0\r\n\r\nok\r\nMSG foo 1 reply.to 0\r\n\r\nPING\r\n-ERR 'No'\r\n"
    b"MSG s 1 16\r\n" + struct.pack("<QQ", 2, 400) + b"\r\n"
)


def test_scanner_agrees_in_every_split_in_three() -> None:
    for first in range(len(EVERYTHING) + 1):
        for second in range(first, len(EVERYTHING) + 1):
            assert_scanner_agrees(EVERYTHING, [EVERYTHING[:first], EVERYTHING[first:second], EVERYTHING[second:]])


def test_scanner_agrees_byte_by_byte() -> None:
    assert_scanner_agrees(EVERYTHING, [bytes([byte]) for byte in EVERYTHING])


@given(data=any_stream, cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_decoder_agrees_with_model(data: bytes, cuts: list[int]) -> None:
    reading = model.read(data)
    if reading.broken or any(not m.sid.isdigit() for m in reading.messages):
        return
    try:
        decoder, found = decode(cut(data, cuts))
    except ValueError as error:
        assert "beyond the limit" in str(error) and b"2147483647" in data
        return
    assert [(m.subject, str(m.sid), m.reply, m.header, m.payload) for m in found] == [
        (
            m.subject.decode(errors="surrogateescape"),
            m.sid.decode(),
            m.reply.decode(errors="surrogateescape"),
            m.header,
            m.payload,
        )
        for m in reading.messages
    ]
    assert (decoder.pings, decoder.pongs, decoder.oks) == tuple(
        len(reading.lines[v]) for v in (b"PING", b"PONG", b"+OK")
    )
    assert decoder.errors == [e.decode(errors="surrogateescape").strip("'") for e in reading.lines[b"-ERR"]]
    assert decoder.info == (reading.lines[b"INFO"][-1] if reading.lines[b"INFO"] else None)


@given(data=any_stream, cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_decoder_refuses_what_the_model_refuses(data: bytes, cuts: list[int]) -> None:
    if model.read(data).broken:
        with pytest.raises(ValueError, match="malformed"):
            decode(cut(data, cuts))


def test_decoder_takes_a_large_message_in_small_pieces() -> None:
    payload = bytes(range(256)) * 4096
    data = b"MSG big 3 %d\r\n%b\r\nPONG\r\n" % (len(payload), payload)
    decoder, found = decode([data[at : at + 1000] for at in range(0, len(data), 1000)])
    assert [m.payload for m in found] == [payload]
    assert decoder.pongs == 1


@pytest.mark.parametrize("reader", [serverscan.Scanner, serverdecode.Decoder])
def test_endless_line_is_refused(reader: type[serverscan.Scanner] | type[serverdecode.Decoder]) -> None:
    fed = reader()
    piece = b"x" * 4096
    with pytest.raises(ValueError, match="line too long"):
        for _ in range(LOADGEN_LINE_BYTES_MAX // len(piece) + 1):
            fed.feed(piece)


@pytest.mark.parametrize("reader", [serverscan.Scanner, serverdecode.Decoder])
def test_broken_stays_broken(reader: type[serverscan.Scanner] | type[serverdecode.Decoder]) -> None:
    fed = reader()
    for data in (b"nonsense\r\n", b"PING\r\n"):
        with pytest.raises(ValueError, match="malformed"):
            fed.feed(data)
    assert fed.pings == 0


@pytest.mark.parametrize("reader", [serverscan.Scanner, serverdecode.Decoder])
def test_size_beyond_the_buffer_is_refused(reader: type[serverscan.Scanner] | type[serverdecode.Decoder]) -> None:
    fed = reader()
    with pytest.raises(ValueError, match="beyond the buffer"):
        fed.feed(b"PING\r\n", 7)
    fed.feed(bytearray(b"PING\r\nrest"), 6)
    assert fed.pings == 1


def test_decoder_refuses_a_message_beyond_the_limit() -> None:
    with pytest.raises(ValueError, match="beyond the limit"):
        serverdecode.Decoder().feed(b"MSG a 1 %d\r\n" % (LOADGEN_FRAME_BYTES_MAX + 1))


def test_decoder_refuses_a_foreign_sid() -> None:
    with pytest.raises(ValueError, match="sid"):
        serverdecode.Decoder().feed(b"MSG a x 0\r\n\r\n")


@given(subject=words, payload=st.binary(max_size=40), count=st.integers(0, 5), reply=st.just(b"") | words)
def test_encoded_pubs_are_the_plain_frames(subject: bytes, payload: bytes, count: int, reply: bytes) -> None:
    args = b" ".join([subject, *([reply] if reply else []), b"%d" % len(payload)])
    assert pubframes.encode_pubs(subject, payload, count, reply) == (b"PUB %b\r\n%b\r\n" % (args, payload)) * count


@pytest.mark.parametrize(
    ("subject", "count", "reply"),
    [(b"", 1, b""), (b"a b", 1, b""), (b"a\r\nPING", 1, b""), (b"a", -1, b""), (b"a", 1, b"r r"), (b"a", 2**40, b"")],
)
def test_pubs_no_line_can_carry_are_refused(subject: bytes, count: int, reply: bytes) -> None:
    with pytest.raises(ValueError, match=r"subject|reply|negative|limit"):
        pubframes.encode_pubs(subject, b"payload", count, reply)


@given(first=st.integers(1, 2**40), now=st.integers(0, 2**63), source=st.integers(0, 255), count=st.integers(0, 4))
def test_stamps_are_read_back(first: int, now: int, source: int, count: int) -> None:
    frames = bytearray(pubframes.encode_pubs(b"s", b"x" * 20, count))
    size = len(pubframes.encode_pubs(b"s", b"x" * 20, 1))
    assert pubframes.stamp_pubs(frames, size, size - 22, first, now, source) == first + count
    reading = model.read(bytes(frames).replace(b"PUB s 20", b"MSG s 1 20"))
    assert reading.stamps() == [(source, first + index, now) for index in range(count)]


@pytest.mark.parametrize(
    ("frame_size", "payload_at", "first", "source"),
    [(0, 0, 1, 0), (10, 0, 1, 0), (30, 20, 1, 0), (30, -1, 1, 0), (29, 0, 1, 0), (30, 0, 2**48, 0), (30, 0, 1, 256)],
)
def test_stamps_that_do_not_fit_are_refused(frame_size: int, payload_at: int, first: int, source: int) -> None:
    with pytest.raises(ValueError, match=r"stamp|frames|sequence|source"):
        pubframes.stamp_pubs(bytearray(60), frame_size, payload_at, first, 0, source)


LARGE = bytes(range(256)) * 200


@given(
    st.lists(
        st.sampled_from([b"MSG a 1 0\r\n\r\n", b"MSG a.b 2 r 51200\r\n" + LARGE + b"\r\n", b"PING\r\n"]), max_size=5
    ),
    st.lists(st.integers(1, 60_000), min_size=1, max_size=40),
    st.booleans(),
)
def test_large_payloads_come_in_any_split_and_into_their_place(
    frames: list[bytes], sizes: list[int], into_room: bool
) -> None:
    data = b"".join(frames)
    decoder = serverdecode.Decoder()
    out: list[serverdecode.Message] = []
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            break
        piece = data[at : at + size]
        room = decoder.room if into_room else None
        if room is not None:
            placed = min(len(room), len(piece))
            room[:placed] = piece[:placed]
            decoder.filled(placed)
            out += decoder.feed(piece[placed:])
        else:
            out += decoder.feed(piece)
        at += len(piece)
    expected = [LARGE if frame.startswith(b"MSG a.b") else b"" for frame in frames if frame.startswith(b"MSG")]
    assert [message.payload for message in out] == expected
    assert [message.reply for message in out] == ["r" if payload else "" for payload in expected]
    assert decoder.pings == frames.count(b"PING\r\n")
    assert decoder.room is None and decoder.unfinished() == b""


def test_what_a_large_message_lacks_is_known() -> None:
    frame = b"MSG a.b 2 51200\r\n" + LARGE + b"\r\n"
    for cut in (10, 17, 18, 40_000, len(frame) - 2, len(frame) - 1):
        decoder = serverdecode.Decoder()
        assert decoder.feed(frame[:cut]) == []
        assert decoder.unfinished() == frame[:cut]
        (message,) = decoder.feed(frame[cut:])
        assert message.payload == LARGE
    decoder = serverdecode.Decoder()
    decoder.feed(frame[:100])
    with pytest.raises(ValueError, match="no room"):
        decoder.filled(len(frame))
    with pytest.raises(ValueError, match="not followed by CRLF"):
        decoder.feed(frame[100:-2] + b"XX")
