"""How far each source of a stream was read, and how that survives.

The truth is in the log: every copied message names its source and sequence there (`source_names`). After a start the
log is read from its end until every source was met. Two things would be missing: sources whose last message was removed
since, and a bound on how much is read. So what is known is also noted in the log now and then, together with the last
sequence of this stream it takes into account; only what was stored behind that is read.

    notes  ──►  positions up to `upto`   ──►  log behind `upto`  ──►  positions

Where messages go by themselves (limits, age, acks), positions are noted in the commit that stores them, hence before
they can go. Elsewhere they are noted every few seconds, and before a removal that a user asked for.

Invariant: a position is never ahead of what is stored, skipped or left out as a repetition here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream import headers
from slipstream.jetstream.ack_subjects import account_hash as hashed
from slipstream.jetstream.config.enums import RetentionPolicy
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.copies.source_names import SOURCE_HEADER, origin_of
from slipstream.jetstream.stream.header_scan import messages_with_headers
from slipstream.jetstream.stream.limits import SOURCE_JOURNAL_NS, SOURCE_SCAN_SEQS

__all__ = ["SourcePositions", "messages_go_by_themselves", "position_notes"]

# There since the stream had sources and all its messages: what is neither noted nor in the log was never read.
_COMPLETE: Final = b"sources"


def messages_go_by_themselves(config: StreamConfig) -> bool:
    """Whether a stored message may be removed without anybody asking for it."""
    return (
        config.retention is not RetentionPolicy.LIMITS
        or config.max_msgs > 0
        or config.max_bytes > 0
        or config.max_msgs_per_subject > 0
        or config.max_age_ns > 0
        or config.allow_msg_ttl
        or config.allow_rollup_hdrs
    )


class SourcePositions:
    """The positions of one stream's sources, by index name."""

    def __init__(self, store: Store, ports: Ports) -> None:
        """Empty until `recover`."""
        self._store = store
        self._ports = ports
        self._seqs: dict[str, int] = {}
        self._unwritten: set[str] = set()  # sources whose position is not noted yet
        self._timer: Cancel | None = None
        self._soon = False  # a write at the end of this turn is scheduled
        self.at_once = False  # write with every commit
        self.is_complete = _COMPLETE in store.notes() or store.first_seq <= 1  # a source without position is new

    def get(self, index: str) -> int:
        """The sequence up to which a source was read, 0 if it never was."""
        return self._seqs.get(index, 0)

    def moving(self) -> None:
        """A message is about to be stored. Called before the store is, so that the note is in the same commit."""
        if self.at_once:
            if not self._soon:
                self._soon = True
                self._ports.call_soon(self._write_soon)
        elif self._timer is None:
            self._timer = self._ports.call_later(SOURCE_JOURNAL_NS, self._write_later)

    def moved(self, index: str, seq: int) -> None:
        """A source was read up to here."""
        self._seqs[index] = seq
        self._unwritten.add(index)

    def recover(self, wanted: Mapping[str, str]) -> None:
        """Find the positions of `wanted` sources, index name → stream, and forget all others."""
        noted = self._noted(wanted)
        upto = min((upto for upto, _ in noted.values()), default=0)
        seqs = {index: seq for index, (_, seq) in noted.items()}
        # A source without a note may be anywhere in the log.
        from_seq = self._store.first_seq if len(noted) < len(wanted) else max(self._store.first_seq, upto + 1)
        for index, seq in self._scan(wanted, from_seq, upto, noted).items():
            seqs[index] = max(seq, seqs.get(index, 0))
        # Also what was never met is noted, so that nobody looks for it again.
        self._seqs = {index: seqs.get(index, 0) for index in wanted}
        self._unwritten = set(self._seqs)

    def find(self, index: str, stream: str) -> None:
        """A source was added: it may have been one before."""
        if index not in self._seqs:
            self._seqs.update(self._scan({index: stream}, self._store.first_seq, 0, ()))

    def forget(self, index: str) -> None:
        """A source was removed."""
        self._seqs.pop(index, None)
        self._unwritten.discard(index)
        with contextlib.suppress(StorageFault, ValueError):
            self._store.put_note(_key(index), b"")

    def write(self) -> None:
        """Note what is known, to become durable with the next commit."""
        store = self._store
        try:
            if self.is_complete and _COMPLETE not in store.notes():
                store.put_note(_COMPLETE, b"1")
            while self._unwritten:
                index = self._unwritten.pop()
                store.put_note(_key(index), b"%d %d" % (store.last_seq, self._seqs[index]))
        except (StorageFault, ValueError):
            return  # the store takes nothing now, or has too many notes: the log still knows

    def close(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer()
            self._timer = None

    def _write_soon(self) -> None:
        self._soon = False
        self.write()

    def _write_later(self) -> None:
        self._timer = None
        self.write()

    def _noted(self, wanted: Iterable[str]) -> dict[str, tuple[int, int]]:
        """`(upto, sequence)` of those that have a note which the log does not contradict."""
        notes = self._store.notes()
        found: dict[str, tuple[int, int]] = {}
        for index in wanted:
            upto, _, seq = notes.get(_key(index), b"").partition(b" ")
            if upto.isdigit() and seq.isdigit() and int(upto) <= self._store.last_seq:
                found[index] = int(upto), int(seq)
        return found

    def _scan(self, wanted: Mapping[str, str], from_seq: int, upto: int, known: Collection[str]) -> dict[str, int]:
        """Read the log backwards from its end to `from_seq`, until all sources were met.

        Args:
            wanted: index name → stream.
            from_seq: where to stop.
            upto: for sources in `known`, what lies up to here is known already.
            known: index names.
        """
        found: dict[str, int] = {}
        high = self._store.last_seq
        while high >= from_seq:
            missing = [index for index in wanted if index not in found and (index not in known or high > upto)]
            if not missing:
                break
            low = max(high - SOURCE_SCAN_SEQS + 1, from_seq)
            for stream, index, seq in self._origins(low, high):
                # Within the slice the later message wins; an old header fits every source of its stream.
                for candidate in missing:
                    if candidate == index or (not index and wanted[candidate] == stream.partition(":")[0]):
                        found[candidate] = seq
            high = low - 1
        return found

    def _origins(self, low: int, high: int) -> Iterable[tuple[str, str, int]]:
        """Where the messages of a range came from, in order."""
        for message in messages_with_headers(self._store, low, high):
            value = headers.find(message.headers, SOURCE_HEADER)
            origin = origin_of(value) if value else None
            if origin is not None:
                yield origin


def position_notes(upto: int, seqs: Mapping[str, int]) -> dict[bytes, bytes]:
    """The notes of a stream that was filled by somebody else.

    Args:
        upto: the last sequence of the stream that is taken into account.
        seqs: how far each source was read, by index name; all sources the stream has.
    """
    return {_COMPLETE: b"1", **{_key(index): b"%d %d" % (upto, seq) for index, seq in seqs.items()}}


def _key(index: str) -> bytes:
    return f"source {hashed(index)}".encode()
