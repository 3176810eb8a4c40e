"""A stream: the machine that owns one store and everything decided about it.

States::

    created ──start──► active ──update(sealed)──► sealed
                          │                          │
                          └────────stop/delete───────┴──► stopped

Active streams listen on their subjects (`ingest`), keep their limits, expire messages (`expiry`) and answer after
commits (`commit`). Nothing outside assigns a field of this class.

Invariants: `appends.last_seq == store.last_seq` between calls; no message is removed without its consumers being told;
an answer that says "done" leaves only after the commit of what was done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import DiscardPolicy, PersistMode, RetentionPolicy
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import ApiError as TableError
from slipstream.jetstream.gojson.times import format_duration
from slipstream.jetstream.ports import Cancel, Ports, ServerFacts, Subscription
from slipstream.jetstream.store.base import ALL, Damaged, Lost, Store, StoreUnavailable
from slipstream.jetstream.stored_config import to_stored
from slipstream.jetstream.stream.commit import AfterCommit, Committer
from slipstream.jetstream.stream.copy_in import CopyIn
from slipstream.jetstream.stream.expiry import Expiry
from slipstream.jetstream.stream.holds import Holds
from slipstream.jetstream.stream.ingest import Ingest
from slipstream.jetstream.stream.ingest_ports import Resources
from slipstream.jetstream.stream.interest import Interest, NoConsumers
from slipstream.jetstream.stream.pubacks import PubAcks
from slipstream.jetstream.stream.republish import Republisher
from slipstream.jetstream.stream.schedules import Schedules
from slipstream.jetstream.stream.slices import PurgeSlices, Slices
from slipstream.jetstream.stream.together import StreamBatches
from slipstream.jetstream.stream.upstream import NoUpstream, Upstream
from slipstream.kernels.subject import is_literal
from slipstream.limits import (
    DEDUP_REBUILD_BATCH_BYTES,
    DEDUP_REBUILD_BATCH_MSGS,
    EXPIRE_INTERVAL_MIN_NS,
    EXPIRE_SLICE_MSGS,
    LIMIT_SLICE_MSGS,
    LIMIT_SLICE_SUBJECTS,
    PURGE_SLICE_MSGS,
    SECOND_NS,
    STREAM_UPKEEP_INTERVAL_NS,
)

__all__ = ["Stream"]

_NEVER_NS = 2**63 - 1

Purged = Callable[[int, StorageFault | None], None]
"""How many messages a purge removed, and why it ended early if it did."""


class Stream:
    """One stream of an account."""

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        created_ns: int,
        ports: Ports,
        facts: ServerFacts,
        resources: Resources,
    ) -> None:
        """Take over a store, new or recovered. Nothing is listened to before `start`."""
        self.config = config  # checked; replaced as a whole by `update`
        self.created_ns = created_ns
        self.is_untouched = config.first_seq == 0  # nothing ever decided its first sequence: shown as 0, not 1
        self.store = store
        self.interest: Interest = NoConsumers()  # the consumer layer puts itself here
        self.upstream: Upstream = NoUpstream()  # a mirror or sources put themselves here
        self._ports = ports
        self._subscriptions: dict[str, Subscription] = {}
        self._expiry_timer: Cancel | None = None
        self._expiry_due_ns = _NEVER_NS  # when the timer will look
        self._ids_timer: Cancel | None = None
        self.holds = Holds(ports)  # what retention must leave alone
        self.holds.released.append(self._released)
        self._due_later: list[int] = []  # expired messages that are held
        self._stopped = False
        self.slices = Slices(ports)  # removals that take several turns
        self._enforcing = False  # limits are being enforced in slices
        self._enforcing_at_once = False  # ... and consumers were not told of every message that went
        self._resources = resources
        self._reported_bytes = 0  # size the account knows of
        self._lost_count = 0  # messages that could not be read when upkeep last ended
        self._is_full = False  # there was no space when the store was last looked at
        self.on_full: Callable[[str], None] | None = None  # told when there is no space for messages any more
        self.on_lost: Callable[[str, Lost], None] | None = None  # told of messages that cannot be read any more
        acks = PubAcks(config.name, facts.domain)
        self.committer = Committer(
            store,
            ports,
            self,
            acks,
            sync_always=facts.sync_always and config.persist_mode is not PersistMode.ASYNC,
            sync_interval_ns=facts.sync_interval_ns,
        )
        self.ingest = Ingest(
            store,
            ports,
            self,
            self.committer,
            acks,
            resources,
            max_buffered_msgs=facts.max_buffered_msgs,
            max_buffered_bytes=facts.max_buffered_bytes,
            max_payload_bytes=facts.max_payload_bytes,
        )
        self.appends = self.ingest.appends
        self.copy_in = CopyIn(self.ingest, self.committer)
        self.batches = StreamBatches(self.ingest, self.committer, ports, facts)
        self.ingest.batches = self.batches
        self.expiry = Expiry(store)
        self._configure(config)
        self._rebuild_ids()

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.config.name

    # --- life ---

    def start(self) -> None:
        """Listen on the subjects, enforce limits on what was recovered, and keep time."""
        self.report_size()
        self._subscribe(self.config.subjects)
        self._enforce_limits()
        self.on_upkeep()  # what recovery found
        self.committer.start_upkeep()
        self._expire()

    def stop(self, *, deleted: bool) -> None:
        """Listen and answer no more. The store stays as it is; its owner closes or destroys it."""
        if self._stopped:
            return
        self._stopped = True
        self._subscribe([])
        self.batches.stop()
        if self.appends.schedules is not None:
            self.appends.schedules.stop()
        self.upstream.stop(deleted=deleted)
        self.interest.stop(deleted=deleted)
        self.slices.stop()
        self.committer.stop()
        self.holds.stop()
        for timer in (self._expiry_timer, self._ids_timer):
            if timer is not None:
                timer()
        self._expiry_timer = self._ids_timer = None

    def update(self, config: StreamConfig) -> None:
        """Become `config`, which was checked against the present one. Durable with the next commit."""
        self.store.set_config(to_stored(config, self.created_ns))
        old, self.config = self.config, config
        self._configure(config)
        self._subscribe(config.subjects)
        if old.duplicate_window_ns < config.duplicate_window_ns:
            self._rebuild_ids()
        if config.max_msgs_per_subject > 0 and not 0 < old.max_msgs_per_subject <= config.max_msgs_per_subject:
            self._enforce_subjects(config.max_msgs_per_subject)
        self._enforce_limits()
        becomes_interest = config.retention is RetentionPolicy.INTEREST is not old.retention
        if becomes_interest and self.store.messages and not self.interest.consumer_count:
            self.purge()  # nobody wants what is there
        self.interest.on_config(old, config)
        self._expire()
        self.committer.wake()

    def after_commit(self, callback: AfterCommit) -> None:
        """Call back when everything decided so far is committed, or cannot be."""
        self.committer.after(callback)

    # --- removal on request ---

    def purge(self, subject: bytes = b"", *, below_seq: int = 0, keep: int = 0) -> int:
        """Remove messages; how many went. Without a subject, `below_seq` may lie beyond the end and moves it."""
        self.upstream.on_removing()
        if not subject and below_seq > self.store.last_seq + 1:
            count = self.store.messages
            self.store.trim_to(below_seq)
            self.appends.take_over(self.appends.intake.last_id)
        else:
            count = self.store.purge(subject, up_to_seq=below_seq, keep=keep)
        if not subject and not keep:
            self.is_untouched = False
        self.interest.on_purged(subject)
        self.committer.wake()
        return count

    def begin_purge(self, subject: bytes, *, below_seq: int, keep: int, done: Purged) -> None:
        """As `purge`, but a slice a turn; `done` gets how many went, and why not more if that failed.

        Raises:
            StorageFault: nothing can be removed now.
        """
        store = self.store
        everything = not subject and not keep
        if everything and not 0 < below_seq <= store.last_seq:
            done(self.purge(subject, below_seq=below_seq), None)
            return
        self.upstream.on_removing()
        if everything:
            self.is_untouched = False
        count = sys.maxsize
        if keep:
            count = (store.count_matching((subject,), 0) if subject else store.messages) - keep
        last = min(below_seq - 1, store.last_seq) if below_seq else store.last_seq
        work = PurgeSlices(store, subject, up_to_seq=last, count=count, on_slice=self.committer.wake)

        def removed(fault: StorageFault | None) -> None:
            self.interest.on_purged(subject)
            done(work.removed, fault)

        self.slices.run(work, removed)

    def delete_message(self, seq: int, *, erase: bool) -> bool:
        """Remove one message, overwriting its bytes if `erase`. False: there is none."""
        self.upstream.on_removing()
        removed = self.store.erase(seq) if erase else self.store.delete(seq)
        if removed:
            if erase:
                self.committer.erasure_begun()
            self._removed(seq)
        return removed

    def remove_acked(self, seq: int) -> None:
        """A message nobody needs any more (interest and work-queue retention). For the consumer layer."""
        if self.store.delete(seq):
            self._removed(seq)

    def scrub_next(self) -> bool:
        """Have one more piece of what was stored read and checked; False: all of it was, the next call begins anew."""
        found = self.store.scrub_next()
        if found:
            self.committer.upkeep_soon()
        return found

    # --- bulk writers ---

    def refuse_more(self, extra_bytes: int) -> ApiError | None:
        """Why the server or the account has no room for so many more bytes."""
        if self._resources.server_exceeded:
            return TableError(table.INSUFFICIENT_RESOURCES)
        if self._resources.limited and self._resources.would_exceed(extra_bytes):
            return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)
        return None

    def unit_stored(self, subjects: Iterable[bytes], expiries: Iterable[tuple[int, int]]) -> None:
        """Many messages joined at once: keep the limits, of these subjects and of the stream."""
        limit = self.config.max_msgs_per_subject
        if limit > 0:
            for subject in subjects:
                self._enforce_subject(subject, limit)
        self._enforce_limits()
        for seq, expires_ns in expiries:
            self.expiry.add(seq, expires_ns)
        self._arm_expiry()
        self.committer.wake()

    # --- called by ingest ---

    def has_interest(self, subject: bytes) -> bool:
        """Whether some consumer wants a message on this subject."""
        return self.interest.has_interest(subject)

    def appended(self, seq: int, subject: bytes, expires_ns: int) -> None:
        """Keep the limits after a message joined."""
        config = self.config
        if config.max_msgs_per_subject > 0:
            self._enforce_subject(subject, config.max_msgs_per_subject)
        if config.discard is DiscardPolicy.OLD and not self._enforce_stream():
            self._enforce_limits()
        if expires_ns:
            self.expiry.add(seq, expires_ns)
            self._arm_expiry()
        elif config.max_age_ns and self.appends.last_ts_ns + config.max_age_ns < self._expiry_due_ns:
            self._arm_expiry()

    def rolled_up(self, subject: bytes, keep: int, below_seq: int = 0) -> None:
        """A roll-up replaces what came before it: `subject` is a filter, even if it came as a message's subject."""
        if below_seq:
            self.purge(subject, below_seq=below_seq)
            return
        if not subject:
            stored = self.store.messages
        elif is_literal(subject):
            stored = self.store.subject_state(subject).count
        else:
            stored = self.store.filtered_state([subject], 0).count
        if stored <= keep:
            return
        if subject or not keep:
            self.purge(subject, keep=keep)
        else:
            self.purge(below_seq=self.store.last_seq)  # the roll-up itself is the last

    def remembered(self) -> None:
        """See to it that message ids leave the window even if nothing more arrives."""
        if self._ids_timer is None:
            self._arm_ids()

    # --- called by the committer ---

    def on_committed(self, first_seq: int, last_seq: int) -> None:
        """New messages are safe."""
        self.interest.on_committed(first_seq, last_seq)

    def on_settled(self) -> None:
        """Let the account know how much is stored, and everybody when there is no space for more."""
        if self.store.fault is not None:
            self._look_for_space()
        now_bytes = self.store.size_bytes
        if now_bytes != self._reported_bytes:
            self._resources.report(now_bytes - self._reported_bytes)
            self._reported_bytes = now_bytes

    def on_fault(self, fault: StorageFault) -> None:
        """A commit failed: forget what did not happen."""
        self._ports.log("ERR", f"Stream '{self.name}' could not store messages: {fault}")
        self._look_for_space()
        self._take_over()

    def on_repaired(self) -> None:
        """The store takes changes again, from what it could read back."""
        self._ports.log("INF", f"Stream '{self.name}' stores messages again")
        self._take_over()

    def on_upkeep(self) -> None:
        """Say so when more messages than before cannot be read, and when there is no space for more."""
        lost = self.store.lost()
        if len(lost.seqs) > self._lost_count:
            self._ports.log("ERR", f"Stream '{self.name}' cannot read {len(lost.seqs)} of its messages any more")
            if self.on_lost is not None:
                self.on_lost(self.name, lost)
        self._lost_count = len(lost.seqs)
        self._look_for_space()

    def _look_for_space(self) -> None:
        fault = self.store.fault
        is_full = isinstance(fault, StoreUnavailable) and fault.full
        if is_full and not self._is_full:
            self._ports.log("ERR", f"Stream '{self.name}' is out of storage and takes no messages until there is space")
            if self.on_full is not None:
                self.on_full(self.name)
        self._is_full = is_full

    def _take_over(self) -> None:
        """Derive anew what was derived from the store."""
        self.appends.take_over(b"")
        self.expiry.rebuild(self.store.expiries())
        if self.appends.schedules is not None:
            self.appends.schedules.rebuild()
        self._rebuild_ids()
        self.interest.on_purged(b"")
        self.upstream.on_fault()

    # --- inside ---

    def report_size(self, size_bytes: int | None = None) -> None:
        """Tell the account what this stream occupies: its size, or what is given (0 when it goes)."""
        now_bytes = self.store.size_bytes if size_bytes is None else size_bytes
        if now_bytes != self._reported_bytes:
            self._resources.report(now_bytes - self._reported_bytes)
            self._reported_bytes = now_bytes

    def _configure(self, config: StreamConfig) -> None:
        republisher = Republisher(config.name, config.republish, self._ports) if config.republish else None
        self.ingest.configure(config, republisher)
        self.batches.configure(config)
        if config.allow_msg_schedules and self.appends.schedules is None:
            self.appends.schedules = Schedules(self.store, self._ports, self.copy_in.store)
        self.expiry.configure(config)

    def _subscribe(self, subjects: list[str]) -> None:
        """Listen on exactly these."""
        for subject in [present for present in self._subscriptions if present not in subjects]:
            self._subscriptions.pop(subject).close()
        for subject in subjects:
            if subject not in self._subscriptions:
                self._subscriptions[subject] = self._ports.listen(subject.encode(), self.ingest.intake)

    def _removed(self, *seqs: int) -> None:
        self.interest.on_removed(seqs)
        self.committer.wake()

    def _enforce_subject(self, subject: bytes, limit: int) -> None:
        state = self.store.subject_state(subject)
        if state.count <= limit:
            return
        if len(self.holds):
            while state.count > limit and state.first_seq < self.holds.floor:
                self.store.delete(state.first_seq)
                self._removed(state.first_seq)
                state = self.store.subject_state(subject)
        elif state.count == limit + 1:
            self.store.delete(state.first_seq)
            self._removed(state.first_seq)
        else:
            self.purge(subject, keep=limit)

    def _enforce_stream(self) -> bool:
        """Drop the oldest until the stream's own limits hold; False: they still do not after a good many."""
        config, store = self.config, self.store
        for _ in range(LIMIT_SLICE_MSGS):
            if not (0 < config.max_msgs < store.messages) and not (0 < config.max_bytes < store.size_bytes):
                return True
            if not store.messages:
                return True
            oldest = store.first_seq
            if oldest >= self.holds.floor:
                if not self.holds.give_way(config, store):
                    return True
                continue
            store.delete(oldest)
            self._removed(oldest)
        return False

    def _enforce_subjects(self, limit: int) -> None:
        """The limit per subject has become tighter. Looks at every subject, so only an update does this."""
        subjects = iter(self.store.subjects_matching(b">"))

        def some() -> bool:
            looked_at = 0
            for subject, count in islice(subjects, LIMIT_SLICE_SUBJECTS):
                looked_at += 1
                if count > limit:
                    if len(self.holds):
                        self._enforce_subject(subject, limit)
                    else:
                        self.store.purge(subject, keep=limit)
            self.committer.wake()
            return looked_at < LIMIT_SLICE_SUBJECTS

        self.slices.run(some, lambda _: self.interest.on_purged(b""))

    def _enforce_limits(self) -> None:
        """The stream's limits may have become tighter, or a crash may have come between a message and its price."""
        if self.config.discard is DiscardPolicy.OLD and not self._enforcing:
            self._enforcing = True
            self.slices.run(self._enforce_some, self._enforced)

    def _enforce_some(self) -> bool:
        config, store = self.config, self.store
        excess = min(store.messages - config.max_msgs, PURGE_SLICE_MSGS) if config.max_msgs > 0 else 0
        if excess > LIMIT_SLICE_MSGS:
            up_to_seq = min(store.last_seq, self.holds.floor - 1)
            store.purge_some(b"", from_seq=0, up_to_seq=up_to_seq, limit=excess)
            self._enforcing_at_once = True
            self.committer.wake()
        return self._enforce_stream()

    def _enforced(self, _fault: StorageFault | None) -> None:
        self._enforcing = False
        if self._enforcing_at_once:
            self._enforcing_at_once = False
            self.interest.on_purged(b"")

    def _expire(self) -> None:
        """Remove what is due, a slice at a time."""
        self._expiry_timer = None
        self._expiry_due_ns = _NEVER_NS
        if self._stopped or self.config.sealed:
            return
        now_ns = self._ports.now_ns()
        try:
            if self.store.atomic_open:
                # Markers cannot join the log now.
                self._expiry_timer = self._ports.call_later(EXPIRE_INTERVAL_MIN_NS, self._expire)
                return
            cut = min(self.expiry.cut(now_ns), self.holds.floor)
            if cut and not self._expire_below(cut):
                self._ports.call_soon(self._expire)
                return
            for seq in self.expiry.due(now_ns, EXPIRE_SLICE_MSGS):
                if seq < self.holds.floor:
                    self._expire_one(seq)
                else:
                    self._due_later.append(seq)
        except StorageFault:
            # The store takes no changes now. What was due is found again when it has repaired itself.
            self.expiry.rebuild(self.store.expiries())
            self._expiry_timer = self._ports.call_later(STREAM_UPKEEP_INTERVAL_NS, self._expire)
            return
        self._arm_expiry()

    def _expire_below(self, cut: int) -> bool:
        """Remove the oldest below a sequence; False: there are more."""
        count, following = self.store.purge_some(b"", from_seq=0, up_to_seq=cut - 1, limit=PURGE_SLICE_MSGS)
        if count:
            self.interest.on_purged(b"")
            self.committer.wake()
        return following == 0

    def _expire_one(self, seq: int) -> None:
        message = self.store.get(seq)
        if message is None or isinstance(message, Damaged):
            return
        marker_ttl_ns = self.config.subject_delete_marker_ttl_ns
        is_marker = bool(message.headers) and headers.find(message.headers, b"Nats-Marker-Reason") is not None
        if marker_ttl_ns and not is_marker and self.store.subject_state(message.subject).count == 1:
            ttl = format_duration(marker_ttl_ns // SECOND_NS * SECOND_NS).encode()
            block = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %b\r\nNats-Rollup: sub\r\n\r\n" % ttl
            # The marker is a roll-up: storing it removes the message it stands for.
            self.appends.add_internal(message.subject, block, b"")
        else:
            self.delete_message(seq, erase=False)

    def _arm_expiry(self) -> None:
        due_ns = self.expiry.next_due_ns()
        if self._expiry_timer is not None:
            self._expiry_timer()
            self._expiry_timer = None
        self._expiry_due_ns = _NEVER_NS
        if due_ns is not None and not self._stopped and not self.config.sealed:
            self._expiry_due_ns = due_ns
            # What is held stays due: no need to look at it fifty times a second.
            least_ns = STREAM_UPKEEP_INTERVAL_NS if len(self.holds) else EXPIRE_INTERVAL_MIN_NS
            delay_ns = max(due_ns - self._ports.now_ns(), least_ns)
            self._expiry_timer = self._ports.call_later(delay_ns, self._expire)

    def _released(self) -> None:
        """Less is held than before: what retention had to leave goes now."""
        if self._stopped:
            return
        if self.config.max_msgs_per_subject > 0:
            self._enforce_subjects(self.config.max_msgs_per_subject)
        self._enforce_limits()
        due, self._due_later = self._due_later, []
        for seq in due:
            self.expiry.add(seq, 0)
        self._expire()
        self.committer.wake()

    def _arm_ids(self) -> None:
        due_ns = self.appends.ids.next_expiry_ns()
        if due_ns is not None and not self._stopped:
            delay_ns = max(due_ns - self._ports.now_ns(), EXPIRE_INTERVAL_MIN_NS)
            self._ids_timer = self._ports.call_later(delay_ns, self._forget_ids)

    def _forget_ids(self) -> None:
        self._ids_timer = None
        self.appends.ids.expire(self._ports.now_ns())
        self._arm_ids()

    def _rebuild_ids(self) -> None:
        """Read the window's message ids from the log, and the id of the last message."""
        appends = self.appends
        if self.config.mirror is None:
            appends.ids.rebuild(self._ids_in_window())
        last = self.store.get(self.store.last_seq)
        block = last.headers if last is not None and not isinstance(last, Damaged) else b""
        appends.intake.last_id = (headers.find(block, b"Nats-Msg-Id") if block else None) or b""
        self.remembered()

    def _ids_in_window(self) -> Iterator[tuple[bytes, int, int]]:
        window_ns = self.config.duplicate_window_ns
        if window_ns <= 0 or not self.store.messages:
            return
        seq = self.store.seq_for_time(self._ports.now_ns() - window_ns + 1)
        # Most messages of most streams have no id. What has no header is not read.
        while seq := self.store.next_with_headers(seq):
            batch = self.store.read_batch(
                ALL,
                seq,
                max_msgs=DEDUP_REBUILD_BATCH_MSGS,
                max_bytes=DEDUP_REBUILD_BATCH_BYTES,
                up_to_seq=self.store.last_seq,
            )
            for message in batch:
                if not isinstance(message, Damaged) and message.headers:
                    message_id = headers.find(message.headers, b"Nats-Msg-Id")
                    if message_id:
                        yield message_id, message.seq, message.ts_ns
            if not batch:
                return
            seq = batch[-1].seq + 1

    def check_invariants(self) -> None:
        """What must hold between calls."""
        assert self.appends.last_seq == self.store.last_seq
        assert self.store.committed_seq <= self.store.last_seq
        self.appends.ids.check_invariants()
        config = self.config
        if config.discard is DiscardPolicy.OLD and not self._enforcing and not len(self.holds):
            assert config.max_msgs <= 0 or self.store.messages <= config.max_msgs
            assert config.max_bytes <= 0 or self.store.size_bytes <= config.max_bytes


def refuse_if_closed(config: StreamConfig, *, purge: bool) -> ApiError | None:
    """Why messages may not be removed from a stream with this configuration on request."""
    if config.sealed:
        return TableError(table.STREAM_SEALED)
    if purge and config.deny_purge:
        return TableError(table.STREAM_PURGE_FAILED, err="stream purge not permitted")
    if not purge and config.deny_delete:
        return TableError(table.STREAM_MSG_DELETE_FAILED, err="message delete not permitted")
    return None
