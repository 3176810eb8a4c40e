"""All consumers of one stream: making, finding and removing them, and what the stream tells them.

Implements `stream.retention.interest.ConsumerInterest`. A consumer that waits for messages is in `_parked`, one that
has something out is in `_tracking`; the others cost nothing when a message comes or goes.

Invariants: every consumer in the journal is in `consumers` or `offline`; names are unique; a work queue's consumers
have disjoint filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.ack_subjects import account_hash
from slipstream.jetstream.config.enums import RetentionPolicy
from slipstream.jetstream.config.structs import ConsumerConfig, ConsumerLimits, StreamConfig
from slipstream.jetstream.config.versioning import API_LEVEL, REQUIRED_LEVEL_KEY
from slipstream.jetstream.consumer.checks import ConsumerChecks, leveled
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.filters import subjects_of
from slipstream.jetstream.consumer.held_journals import HeldJournals
from slipstream.jetstream.consumer.journal import ConsumerJournal
from slipstream.jetstream.consumer.limits import CONSUMER_INACTIVE_NS, CONSUMERS_WOKEN_UNASKED
from slipstream.jetstream.consumer.retention import Retention
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.consumer.update import check_update
from slipstream.jetstream.consumer.wanted import ConsumerWants
from slipstream.jetstream.consumer.work_queue import WorkQueueParts
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import call
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Consumers"]

Done = Callable[[Consumer | ApiError], None]


class Consumers:
    """The consumers of one stream."""

    def __init__(self, stream: Stream, account: JetStreamAccount) -> None:
        """Read the journal; nothing runs before `start`."""
        self.stream = stream
        self.consumers: dict[str, Consumer] = {}
        self.offline: dict[str, str] = {}  # consumers that cannot run here: name → why
        self.version = 0
        self.account_name = account.name
        self.account_hash = account_hash(account.name)
        self._account = account
        self._ports = account.ports
        self._retention = Retention(
            stream, account.ports, lambda: list(self.consumers.values()), lambda: not self.offline
        )
        self._parked: dict[str, Consumer] = {}
        self._tracking: dict[str, Consumer] = {}
        self._wanted = ConsumerWants(lambda: self.consumers.values())
        self._visible_count = 0  # consumers that are shown: not those of other streams that copy this one
        self._checks = ConsumerChecks(stream, account)
        self._parts = WorkQueueParts(stream, self.consumers)
        self._held = HeldJournals(stream, account.ports)
        self._recover()

    # --- what the stream asks and tells ---

    @property
    def consumer_count(self) -> int:
        """See `ConsumerInterest.consumer_count`."""
        return self._visible_count

    @property
    def visible(self) -> list[str]:
        """Names of those that are shown."""
        return [name for name, consumer in self.consumers.items() if not consumer.config.direct]

    @property
    def reader_count(self) -> int:
        """See `ConsumerInterest.reader_count`."""
        return len(self.consumers)

    def has_interest(self, subject: bytes) -> bool:
        """See `ConsumerInterest.has_interest`. Nobody knows what one that is offline would want."""
        return bool(self.offline) or bool(self._wanted.by(subject))

    def on_committed(self, first_seq: int, last_seq: int) -> None:
        """See `ConsumerInterest.on_committed`."""
        parked = self._parked
        if len(parked) > CONSUMERS_WOKEN_UNASKED:
            subjects = self.stream.store.subjects_between(first_seq, last_seq)
            fed = {consumer.name for subject in subjects for consumer in self._wanted.by(subject)}
            parked = {name: parked.pop(name) for name in fed if name in parked}
        else:
            self._parked = {}
        alone = len(parked) == 1
        for consumer in parked.values():
            try:
                if alone and first_seq == last_seq:
                    consumer.deliverer.deliver_expected(last_seq)
                consumer.pump(alone=alone)
            except Exception as error:
                self._failed(consumer, error)
                self._parked[consumer.name] = consumer

    def on_removed(self, seqs: Sequence[int]) -> None:
        """See `ConsumerInterest.on_removed`."""
        self.version += 1
        if not self._tracking:
            return
        for name, consumer in list(self._tracking.items()):
            try:
                consumer.on_removed(seqs)
            except Exception as error:
                self._failed(consumer, error)
            state = consumer.state
            acks = state.acks
            if not (acks.pending or acks.exhausted or acks.ahead or state.dead or state.resume_seq):
                self._tracking.pop(name, None)

    def on_purged(self, subject: bytes) -> None:
        """See `ConsumerInterest.on_purged`."""
        self.version += 1
        for consumer in list(self.consumers.values()):
            try:
                if not subject or consumer.filters.touch(subject):
                    consumer.on_purged()
            except Exception as error:
                self._failed(consumer, error)
        if not subject:
            self._retention.sweep()  # after a fault, messages may be back that were acknowledged

    def on_config(self, old: StreamConfig, new: StreamConfig) -> None:
        """See `ConsumerInterest.on_config`."""
        self.version += 1
        self._wanted.forget()
        for consumer in self.consumers.values():
            try:
                consumer.on_stream_config()
            except Exception as error:
                self._failed(consumer, error)
        if old.retention is not new.retention:
            self._retention.sweep()

    def beyond(self, limits: ConsumerLimits) -> list[str]:
        """See `ConsumerInterest.beyond`."""
        return [
            name
            for name, consumer in sorted(self.consumers.items())
            if 0 < limits.max_ack_pending < consumer.config.max_ack_pending
            or 0 < limits.inactive_threshold_ns < consumer.config.inactive_threshold_ns
        ]

    def delivered_from(self, seq: int) -> list[str]:
        """See `ConsumerInterest.delivered_from`. Nobody knows what one that is offline has delivered."""
        store = self.stream.store
        names = [
            name
            for name, consumer in self.consumers.items()
            if consumer.state.acks.delivered_seq >= seq
            and 0 < store.next_seq(consumer.filters.for_store, seq) <= consumer.state.acks.delivered_seq
        ]
        return sorted([*names, *self.offline])

    def stop(self, *, deleted: bool) -> None:
        """See `ConsumerInterest.stop`."""
        self._retention.stopped = True
        for consumer in list(self.consumers.values()):
            try:
                if deleted:
                    consumer.close(b"409 Consumer Deleted")
                    consumer.events.deleted()
                elif self.stream.is_replicated:
                    consumer.close(b"409 Leadership Change")
                else:
                    consumer.close(b"409 Server Shutdown", counts=True)
            except Exception as error:
                self._failed(consumer, error)
        self._held.stop()

    # --- what consumers ask ---

    def park(self, consumer: Consumer) -> None:
        """See `ConsumerOwner.park`."""
        self._parked[consumer.name] = consumer

    def tracking(self, consumer: Consumer) -> None:
        """See `ConsumerOwner.tracking`."""
        self._tracking[consumer.name] = consumer

    def acked(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """See `ConsumerOwner.acked`."""
        self._retention.acked(consumer, seqs)

    def holding(self, journal: ConsumerJournal) -> None:
        """See `ConsumerOwner.holding`."""
        self._held.add(journal)

    def capturing(self, subject: bytes) -> list[Stream]:
        """See `ConsumerOwner.capturing`."""
        streams = self._account.streams
        return [streams[name] for name in self._account.holdings.collecting(subject) if name in streams]

    def is_stored(self, subject: bytes) -> bool:
        """See `ConsumerOwner.is_stored`."""
        if any(not stream.config.no_ack for stream in self.capturing(subject)):
            return True
        return any(asked(subject) for asked in self._account.stored_elsewhere)

    def inactive(self, consumer: Consumer) -> None:
        """See `ConsumerOwner.inactive`."""
        if self.consumers.get(consumer.name) is consumer:
            self._remove(consumer)

    # --- making, changing, removing ---

    def get(self, name: str) -> Consumer:
        """The consumer of this name.

        Raises:
            ApiError: 10014, or 10195 if it exists but cannot run here.
        """
        consumer = self.consumers.get(name)
        if consumer is None:
            if name in self.offline:
                raise TableError(table.CONSUMER_OFFLINE_REASON, err=self.offline[name])
            raise TableError(table.CONSUMER_NOT_FOUND)
        return consumer

    def create(self, config: ConsumerConfig, action: str, done: Done, *, pedantic: bool = False) -> Consumer:
        """Make a consumer, or change the one of this name; returned at once, `done` gets it when that is durable.

        Args:
            config: as asked for.
            action: `create` only, `update` only, or empty for either.
            done: told of the outcome, also if the disk refuses.
            pedantic: refuse what would be corrected silently.

        Raises:
            ApiError: what the request itself breaks.
        """
        name = config.durable_name or config.name
        existing = self.consumers.get(name) if name else None
        if name in self.offline:
            raise TableError(table.CONSUMER_OFFLINE_REASON, err=self.offline[name])
        before = existing.config if existing is not None else None
        config = self._checks.checked_config(config, before, pedantic=pedantic)
        if existing is not None:
            self._change(existing, config, action)
            self.stream.after_commit(lambda error: done(error or existing))
            return existing
        if action == "update":
            raise TableError(table.CONSUMER_DOES_NOT_EXIST)
        self._checks.check_room(config, self._visible_count)
        self._parts.check_new(config, name)
        return self._make(self._checks.name(config, self.consumers), config, done)

    def delete(self, name: str, done: Callable[[ApiError | None], None]) -> None:
        """Remove a consumer; `done` is called when that is durable.

        Raises:
            ApiError: 10014.
        """
        if self.offline.pop(name, None) is not None:
            self.stream.store.journal.remove(name.encode())
            self._parts.drop(name)
            self._retention.sweep()
        else:
            self._remove(self.get(name))
        self.stream.after_commit(done)

    def pause(self, consumer: Consumer, until_ns: int | None, done: Callable[[ApiError | None], None]) -> None:
        """Deliver nothing until then; None resumes."""
        config = msgspec.structs.replace(consumer.config, pause_until_ns=until_ns)
        config.metadata = leveled(config)
        consumer.update(config)
        self.stream.after_commit(done)

    def reset(self, consumer: Consumer, seq: int, done: Callable[[ApiError | None], None]) -> int:
        """Begin again at `seq`, or behind the ack floor if it is 0; where that is.

        Raises:
            ApiError: 10204.
        """
        seq = self._checks.reset_position(consumer, seq)
        self.version += 1
        consumer.reset(seq)
        if self.stream.config.retention is RetentionPolicy.INTEREST:
            self._retention.sweep()
        self.stream.after_commit(done)
        return seq

    # --- inside ---

    def _change(self, existing: Consumer, config: ConsumerConfig, action: str) -> None:
        old = existing.config
        if action == "create" and config != old:
            raise TableError(table.CONSUMER_ALREADY_EXISTS)
        if not old.durable_name and not config.inactive_threshold_ns:
            config.inactive_threshold_ns = CONSUMER_INACTIVE_NS
        if self.stream.config.retention is RetentionPolicy.WORK_QUEUE:
            self._parts.check_free(config, existing.name)
        target = old.deliver_subject.encode()
        check_update(old, config, bound=bool(target) and self._ports.has_interest(target))
        if config == old:
            return
        self.version += 1
        self._wanted.forget()
        existing.update(config)
        self._visible_count += old.direct - config.direct
        self._parts.take(existing)
        if subjects_of(old) != subjects_of(config) and self.stream.config.retention is RetentionPolicy.INTEREST:
            self._retention.sweep()

    def _make(self, name: str, config: ConsumerConfig, done: Done) -> Consumer:
        consumer = self._add(name, self._checks.first_state(config))
        try:
            consumer.journal.put()
            consumer.held = True
            consumer.start()
        except Exception:
            self._remove(consumer, announced=False)  # one that does not run is not to be found by its name either
            raise

        def committed(error: ApiError | None) -> None:
            if error is not None:
                self._remove(consumer, announced=False)
            try:
                done(error or consumer)
            finally:
                consumer.release()

        self.stream.after_commit(committed)
        return consumer

    def _add(self, name: str, state: ConsumerState) -> Consumer:
        account = self._account
        consumer = Consumer(name, state, self.stream, self._ports, account.facts, account.advisories, self)
        self.consumers[name] = consumer
        self._visible_count += not state.config.direct
        self._parts.take(consumer)
        self._wanted.forget()
        self.version += 1
        return consumer

    def _remove(self, consumer: Consumer, *, announced: bool = True) -> None:
        name = consumer.name
        if self.consumers.get(name) is not consumer:
            return
        call(self._ports, f"The end of consumer '{self.stream.name} > {name}'", consumer.close, b"409 Consumer Deleted")
        del self.consumers[name]
        self._visible_count -= not consumer.config.direct
        self._parts.drop(name)
        self._parked.pop(name, None)
        self._tracking.pop(name, None)
        self._wanted.forget()
        consumer.journal.remove()
        if announced:
            consumer.events.deleted()
        if self.stream.config.retention is RetentionPolicy.INTEREST:
            if self.consumers or self.offline:
                self._retention.sweep()
            else:
                self.stream.removals.purge()

    # --- restart ---

    def _recover(self) -> None:
        store = self.stream.store
        for key, parts in store.journal.entries().items():
            name = key.decode("utf-8", "replace")
            try:
                state = ConsumerState.decode(parts)
                level = state.config.metadata.get(REQUIRED_LEVEL_KEY, "0")
                if not level.isdecimal() or int(level) > API_LEVEL:
                    self.offline[name] = f"unsupported - required API level: {level}, current: {API_LEVEL}"
                    continue
                self._tracking[name] = self._add(name, state)
            except Exception as error:
                self._keep_offline(name, error)

    def start(self) -> None:
        """Let recovered consumers run."""
        for name, consumer in list(self.consumers.items()):
            try:
                consumer.on_purged()  # what is not stored any more is not pending either
                consumer.start()
            except Exception as error:
                call(self._ports, f"The end of consumer '{self.stream.name} > {name}'", consumer.close, b"")
                self._keep_offline(name, error)
        if self.consumers:
            self._retention.sweep()

    def _keep_offline(self, name: str, error: Exception) -> None:
        """One consumer's trouble is not the others', nor the stream's: what was written of it stays as it is."""
        self._ports.log("ERR", f"Consumer '{self.stream.name} > {name}' cannot be recovered: {error}")
        if not isinstance(error, ValueError | ApiError):
            self._ports.report(f"The recovery of consumer '{self.stream.name} > {name}'", error)
        made = self.consumers.pop(name, None)
        if made is not None:
            self._visible_count -= not made.config.direct
        # What it takes of a work queue stays its own.
        self._parked.pop(name, None)
        self._tracking.pop(name, None)
        self._wanted.forget()
        self.offline[name] = str(error) or type(error).__name__

    def _failed(self, consumer: Consumer, error: Exception) -> None:
        """One consumer's trouble is not that of the others."""
        self._ports.report(f"Consumer '{self.stream.name} > {consumer.name}'", error)

    def check_invariants(self) -> None:
        """What must hold between calls."""
        for name, consumer in self.consumers.items():
            assert consumer.name == name and not consumer.closed
            consumer.check_invariants()
        assert self._parked.keys() <= self.consumers.keys()
        assert self._visible_count == sum(not consumer.config.direct for consumer in self.consumers.values())
