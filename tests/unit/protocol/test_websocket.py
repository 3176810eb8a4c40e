"""An open WebSocket: payload in and out, control frames, faults, and what a hostile peer can make it cost."""

from __future__ import annotations

import tracemalloc
import zlib
from random import Random

import pytest

from models import wsframes as model
from models.wsframes import Frame
from slipstream.kernels.wire import wsframes as kinds
from slipstream.limits import MAX_PAYLOAD_BYTES
from slipstream.protocol.limits import WEBSOCKET_EARLY_BYTES_MAX, WEBSOCKET_MESSAGE_PAYLOADS_MAX
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.websocket import WebSocketConnection, WebSocketState
from slipstream.protocol.ws_handshake import HandshakeSettings

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
CHROME = b"User-Agent: Mozilla/5.0 Chrome/120 Safari/537\r\n"
SAFARI = b"User-Agent: Mozilla/5.0 Version/17 Safari/605\r\n"
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
TAIL = b"\x00\x00\xff\xff"


def opened(headers: bytes = b"", *, known: bool = False) -> WebSocketConnection:
    socket = WebSocketConnection(HandshakeSettings(compression=True), MAX_PAYLOAD_BYTES, lambda: 0.0)
    assert list(socket.receive(REQUEST + headers + b"\r\n")) == []
    assert socket.state is WebSocketState.OPEN
    assert socket.data_to_send().startswith(b"HTTP/1.1 101 ")
    if known:
        socket.client_is_known(MAX_PAYLOAD_BYTES)
    return socket


def received(socket: WebSocketConnection, data: bytes) -> bytes:
    return b"".join(socket.receive(data))


def deflate(data: bytes, flush: int = zlib.Z_SYNC_FLUSH) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (stream.compress(data) + stream.flush(flush)).removesuffix(TAIL)


def compressed(data: bytes) -> bytes:
    return Frame(2, deflate(data), reserved=4).encode()


def frames_of(parts: list[bytes]) -> list[tuple[int, bytes]]:
    """Outgoing frames, read by the model; a compressed message comes as its pieces."""
    return model.Reader(require_mask=False, allow_compressed=True).feed(b"".join(parts))


# --- incoming -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [1, 2])
def test_text_and_binary_are_the_same_stream(opcode: int) -> None:
    assert received(opened(), Frame(opcode, b"PING\r\n").encode()) == b"PING\r\n"


def test_fragments_with_a_ping_in_between() -> None:
    socket = opened()
    frames = [Frame(2, b"PI", final=False), Frame(0, b"NG", final=False), Frame(9, b"z"), Frame(0, b"\r\n")]
    assert received(socket, b"".join(frame.encode() for frame in frames)) == b"PING\r\n"
    assert socket.data_to_send() == b"\x8a\x01z"


def test_pong_needs_no_answer() -> None:
    socket = opened()
    assert received(socket, Frame(10, b"z").encode()) == b""
    assert socket.data_to_send() == b""


def test_unmasked_frames_when_agreed() -> None:
    socket = opened(b"Nats-No-Masking: true\r\n")
    assert received(socket, Frame(2, b"PING\r\n", key=None).encode()) == b"PING\r\n"


def test_compressed_message_whole_in_fragments_and_ended() -> None:
    socket = opened(DEFLATE)
    assert received(socket, compressed(b"PING\r\n")) == b"PING\r\n"
    message = deflate(b"PONG\r\n")
    first = Frame(2, message[:3], reserved=4, final=False)
    assert received(socket, first.encode() + Frame(0, message[3:]).encode()) == b"PONG\r\n"
    # A block marked final (BFINAL) is allowed as well.
    assert received(socket, Frame(2, deflate(b"+OK\r\n", zlib.Z_FINISH), reserved=4).encode()) == b"+OK\r\n"
    # Uncompressed messages may come in between.
    assert received(socket, Frame(2, b"PING\r\n").encode()) == b"PING\r\n"
    assert received(socket, Frame(2, b"", reserved=4).encode()) == b""
    assert socket.state is WebSocketState.OPEN


@pytest.mark.parametrize(
    ("payload", "answer", "failure"),
    [
        (b"\x03\xe8bye", b"\x88\x05\x03\xe8bye", ""),
        (b"\x0f\xa0", b"\x88\x02\x0f\xa0", ""),
        (b"", b"\x88\x00", ""),
        (b"\x03\xe8\xff", b"\x88\x22\x03\xefinvalid utf8 body in close frame", ""),
        (b"x", b"\x88\x26\x03\xeaclose frame payload cannot be 1 byte", "close frame payload cannot be 1 byte"),
        (b"\x03\xed", b"\x88\x20\x03\xeainvalid close status code 1005", "invalid close status code 1005"),
    ],
)
def test_close_frame_is_answered(payload: bytes, answer: bytes, failure: str) -> None:
    socket = opened()
    assert received(socket, Frame(2, b"PING\r\n").encode() + Frame(8, payload).encode()) == b"PING\r\n"
    assert socket.state is WebSocketState.CLOSED
    assert socket.data_to_send() == answer
    assert socket.failure == failure
    assert socket.close_reason is (CloseReason.READ_ERROR if failure else CloseReason.CLIENT_CLOSED)
    socket.close(CloseReason.CLIENT_CLOSED)
    assert socket.data_to_send() == b""


@pytest.mark.parametrize("code", [999, 1004, 1005, 1006, 1015, 1016, 2999, 5000])
def test_close_codes_nobody_may_send(code: int) -> None:
    socket = opened()
    received(socket, Frame(8, code.to_bytes(2, "big")).encode())
    assert socket.failure == f"invalid close status code {code}"


@pytest.mark.parametrize("code", [1000, 1003, 1007, 1014, 3000, 4999])
def test_close_codes_anybody_may_send(code: int) -> None:
    socket = opened()
    received(socket, Frame(8, code.to_bytes(2, "big")).encode())
    assert socket.failure == ""


FAULTS = [
    (Frame(2, b"x", reserved=2), "RSV2 and RSV3 must be clear"),
    (Frame(2, b"x", reserved=1), "RSV2 and RSV3 must be clear"),
    (Frame(2, b"x", reserved=4), "compressed frame received without negotiated permessage-deflate"),
    (Frame(2, b"x", key=None), "mask bit missing"),
    (Frame(9, b"x" * 126), "control frame length bigger than maximum allowed of 125 bytes"),
    (Frame(9, b"x", final=False), "control frame does not have final bit set"),
    (Frame(0, b"x"), "invalid continuation frame"),
    (Frame(3, b"x"), "unknown opcode 3"),
    (Frame(15, b"x"), "unknown opcode 15"),
    (Frame(2, length=2**63, length_bytes=8), "invalid 64-bit payload length"),
    (Frame(2, length=2**64 - 1, length_bytes=8), "invalid 64-bit payload length"),
]


@pytest.mark.parametrize(("frame", "text"), FAULTS, ids=[text for _, text in FAULTS])
def test_fault_closes_with_1002_after_the_good_bytes(frame: Frame, text: str) -> None:
    socket = opened()
    late = Frame(2, b"late").encode()
    assert received(socket, Frame(2, b"PING\r\n").encode() + frame.encode() + late) == b"PING\r\n"
    assert socket.state is WebSocketState.CLOSED
    assert socket.close_reason is CloseReason.READ_ERROR
    assert socket.failure == text
    assert socket.data_to_send() == bytes([0x88, len(text) + 2]) + b"\x03\xea" + text.encode()
    assert received(socket, late) == b""


def test_compressed_control_frame_and_interleaved_message() -> None:
    socket = opened(DEFLATE)
    received(socket, Frame(9, b"x", reserved=4).encode())
    assert socket.failure == "control frame must not be compressed"
    socket = opened()
    assert received(socket, Frame(2, b"a", final=False).encode() + Frame(2, b"b").encode()) == b"a"
    assert socket.failure == "new message started before final frame for previous message was received"


def test_damaged_deflate_stream() -> None:
    socket = opened(DEFLATE, known=True)
    assert received(socket, Frame(2, b"\xff\xff\xff\xff", reserved=4).encode()) == b""
    assert socket.state is WebSocketState.CLOSED
    assert "invalid block type" in socket.failure
    assert socket.data_to_send()[:4] == b"\x88" + bytes([len(socket.failure) + 2]) + b"\x03\xea"


# --- what a hostile peer can make it cost ---------------------------------------------------------------------------


def test_bomb_of_a_stranger_is_stopped_early() -> None:
    """A 1000:1 message before authentication (CVE-2026-27571): little memory, then the end."""
    bomb = compressed(b"\0" * 16_000_000)
    socket = opened(DEFLATE)
    tracemalloc.start()
    size = sum(len(piece) for piece in socket.receive(bomb))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size <= WEBSOCKET_EARLY_BYTES_MAX
    assert peak < len(bomb) + 512 * 1024
    assert socket.state is WebSocketState.CLOSED
    assert (socket.failure, socket.close_reason) == ("maximum payload exceeded", CloseReason.MAX_PAYLOAD)
    assert socket.data_to_send() == b"\x88\x1a\x03\xf1maximum payload exceeded"


def test_many_small_messages_of_a_stranger_add_up() -> None:
    socket = opened(DEFLATE)
    message = compressed(bytes(range(256)) * 4)
    count = 0
    while socket.state is WebSocketState.OPEN:
        count += len(received(socket, message))
    assert count <= WEBSOCKET_EARLY_BYTES_MAX
    assert socket.failure == "maximum payload exceeded"


def test_ratio_of_a_stranger() -> None:
    socket = opened(DEFLATE)
    assert received(socket, compressed(b"a" * 8192)) == b"a" * 8192
    received(socket, compressed(b"a" * 20_000))
    assert socket.failure == "maximum payload exceeded"


def test_stranger_is_inflated_in_small_steps() -> None:
    """So its CONNECT counts before the rest of the same message does."""
    socket = opened(DEFLATE)
    stream = bytes(i * i % 251 for i in range(200_000))
    arrived = b""
    for piece in socket.receive(compressed(stream)):
        assert len(piece) <= (65536 if arrived else 4096)
        arrived += piece
        socket.client_is_known(MAX_PAYLOAD_BYTES)
    assert arrived == stream


def test_pings_of_a_peer_that_does_not_read_are_not_all_answered() -> None:
    socket = opened()
    flood = Frame(9, b"p" * 125).encode() * 100
    for _ in range(100):
        assert received(socket, flood) == b""
    assert len(socket.data_to_send()) < 65536 + 200
    received(socket, Frame(9, b"last").encode())
    assert socket.data_to_send() == b"\x8a\x04last"


def test_known_client_may_compress_well() -> None:
    socket = opened(DEFLATE, known=True)
    operation = b"PUB a 1048576\r\n" + b"z" * 1048576 + b"\r\n"
    pieces = list(socket.receive(compressed(operation * 2)))
    assert b"".join(pieces) == operation * 2
    assert max(map(len, pieces)) <= 65536
    assert socket.state is WebSocketState.OPEN


def test_becoming_known_in_the_middle_of_a_message() -> None:
    socket = opened(DEFLATE)
    stream = bytes(i * i % 251 for i in range(200_000))
    message = deflate(stream)
    pieces = list(socket.receive(Frame(2, message[:100], reserved=4, final=False).encode()))
    socket.client_is_known(MAX_PAYLOAD_BYTES)
    pieces += socket.receive(Frame(0, message[100:]).encode())
    assert b"".join(pieces) == stream


def test_bomb_of_a_known_client_stops_at_some_payloads() -> None:
    socket = opened(DEFLATE, known=True)
    bomb = compressed(b"\0" * 16_000_000)
    tracemalloc.start()
    size = sum(len(piece) for piece in socket.receive(bomb))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size <= WEBSOCKET_MESSAGE_PAYLOADS_MAX * MAX_PAYLOAD_BYTES
    assert peak < len(bomb) + 512 * 1024
    assert socket.failure == "maximum payload exceeded"


def test_announced_lengths_cost_no_memory() -> None:
    """Half a frame of any length keeps no payload (CVE-2026-33219, CVE-2026-27889)."""
    socket = opened()
    head = Frame(2, length=2**62, length_bytes=8).encode()
    tracemalloc.start()
    size = len(received(socket, head))
    for _ in range(100):
        size += len(received(socket, bytes(65536)))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size == 6_553_600
    assert kept < 4096


def test_strangers_who_stop_half_way_keep_little() -> None:
    """Many connections in the middle of a request or a frame (CVE-2026-33219)."""
    sockets = [WebSocketConnection(HandshakeSettings(), MAX_PAYLOAD_BYTES, lambda: 0.0) for _ in range(100)]
    tracemalloc.start()
    for socket in sockets:
        assert received(socket, REQUEST + b"X: " + b"x" * 20_000) == b""
    requests = tracemalloc.get_traced_memory()[0]
    for socket in sockets:
        assert received(socket, b"x" * 20_000) == b""
        assert socket.state is WebSocketState.CLOSED
        socket.data_to_send()
    closed = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert requests < 100 * 48 * 1024
    assert closed < 100 * 4 * 1024


# --- outgoing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536, 200_000])
def test_output_is_one_binary_frame(size: int) -> None:
    data = b"x" * size
    assert frames_of(opened().wrap([data])) == [(kinds.DATA, data)]


def test_output_is_unmasked_and_binary() -> None:
    assert b"".join(opened().wrap([b"PI", b"NG\r\n"])) == b"\x82\x06PING\r\n"
    assert opened().wrap([]) == []


@pytest.mark.parametrize(("size", "kind"), [(64, kinds.DATA), (65, kinds.COMPRESSED_END)])
def test_output_is_compressed_from_65_bytes_on(size: int, kind: int) -> None:
    [(found, payload)] = frames_of(opened(DEFLATE).wrap([b"x" * size]))
    assert found == kind
    if kind == kinds.COMPRESSED_END:
        payload = zlib.decompressobj(-15).decompress(payload + TAIL)
    assert payload == b"x" * size


def test_browsers_get_small_frames() -> None:
    data = bytes(range(256)) * 100
    frames = frames_of(opened(CHROME).wrap([data]))
    assert [len(payload) for _, payload in frames] == [4096] * 6 + [1024]
    assert b"".join(payload for _, payload in frames) == data


@pytest.mark.parametrize(("agent", "fragments"), [(CHROME, True), (SAFARI, False), (b"", False)])
def test_compressed_output_is_fragmented_for_most_browsers(agent: bytes, fragments: bool) -> None:
    data = Random(1).randbytes(20_000)
    frames = frames_of(opened(DEFLATE + agent).wrap([data]))
    assert (len(frames) > 1) is fragments
    assert [kind for kind, _ in frames] == [kinds.COMPRESSED] * (len(frames) - 1) + [kinds.COMPRESSED_END]
    assert max(len(payload) for _, payload in frames) <= (4096 if fragments else 2 * len(data))
    message = b"".join(payload for _, payload in frames)
    assert zlib.decompressobj(-15).decompress(message + TAIL) == data


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (CloseReason.CLIENT_CLOSED, 1000),
        (CloseReason.SERVER_SHUTDOWN, 1001),
        (CloseReason.STALE_CONNECTION, 1001),
        (CloseReason.PROTOCOL_VIOLATION, 1002),
        (CloseReason.AUTHENTICATION_VIOLATION, 1008),
        (CloseReason.SLOW_CONSUMER_PENDING, 1008),
        (CloseReason.MAX_PAYLOAD, 1009),
        (CloseReason.KICKED, 1011),
    ],
)
def test_closing_from_this_side(reason: CloseReason, code: int) -> None:
    socket = opened()
    socket.close(reason)
    assert (
        socket.data_to_send() == bytes([0x88, len(reason.value) + 2]) + code.to_bytes(2, "big") + reason.value.encode()
    )
    socket.close(reason)
    assert socket.data_to_send() == b""
    assert received(socket, Frame(2, b"late").encode()) == b""


def test_closing_before_the_handshake_sends_no_frame() -> None:
    socket = WebSocketConnection(HandshakeSettings(), MAX_PAYLOAD_BYTES, lambda: 0.0)
    socket.close(CloseReason.SERVER_SHUTDOWN)
    assert (socket.data_to_send(), socket.state) == (b"", WebSocketState.CLOSED)


def test_refused_handshakes_are_told_once() -> None:
    socket = WebSocketConnection(HandshakeSettings(), MAX_PAYLOAD_BYTES, lambda: 0.0)
    assert received(socket, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") == b""
    assert socket.take_handshake_errors() == ["invalid value for header 'Upgrade'"]
    assert socket.take_handshake_errors() == []
    assert socket.state is WebSocketState.HANDSHAKING
    assert received(socket, b"no\r\n\r\n") == b""
    assert socket.state is WebSocketState.CLOSED
