"""Asking for a WebSocket, and speaking over it as the side that asked: every answer is understood or refused."""

from __future__ import annotations

import base64

import pytest

from slipstream.protocol.texts import CloseReason
from slipstream.protocol.websocket import WebSocketConnection, WebSocketState
from slipstream.protocol.ws_call import WebSocketCall, WebSocketRefused
from slipstream.protocol.ws_handshake import HandshakeSettings, accept_of
from slipstream.protocol.ws_stream import WebSocketStream

NONCE = bytes(range(16))
PROOF = accept_of(base64.b64encode(NONCE)).decode()


def call(*, compression: bool = False, masking: bool = True) -> WebSocketCall:
    return WebSocketCall("h:1", "/leafnode", NONCE, compression=compression, masking=masking)


def answer(
    status: str = "101 Switching Protocols", upgrade: str = "websocket", proof: str = PROOF, more: str = ""
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nUpgrade: {upgrade}\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {proof}\r\n{more}\r\n"
    )
    return head.encode()


def test_the_request_is_one_that_this_server_accepts() -> None:
    asked = call(compression=True, masking=False)
    server = WebSocketConnection(HandshakeSettings(compression=True, leafs=True), 1000, lambda: 0.0)
    list(server.receive(asked.request))
    assert server.state is WebSocketState.OPEN and server.upgrade is not None and server.upgrade.is_leaf
    agreement = asked.receive(server.data_to_send())
    assert agreement == (True, False, b"")
    assert server.upgrade.compressed and not server.upgrade.masked


def test_what_the_server_does_not_offer_is_done_without() -> None:
    asked = call(compression=True, masking=False)
    server = WebSocketConnection(HandshakeSettings(leafs=True), 1000, lambda: 0.0)
    list(server.receive(asked.request))
    said = server.data_to_send().replace(b"Nats-No-Masking: true\r\n", b"")
    for piece in said[:30], said[30:-1]:
        assert asked.receive(piece) is None
    assert asked.receive(said[-1:] + b"\x82\x00") == (False, True, b"\x82\x00")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (answer(status="200 OK"), "invalid websocket connection: status 200"),
        (answer(status="404 Not Found"), "invalid websocket connection: status 404"),
        (answer(upgrade="h2c"), "invalid websocket connection"),
        (answer(proof="wrong"), "invalid websocket connection: its proof is wrong"),
        (answer(more="Sec-WebSocket-Extensions: permessage-deflate\r\n"), "compression negotiation error"),
        (b"INFO {}\r\n\r\n", "invalid websocket connection"),
        (b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 10_000, "invalid websocket connection"),
        (b"", "invalid websocket connection"),
    ],
    ids=["200", "404", "another protocol", "wrong proof", "context takeover", "no http", "too long", "the end"],
)
def test_an_answer_that_does_not_agree_is_refused(said: bytes, text: str) -> None:
    with pytest.raises(WebSocketRefused, match=text):
        call(compression=True).receive(said)


@pytest.mark.parametrize("compressed", [False, True])
def test_both_sides_understand_each_other(compressed: bool) -> None:
    """Masked one way and plain the other, in messages that a server inflates, with pings and the end."""
    keys = iter(bytes((at, 7, 9, 200)) for at in range(100))
    asking = WebSocketStream(
        reads_masked=False, compressed=compressed, max_payload=1000, new_mask=lambda: next(keys), message_bytes_max=500
    )
    asked = WebSocketStream(reads_masked=True, compressed=compressed, max_payload=1000)
    asked.peer_is_known(1000)
    asking.peer_is_known(1000)
    body = bytes(range(256)) * 100
    wire = b"".join(asking.wrap([body[:3], memoryview(body)[3:]]))
    assert b"".join(asked.receive(wire)) == body and not asked.failure
    assert b"".join(asking.receive(b"".join(asked.wrap([b"INFO {}\r\n"])) + b"\x89\x02hi")) == b"INFO {}\r\n"
    assert list(asked.receive(asking.data_to_send())) == []  # a PONG
    asking.close(CloseReason.SERVER_SHUTDOWN)
    assert list(asked.receive(asking.data_to_send())) == []
    assert not asked.is_open and asked.close_reason is CloseReason.CLIENT_CLOSED and not asked.failure
