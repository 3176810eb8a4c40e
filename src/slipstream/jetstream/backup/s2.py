"""S2 streams: a backup is one. Chunks of compressed or plain bytes with checksums; Snappy streams are read as well.

    stream   chunk ff with `S2sTwO` or `sNaPpY`, then chunks
    chunk    type (1), length (3, little endian), content
             00 compressed: masked CRC32C of what it holds (4), block (`kernels.s2block`)
             01 plain: masked CRC32C (4), bytes
             80..fe skipped

What is written are blocks of at most 64 KiB in Snappy's format, which every reader of S2 understands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slipstream.jetstream.backup.errors import BadBackup
from slipstream.kernels.backup.s2block import decode_block, encode_chunks
from slipstream.kernels.log.record import crc32c

__all__ = ["IDENTITY", "S2Reader", "S2Writer", "is_s2", "plain_chunks"]

_COMPRESSED: Final = 0x00
_PLAIN: Final = 0x01
_SKIPPABLE: Final = 0x80
_STREAM: Final = 0xFF
IDENTITY: Final = b"\xff\x06\x00\x00S2sTwO"
_IDENTITIES: Final = (b"S2sTwO", b"sNaPpY")
_BLOCK_BYTES: Final = 64 * 1024
_CONTENT_BYTES_MAX: Final = 4 * 1024 * 1024  # of one block of S2
_CHUNK_BYTES_MAX: Final = _CONTENT_BYTES_MAX + 64 * 1024
# Content that a stranger's stream may have for each of its bytes, beyond what it may have in any case. Messages have
# sequences and times, so a real backup is far below; S2 itself reaches 200,000: gigabytes out of a few kilobytes.
_RATIO_MAX: Final = 1_000
_CONTENT_BYTES_FREE: Final = 64 * 1024 * 1024  # some 50 ms of work, in slices


def is_s2(data: bytes) -> bool:
    """Whether a stream begins like this, as far as its first bytes tell."""
    return data[:4] == IDENTITY[:4]


def plain_chunks(content: bytes) -> bytes:
    """Content as chunks of a stream that is not compressed."""
    out = bytearray()
    for start in range(0, len(content), _BLOCK_BYTES):
        piece = content[start : start + _BLOCK_BYTES]
        out.append(_PLAIN)
        out += (len(piece) + 4).to_bytes(3, "little")
        out += _masked(crc32c(piece)).to_bytes(4, "little")
        out += piece
    return bytes(out)


class S2Writer:
    """Compresses a stream piece by piece."""

    __slots__ = ("_begun", "_waiting")

    def __init__(self) -> None:
        """Begin a stream."""
        self._begun = False
        self._waiting = bytearray()

    def write(self, data: bytes) -> bytes:
        """Take content; what of the stream is ready."""
        self._waiting += data
        return self._take(_BLOCK_BYTES)

    def close(self) -> bytes:
        """The end of the stream."""
        return self._take(1)

    def _take(self, least: int) -> bytes:
        out = bytearray()
        if not self._begun:
            self._begun = True
            out += IDENTITY
        size = len(self._waiting)
        size -= size % least
        if size:
            out += encode_chunks(bytes(memoryview(self._waiting)[:size]))
            del self._waiting[:size]
        return bytes(out)


class S2Reader:
    """Gives back the content of a stream that arrives in pieces."""

    __slots__ = ("_begun", "_content_bytes", "_received_bytes", "_trusted", "_waiting")

    def __init__(self, *, trusted: bool = True) -> None:
        """Wait for a stream. One that is not trusted is refused when it would become implausibly large."""
        self._begun = False
        self._waiting = bytearray()
        self._trusted = trusted
        self._received_bytes = 0
        self._content_bytes = 0

    @property
    def is_between_chunks(self) -> bool:
        """Whether the stream could end here."""
        return not self._waiting

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content that is complete with these bytes.

        Raises:
            BadBackup: it is not such a stream, or damaged.
        """
        self._waiting += data
        self._received_bytes += len(data)
        at = 0
        try:
            while len(self._waiting) - at >= 4:
                kind = self._waiting[at]
                if not self._begun and kind != _STREAM:
                    # At once: nobody waits for the megabytes that it seems to announce.
                    raise BadBackup("the backup is not an S2 stream")
                length = int.from_bytes(self._waiting[at + 1 : at + 4], "little")
                if length > _CHUNK_BYTES_MAX:
                    raise BadBackup("a chunk of the backup is too large")
                if len(self._waiting) - at - 4 < length:
                    break
                body = bytes(self._waiting[at + 4 : at + 4 + length])
                at += 4 + length
                content = self._content(kind, body)
                if content:
                    yield content
        finally:
            del self._waiting[:at]

    def _content(self, kind: int, body: bytes) -> bytes:
        if kind == _STREAM:
            if body not in _IDENTITIES:
                raise BadBackup("the backup is not an S2 stream")
            self._begun = True
            return b""
        if kind >= _SKIPPABLE:
            return b""
        if kind not in (_COMPRESSED, _PLAIN) or len(body) < 4:
            raise BadBackup("the backup has a chunk that makes no sense")
        if kind == _COMPRESSED and not self._trusted:
            self._check_plausible(_declared_size(body[4:]))
        try:
            content = body[4:] if kind == _PLAIN else decode_block(body[4:], _CONTENT_BYTES_MAX)
        except ValueError as error:
            raise BadBackup(f"the backup is damaged: {error}") from None
        if _masked(crc32c(content)) != int.from_bytes(body[:4], "little"):
            raise BadBackup("the backup is damaged: a checksum does not fit")
        self._content_bytes += len(content)
        return content

    def _check_plausible(self, declared_bytes: int) -> None:
        """Before anything is decompressed: a block says how large it will be, and is held to that."""
        if self._content_bytes + declared_bytes > _CONTENT_BYTES_FREE + _RATIO_MAX * self._received_bytes:
            raise BadBackup(f"the backup would become more than {_RATIO_MAX:,} times larger, which no real one does")


def _declared_size(block: bytes) -> int:
    """The size that a block says its content has; a block that is cut short is found out when it is read."""
    size = 0
    for shift, byte in enumerate(block[:5]):
        size |= (byte & 127) << (7 * shift)
        if byte < 128:
            break
    return size


def _masked(crc: int) -> int:
    """As Snappy stores it, so that checksums of checksums are not taken for data."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
