"""Archives: the content of a backup as nats-server writes it since 2.15, entry after entry.

archive  `NATSARC1`, entries
entry    uvarint length of the name, varint time in ns, uvarint sequence, uvarint length of the headers,
         uvarint length of the payload, name, headers, payload

state.json           the stream's state; its consumer count says how many consumers follow
consumers/<name>     JSON: configuration and state of a consumer
<subject>            a message: its sequence, its time
(all zero)           the end; without it the backup was cut short
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.limits import BACKUP_ENTRY_BYTES_MAX, BACKUP_NAME_BYTES_MAX

__all__ = ["MAGIC", "ArchiveEntry", "ArchiveReader", "encode_entry"]

MAGIC: Final = b"NATSARC1"
_DIGITS_MAX = 10  # bytes of the longest varint


@dataclass(slots=True)
class ArchiveEntry:
    """One entry, not to be changed. All zero and empty: the end."""

    name: bytes = b""
    ts_ns: int = 0
    seq: int = 0
    headers: bytes = b""
    payload: bytes = b""

    @property
    def is_end(self) -> bool:
        """Whether nothing follows."""
        return not (self.seq or self.ts_ns or self.headers or self.payload)


def encode_entry(entry: ArchiveEntry) -> bytes:
    """An entry as bytes."""
    zigzag = entry.ts_ns << 1 if entry.ts_ns >= 0 else ((-entry.ts_ns) << 1) - 1
    numbers = (len(entry.name), zigzag, entry.seq, len(entry.headers), len(entry.payload))
    return b"".join((*map(_uvarint, numbers), entry.name, entry.headers, entry.payload))


_SHORT = [bytes((number,)) for number in range(128)]


def _uvarint(number: int) -> bytes:
    if number < 128:
        return _SHORT[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


class ArchiveReader:
    """Gives back the entries of an archive that arrives in pieces."""

    __slots__ = ("_begun", "_waiting")

    def __init__(self) -> None:
        """Wait for an archive."""
        self._begun = False
        self._waiting = bytearray()

    @property
    def is_between_entries(self) -> bool:
        """Whether nothing of an entry waits for the rest of it."""
        return not self._waiting

    @property
    def waiting_bytes(self) -> int:
        """What waits for the rest of an entry."""
        return len(self._waiting)

    def feed(self, data: bytes) -> Iterator[ArchiveEntry]:
        """The entries that are complete with these bytes.

        Raises:
            BadBackup: it is not such an archive, or damaged.
        """
        self._waiting += data
        if not self._begun:
            if len(self._waiting) < len(MAGIC):
                return
            if self._waiting[: len(MAGIC)] != MAGIC:
                raise BadBackup("archive: invalid archive stream")
            del self._waiting[: len(MAGIC)]
            self._begun = True
        at = 0
        try:
            while True:
                found = self._entry(at)
                if found is None:
                    return
                at, entry = found
                yield entry
        finally:
            del self._waiting[:at]

    def _entry(self, at: int) -> tuple[int, ArchiveEntry] | None:
        waiting = self._waiting
        numbers: list[int] = []
        size = len(waiting)
        for _ in range(5):
            if at >= size:
                return None
            number = waiting[at]
            at += 1
            if number >= 128:
                number &= 127
                shift = 7
                while True:
                    if at >= size:
                        return None
                    byte = waiting[at]
                    at += 1
                    number |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                    if shift >= 7 * _DIGITS_MAX:
                        raise BadBackup("archive: invalid archive stream")
            numbers.append(number)
        name_size, zigzag, seq, header_size, payload_size = numbers
        if name_size > BACKUP_NAME_BYTES_MAX or header_size + payload_size > BACKUP_ENTRY_BYTES_MAX or seq >= 1 << 63:
            raise BadBackup("archive: invalid archive stream")
        end = at + name_size + header_size + payload_size
        if end > size:
            return None
        name = bytes(waiting[at : at + name_size])
        at += name_size
        headers = bytes(waiting[at : at + header_size])
        payload = bytes(waiting[at + header_size : end])
        ts_ns = zigzag >> 1 if not zigzag & 1 else -((zigzag + 1) >> 1)
        return end, ArchiveEntry(name, ts_ns, seq, headers, payload)
