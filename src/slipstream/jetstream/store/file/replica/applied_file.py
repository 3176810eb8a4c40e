"""What is certain of a replica's log, in a file beside it: a frame that is committed, and what holds behind it.

    header, frames: STATE, then PUT and ADD for each consumer, MARK          written whole, then renamed

The log is the truth, this is derived from it and makes two things possible. A start knows a frame that is committed,
which Raft does not write down for its own sake; and segments can go although they hold states of consumers. States may
be megabytes, so they are not repeated at the head of every segment as notes are: there is one copy, made anew when at
least as many bytes of log have come behind it.

Invariants: all frames up to the one it names are synced before it is written. A segment is removed or rewritten only if
this file covers it.
"""

from __future__ import annotations

from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.segment import (
    HEADER_BYTES,
    SegmentHeader,
    decode_header,
    encode_header,
    pack_state,
    unpack_state,
)
from slipstream.jetstream.store.limits import STORE_SCAN_STEP_RECORDS
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import ADD, MARK, PUT, STATE
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["APPLIED_NAME", "Applied", "decode_applied", "encode_applied", "read_applied", "write_applied"]

APPLIED_NAME: Final = "APPLIED"
_UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class Applied:
    """A committed frame, and what holds behind it."""

    uid: bytes
    """Identity of the stream."""
    frame: int
    term: int
    first_seq: int
    """Everything below was removed."""
    states: dict[bytes, list[bytes]]
    """Of consumers: the last whole state and the changes since."""


def encode_applied(applied: Applied, salt: int) -> bytes:
    """The whole file."""
    header = SegmentHeader(applied.uid, 0, 0, 0, 1, 0, 0, 0, 0, applied.frame, salt)
    writer = LogWriter(None)
    writer.open_segment(0, salt, HEADER_BYTES, _UNBOUNDED, applied.frame)
    writer.epoch = applied.term
    writer.control(STATE, 0, 0, b"", pack_state(applied.first_seq, 0, 0))
    for key, parts in applied.states.items():
        for at, part in enumerate(parts):
            writer.control(ADD if at else PUT, 0, 0, key, part)
    writer.control(MARK, 0, 0, b"", b"")
    return encode_header(header) + writer.take()


def decode_applied(data: bytes) -> Applied | None:
    """What a file says; None unless all of it can be read."""
    header = decode_header(data[:HEADER_BYTES])
    if header is None or header.no:
        return None
    scan = SegmentScan(data, HEADER_BYTES, header.salt, 1, header.frame_no)
    while scan.step(STORE_SCAN_STEP_RECORDS):
        pass
    controls = scan.controls
    if scan.regions or len(scan) or len(controls) < 2 or (controls[0][0], controls[-1][0]) != (STATE, MARK):
        return None
    states: dict[bytes, list[bytes]] = {}
    for kind, _seq, _ts, key, payload in controls[1:-1]:
        if kind == PUT and key:
            states[key] = [payload]
        elif kind == ADD and key in states:
            states[key].append(payload)
        else:
            return None
    return Applied(header.uid, header.frame_no, scan.epoch, unpack_state(controls[0][4])[0], states)


def read_applied(disk: Disk, directory: str) -> Applied | None:
    """What the file in this directory says; None if there is none, or it cannot be read.

    Raises:
        OSError: the disk failed.
    """
    if APPLIED_NAME not in disk.list_dir(directory):
        return None
    path = f"{directory}/{APPLIED_NAME}"
    return decode_applied(disk.read(path, 0, disk.size(path)))


def write_applied(disk: Disk, directory: str, applied: Applied, salt: int) -> None:
    """Put it in the place of the one before, durably. Blocks.

    Raises:
        OSError: the disk refused; the one before may still be there.
    """
    write_whole_file(disk, f"{directory}/{APPLIED_NAME}", encode_applied(applied, salt))
    disk.sync_dir(directory)
