"""Staged parts become messages: all of them in one atomic unit of the log, together with the fence, or none.

    asked ──► fence passed? ──yes──► answered "duplicate" with what was committed then
                  └──no──► waits for its turn ──► unit open: slices are read ahead by a thread, appended on the loop
                                                     ├──► unit closed with the fence, answered after the commit
                                                     └──► anything wrong: unit given up, answered with the reason

While a unit is open, publishes to the stream wait (`Ingest.hold_back`); other streams do not notice. One commit of a
stream is under way at a time.

A message is held to what a publish is held to: subjects, sizes, conditions and message ids in headers, discard-new,
interest, resources. What a publish would be refused for refuses the whole commit; a message id that was seen before, or
a message nobody wants (interest retention), leaves out that message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.entry import CommitUnit
from slipstream.jetstream.bulk.fences import StoredFence, fence_notes, find_fence
from slipstream.jetstream.bulk.limits import (
    BULK_COMMIT_BACKLOG_BYTES,
    BULK_COMMIT_CAREFUL_BYTES,
    BULK_COMMIT_SLICE_BYTES,
    BULK_COMMIT_SLICES_AHEAD,
    BULK_COMMIT_WRITE_BYTES,
    BULK_COMMITS_WAITING_MAX,
    BULK_CONGESTED_NS,
)
from slipstream.jetstream.bulk.parts import Part
from slipstream.jetstream.bulk.stages import Stages
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract.staging import StageArea
from slipstream.jetstream.stream.commit.faults import fault_of, store_error
from slipstream.jetstream.stream.stream import Stream
from slipstream.limits import BULK_STAGE_NS

__all__ = ["CommitOutcome", "Commits"]


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What a commit did. Sequences are 0 when a repeated commit is not the last one of its transaction."""

    first_seq: int
    last_seq: int
    count: int
    left_out: int = 0
    duplicate: bool = False
    offered: int | None = None
    """Messages that the batch had when it was committed; None if that is not known any more."""


Done = Callable[[CommitOutcome | ApiError], None]


@dataclass(slots=True)
class _Slice:
    """A piece of a part on its way from the stage to the log."""

    part: Part
    offset: int
    length: int
    data: bytes | ApiError | None = None
    """Set when it was read."""


@dataclass(slots=True, eq=False)
class _Commit:
    txn: str
    batch_id: int
    parts: Sequence[Part]
    brief: bool
    after: int | None
    copied: bool
    done: Done
    slices: Iterator[_Slice] = field(default_factory=lambda: iter(()))
    """Those that nobody has begun to read."""
    ahead: deque[_Slice] = field(default_factory=deque)
    """The next ones to be appended, being read, or read."""
    waits: bool = False
    """The disk has to catch up."""
    unit: CommitUnit | None = None
    """Set while the unit is open."""
    gone: bool = False


@dataclass(slots=True)
class _Line:
    """The commits of one stream."""

    waiting: deque[_Commit] = field(default_factory=deque)
    running: _Commit | None = None


class Commits:
    """All commits of one account."""

    def __init__(self, ports: Ports, stages: Stages) -> None:
        """Take parts from `stages`."""
        self._ports = ports
        self._stages = stages
        self._lines: dict[Stream, _Line] = {}

    def begin(
        self,
        stream: Stream,
        txn: str,
        batch_id: int,
        parts: Sequence[Part],
        done: Done,
        *,
        brief: bool = False,
        after: int | None = None,
        copied: bool = False,
    ) -> None:
        """Commit a batch; `done` is called when it is on disk, or with why not.

        Args:
            stream: where to.
            txn: the transaction.
            batch_id: its batch.
            parts: of the batch, in order.
            done: gets the outcome.
            brief: the transaction has this batch only.
            after: the batch that the transaction must have committed last; -1 for none, None for any.
            copied: another stream has taken the messages before; see `CommitUnit`.

        Raises:
            ApiError: too many wait.
        """
        line = self._lines.setdefault(stream, _Line())
        if len(line.waiting) >= BULK_COMMITS_WAITING_MAX:
            raise TableError(errors.STAGE_FULL, err="too many commits wait")
        line.waiting.append(_Commit(txn, batch_id, parts, brief, after, copied, done))
        # Somebody goes on with them, and a commit may take longer than they were to be kept without one.
        self._stages.parts_of(stream).keep((part.name for part in parts), self._ports.now_ns() + BULK_STAGE_NS)
        self._next(stream)

    def is_running(self, stream: Stream, txn: str) -> bool:
        """Whether a transaction has a commit waiting or under way."""
        line = self._lines.get(stream)
        if line is None:
            return False
        return any(commit.txn == txn for commit in (*line.waiting, *((line.running,) if line.running else ())))

    def drop_stream(self, stream: Stream) -> None:
        """A stream stops: nothing more is committed to it here."""
        line = self._lines.pop(stream, None)
        if line is None:
            return
        for commit in (*line.waiting, *((line.running,) if line.running else ())):
            commit.gone = True
            commit.done(TableError(table.CLUSTER_NOT_AVAIL if stream.is_replicated else errors.STREAM_GONE))

    def stop(self) -> None:
        """The account shuts down: what is not committed is not, and nobody is answered any more."""
        for line in self._lines.values():
            for commit in (*line.waiting, *((line.running,) if line.running else ())):
                commit.gone = True
        self._lines.clear()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _next(self, stream: Stream) -> None:
        line = self._lines.get(stream)
        if line is None or line.running is not None or not line.waiting:
            return
        commit = line.running = line.waiting.popleft()
        fence = find_fence(stream.store, commit.txn)
        if fence is not None and commit.batch_id <= fence.batch_id:
            self._repeated(stream, commit, fence)
            return
        last_batch = -1 if fence is None else fence.batch_id
        if commit.after is not None and commit.after != last_batch:
            self._fail(stream, commit, TableError(errors.FENCE_MOVED, batch=last_batch))
            return
        try:
            self._open(stream, commit)
        except ApiError as error:
            self._fail(stream, commit, error)
        except StorageFault as fault:
            self._fail(stream, commit, store_error(fault))

    def _repeated(self, stream: Stream, commit: _Commit, fence: StoredFence) -> None:
        """It was committed before. The answer waits for the commit of what it tells of."""
        known = commit.batch_id == fence.batch_id
        outcome = CommitOutcome(
            fence.first_seq if known else 0,
            fence.last_seq if known else 0,
            fence.count if known else 0,
            duplicate=True,
            offered=fence.offered if known else None,
        )
        self._end(stream)
        stream.after_commit(lambda error: self._answer(stream, commit, error or outcome))

    def _open(self, stream: Stream, commit: _Commit) -> None:
        known = self._stages.parts_of(stream).sizes
        for part in commit.parts:
            if known.get(part.name) != part.bytes:
                raise TableError(errors.PART_NOT_FOUND, part=part.name)
        if stream.store.atomic_open:
            # Another unit is being written; it is closed in this turn or the next.
            line = self._lines[stream]
            line.waiting.appendleft(commit)
            line.running = None
            self._ports.call_later(BULK_CONGESTED_NS, lambda: self._next(stream))
            return
        # Better now than when everything was written.
        fence_notes(stream.store, commit.txn, StoredFence(0, 0, 0, 0, self._ports.now_ns(), brief=commit.brief))
        commit.unit = CommitUnit(
            stream,
            self._ports,
            count=sum(part.count for part in commit.parts),
            copied=commit.copied,
        )
        commit.slices = _slices(
            commit.parts, BULK_COMMIT_CAREFUL_BYTES if commit.unit.careful else BULK_COMMIT_SLICE_BYTES
        )
        self._read_ahead(stream, commit)
        if not commit.ahead:
            self._go_on(stream, commit)

    def _read_ahead(self, stream: Stream, commit: _Commit) -> None:
        """Have the next slices read, as far as there are any."""
        area = self._stages.parts_of(stream).area
        while len(commit.ahead) < BULK_COMMIT_SLICES_AHEAD and (piece := next(commit.slices, None)) is not None:
            commit.ahead.append(piece)
            self._ports.run_blocking(partial(_read, area, piece), lambda: self._go_on(stream, commit))

    def _go_on(self, stream: Stream, commit: _Commit) -> None:
        """Append the next slice if it was read, while others are being read; or close the unit."""
        unit = commit.unit
        if commit.gone or unit is None or commit.waits:
            return
        if not stream.store.atomic_open:
            # A fault has taken the unit.
            self._fail(stream, commit, TableError(errors.READ_FAILED, err="the disk failed during the commit"))
            return
        if not commit.ahead:
            self._close(stream, commit, unit)
            return
        if commit.ahead[0].data is None:
            return
        waiting_bytes = stream.store.uncommitted_bytes
        if waiting_bytes > BULK_COMMIT_WRITE_BYTES:
            stream.committer.wake()  # write on while the next slices are read
        if waiting_bytes > BULK_COMMIT_BACKLOG_BYTES:
            commit.waits = True
            self._ports.call_later(BULK_CONGESTED_NS, lambda: self._retry(stream, commit))
            return
        piece = commit.ahead.popleft()
        self._read_ahead(stream, commit)
        try:
            _append(unit, piece)
        except ApiError as error:
            self._fail(stream, commit, error)
            return
        except StorageFault as fault:
            self._fail(stream, commit, store_error(fault))
            return
        if not commit.ahead or commit.ahead[0].data is not None:
            self._ports.call_soon(lambda: self._go_on(stream, commit))  # nobody else will say so

    def _retry(self, stream: Stream, commit: _Commit) -> None:
        commit.waits = False
        self._go_on(stream, commit)

    def _close(self, stream: Stream, commit: _Commit, unit: CommitUnit) -> None:
        try:
            first_seq, last_seq, count = unit.first_seq, unit.last_seq, unit.count
            fence = StoredFence(
                commit.batch_id,
                first_seq if count else 0,
                last_seq if count else 0,
                count,
                unit.ts_ns,
                count + unit.left_out,
                commit.brief,
            )
            unit.close(fence_notes(stream.store, commit.txn, fence))
        except ApiError as error:
            self._fail(stream, commit, error)
            return
        except (StorageFault, ValueError) as error:
            self._fail(stream, commit, store_error(fault_of(error)))
            return
        outcome = CommitOutcome(fence.first_seq, fence.last_seq, count, unit.left_out, offered=fence.offered)
        commit.unit = None
        stream.after_commit(lambda error: self._answer(stream, commit, error or outcome))
        stream.ingest.let_go()
        self._end(stream)

    def _answer(self, stream: Stream, commit: _Commit, outcome: CommitOutcome | ApiError) -> None:
        if commit.gone:
            return
        if isinstance(outcome, CommitOutcome):
            self._stages.drop(stream, [part.name for part in commit.parts])
        commit.done(outcome)

    def _fail(self, stream: Stream, commit: _Commit, error: ApiError) -> None:
        if commit.unit is not None:
            commit.unit.give_up()
            commit.unit = None
            stream.ingest.let_go()
        commit.done(error)
        self._end(stream)

    def _end(self, stream: Stream) -> None:
        line = self._lines.get(stream)
        if line is not None:
            line.running = None
            if line.waiting:
                self._ports.call_soon(lambda: self._next(stream))


def _slices(parts: Sequence[Part], length: int) -> Iterator[_Slice]:
    """The bytes of all parts in order; a part without any is one slice."""
    for part in parts:
        for offset in range(0, max(part.bytes, 1), length):
            yield _Slice(part, offset, min(length, part.bytes - offset))


def _read(area: StageArea, piece: _Slice) -> None:
    """Read a slice, in a thread."""
    try:
        piece.data = area.read(piece.part.name, piece.offset, piece.length)
    except Exception as error:
        # Whatever it is, the client gets an answer and the stream goes on.
        piece.data = store_error(fault_of(error))


def _append(unit: CommitUnit, piece: _Slice) -> None:
    """Append a slice to the unit.

    Raises:
        ApiError: it could not be read, is not what was staged, or holds a message that is refused.
        StorageFault: the store takes no more.
    """
    part, data = piece.part, piece.data
    assert data is not None
    if isinstance(data, ApiError):
        raise data
    if len(data) != piece.length:
        raise TableError(errors.PART_INVALID, err=f"{part.name} is shorter than it was")
    if piece.offset == 0:
        unit.begin_part()
    unit.append(data)
    if piece.offset + piece.length == part.bytes:
        unit.end_part(part)
