"""A WebSocket client that is only a socket: it sends any frame, right or wrong, and reads what the server sends."""

from __future__ import annotations

import re
import zlib

from models.wsframes import Frame, Reader
from slipstream.kernels.wire import wsframes as kinds
from support.normalise import normal_wire
from support.raw_client import RawClient

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_TAIL = b"\x00\x00\xff\xff"
_BARRIER = b"MSG barrier 77 1\r\nb\r\n"
_DATE = re.compile(rb"Date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\r\n")
_LENGTH = re.compile(rb"Content-Length: (\d+)\r\n")


def request(line: str = "GET / HTTP/1.1", **changes: str | None) -> bytes:
    """An upgrade request; a change to None leaves the header out, underscores stand for hyphens."""
    headers: dict[str, str | None] = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"{line}\r\n{''.join(lines)}\r\n".encode()


def read_answer(client: RawClient, *, with_body: bool = True) -> bytes:
    """One HTTP answer with its body, the date replaced; empty when the server closed instead."""
    head, closed = client.read_until_or_close(rb"\r\n\r\n")
    length = _LENGTH.search(head)
    if closed or (length is None and b" 101 " not in head):
        # Without a length the body goes on to the close.
        return _DATE.sub(b"Date: <date>\r\n", head if closed else head + client.read_to_close())
    body = client.read_exactly(int(length[1])) if length and with_body else b""
    return _DATE.sub(b"Date: <date>\r\n", head + body)


def deflate(data: bytes) -> bytes:
    """The payload of a compressed message."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_TAIL)


def inflate(payload: bytes) -> bytes:
    """What a compressed message holds."""
    return zlib.decompressobj(-15).decompress(payload + _TAIL)


class WebSocketClient:
    """One WebSocket. What the server sent is in `stream` (the NATS protocol) and `control` (other frames)."""

    def __init__(self, client: RawClient, **headers: str | None) -> None:
        """Shakes hands.

        Raises:
            ConnectionError: The server refused; the message is its answer.
        """
        self.client = client
        client.send(request(**headers))
        self.answer = read_answer(client)
        if b" 101 " not in self.answer:
            raise ConnectionError(self.answer.decode())
        self.stream = b""
        self.control: list[tuple[int, bytes]] = []
        self.closed = False
        self._reader = Reader(require_mask=False, allow_compressed=True)
        self._message = b""

    def send(self, *frames: Frame | bytes) -> None:
        """Sends frames; bytes are sent as one binary frame."""
        encoded = [(Frame(2, frame) if isinstance(frame, bytes) else frame).encode() for frame in frames]
        self.client.send(b"".join(encoded))

    def sync(self) -> WebSocketClient:
        """Reads until the server has processed everything sent so far, or has closed.

        The barrier is a message to oneself: pongs overtake the stream in nats-server.
        """
        self.send(b"SUB barrier 77\r\nPUB barrier 1\r\nb\r\nUNSUB 77\r\n")
        self.until(_BARRIER)
        # Whether the answer to UNSUB came in the same read is chance.
        before, barrier, _ = self.stream.partition(_BARRIER)
        self.stream = before + barrier
        return self

    def until(self, pattern: bytes) -> WebSocketClient:
        """Reads until the stream holds a match, or the server has closed."""
        while not re.search(pattern, self.stream) and not self.closed:
            self._read()
        return self

    @property
    def normal_stream(self) -> bytes:
        """The stream with volatile parts replaced."""
        return b"".join(normal_wire(line) for line in self.stream.splitlines(keepends=True))

    def close(self) -> None:
        """Closes the socket without a word."""
        self.client.close()

    def _read(self) -> None:
        data, self.closed = self.client.read_until_or_close(rb".")
        rest = self.client._take(len(self.client._unread))
        for kind, payload in self._reader.feed(data + rest):
            if kind == kinds.DATA:
                self.stream += payload
            elif kind in (kinds.COMPRESSED, kinds.COMPRESSED_END):
                self._message += payload
                if kind == kinds.COMPRESSED_END:
                    self.stream += inflate(self._message)
                    self._message = b""
            else:
                self.control.append((kind, payload))
