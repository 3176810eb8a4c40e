"""The log of a replica read back: everything that is in its files, of which it indexes what is known to be committed.

What is known are two numbers: the one that came with the votes, and the one in the file of what is applied.

Frames behind that may be committed, or replaced by others: they stay frames, and Raft is told of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.recovered import Fact, RecoveredLog
from slipstream.jetstream.store.file.recovery import recover_log
from slipstream.jetstream.store.file.replica.applied_file import Applied, read_applied
from slipstream.jetstream.store.file.replica.states import apply_states
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.jetstream.store.limits import STORE_SCAN_STEP_RECORDS, STORE_VERBATIM_SEGMENTS
from slipstream.kernels.log.record import ADD, CONFIG, NOTE, PUT, REMOVE
from slipstream.kernels.log.replay import frame_end
from slipstream.kernels.log.segscan import SegmentScan
from slipstream.kernels.log.transit import frame_heads

__all__ = [
    "FRAME_FIRST",
    "FRAME_LOCAL",
    "FRAME_UNIT",
    "RAFT_KEY",
    "FramePlace",
    "RecoveredReplica",
    "facts_of",
    "recover_replica",
    "unit_of",
]

FRAME_LOCAL: Final = 8
"""Flag of frames that are no entries."""
RAFT_KEY: Final = b"\0raft"
"""How the keys of notes begin that are entries of Raft's own: such a note is never there, its frame is."""
FRAME_UNIT: Final = 1
"""Flag of frames of a unit."""
FRAME_MORE: Final = 2
"""... that goes on behind them."""
FRAME_FIRST: Final = 4
"""... that begins with them."""


@dataclass(frozen=True, slots=True)
class FramePlace:
    """Where a numbered frame lies."""

    epoch: int
    segment: Segment
    offset: int
    length: int
    last_seq: int
    """Sequence that the log has reached behind it."""
    last_ts_ns: int
    unit: int = 0
    """Number of the first frame of the unit that it is a part of; 0 if there is none."""
    goes_on: bool = False
    """Whether the unit does not end with it. If the next frame is not of the unit, that was given up."""


def unit_of(number: int, flags: int, before: FramePlace | None) -> tuple[int, bool]:
    """`unit` and `goes_on` of a frame behind another one."""
    if not flags & FRAME_UNIT:
        return 0, False
    continues = before is not None and before.goes_on and not flags & FRAME_FIRST
    return before.unit if continues and before is not None else number, bool(flags & FRAME_MORE)


def facts_of(frame: bytes, salt: int) -> list[Fact]:
    """What a frame says about configuration and notes."""
    return [
        (kind, key, payload)
        for kind, key, payload in _said(frame, salt)
        if kind == CONFIG or (kind == NOTE and not key.startswith(RAFT_KEY))
    ]


def _needed(segments: list[Segment], applied: int) -> list[Segment]:
    """Those whose frames a start looks at one by one: what is not certain, and a little more for who is behind.

    The others are known by their index files. Who needs their frames gets whole segments, so that a start does not take
    the longer the more there is.
    """
    at = max(len(segments) - 1 - STORE_VERBATIM_SEGMENTS, 0)
    while at and segments[at].header.frame_no > applied:
        at -= 1
    return segments[at:]


def _said(frame: bytes, salt: int) -> list[Fact]:
    scan = SegmentScan(frame, 0, salt, 1, 0)
    while scan.step(STORE_SCAN_STEP_RECORDS):
        pass
    return [(kind, key, payload) for kind, _, _, key, payload in scan.controls]


@dataclass(frozen=True, slots=True)
class RecoveredReplica:
    """A replica's log read back."""

    log: RecoveredLog
    """Indexed as far as it is known to be committed."""
    first: int
    """Number of the first frame that is as it was written."""
    before: int | None
    """Term of the one before it, 0 if there was none; None if nobody knows."""
    before_seq: int
    """The sequence that the log had reached there."""
    places: list[FramePlace]
    """Of all frames from there on."""
    committed: int
    """The frame up to which it is indexed."""
    applied: Applied | None
    """What the file says that names a committed frame."""
    states: dict[bytes, list[bytes]]
    """Of consumers, as they are behind the frame `committed`."""


def recover_replica(disk: Disk, directory: str, *, seed: int, first_id: int, committed: int) -> RecoveredReplica:
    """Read a directory, and index it up to the frame `committed`, or up to a later one that is certain.

    Raises:
        StorageFault: frames are missing that were there once; this replica must not take part as it is.
    """
    applied = read_applied(disk, directory)
    kept = applied.first_seq if applied is not None else 1
    whole = recover_log(disk, directory, seed=seed, first_id=first_id, first_seq=kept, replicated=True)
    if applied is not None and applied.uid != whole.uid:
        raise StorageFault("what was applied is of another stream", path=directory)
    if applied is not None and whole.segments and whole.segments[0].header.first_seq > max(kept, 1):
        # Segments go when the file says that nothing of them is kept.
        raise StorageFault(f"the log begins behind message {kept}, which is kept", path=directory)
    verbatim: list[Segment] = []
    for segment in whole.segments:
        if segment.header.generation or segment.damaged:
            verbatim = []
        else:
            verbatim.append(segment)
    if not verbatim:
        raise StorageFault("no frame of the log is as it was written", path=directory)
    if applied is not None:
        verbatim = _needed(verbatim, applied.frame)
    first = verbatim[0].header.frame_no + 1
    saved, states = 0, {}
    if applied is not None:
        saved, states = applied.frame, {key: list(parts) for key, parts in applied.states.items()}
    committed = max(committed, saved)
    places: list[FramePlace] = []
    last_seq = before_seq = verbatim[0].header.first_seq - 1
    for segment in verbatim:
        data = disk.read(segment.path, 0, segment.end)
        for number, epoch, flags, offset, length in frame_heads(data, HEADER_BYTES, segment.header.salt):
            if flags & FRAME_LOCAL:
                continue
            end = frame_end(data, offset, segment.header.salt, last_seq)
            if number != first + len(places) or end is None:
                raise StorageFault(f"frame {first + len(places)} cannot be read", path=segment.path)
            last_seq = end[0]
            # With what an open unit has used, as when it was written.
            segment.last_seq = max(segment.last_seq, last_seq)
            if not epoch:  # written before there was a group: no entry
                first, before_seq, places = number + 1, last_seq, []
                continue
            unit = unit_of(number, flags, places[-1] if places else None)
            places.append(FramePlace(epoch, segment, offset, length, last_seq, end[1], *unit))
            if saved < number <= committed:
                said = _said(data[offset : offset + length], segment.header.salt)
                apply_states(states, [record for record in said if record[0] in (PUT, ADD, REMOVE)])
    if saved < first - 1:
        raise StorageFault(f"what was applied before frame {first} cannot be read", path=directory)
    before = 0 if first == 1 else applied.term if applied is not None and saved == first - 1 else None
    last = first + len(places) - 1
    if not first - 1 <= committed <= last:
        raise StorageFault(f"frame {committed} was committed, and the log has {first} to {last}", path=directory)
    if committed >= first and places[committed - first].goes_on:
        committed = places[committed - first].unit - 1  # a unit is applied at its end
    if committed == last:
        return RecoveredReplica(whole, first, before, before_seq, places, committed, applied, states)
    behind = places[committed + 1 - first]
    part = recover_log(
        disk,
        directory,
        seed=seed,
        first_id=first_id,
        log_end=(behind.segment.header.no, behind.offset),
        with_manifest=False,
        first_seq=kept,
        replicated=True,
    )
    unapplied = {}
    for number, place in enumerate(places[committed + 1 - first :], committed + 1):
        data = disk.read(place.segment.path, place.offset, place.length)
        if facts := facts_of(data, place.segment.header.salt):
            unapplied[number] = facts
    limited = replace(
        whole,
        index=part.index,
        config=part.config or (whole.manifest.config if whole.manifest is not None else b""),
        last_ts_ns=part.last_ts_ns,
        expiries=part.expiries,
        unfinished_erasures=part.unfinished_erasures,
        notes=part.notes,
        unapplied_seq=last_seq,
        unapplied_facts=unapplied,
    )
    return RecoveredReplica(limited, first, before, before_seq, places, committed, applied, states)
