"""Backups of nats-server before 2.15: a tar of its files, which are understood as far as needed to restore a stream.

    meta.inf              JSON: the stream's configuration and when it was made
    msgs/<n>.blk          messages, record after record
    obs/<name>/meta.inf   JSON: a consumer's configuration
    obs/<name>/o.dat      its state
    (others)              checksums and indexes, which can be derived

    record   length of the record (4; highest bit: with headers), sequence (8), time (8), length of the subject (2),
             subject, [length of the headers (4), headers,] payload, hash (8); little endian
             sequence with bit 62: that message was removed; with bit 63, or 0: the record was overwritten

What this is not: a check of the hashes. They are keyed by file names; the stream around them has checksums of its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream.backup.archive import ArchiveEntry
from slipstream.jetstream.backup.consumers import SavedState
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.limits import BACKUP_ENTRY_BYTES_MAX, BACKUP_NAME_BYTES_MAX
from slipstream.units import SECOND_NS

__all__ = ["LegacyReader", "OldConsumer", "OldStream", "Tombstone", "consumer_state"]

_TAR_BLOCK: Final = 512
_RECORD = struct.Struct("<IQqH")
_HASH_BYTES: Final = 8
_HEADERS: Final = 1 << 31
_ERASED: Final = 1 << 63
_UINT64: Final = (1 << 64) - 1
_TOMBSTONE: Final = 1 << 62
_BLOCK = re.compile(r"msgs/\d+\.blk")
_CONSUMER = re.compile(r"obs/([^/]+)/(meta\.inf|o\.dat)")
_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
_MAGIC: Final = 22
_VERSIONS: Final = (1, 2)


@dataclass(frozen=True, slots=True)
class OldStream:
    """The stream's configuration and time of creation, as JSON."""

    meta: bytes


@dataclass(frozen=True, slots=True)
class OldConsumer:
    """A consumer's configuration as JSON, and its state."""

    name: str
    meta: bytes
    state: SavedState


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A message among those before that was removed."""

    seq: int


Found = OldStream | OldConsumer | Tombstone | ArchiveEntry


class LegacyReader:
    """Gives back what a tar holds that arrives in pieces."""

    def __init__(self) -> None:
        """Wait for a tar."""
        self._waiting = bytearray()
        self._extended: dict[str, str] = {}  # what a PAX header says about the next file
        self._metas: dict[str, bytes] = {}  # consumers whose state is still to come
        self._ended = False

    @property
    def is_between_files(self) -> bool:
        """Whether the tar could end here."""
        return self._ended or not self._waiting

    @property
    def waiting_bytes(self) -> int:
        """What waits for the rest of a file, and of consumers for their state."""
        return len(self._waiting) + sum(map(len, self._metas.values()))

    def feed(self, data: bytes) -> Iterator[Found]:
        """What is complete with these bytes.

        Raises:
            BadBackup: it is not such a tar.
        """
        if self._ended:
            return
        self._waiting += data
        while len(self._waiting) >= _TAR_BLOCK and not self._ended:
            head = bytes(self._waiting[:_TAR_BLOCK])
            if not any(head):
                self._ended = True
                return
            size = self._size(head)
            padded = -(-size // _TAR_BLOCK) * _TAR_BLOCK
            if len(self._waiting) < _TAR_BLOCK + padded:
                return
            content = bytes(self._waiting[_TAR_BLOCK : _TAR_BLOCK + size])
            del self._waiting[: _TAR_BLOCK + padded]
            yield from self._entry(head, content)

    def _size(self, head: bytes) -> int:
        checksum = sum(head[:148]) + sum(head[156:]) + 8 * ord(" ")
        try:
            if _octal(head[148:156]) != checksum:
                raise ValueError
            size = self._extended_size() or _octal(head[124:136])
        except ValueError:
            raise BadBackup("archive/tar: invalid tar header") from None
        if size > BACKUP_ENTRY_BYTES_MAX:
            raise BadBackup("a file of the backup is too large")
        return size

    def _extended_size(self) -> int:
        digits = self._extended.get("size", "0")
        if not _DIGITS.fullmatch(digits):
            raise ValueError
        return int(digits)

    def _entry(self, head: bytes, content: bytes) -> Iterator[Found]:
        kind = head[156:157]
        if kind in (b"x", b"g"):
            self._extended = _extended(content) if kind == b"x" else {}
            return
        name = self._extended.get("path") or head[:100].rstrip(b"\0").decode("utf-8", "replace")
        self._extended = {}
        if kind not in (b"0", b"\0") or len(name) > BACKUP_NAME_BYTES_MAX:
            raise BadBackup("unexpected content")
        consumer = _CONSUMER.fullmatch(name)
        if name == "meta.inf":
            yield OldStream(content)
        elif _BLOCK.fullmatch(name):
            yield from _records(content)
        elif consumer is not None and consumer[2] == "meta.inf":
            self._metas[consumer[1]] = content
        elif consumer is not None:
            meta = self._metas.pop(consumer[1], None)
            if meta is None:
                raise BadBackup(f'error restoring consumer ["{consumer[1]}"]: there is no configuration')
            yield OldConsumer(consumer[1], meta, consumer_state(content))


def _octal(field: bytes) -> int:
    """A number of a tar header: digits, filled up with zeros or blanks. A sign would make sizes go backwards."""
    digits = field.strip(b"\0 ")
    if not _DIGITS.fullmatch(digits.decode("ascii", "replace") or "0"):
        raise ValueError
    return int(digits or b"0", 8)


def _extended(content: bytes) -> dict[str, str]:
    """`<length> <key>=<value>` lines."""
    found: dict[str, str] = {}
    for line in content.split(b"\n"):
        key, _, value = line.partition(b" ")[2].partition(b"=")
        if key in (b"path", b"size"):
            found[key.decode()] = value.decode("utf-8", "replace")
    return found


def _records(content: bytes) -> Iterator[Found]:
    at, end = 0, len(content)
    while at < end:
        if end - at < _RECORD.size:
            raise BadBackup("a block of messages is cut short")
        length, seq, ts_ns, subject_size = _RECORD.unpack_from(content, at)
        with_headers = bool(length & _HEADERS)
        length &= ~_HEADERS
        body = at + _RECORD.size
        until = at + length - _HASH_BYTES
        payload_at = body + subject_size + (4 if with_headers else 0)
        if length > end - at or payload_at > until:
            raise BadBackup("a block of messages is damaged")
        at += length
        if seq & _TOMBSTONE:
            yield Tombstone(seq & ~_TOMBSTONE)
        if seq == 0 or seq & (_TOMBSTONE | _ERASED):
            continue
        headers = b""
        if with_headers:
            size = int.from_bytes(content[payload_at - 4 : payload_at], "little")
            if size > until - payload_at:
                raise BadBackup("a block of messages is damaged")
            headers = content[payload_at : payload_at + size]
            payload_at += size
        yield ArchiveEntry(content[body : body + subject_size], ts_ns, seq, headers, content[payload_at:until])


def consumer_state(content: bytes) -> SavedState:
    """The state in `o.dat`.

    Raises:
        BadBackup: it is not one.
    """
    if len(content) < 2 or content[0] != _MAGIC or content[1] not in _VERSIONS:
        raise BadBackup("corrupt state")
    version, numbers = content[1], _Numbers(content, 2)
    floor_dseq, floor_seq, dseq, seq = (numbers.next() for _ in range(4))
    if version == 1:
        dseq += max(floor_dseq - 1, 0)
        seq += max(floor_seq - 1, 0)
    pending: dict[int, tuple[int, int]] = {}
    count = numbers.next()
    base_s = numbers.signed() if count else 0
    for _ in range(count):
        at = numbers.next() + floor_seq
        delivered = numbers.next() + floor_dseq if version == 2 else 0
        offset_s = numbers.signed()
        when_s = base_s + offset_s if version == 1 else base_s - offset_s
        pending[at] = (delivered, when_s * SECOND_NS)
    again = {(numbers.next() + floor_seq) & _UINT64: numbers.next() for _ in range(numbers.next())}
    return SavedState.of((dseq, seq), (floor_dseq, floor_seq), pending, again)


class _Numbers:
    """Varints, one after the other."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content = content
        self._at = at

    def next(self) -> int:
        number = shift = 0
        while True:
            if self._at >= len(self._content) or shift > 63:
                raise BadBackup("corrupt state")
            byte = self._content[self._at]
            self._at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def signed(self) -> int:
        number = self.next()
        return number >> 1 if not number & 1 else -((number + 1) >> 1)
