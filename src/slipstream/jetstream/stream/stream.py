"""A stream: the machine that owns one store and everything decided about it.

States::

    created ──start──► active ──update(sealed)──► sealed
                          │                          │
                          └────────stop/delete───────┴──► stopped

Active streams listen on their subjects (`ingest`), keep their limits (`limit_keeper`), expire messages (`expirer`),
remove on request (`removals`) and answer after commits (`commit`). This file puts the parts together, lets them begin
and end, and tells each what happened elsewhere. Nothing outside assigns a field of this class.

Invariants: `appends.last_seq == store.last_seq` between calls; no message is removed without its consumers being told;
an answer that says "done" leaves only after the commit of what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import DiscardPolicy, PersistMode, RetentionPolicy, StorageType
from slipstream.jetstream.config.packing import codec_of
from slipstream.jetstream.config.previewed import is_preview
from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import is_template
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import each
from slipstream.jetstream.ports import LiveSubscription, Ports, ServerFacts
from slipstream.jetstream.store.chains import ChainHead, ChainReport
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.id_window import IdWindow
from slipstream.jetstream.stream.admission.ingest import Ingest
from slipstream.jetstream.stream.admission.ingest_ports import Resources
from slipstream.jetstream.stream.admission.known_subjects import known_subjects, remember_others
from slipstream.jetstream.stream.admission.traced import TracedStream
from slipstream.jetstream.stream.admission.verdict import Origin
from slipstream.jetstream.stream.commit.committer import Committer, Replication
from slipstream.jetstream.stream.commit.health import StoreHealth, StoreWatch
from slipstream.jetstream.stream.commit.point import AfterCommit, Removed
from slipstream.jetstream.stream.commit.pubacks import PubAcks
from slipstream.jetstream.stream.copies.copy_in import CopyIn
from slipstream.jetstream.stream.copies.upstream import NoUpstream, Upstream
from slipstream.jetstream.stream.features.schedules import Schedules
from slipstream.jetstream.stream.limits import PURGE_WAITING_MSGS
from slipstream.jetstream.stream.retention.expirer import Expirer
from slipstream.jetstream.stream.retention.holds import Holds
from slipstream.jetstream.stream.retention.interest import ConsumerInterest, NoConsumers
from slipstream.jetstream.stream.retention.limit_keeper import LimitKeeper
from slipstream.jetstream.stream.retention.removals import Removals
from slipstream.jetstream.stream.slices import Slices
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Stream"]

_LISTEN_SLICE = 1_000  # subjects that are listened on in one turn: some 5 ms


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
        watch: StoreWatch,
        replication: Replication | None = None,
    ) -> None:
        """Take over a store, new or recovered. Nothing is listened to before `start`.

        With `replication` this server leads the stream's replicas.
        """
        self.config = config  # checked; replaced as a whole by `update`
        self.created_ns = created_ns
        self.store = store
        if config.storage is StorageType.MEMORY:
            store.count_as_memory()
        self.interest: ConsumerInterest = NoConsumers()  # until `serve`
        self.upstream: Upstream = NoUpstream()  # a mirror's or sources', see `copy_from`
        self._ports = ports
        self._replication = replication
        self._subscriptions: dict[str, LiveSubscription] = {}
        self._stopped = False
        self._schedules: Schedules | None = None  # there once the configuration has allowed them
        self.holds = Holds(ports)  # what retention must leave alone
        self.holds.released.append(self._released)
        self.slices = Slices(ports, self._pace)  # removals that take several turns
        self.health = StoreHealth(config.name, store, ports, resources, watch)
        acks = PubAcks(config.name, facts.domain, preview=is_preview(config))
        intake = Intake(self._publish, self._resume, ports.now_ns, facts.max_buffered_bytes, facts.max_buffered_msgs)
        self.committer = Committer(
            store,
            ports,
            self,
            acks,
            intake,
            sync_always=replication is not None or (facts.sync_always and config.persist_mode is not PersistMode.ASYNC),
            sync_interval_ns=facts.sync_interval_ns,
            replication=replication,
        )
        self.ingest = Ingest(config, store, ports, facts, self, intake, self.committer, acks, resources)
        self._traced = TracedStream(self.name, self.ingest)
        self.appends = self.ingest.appends
        self.copy_in = CopyIn(self.ingest, ports, self.committer)
        self.removals = Removals(
            store, self, self.appends, self.committer, self.slices, is_untouched=config.first_seq == 0
        )
        self._limits = LimitKeeper(config, store, self.holds, self.removals, self.committer, self.slices)
        self._expirer = Expirer(config, store, ports, self.holds, self.appends, self.removals, self.committer)
        self._ids = IdWindow(store, ports, self.appends)
        # Parts that answer the ingest and the committer themselves, without a call in between.
        self.rolled_up = self.removals.roll_up
        self.remembered = self._ids.remembered
        self.on_settled = self.health.settled
        self.on_upkeep = self.health.look_for_losses
        self._allow_schedules(config)
        self._ids.rebuild(config)

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.config.name

    # --- life ---

    def serve(self, consumers: ConsumerInterest) -> None:
        """Who consumes what is stored: told of what happens, and asked what may go."""
        self.interest = consumers

    def copy_from(self, upstream: Upstream | None) -> None:
        """Where messages come from beside those that are published; None: from nowhere."""
        self.upstream = NoUpstream() if upstream is None else upstream

    def start(self) -> None:
        """Listen on the subjects, enforce limits on what was recovered, and keep time."""
        self.health.report_size()
        self._subscribe([] if is_template(self.config) else self.config.subjects)
        self._limits.keep()
        self.on_upkeep()  # what recovery found
        self.committer.upkeep.start()
        self._expirer.run()

    def stop(self, *, deleted: bool, elsewhere: bool = False) -> None:
        """Listen and answer no more. The store stays as it is; its owner closes or destroys it.

        Whoever waits is told if it is `deleted`, or goes on `elsewhere`: as a stream with copies.
        """
        if self._stopped:
            return
        self._stopped = True
        parts: list[Callable[[], None]] = [
            self._expirer.stop,
            self._ids.stop,
            self._listen_no_more,
            self.ingest.batches.stop,
            lambda: self.upstream.stop(deleted=deleted),
            lambda: self.interest.stop(deleted=deleted),
            self.slices.stop,
            lambda: self.committer.stop(deleted=deleted, elsewhere=elsewhere),
            self.holds.stop,
        ]
        if self._schedules is not None:
            parts.append(self._schedules.stop)
        each(self._ports, f"The end of stream '{self.name}'", parts)

    def update(self, config: StreamConfig) -> None:
        """Become `config`, which was checked against the present one. Durable with the next commit."""
        remember_others(self.config, config, self.store)
        self.store.set_config(to_stored(config, self.created_ns))
        old, self.config = self.config, config
        if codec_of(old) is not codec_of(config):
            self.store.compress(codec_of(config))
            self.committer.upkeep.soon()
        self.ingest.configure(config)
        self._allow_schedules(config)
        self._limits.configure(config)
        self._expirer.configure(config)
        self._subscribe([] if is_template(config) else config.subjects)
        if old.duplicate_window_ns < config.duplicate_window_ns:
            self._ids.rebuild(config)
        if config.max_msgs_per_subject > 0 and not 0 < old.max_msgs_per_subject <= config.max_msgs_per_subject:
            self._limits.keep_subjects()
        self._limits.keep()
        becomes_interest = config.retention is RetentionPolicy.INTEREST is not old.retention
        if becomes_interest and self.store.assigned.messages and not self.interest.consumer_count:
            self.removals.purge()  # nobody wants what is there
        self.interest.on_config(old, config)
        self._expirer.run()
        self.committer.wake()

    @property
    def known_subjects(self) -> Sequence[str]:
        """The subjects of all messages that are or will be here; empty: others are possible."""
        return known_subjects(self.config, self.store)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing that was received or decided waits for its commit."""
        return self.committer.idle and not self.ingest.held

    def after_commit(self, callback: AfterCommit) -> None:
        """Call back when everything decided so far is committed, or cannot be."""
        self.committer.after(callback)

    @property
    def is_read_back(self) -> bool:
        """Whether its store has to be opened again after it: the times at which messages end are read back with them,
        and the store does not keep those of new ones."""
        return self.config.allow_msg_ttl

    @property
    def is_replicated(self) -> bool:
        """Whether other servers have it, too."""
        return self._replication is not None

    def after_received(
        self,
        callback: Callable[[], None],
        *,
        gone: Callable[[ApiError], None] | None = None,
        confirmed: bool = True,
    ) -> None:
        """Call back when every message received so far can be read, or never will be; at once if nothing waits.

        Whoever reads for a client begins here, so that the client finds what was published before it asked. If the
        stream is deleted meanwhile, `gone` is called in the place of `callback`.

        Of a replicated stream others may know more, if this server was deposed and has not heard of it: it makes sure,
        unless it is not `confirmed`.
        """
        replication = self._replication if confirmed else None

        def tell(leads: bool) -> None:
            if leads and not self._stopped:
                callback()
            elif gone is not None:
                gone(TableError(table.CLUSTER_NOT_AVAIL))

        def received(error: ApiError | None) -> None:
            if not self._stopped:
                if replication is None:
                    callback()
                else:
                    replication.confirm(tell)
            elif gone is not None and error is not None:
                gone(error)

        self.committer.after_received(received, behind_unit=bool(self.ingest.held))

    def leads_surely(self, then: Callable[[], None]) -> bool:
        """Whether no other server can have confirmed acks that are not known here. Else `then` is called when so."""
        return self._replication is None or self._replication.makes_sure(then)

    def scrub_next(self) -> bool:
        """Have one more piece of what was stored read and checked; False: all of it was, the next call begins anew."""
        found = self.store.scrub_next()
        if found:
            self.committer.upkeep.soon()
        return found

    def verify(self, wanted: ChainHead | None, done: Callable[[ChainReport | StorageFault], None]) -> None:
        """Have the stream's hash chain recomputed from its files, with all that was received so far."""

        def committed(error: ApiError | None) -> None:
            if error is not None:
                done(StorageFault(error.description))
                return
            self.store.check_chain(wanted, done)
            self.committer.upkeep.at_once()

        self.after_commit(committed)

    def unit_stored(self, subjects: Iterable[bytes], expiries: Iterable[tuple[int, int]]) -> None:
        """Many messages joined at once: keep the limits, of these subjects and of the stream."""
        limit = self.config.max_msgs_per_subject
        if limit > 0:
            for subject in subjects:
                self._limits.keep_subject(subject, limit)
        self._limits.keep()
        self._expirer.add_many(expiries)
        self.committer.wake()

    # --- called by the intake ---

    def _publish(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        self.ingest.on_publish(subject, reply, header, payload)

    def _resume(self) -> bool:
        return self.ingest.resume()

    # --- called by ingest ---

    def has_interest(self, subject: bytes) -> bool:
        """Whether some consumer wants a message on this subject."""
        return self.interest.has_interest(subject)

    def appended(self, seq: int, subject: bytes, expires_ns: int) -> None:
        """Keep the limits after a message joined."""
        config = self.config
        if config.max_msgs_per_subject > 0:
            self._limits.keep_subject(subject, config.max_msgs_per_subject)
        if config.discard is DiscardPolicy.OLD and not self._limits.drop_oldest():
            self._limits.keep()
        if expires_ns:
            self._expirer.add(seq, expires_ns)
            self._expirer.arm()
        elif config.max_age_ns and self.appends.last_ts_ns + config.max_age_ns < self._expirer.due_ns:
            self._expirer.arm()

    def schedule_stored(self, seq: int, ts_ns: int, subject: bytes, header: bytes) -> None:
        """A message joined that may be a schedule, or the end of one."""
        if self._schedules is not None:
            self._schedules.stored(seq, ts_ns, subject, header)

    # --- called by the committer ---

    def on_removed(self, removed: Removed) -> None:
        """Messages are gone for readers."""
        if removed.seqs or removed.others:
            self.interest.on_removed(removed.seqs)
        for subject in [b""] if b"" in removed.purged else dict.fromkeys(removed.purged):
            self.interest.on_purged(subject)

    def on_committed(self, first_seq: int, last_seq: int) -> None:
        """New messages are safe."""
        self.interest.on_committed(first_seq, last_seq)

    def on_fault(self, fault: StorageFault) -> None:
        """A commit failed: forget what did not happen."""
        self._ports.log("ERR", f"Stream '{self.name}' could not store messages: {fault}")
        self.health.look_for_space()
        self._take_over()

    def on_repaired(self) -> None:
        """The store takes changes again, from what it could read back."""
        self._ports.log("INF", f"Stream '{self.name}' stores messages again")
        self._take_over()

    # --- inside ---

    def _take_over(self) -> None:
        """Derive anew what was derived from the store."""
        self.appends.take_over(b"")
        self._expirer.rebuild()
        if self._schedules is not None:
            self._schedules.rebuild()
        self._ids.rebuild(self.config)
        self.interest.on_purged(b"")
        self.upstream.on_fault()

    def _allow_schedules(self, config: StreamConfig) -> None:
        if config.allow_msg_schedules and self._schedules is None:
            self._schedules = Schedules(self.store, self._ports, partial(self.copy_in.store, origin=Origin.SCHEDULE))

    def _subscribe(self, subjects: list[str]) -> None:
        """Listen on exactly these; on very many bit by bit, so that others have their turns."""
        wanted = dict.fromkeys(subjects)
        present = self._subscriptions

        def steps() -> Iterator[None]:
            for subject in [one for one in present if one not in wanted]:
                present.pop(subject).close()
                yield
            for subject in wanted:
                if subject not in present:
                    present[subject] = self._ports.listen(subject.encode(), self.ingest.intake, self._traced)
                    yield

        left = steps()
        self.slices.run(lambda: sum(1 for _ in islice(left, _LISTEN_SLICE)) < _LISTEN_SLICE, lambda _: None)

    def _listen_no_more(self) -> None:
        listening = [*self._subscriptions.values()]
        self._subscriptions.clear()
        self._ports.close_all(listening)

    def _pace(self, turn: Callable[[], None]) -> None:
        """The next slice of long work: in the next turn, or when what was removed so far is committed."""
        if self.store.assigned.removals.messages < PURGE_WAITING_MSGS:
            self._ports.call_soon(turn)
        else:
            self.committer.after(lambda _: self._ports.call_soon(turn))

    def _released(self) -> None:
        """Less is held than before: what retention had to leave goes now."""
        if self._stopped:
            return
        if self.config.max_msgs_per_subject > 0:
            self._limits.keep_subjects()
        self._limits.keep()
        self._expirer.run_released()
        self.committer.wake()

    def check_invariants(self) -> None:
        """What must hold between calls."""
        assert self.appends.last_seq == self.store.last_seq
        assert self.store.committed_seq <= self.store.last_seq
        self.appends.ids.check_invariants()
        config = self.config
        if config.discard is DiscardPolicy.OLD and not self._limits.busy and not len(self.holds):
            assert config.max_msgs <= 0 or self.store.assigned.messages <= config.max_msgs
            assert config.max_bytes <= 0 or self.store.assigned.size_bytes <= config.max_bytes
