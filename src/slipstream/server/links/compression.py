"""Both directions of a compressed link: frames of S2 around what is said.

What is written is packed with each flush, as one stream after another. What comes may become far larger than it was, so
it is unpacked a chunk at a time, and whoever reads decides when it goes on: memory is bounded by one chunk, 4 MiB.

One level is there: `s2_better` and `s2_best` pack as `s2_fast` does.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipstream.jetstream.backup.s2 import IDENTITY, S2Reader, plain_chunks
from slipstream.kernels.backup.s2block import encode_chunks
from slipstream.links.compression import UNCOMPRESSED

__all__ = ["LinkCompression"]


class LinkCompression:
    """The two streams of one link."""

    __slots__ = ("_packed", "_reader", "_unpacking", "mode")

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._reader = S2Reader()
        self._packed = bytearray()  # came while a chunk before was not used up
        self._unpacking: Iterator[bytes] | None = None

    def pack(self, chunks: list[bytes | memoryview]) -> bytes:
        """Plain bytes as they go over the wire."""
        content = b"".join(chunks)
        return IDENTITY + (plain_chunks(content) if self.mode == UNCOMPRESSED else encode_chunks(content))

    def receive(self, data: bytes | memoryview) -> None:
        """Take bytes from the wire. Afterwards take what is in them with `next_content`."""
        self._packed += data

    def next_content(self) -> bytes | None:
        """Some more of what the peer said; None when all is read that came.

        Raises:
            BadBackup: it is not such a stream.
        """
        while True:
            if self._unpacking is None:
                if not self._packed:
                    return None
                data, self._packed = bytes(self._packed), bytearray()
                self._unpacking = self._reader.feed(data)
            content = next(self._unpacking, None)
            if content is not None:
                return content
            self._unpacking = None
