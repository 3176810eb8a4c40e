"""A stream being restored: chunks in, a store filled and committed piece by piece, a stream when all is there.

States::

    receiving ──empty chunk──► finishing ──committed──► done
        └──no chunk for 5 s, chunk without reply, server stops──► given up, nothing remains
        └──damage, no room──► failed: the rest is taken and ignored, and told at the end, as nats-server does

The store carries a note until everything is in it. One that is found with the note after a crash is removed: half a
stream is worse than none. A chunk is confirmed when what it held is stored, and committed once much is waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec

from slipstream.dataclass import dataclass
from slipstream.errors import UNREADABLE, ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, ArchiveReader
from slipstream.jetstream.backup.commits import RestoreCommits
from slipstream.jetstream.backup.consumers import decode_consumer, state_of
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.legacy import LegacyReader, OldConsumer, OldStream, Tombstone
from slipstream.jetstream.backup.limits import BACKUP_SILENCE_NS
from slipstream.jetstream.backup.rules import EntryRules, check_bounds
from slipstream.jetstream.backup.s2 import S2Reader
from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.times import parse_time
from slipstream.jetstream.guard import guarded, guarded_with
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.notes import OTHER_SUBJECTS, RESTORING
from slipstream.jetstream.stream.admission.ttl import deadline, message_ttl
from slipstream.limits import RESTORE_COMMIT_BYTES
from slipstream.units import MIB

__all__ = ["Restore", "RestoreOwner", "StreamBounds"]

_DONE: Final = -1


class StreamBounds(msgspec.Struct):
    """What is needed of a stream's state."""

    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0


class _OldMeta(msgspec.Struct):
    name: str = ""
    created: str = msgspec.field(name="Created", default="")


_SLICE_COST: Final = 500  # messages, or what takes as long, that are stored in one turn: 10 ms
_BYTES_A_COST: Final = 16 * 1024  # of content that is decompressed
_WAITING_BYTES_MAX: Final = 64 * MIB  # of chunks that came before the answers to earlier ones


class RestoreOwner(Protocol):
    """Who asked for the restore."""

    def check_consumer(self, name: str, state: ConsumerState) -> None:
        """Correct and check a consumer's configuration.

        Raises:
            BadBackup: it cannot be one of this stream.
        """
        ...

    def would_exceed(self, extra_bytes: int) -> bool:
        """Whether there is no room for this much more."""
        ...

    def complete(self, created_ns: int) -> None:
        """Everything is stored and committed: bring the stream to life."""
        ...

    def failed(self, error: ApiError) -> None:
        """The client has sent everything, and it was in vain. Nothing may remain."""
        ...

    def abandoned(self, reason: str) -> None:
        """The client has gone. Nothing may remain."""
        ...


@dataclass(slots=True)
class _Progress:
    received_bytes: int = 0
    stored_bytes: int = 0
    last_seq: int = 0
    last_ts_ns: int = 0


class Restore:
    """Fills one store."""

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        ports: Ports,
        owner: RestoreOwner,
        bounds: StreamBounds,
        created_ns: int,
        max_payload_bytes: int,
        grants: Callable[[bytes], bool],
        commits: RestoreCommits,
    ) -> None:
        """Expect chunks from now on. `bounds` is what the client says the stream had, for backups without it.

        `grants`: whether who restores may publish to a subject. `commits`: how the store's commits are made.
        """
        self._config = config
        self._rules = EntryRules(config, max_payload_bytes, grants)
        self._store = store
        self._commits = commits
        self._ports = ports
        self._owner = owner
        self._bounds = bounds
        self._created_ns = created_ns
        self._s2 = S2Reader(trusted=False)
        self._content = bytearray()  # decompressed, before its format is known
        self._reader: ArchiveReader | LegacyReader | None = None
        self._expected = 0  # consumers that still follow; `_DONE` after the end
        self._begun = False  # the state was read
        self._problem: ApiError | None = None
        self._chunks: deque[tuple[bytes, bytes]] = deque()  # with their reply subjects; the first is worked on
        self._waiting_bytes = 0  # of those
        self._pieces: Iterator[int] = iter(())  # what is left of the first
        self._uncommitted = 0
        self._committing = False
        self._after_commit: list[Callable[[], None]] = []
        self._finished = False
        self.progress = _Progress()
        store.put_note(RESTORING, b"1")
        self._timer: Cancel | None = None
        self._arm()

    @property
    def problem(self) -> ApiError | None:
        """What was wrong so far."""
        return self._problem

    # --- chunks ---

    def on_chunk(self, reply: bytes | None, chunk: bytes) -> None:
        """The next part of the backup; empty: that was all."""
        if self._finished:
            return
        if not reply:
            self.give_up("requires reply subject for each chunk")
            return
        self._arm()
        self.progress.received_bytes += len(chunk)
        self._waiting_bytes += len(chunk)
        self._chunks.append((reply, chunk))
        if self._waiting_bytes > _WAITING_BYTES_MAX:
            self.give_up("sends much more than was asked for")
        elif len(self._chunks) == 1:
            self._next_chunk()

    def _next_chunk(self) -> None:
        self._pieces = self._take(self._chunks[0][1])
        self._go_on()

    def _go_on(self) -> None:
        """Work on a chunk for one turn: a few bytes of it can be very much content."""
        if self._finished:
            return
        if not self._worked():
            self._ports.call_soon(self._go_on)
            return
        reply, chunk = self._chunks.popleft()
        self._waiting_bytes -= len(chunk)
        if chunk:
            self._when_light(lambda: self._ports.publish(reply, None, None, b""))
        else:
            self._guarded(self._end)
            self._commit(self._complete)
        if self._chunks:
            self._ports.call_soon(self._next_chunk)

    def _worked(self) -> bool:
        """Do a piece of work; whether it was the last one of the chunk."""
        is_last = self._problem is not None

        def work() -> None:
            nonlocal is_last
            left = _SLICE_COST
            for cost in self._pieces:
                left -= cost
                if left <= 0:
                    return
            is_last = True

        self._guarded(work)
        return is_last or self._problem is not None

    def give_up(self, reason: str) -> None:
        """Nobody waits for this any more."""
        if not self._finished:
            self._close()
            self._owner.abandoned(reason)

    def _guarded(self, action: Callable[[], None]) -> None:
        if self._problem is not None:
            return
        try:
            action()
        except BadBackup as problem:
            self._problem = TableError(table.STREAM_RESTORE, err=problem.text)
        except StorageFault as fault:
            self._problem = TableError(table.STREAM_RESTORE, err=fault.text)
        except ApiError as error:
            self._problem = error

    def _take(self, chunk: bytes) -> Iterator[int]:
        """Store what a chunk holds, piece by piece; gives what each piece cost."""
        for content in self._s2.feed(chunk):
            cost = 1 + len(content) // _BYTES_A_COST
            self._content += content
            if self._reader is None and len(self._content) >= len(MAGIC):
                self._reader = ArchiveReader() if self._content[: len(MAGIC)] == MAGIC else LegacyReader()
            if self._reader is not None:
                content, self._content = bytes(self._content), bytearray()
                yield from self._read(self._reader, content)
                self._check_room(self._reader.waiting_bytes)
            yield cost

    def _check_room(self, extra_bytes: int) -> None:
        """What was stored, and what waits in memory to be, fits into what the account has left."""
        needed_bytes = self.progress.stored_bytes + extra_bytes
        if needed_bytes > self._bounds.bytes and self._owner.would_exceed(needed_bytes):
            raise TableError(table.STORAGE_RESOURCES_EXCEEDED)

    def _read(self, reader: ArchiveReader | LegacyReader, content: bytes) -> Iterator[int]:
        if isinstance(reader, ArchiveReader):
            for entry in reader.feed(content):
                self._entry(entry)
                yield 1
            return
        for found in reader.feed(content):
            yield 1
            if isinstance(found, OldStream):
                self._old_stream(found)
            elif isinstance(found, OldConsumer):
                self._add_consumer(found.name, state_of(found.name, found.meta, found.state, self._created_ns))
            elif isinstance(found, Tombstone):
                self._store.delete(found.seq)
            elif found.seq > self.progress.last_seq:
                self._message(found)

    def _entry(self, entry: ArchiveEntry) -> None:
        if self._expected == _DONE:
            raise BadBackup("unexpected content")
        if not self._begun:
            self._state(entry)
        elif self._expected:
            self._consumer(entry)
        elif entry.seq:
            self._message(entry)
        elif entry.is_end:
            self._expected = _DONE
        else:
            raise BadBackup("expected message sequence")

    def _state(self, entry: ArchiveEntry) -> None:
        if entry.name != b"state.json":
            raise BadBackup("expected state.json first")
        try:
            self._bounds = msgspec.json.decode(entry.payload, type=StreamBounds)
        except UNREADABLE as error:
            raise BadBackup(f"error in state.json: {error}") from None
        bounds = self._bounds
        check_bounds(bounds.first_seq, bounds.last_seq, bounds.consumer_count)
        if self._owner.would_exceed(bounds.bytes):
            raise TableError(table.STORAGE_RESOURCES_EXCEEDED)
        self._begun = True
        self._expected = bounds.consumer_count
        if self._bounds.first_seq > 1:
            self._store.trim_to(self._bounds.first_seq)
        self.progress.last_seq = max(self._bounds.first_seq - 1, 0)

    def _consumer(self, entry: ArchiveEntry) -> None:
        name = entry.name.decode("utf-8", "replace")
        if not name.startswith("consumers/"):
            raise BadBackup(f'expected consumer, found "{name}"')
        self._expected -= 1
        name = name.removeprefix("consumers/")
        self._add_consumer(name, decode_consumer(name, entry.payload, self._created_ns))

    def _old_stream(self, found: OldStream) -> None:
        try:
            meta = msgspec.json.decode(found.meta, type=_OldMeta)
            created_ns = parse_time(meta.created) if meta.created else 0
        except (*UNREADABLE, JsonError) as error:
            raise BadBackup(str(error)) from None
        if meta.name != self._config.name:
            raise BadBackup("stream names do not match")
        if created_ns > 0:
            self._created_ns = created_ns
        self._begun = True

    def _add_consumer(self, name: str, state: ConsumerState) -> None:
        self._owner.check_consumer(name, state)
        encoded = state.encode()
        self._store.journal.put(name.encode(), encoded)
        self._uncommitted += len(encoded)
        self.progress.stored_bytes += len(encoded)
        self._check_room(0)

    def _message(self, entry: ArchiveEntry) -> None:
        progress, store = self.progress, self._store
        now_ns = self._ports.now_ns()
        entry = self._rules.checked(entry, progress.last_seq, now_ns)
        ttl = message_ttl(entry.headers) if entry.headers else 0
        if ttl is None:
            raise BadBackup("failed to parse message TTL")
        ts_ns = max(entry.ts_ns, progress.last_ts_ns)
        expires_ns = deadline(ts_ns, ttl) if self._config.allow_msg_ttl else 0
        if expires_ns and expires_ns <= now_ns:
            store.skip_to(entry.seq)
        else:
            try:
                store.append(entry.seq, ts_ns, entry.name, entry.headers, entry.payload, expires_ns)
            except (ValueError, OverflowError) as error:
                raise BadBackup(f"failed to store message sequence {entry.seq}: {error}") from None
            progress.stored_bytes += store.message_bytes(len(entry.name), len(entry.headers), len(entry.payload))
            self._check_room(0)
        progress.last_seq, progress.last_ts_ns = entry.seq, ts_ns
        self._uncommitted += len(entry.headers) + len(entry.payload)

    def _end(self) -> None:
        complete = self._expected == _DONE
        if isinstance(self._reader, LegacyReader):
            complete = self._begun and self._reader.is_between_files
            if self._bounds.first_seq > self._store.assigned.first_seq:
                self._store.trim_to(self._bounds.first_seq)
        if not complete or not self._s2.is_between_chunks:
            raise BadBackup("backup was truncated")
        # Sequences of messages that were removed at the end are not given out again.
        if self._store.last_seq < self._bounds.last_seq:
            self._store.skip_to(self._bounds.last_seq)
        self._store.set_config(to_stored(self._config, self._created_ns))
        self._store.put_note(RESTORING, b"")
        if self._rules.has_others:
            self._store.put_note(OTHER_SUBJECTS, b"1")

    # --- commits ---

    def _when_light(self, then: Callable[[], None]) -> None:
        """Go on now, or after a commit if much is waiting for one."""
        if self._uncommitted < RESTORE_COMMIT_BYTES and not self._committing:
            then()
        else:
            self._commit(then)

    def _commit(self, then: Callable[[], None]) -> None:
        self._after_commit.append(then)
        if self._committing:
            return
        self._uncommitted = 0
        self._committing = True
        self._commits.commit(guarded_with(self._committed, self.broke))

    def _committed(self, problem: str) -> None:
        self._committing = False
        if problem and self._problem is None:
            self._problem = TableError(table.STREAM_RESTORE, err=problem)
        self._released()

    def _released(self) -> None:
        waiting, self._after_commit = self._after_commit, []
        if not self._finished:
            for then in waiting:
                then()

    def _complete(self) -> None:
        if self._problem is None and self._store.committed_seq < self._store.last_seq:
            self._commit(self._complete)  # something joined while a commit was under way
            return
        self._close()
        if self._problem is not None:
            self._owner.failed(self._problem)
        else:
            self._owner.complete(self._created_ns)

    def broke(self, error: Exception) -> None:
        """Something that nobody expected: the restore ends here."""
        self._ports.report(f"The restore of stream '{self._config.name}'", error)
        self._close()
        self._owner.failed(TableError(table.STREAM_RESTORE, err="internal error"))

    def _close(self) -> None:
        self._finished = True
        if self._timer is not None:
            self._timer()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer()
        self._timer = self._ports.call_later(BACKUP_SILENCE_NS, guarded(self._silence, self.broke))

    def _silence(self) -> None:
        self._timer = None
        if self._committing or self._chunks:
            self._arm()
        else:
            self.give_up("is stalled")
