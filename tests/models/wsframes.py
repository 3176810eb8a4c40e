"""The plain model of incoming WebSocket frames: keeps all bytes, looks for whole frames, one at a time.

It is also an encoder of frames, right or wrong, for tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.kernels.wire import wsframes as kinds


def mask(payload: bytes, key: bytes) -> bytes:
    return bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))


@dataclass(frozen=True)
class Frame:
    """A frame as a peer may send it, also with what RFC 6455 forbids."""

    opcode: int
    payload: bytes = b""
    final: bool = True
    reserved: int = 0  # RSV1 is 4, RSV2 is 2, RSV3 is 1
    key: bytes | None = b"\x01\x02\x03\x04"
    # How many bytes tell the length: 0, 2 or 8; None for the shortest form. And a false length, if any.
    length_bytes: int | None = None
    length: int | None = None

    def encode(self) -> bytes:
        length = len(self.payload) if self.length is None else self.length
        length_bytes = self.length_bytes
        if length_bytes is None:
            length_bytes = 0 if length < 126 else 2 if length < 65536 else 8
        first = (0x80 if self.final else 0) | self.reserved << 4 | self.opcode
        short = {0: length & 0x7F, 2: 126, 8: 127}[length_bytes]
        head = (
            bytes([first, (0x80 if self.key is not None else 0) | short])
            + length.to_bytes(8, "big")[8 - length_bytes :]
        )
        return head + (self.payload if self.key is None else self.key + mask(self.payload, self.key))


class Reader:
    """Frames of one peer. An event is (kind, payload), as the kernel has them, but one for every frame."""

    def __init__(self, require_mask: bool, allow_compressed: bool) -> None:
        self.require_mask = require_mask
        self.allow_compressed = allow_compressed
        self.unread = b""
        self.dead = False
        self.message_open = False
        self.message_compressed = False

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        events: list[tuple[int, bytes]] = []
        self.unread += data
        while not self.dead and len(self.unread) >= 2:
            event = self._fault() or self._next_frame()
            if event is None:
                break
            events.append(event)
            self.dead = event[0] == kinds.CLOSE or event[0] >= kinds.FAULT
        return events

    def _fault(self) -> tuple[int, bytes] | None:
        first, second = self.unread[0], self.unread[1]
        opcode, final, compressed = first & 15, bool(first & 128), bool(first & 64)
        if first & 0x30:
            return kinds.RESERVED_BITS, b""
        if compressed and not self.allow_compressed:
            return kinds.COMPRESSION_NOT_NEGOTIATED, b""
        if self.require_mask and not second & 128:
            return kinds.MASK_MISSING, b""
        if opcode in (8, 9, 10):
            if second & 127 > 125:
                return kinds.CONTROL_TOO_LONG, b""
            if not final:
                return kinds.CONTROL_FRAGMENTED, b""
            if compressed:
                return kinds.CONTROL_COMPRESSED, b""
        elif opcode in (1, 2):
            if self.message_open:
                return kinds.MESSAGE_INTERLEAVED, b""
        elif opcode == 0:
            if not self.message_open or compressed:
                return kinds.CONTINUATION_INVALID, b""
        else:
            return kinds.UNKNOWN_OPCODE, bytes([opcode])
        return None

    def _next_frame(self) -> tuple[int, bytes] | None:
        first, second = self.unread[0], self.unread[1]
        opcode, final, compressed = first & 15, bool(first & 128), bool(first & 64)
        length_bytes = {126: 2, 127: 8}.get(second & 127, 0)
        key_at = 2 + length_bytes
        payload_at = key_at + (4 if second & 128 else 0)
        if len(self.unread) < payload_at:
            return None
        length = int.from_bytes(self.unread[2:key_at], "big") if length_bytes else second & 127
        if length >= 2**63:
            return kinds.LENGTH_INVALID, b""
        if len(self.unread) < payload_at + length:
            return None
        payload = self.unread[payload_at : payload_at + length]
        if second & 128:
            payload = mask(payload, self.unread[key_at:payload_at])
        self.unread = self.unread[payload_at + length :]
        if opcode >= 8:
            return opcode, payload
        if opcode:
            self.message_compressed = compressed
        self.message_open = not final
        if not self.message_compressed:
            return kinds.DATA, payload
        return (kinds.COMPRESSED_END if final else kinds.COMPRESSED), payload


def meaning(events: list[tuple[int, bytes]]) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """What the events say whatever the pieces were: the data in order, joined; and the control frames and faults."""
    data: list[tuple[int, bytes]] = []
    others: list[tuple[int, bytes]] = []
    for kind, payload in events:
        if kind not in (kinds.DATA, kinds.COMPRESSED, kinds.COMPRESSED_END):
            others.append((kind, payload))
        elif data and (data[-1][0], kind) in _JOINED:
            data[-1] = (kind, data[-1][1] + payload)
        elif payload or kind == kinds.COMPRESSED_END:
            data.append((kind, payload))
    return data, others


_JOINED = {
    (kinds.DATA, kinds.DATA),
    (kinds.COMPRESSED, kinds.COMPRESSED),
    (kinds.COMPRESSED, kinds.COMPRESSED_END),
}
