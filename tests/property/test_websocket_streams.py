"""WebSocket connections against the websockets library as the client, with every cut of the bytes between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from slipstream.limits import MAX_PAYLOAD_BYTES
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.websocket import WebSocketConnection, WebSocketState
from slipstream.protocol.ws_handshake import HandshakeSettings

payloads = st.binary(max_size=300) | st.sampled_from([b"z" * 65, b"z" * 4097, b"z" * 70_000])
cuts = st.lists(st.integers(0, 400), max_size=10)


def connected(compression: bool, browser: bool) -> tuple[ClientProtocol, WebSocketConnection]:
    factory = ClientPerMessageDeflateFactory(client_max_window_bits=True)
    client = ClientProtocol(parse_uri("ws://localhost/"), extensions=[factory] if compression else None)
    server = WebSocketConnection(HandshakeSettings(compression=True), MAX_PAYLOAD_BYTES, lambda: 0.0)
    request = client.connect()
    if browser:
        request.headers["User-Agent"] = "Mozilla/5.0"
    client.send_request(request)
    assert list(server.receive(b"".join(client.data_to_send()))) == []
    assert server.upgrade is not None and server.upgrade.compressed is compression
    client.receive_data(server.data_to_send())
    [response] = client.events_received()
    assert isinstance(response, Response) and client.state is State.OPEN
    server.client_is_known(MAX_PAYLOAD_BYTES)
    return client, server


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    borders = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return (data[start:end] for start, end in pairwise(borders))


@given(
    messages=st.lists(st.tuples(payloads, st.booleans()), max_size=5),
    compression=st.booleans(),
    browser=st.booleans(),
    places=cuts,
)
def test_client_stream_arrives(
    messages: list[tuple[bytes, bool]], compression: bool, browser: bool, places: list[int]
) -> None:
    client, server = connected(compression, browser)
    for payload, split in messages:
        half = len(payload) // 2 if split else len(payload)
        client.send_binary(payload[:half], fin=not split)
        client.send_ping(b"p")
        if split:
            client.send_continuation(payload[half:], fin=True)
    stream = b"".join(client.data_to_send())
    arrived = b"".join(piece for part in cut(stream, places) for piece in server.receive(part))
    assert arrived == b"".join(payload for payload, _ in messages)
    client.receive_data(server.data_to_send())
    assert [frame.opcode for frame in client.events_received()] == [Opcode.PONG] * len(messages)


@given(outputs=st.lists(payloads, max_size=5), compression=st.booleans(), browser=st.booleans(), places=cuts)
def test_server_stream_arrives(outputs: list[bytes], compression: bool, browser: bool, places: list[int]) -> None:
    client, server = connected(compression, browser)
    stream = b"".join(part for output in outputs for part in server.wrap([output]))
    for part in cut(stream, places):
        client.receive_data(part)
    events = client.events_received()
    assert all(isinstance(event, Frame) for event in events)
    assert b"".join(event.data for event in events if isinstance(event, Frame)) == b"".join(outputs)
    assert client.state is State.OPEN


@given(reason=st.sampled_from([reason for reason in CloseReason if reason is not CloseReason.TLS_HANDSHAKE_ERROR]))
def test_close_is_understood(reason: CloseReason) -> None:
    client, server = connected(compression=False, browser=False)
    server.close(reason)
    client.receive_data(server.data_to_send())
    assert client.close_rcvd is not None and client.close_rcvd.reason == reason.value


@given(data=st.binary(max_size=200), compression=st.booleans(), places=cuts)
def test_any_bytes_are_survived(data: bytes, compression: bool, places: list[int]) -> None:
    _, server = connected(compression, browser=False)
    for part in cut(data, places):
        for _ in server.receive(part):
            pass
    assert (server.state is WebSocketState.CLOSED) == (server.close_reason is not None)


@given(data=st.binary(max_size=200), places=cuts)
def test_any_request_is_survived(data: bytes, places: list[int]) -> None:
    server = WebSocketConnection(HandshakeSettings(compression=True), MAX_PAYLOAD_BYTES, lambda: 0.0)
    for part in cut(b"GET / HTTP/1.1\r\n" + data + b"\r\n\r\n", places):
        assert list(server.receive(part)) == []
    assert server.state is not WebSocketState.OPEN
