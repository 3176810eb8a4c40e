"""One stream from a source into a store of ours: written, opened again, read back and compared."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.jetstream.config.versioning import API_LEVEL, REQUIRED_LEVEL_KEY, stream_level, with_required_level
from slipstream.jetstream.store.file import FileStore, FileStoreOptions, segment_bytes_for
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.notes import OTHER_SUBJECTS
from slipstream.jetstream.store.values import ALL, SEQ_MAX, Damaged
from slipstream.jetstream.stream.admission.ttl import message_ttl
from slipstream.jetstream.stream.copies.source_positions import position_notes
from slipstream.limits import RESTORE_COMMIT_BYTES
from slipstream.migrate.blocks import Record
from slipstream.migrate.consumers import state_in
from slipstream.migrate.digest import MessageDigest
from slipstream.migrate.errors import MigrationError
from slipstream.migrate.source import SourceStream
from slipstream.migrate.staging import Done, MigrationStage
from slipstream.units import SECOND_NS

__all__ = ["Advance", "adapted", "copy_stream", "stored_messages"]

Advance = Callable[[int], None]
_READ_MSGS = 4096  # read back at a time
_READ_BYTES = 8 * 1024 * 1024
_TS_MAX = (1 << 63) - 1
_SUBJECTS_SHOWN = 3  # that differ, in a report


def adapted(config: StreamConfig, *, to_server: bool) -> tuple[StreamConfig, list[str]]:
    """A configuration as this server keeps it, and what had to change.

    Args:
        config: the source's.
        to_server: it goes on to a running server, so that it may be one that is kept in memory.

    Raises:
        MigrationError: the server would not take it.
    """
    notes = []
    level = config.metadata.get(REQUIRED_LEVEL_KEY, "0")
    if not level.isdecimal() or int(level) > API_LEVEL:
        raise MigrationError(f"it needs API level {level}, this version has {API_LEVEL}")
    config = msgspec.structs.replace(config, metadata=with_required_level(config.metadata, stream_level(config)))
    if config.num_replicas > 1:
        notes.append(f"it had {config.num_replicas} replicas and has one now")
        config.num_replicas = 1
    if config.storage is StorageType.MEMORY and not to_server:
        raise MigrationError("it is kept in memory: it can only go to a running server")
    try:
        return checked(config, ConfigContext(lambda _: None)), notes
    except ApiError as error:
        raise MigrationError(f"its configuration cannot be used here: {error}") from None


def copy_stream(source: SourceStream, staging: MigrationStage, advance: Advance, *, to_server: bool = False) -> Done:
    """Write a stream into the staging directory and compare it with what was read.

    Raises:
        MigrationError: it cannot be had here, or what was written is not what was read.
        StorageFault: the disk failed.
    """
    uid = secrets.token_bytes(16)
    fingerprint = source.fingerprint()
    config, notes = adapted(source.config, to_server=to_server)
    source.findings.notes += notes
    writer = _Writer(source, config, staging.path(uid.hex()), uid)
    writer.fill(advance)
    writer.verify()
    if source.fingerprint() != fingerprint:
        raise MigrationError("it changed while it was read: stop the server that uses it first")
    return writer.finished(fingerprint)


class _Writer:
    """The store of one stream in the making."""

    def __init__(self, source: SourceStream, config: StreamConfig, directory: str, uid: bytes) -> None:
        self._source = source
        self._config = config
        self._directory = directory
        self._uid = uid
        self._disk = RealDisk()
        self._options = FileStoreOptions(
            random64=lambda: secrets.randbits(64),
            noise=secrets.token_bytes,
            now_ns=time.time_ns,
            segment_bytes=segment_bytes_for(config.max_bytes),
        )
        self._digest = MessageDigest()
        self._consumers: list[str] = []
        self._last_ts_ns = 0
        self._moved = 0  # messages whose time was before that of the one before

    # --- writing ---

    def fill(self, advance: Advance) -> None:
        """Everything in, committed, closed."""
        batches = self._batches(advance)
        first = next(batches, None)
        store = self._create(first[0][0] if first else max(self._source.last_seq, 1))
        try:
            if first is not None:
                self._append(store, first)
            for records in batches:
                self._append(store, records)
            self._remember_last(store)
            self._note_positions(store)
            _commit(store)
            own = tuple(subject.encode() for subject in self._config.subjects)
            if own and store.count_matching(own, 0) < store.messages:
                store.put_note(OTHER_SUBJECTS, b"1")
            for consumer in self._source.consumers():
                if consumer.config.mem_storage:
                    # It would not have survived a restart; the client that uses it makes it again.
                    continue
                try:
                    state = state_in(consumer, self._config, store)
                except MigrationError as error:
                    self._source.findings.damage.append(str(error))
                    continue
                store.journal.put(consumer.name.encode(), state.encode())
                self._consumers.append(consumer.name)
            _commit(store)
        finally:
            store.close()

    def _batches(self, advance: Advance) -> Iterator[list[Record]]:
        for records, size in self._source.messages():
            advance(size)
            if records:
                yield records

    def _create(self, first_seq: int) -> FileStore:
        stored = to_stored(self._config, self._source.created_ns)
        return FileStore.create(
            self._disk, self._directory, uid=self._uid, config=stored, options=self._options, first_seq=first_seq
        )

    def _append(self, store: FileStore, records: list[Record]) -> None:
        kept: list[Record] = []
        expires = self._config.allow_msg_ttl
        for seq, ts_ns, subject, headers, payload in records:
            if ts_ns < self._last_ts_ns:
                ts_ns = self._last_ts_ns
                self._moved += 1
            self._last_ts_ns = ts_ns
            expires_ns = _expiry(headers, ts_ns) if expires and b"Nats-TTL" in headers else 0
            try:
                store.append(seq, ts_ns, subject, headers, payload, expires_ns)
            except ValueError as error:
                raise MigrationError(f"message {seq} cannot be stored here: {error}") from None
            kept.append((seq, ts_ns, subject, headers, payload))
        self._digest.update(kept)
        if store.uncommitted_bytes >= RESTORE_COMMIT_BYTES:
            _commit(store, sync=False)

    def _remember_last(self, store: FileStore) -> None:
        """Sequences that were given out are not given out again, and the stream keeps the time of the last one."""
        last_seq, last_ts_ns = self._source.last_seq, self._source.last_ts_ns
        if last_seq <= store.last_seq:
            return
        if last_ts_ns > store.last_ts_ns:
            # Only a message carries a time: one that is removed at once.
            store.append(last_seq, last_ts_ns, b"_", b"", b"")
            store.delete(last_seq)
        else:
            store.skip_to(last_seq)

    def _note_positions(self, store: FileStore) -> None:
        """A source whose messages are all gone is not read again from its beginning."""
        upto, seqs = self._source.positions()
        if not seqs or upto > store.last_seq:
            return  # the headers of messages tell
        try:
            for key, value in position_notes(upto, seqs).items():
                store.put_note(key, value)
        except ValueError:
            self._source.findings.notes.append("it has too many sources to note their positions: messages tell them")

    # --- comparing ---

    def verify(self) -> None:
        """Open what was written like a server would, and compare it with what was read."""
        store = FileStore.open(self._disk, self._directory, self._options)
        try:
            found = MessageDigest()
            for records in stored_messages(store):
                found.update(records)
            if (found.messages, found.hex()) != (self._digest.messages, self._digest.hex()):
                raise MigrationError(
                    f"what was written is not what was read: {found.messages} messages with digest {found.hex()}, "
                    f"not {self._digest.messages} with {self._digest.hex()}"
                )
            if store.last_seq < self._source.last_seq:
                raise MigrationError(f"it ends at {store.last_seq}, not at {self._source.last_seq}")
            kept = sorted(key.decode() for key in store.journal.entries())
            if kept != sorted(self._consumers):
                raise MigrationError(f"the consumers written are {kept}, not {sorted(self._consumers)}")
            self._compare_subjects(store)
            self._keep_limits(store)
            self._upkeep(store)
            self._state = (store.messages, store.size_bytes, store.first_seq, store.last_seq)
        finally:
            store.close()

    def _compare_subjects(self, store: FileStore) -> None:
        """Checksums of the source do not cover how long a subject is; its counts by subject tell."""
        counted = self._source.subjects
        if counted is None or self._source.findings.damage:
            return
        found = dict(store.subjects_matching(b">"))
        if found == counted:
            return
        wrong = sorted(
            subject for subject in found.keys() | counted.keys() if found.get(subject, 0) != counted.get(subject, 0)
        )
        shown = ", ".join(
            f"{name.decode(errors='replace')} ({counted.get(name, 0)} by the index, {found.get(name, 0)} found)"
            for name in wrong[:_SUBJECTS_SHOWN]
        )
        self._source.findings.damage.append(f"{len(wrong)} subjects have other counts than the index says: {shown}")

    def _keep_limits(self, store: FileStore) -> None:
        """What a limit per subject had removed is in the blocks still. Other limits the server keeps when it starts."""
        limit = self._config.max_msgs_per_subject
        if not self._source.limits_due or limit <= 0:
            return
        removed = sum(
            store.purge(subject, keep=limit) for subject, count in store.subjects_matching(b">") if count > limit
        )
        if removed:
            _commit(store)
            self._source.findings.notes.append(f"{removed:,} messages beyond max_msgs_per_subject were left out")

    def _upkeep(self, store: FileStore) -> None:
        """Write what the first start would otherwise have to derive."""
        while (job := store.begin_upkeep()) is not None:
            job.run()
            store.finish_upkeep(job)
        _commit(store)

    def finished(self, fingerprint: str) -> Done:
        """What is to be remembered of it."""
        source = self._source
        if self._moved:
            source.findings.notes.append(f"{self._moved:,} times ran backwards and were set to the time before")
        messages, size_bytes, first_seq, last_seq = self._state
        return Done(
            account=source.account,
            stream=source.name,
            directory=os.path.basename(self._directory),
            fingerprint=fingerprint,
            messages=messages,
            size_bytes=size_bytes,
            first_seq=first_seq,
            last_seq=last_seq,
            digest=self._digest.hex(),
            consumers=sorted(self._consumers),
            notes=source.findings.notes,
            damage=source.findings.damage,
        )


def _expiry(headers: bytes, ts_ns: int) -> int:
    """When a message ends by its own TTL; 0 if it does not, or not in this age of the world."""
    ttl = message_ttl(headers)
    if not ttl or ttl <= 0:
        return 0
    expires_ns = ts_ns + ttl * SECOND_NS
    return expires_ns if expires_ns <= _TS_MAX else 0


def stored_messages(store: FileStore) -> Iterator[list[Record]]:
    """All messages of a store, in batches.

    Raises:
        MigrationError: one cannot be read.
    """
    seq = store.first_seq
    while seq <= store.last_seq:
        batch = store.read_batch(ALL, seq, max_msgs=_READ_MSGS, max_bytes=_READ_BYTES, up_to_seq=SEQ_MAX)
        if not batch:
            return
        records: list[Record] = []
        for message in batch:
            if isinstance(message, Damaged):
                raise MigrationError(f"message {message.seq} cannot be read back: {message.reason}")
            records.append((message.seq, message.ts_ns, message.subject, message.headers, message.payload))
        yield records
        seq = batch[-1].seq + 1


def _commit(store: FileStore, *, sync: bool = True) -> None:
    job = store.begin_commit(sync=sync)
    if job is None:
        return
    job.run()
    done = store.finish_commit(job)
    if done.fault is not None:
        raise done.fault
