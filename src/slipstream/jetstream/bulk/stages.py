"""Parts being staged, and the room they take.

    STAGE.<stream> {txn, part, attempt} ──► id
    STAGE.<stream>.<id>.<offset> bytes, in order ──► written by a thread, several at a time ──► {offset}
    STAGE.<stream>.<id>.END {count, crc, bytes} ──► checked ──► the part, which COMMIT names

A writer on this machine may put its bytes into memory that it is given, and say where (STAGE.<stream>.<id>.M<offset>).
They are copied before anything is made of them, and its room is its own again when it is answered.

Parts of one transaction are independent: any number of attempts may be staged, the commit says which ones count.
A part that is whole survives a restart; one that was being written does not, and its writer begins again.
How long a part is kept that nobody commits is counted from when it was whole; after a restart from when it was begun,
for its name is all that is known of it then.

Invariant: at most one thread works on a part; answers leave in the order of the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import partial

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.limits import (
    BULK_MEMORY_CHUNK_BYTES,
    BULK_MEMORY_CREDIT,
    BULK_STAGE_WAITING_BYTES_MAX,
    BULK_STAGES_OPEN_MAX,
    BULK_SWEEP_NS,
)
from slipstream.jetstream.bulk.parts import Part, StagedParts, part_name, part_prefix
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Cancel, Ports, SharedMemory
from slipstream.jetstream.stream.commit.faults import fault_of, store_error
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.bulk.stagedrows import MORE, StagedRows
from slipstream.limits import BULK_STAGE_IDLE_NS, BULK_STAGE_NS

__all__ = ["Begun", "Stages", "memory_name"]

Done = Callable[[ApiError | None], None]


@dataclass(frozen=True, slots=True)
class Begun:
    """A part that may be written."""

    id: str
    memory: SharedMemory | None
    """Where its writer may put bytes."""


@dataclass(slots=True, eq=False)
class _Stage:
    """One part being written."""

    id: str
    stream: Stream
    name: str
    rows: StagedRows
    active_ns: int
    keep_ns: int
    offset: int = 0
    """Bytes that came."""
    written: int = 0
    memory: SharedMemory | None = None
    queue: list[tuple[bytes | memoryview, Done]] = field(default_factory=list)
    waiting_bytes: int = 0
    busy: bool = False
    end: tuple[Part, Done] | None = None
    fault: ApiError | None = None
    gone: bool = False


class Stages:
    """All staging of one account."""

    def __init__(self, ports: Ports) -> None:
        """Nobody stages yet."""
        self._ports = ports
        self._open: dict[str, _Stage] = {}
        self._parts: dict[str, StagedParts] = {}
        self._sweeping: Cancel | None = None

    def add_stream(self, stream: Stream) -> None:
        """A stream begins: find its parts."""
        parts = self._parts[stream.name] = StagedParts(stream)

        def load() -> None:
            # What cannot be listed cannot be committed either; the next part reports the disk.
            with suppress(StorageFault):
                parts.load()

        def loaded() -> None:
            if self._parts.get(stream.name) is parts:
                parts.loaded()
            self._arm()

        if parts.area.is_used():
            self._ports.run_blocking(load, loaded)

    def remove_stream(self, stream: Stream) -> None:
        """A stream is gone for good, and all that was staged for it."""
        for stage in [stage for stage in self._open.values() if stage.stream is stream]:
            self._close(stage)
        parts = self._parts.pop(stream.name, None)
        if parts is not None and parts.area.is_used():
            self._in_thread(parts.area.destroy, _ignore)

    def parts_of(self, stream: Stream) -> StagedParts:
        """The whole parts of a stream."""
        return self._parts[stream.name]

    def begin(
        self,
        stream: Stream,
        txn: str,
        part: int,
        attempt: int,
        done: Callable[[Begun | ApiError], None],
        *,
        memory: bool = False,
        keep_ns: int = BULK_STAGE_NS,
    ) -> None:
        """Begin a part; `done` gets its id, and memory if it was asked for and can be had.

        Once it is whole it is kept for `keep_ns`.

        Raises:
            ApiError: there are too many.
        """
        parts = self.parts_of(stream)
        if len(self._open) >= BULK_STAGES_OPEN_MAX:
            raise TableError(errors.STAGE_FULL, err="too many parts are being written")
        if not parts.room_for(0):
            raise TableError(errors.STAGE_FULL, err="too many parts or bytes wait to be committed")
        now_ns = self._ports.now_ns()
        id_ = self._ports.new_nuid()
        name = part_name(txn, part, attempt, id_, now_ns, keep_ns)
        rows = StagedRows(size_max=stream.appends.rules.settings.max_payload_bytes)  # what nobody could have published
        stage = _Stage(id_, stream, name, rows, now_ns, keep_ns)
        if memory:
            size = BULK_MEMORY_CREDIT * BULK_MEMORY_CHUNK_BYTES
            stage.memory = self._ports.share_memory(memory_name(id_), size, to_write=True)
        self._open[id_] = stage
        parts.grow(name, 0)
        self._arm()

        def made(fault: ApiError | None) -> None:
            if fault is not None:
                self._open.pop(id_, None)
                _forget_memory(stage)
                parts.forget(name)
            done(fault or Begun(id_, stage.memory))

        self._in_thread(lambda: parts.area.create(name), made)

    def place(self, stream: Stream, id_: str, at: int, size: int) -> memoryview:
        """Bytes in the memory of a part.

        Raises:
            ApiError: there is no such part or place.
        """
        memory = self._get(stream, id_).memory
        if memory is None or at + size > len(memory.view):
            raise TableError(errors.INVALID_REQUEST, err="there is no such place in memory")
        return memory.view[at : at + size]

    def add(
        self, stream: Stream, id_: str, offset: int, data: bytes | memoryview, done: Callable[[int | ApiError], None]
    ) -> None:
        """More bytes of a part; `done` gets the offset behind them when they are written.

        Raises:
            ApiError: there is no such part, the bytes are not the next ones, or there is no room.
        """
        stage = self._get(stream, id_)
        if offset != stage.offset:
            raise TableError(errors.PART_INVALID, err=f"bytes at {offset} came, {stage.offset} is next")
        if stage.waiting_bytes + len(data) > BULK_STAGE_WAITING_BYTES_MAX:
            raise TableError(errors.STAGE_FULL, err="too many bytes wait for the disk")
        parts = self.parts_of(stream)
        if not parts.room_for(len(data)):
            self._close(stage)
            raise TableError(errors.STAGE_FULL, err="too many parts or bytes wait to be committed")
        parts.grow(stage.name, len(data))
        stage.offset += len(data)
        stage.active_ns = self._ports.now_ns()
        stage.waiting_bytes += len(data)
        behind = stage.offset
        stage.queue.append((data, lambda fault: done(fault or behind)))
        self._write(stage)

    def end(self, stream: Stream, id_: str, part: Part, done: Callable[[Part | ApiError], None]) -> None:
        """The part is whole; `done` gets it under its name when it is in its file.

        Raises:
            ApiError: there is no such part.
        """
        stage = self._get(stream, id_)
        whole = Part(stage.name, part.count, part.crc, part.bytes)
        stage.end = (whole, lambda fault: done(fault or whole))
        self._write(stage)

    def abort(self, stream: Stream, txn: str, done: Callable[[int], None]) -> None:
        """Forget everything staged for a transaction; `done` gets the number of whole parts."""
        prefix = part_prefix(txn)
        for stage in [stage for stage in self._open.values() if stage.stream is stream]:
            if stage.name.startswith(prefix):
                self._close(stage)
        names = [name for name in self.parts_of(stream).sizes if name.startswith(prefix)]
        self.drop(stream, names, lambda: done(len(names)))

    def drop(self, stream: Stream, names: list[str], done: Callable[[], None] | None = None) -> None:
        """Forget whole parts; files that cannot be removed now go when they are too old."""
        parts = self.parts_of(stream)
        for name in names:
            parts.forget(name)

        def remove() -> None:
            for name in names:
                parts.area.remove(name)

        self._in_thread(remove, lambda _: done() if done is not None else None)

    def stop(self) -> None:
        """The account shuts down; whole parts stay where they are."""
        for stage in self._open.values():
            stage.gone = True
            _forget_memory(stage)
        self._open.clear()
        self._parts.clear()
        if self._sweeping is not None:
            self._sweeping()
            self._sweeping = None

    # --- inside -----------------------------------------------------------------------------------------------------

    def _get(self, stream: Stream, id_: str) -> _Stage:
        stage = self._open.get(id_)
        if stage is None or stage.stream is not stream or stage.end is not None:
            raise TableError(errors.PART_NOT_FOUND, part=id_)
        return stage

    def _write(self, stage: _Stage) -> None:
        """Give what waits to a thread."""
        if stage.busy:
            return
        if stage.gone:
            if stage.end is not None:
                _, done = stage.end
                stage.end = None
                done(TableError(errors.PART_NOT_FOUND, part=stage.id))
            return
        if not stage.queue:
            if stage.end is not None:
                self._finish(stage)
            return
        stage.busy = True
        taken, stage.queue = stage.queue, []
        size = sum(len(piece) for piece, _ in taken)
        area, at = self.parts_of(stage.stream).area, stage.written

        def write() -> None:
            if stage.fault is None:
                behind = at
                for piece, _ in taken:
                    data = bytes(piece)  # of shared memory a copy: its owner can change it at any time
                    _check(stage.rows, data)
                    area.write(stage.name, behind, data)
                    behind += len(data)

        def written(fault: ApiError | None) -> None:
            stage.busy = False
            stage.written += size
            stage.waiting_bytes -= size
            stage.fault = stage.fault or fault
            for _, done in taken:
                done(stage.fault)
            self._write(stage)

        self._in_thread(write, written)

    def _finish(self, stage: _Stage) -> None:
        assert stage.end is not None
        part, done = stage.end
        stage.busy = True
        rows = stage.rows
        if stage.fault is None and (rows.rows, rows.crc, rows.size, rows.unused) != (
            part.count,
            part.crc,
            part.bytes,
            0,
        ):
            stage.fault = TableError(
                errors.PART_INVALID, err=f"{rows.rows} records of {rows.size} bytes came, not what was announced"
            )
        parts = self.parts_of(stage.stream)

        def finished(fault: ApiError | None) -> None:
            self._open.pop(stage.id, None)
            _forget_memory(stage)
            if fault is not None:
                self._forget(stage)
            else:
                parts.keep([stage.name], self._ports.now_ns() + stage.keep_ns)
            done(fault)

        if stage.fault is not None:
            finished(stage.fault)
        else:
            self._in_thread(lambda: parts.area.finish(stage.name), finished)

    def _close(self, stage: _Stage) -> None:
        """Give a part up; whoever still waits for an answer about it is told."""
        stage.gone = True
        self._open.pop(stage.id, None)
        _forget_memory(stage)
        for _, done in stage.queue:
            done(TableError(errors.PART_NOT_FOUND, part=stage.id))
        stage.queue = []
        self._write(stage)
        self._forget(stage)

    def _forget(self, stage: _Stage) -> None:
        parts = self._parts.get(stage.stream.name)
        if parts is not None:
            parts.forget(stage.name)
            self._in_thread(partial(parts.area.remove, stage.name), _ignore)

    def _in_thread(self, work: Callable[[], None], done: Done) -> None:
        outcome: list[ApiError] = []

        def run() -> None:
            try:
                work()
            except ApiError as error:
                outcome.append(error)
            except Exception as error:
                # Whatever it is, the client gets an answer.
                outcome.append(store_error(fault_of(error)))

        self._ports.run_blocking(run, lambda: done(outcome[0] if outcome else None))

    def _arm(self) -> None:
        if self._sweeping is None and (self._open or any(parts.sizes for parts in self._parts.values())):
            self._sweeping = self._ports.call_later(BULK_SWEEP_NS, self._sweep)

    def _sweep(self) -> None:
        """Give up parts nobody goes on with, and those that nobody has committed for long."""
        self._sweeping = None
        now_ns = self._ports.now_ns()
        for stage in list(self._open.values()):
            if not stage.busy and stage.active_ns < now_ns - BULK_STAGE_IDLE_NS:
                self._close(stage)
        being_written = {stage.name for stage in self._open.values()}
        for parts in self._parts.values():
            for name in parts.expired(now_ns):
                if name not in being_written:
                    parts.forget(name)
                    self._in_thread(partial(parts.area.remove, name), _ignore)
        self._arm()


def memory_name(id_: str) -> str:
    """Of the memory that the writer of a part is given."""
    return f"slipstream-stage-{id_}"


def _forget_memory(stage: _Stage) -> None:
    if stage.memory is not None:
        stage.memory.close()
        stage.memory = None


def _ignore(_fault: ApiError | None) -> None:
    """What cannot be removed now is removed when it is too old."""


def _check(rows: StagedRows, data: bytes) -> None:
    """Hold bytes to being records, in a thread.

    Raises:
        ApiError: they are not.
    """
    rows.feed(data)
    reason = rows.check()
    if reason != MORE:
        raise TableError(errors.PART_INVALID, err=f"row {rows.rows}: {reason}")
