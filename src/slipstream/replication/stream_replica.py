"""This server's replica of one log: its store, its member of the group, and while it leads, what it is for: a stream.

    opening ──► following ──leads──► quiet ──► leading (a `Stream`) ──steps down──► quiet ──► opening the log again
       ▲            ▲                                                                              │
       │            └──────────────────────────────────────────────────────────────────────────────┘
       └── failed, after a while ◄── the disk, or anything that nobody expected
    damaged ──► silent, until it has a copy of what others have (`repair`) ──► opening

A follower has no `Stream`: frames are written, and committed ones replayed into the index. A leader has the ordinary
one, made as after a recovery, whose commits are proposed before they are written and committed when a majority has
them. When it steps down, nobody who waits is answered: what was not committed may still come to be. The meta group is
such a replica, too, without a stream (`meta.log`).

What this is not: which replicas there are, who asked for them, and where they are.

Invariants: one of `ReplicaWork` and `Committer` works on a store, never both. A store that is let go is never written
to again, and the next one is opened when no thread works on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from slipstream.errors import StorageFault
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.replica_log import Entry, ReplicaLog
from slipstream.jetstream.store.file.segment_import import SegmentImport
from slipstream.jetstream.store.file.segment_transfer import Membership
from slipstream.jetstream.store.file.votes import Votes
from slipstream.jetstream.store.values import Job
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.stream import Stream
from slipstream.replication.follower_reads import LOG_END, LOG_END_WANTED, FollowerReads
from slipstream.replication.group import Group, LedAway
from slipstream.replication.groups import TICK_NS, Groups
from slipstream.replication.led import Led
from slipstream.replication.member_steps import MemberKind
from slipstream.replication.repair import REPAIR, SilentReplica
from slipstream.replication.replica_care import ReplicaCare
from slipstream.replication.replica_files import ReplicaFiles, with_members
from slipstream.replication.replica_marks import ReplicaDamaged
from slipstream.replication.replica_work import ReplicaWork
from slipstream.replication.segment_catch_up import HAVE, MANIFEST, PIECE, WANTED, SegmentSender, SegmentTaker
from slipstream.replication.settings import STREAM_DEFAULTS, GroupSettings

__all__ = ["RETRY_NS", "Replica", "StreamHost", "StreamReplica"]

L = TypeVar("L", bound=Led)
L_co = TypeVar("L_co", bound=Led, covariant=True)

_SURE_NS: Final = STREAM_DEFAULTS.election_ticks * TICK_NS // 2
RETRY_NS: Final = 1_000_000_000
"""After a failure, until the replica is opened again."""
_FIRST_ELECTION_NS = 30_000_000  # until the other replicas of a new group are made, as a rule


class StreamHost(Protocol[L_co]):
    """Where streams run. `JetStreamAccount` is one. What is led is a stream, or what is in its place."""

    def lead_stream(self, store: FileStore, replication: Replication) -> L_co:
        """Run a replicated stream here."""
        ...

    def release_stream(self, name: str, *, deleted: bool = False) -> None:
        """Run it no more, and answer nobody; if it was `deleted`, whoever waits is told so."""
        ...


class Replica(Generic[L]):
    """One replica."""

    def __init__(
        self,
        name: str,
        group_id: int,
        node: int,
        host: StreamHost[L],
        files: ReplicaFiles,
        groups: Groups,
        ports: Ports,
        settings: GroupSettings = STREAM_DEFAULTS,
        *,
        on_change: Callable[[Replica[L]], None] | None = None,
        on_applied: Callable[[FileStore], None] | None = None,
        title: str = "",
        leads_first: bool = False,
        peers: Callable[[], Sequence[int]] = tuple,
        is_moving: Callable[[], bool] = bool,
    ) -> None:
        """Of the stream `name`, as its files have it; nothing happens before `start`.

        `on_change` is told when somebody else leads, `on_applied` when more is committed or the store is another one.
        `title` is what the log calls it. `leads_first`: of a new group, this is the one that should lead,
        so it asks for votes soon and nobody waits until an election is due. `peers` are the servers that keep the
        stream, which change while it `is_moving`.
        """
        self._peers = peers
        self.name = name
        self.title = title or f"stream '{name}'"
        """What it is a replica of, in words."""
        self.group_id = group_id
        self._node = node
        self._host = host
        self._files = files
        self._groups = groups
        self._ports = ports
        self._settings = settings
        self._on_change = on_change
        self._on_applied = on_applied
        self._leads_first = leads_first
        self.group: Group | None = None
        """Its member of the group, while it takes part."""
        self.stream: L | None = None
        """The stream, while this server leads it."""
        self.fault: Exception | None = None
        """Why it does not take part."""
        self._store: FileStore | None = None
        self._work: ReplicaWork | None = None
        self._proposes = False  # a commit of the leader's is being proposed
        self._commit_runs = False  # ... is proposed and not on disk
        self._when_synced: Callable[[], None] | None = None
        self._known_leader = 0
        self._reads: list[Callable[[bool], None]] = []  # of this turn
        self._unsure: list[Callable[[], None]] = []  # what waits until it is certain that this one leads
        self._sure_ns = 0  # when that was last asked, and so
        self._changes: list[tuple[Sequence[tuple[MemberKind, int]], int]] = []  # of the membership, to be proposed
        self._changed_at = 0  # where the last of them is in the log
        self._stays = False  # the store may go on without being read back
        self._saves_votes = False
        self._waits_for_votes = False  # all else is quiet
        self._sender = SegmentSender(ports, self.tell)
        self.reads = FollowerReads(node, self, ports)
        """Reads while it follows."""
        self._taker: SegmentTaker | None = None
        self._silent: SilentReplica | None = None  # while it is damaged
        self.care = ReplicaCare(node, self, ports, peers, is_moving)
        """Whether it is whole, and on a leader, whether the others are."""
        self._told = ""  # why it did not take part, as long as nothing could be written since
        self._retry: Cancel | None = None
        self._next: Callable[[], None] | None = None  # what follows when nothing works on the files; None: it is now

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the files, and take part."""
        self._retry = None
        self._open(0, self._take_part)

    def stop(self, ended: Callable[[], None], *, deleted: bool = False) -> None:
        """Take part no more; `ended` is called when nothing works on the files any more, and they can go.

        `deleted`: the stream is gone for good, which those are told who wait for it.
        """

        def end() -> None:
            self._let_go()
            ended()

        if self._retry is not None:
            self._retry()
            self._retry = None
        self._leave_group()
        self._when_quiet(end, deleted=deleted)

    @property
    def messages(self) -> int:
        """How many messages it shows: those that are known to be committed here."""
        return self._store.messages if self._store is not None else 0

    @property
    def readable(self) -> FileStore | None:
        """Its store, unless that is being opened: readers see what is committed as far as is known here."""
        works = self._work is not None or self.stream is not None
        return self._store if works and self.group is not None and self._next is None else None

    @property
    def log_end(self) -> int | None:
        """Index of the last entry of its log; None while it is not open, or may lack what a replica had that was here
        before: see `Votes.floor_index`."""
        if self._store is None or self.group is None or not self.group.may_vote:
            return None
        return self._log.last_index

    @property
    def _log(self) -> ReplicaLog:
        assert self._store is not None and self._store.replica is not None
        return self._store.replica

    def _open(self, applied: int, take: Callable[[Votes], None]) -> None:
        """Read the files; then there is another store, and `take` goes on with it."""
        found: list[tuple[Votes, FileStore] | Exception] = []

        def open_() -> None:
            try:
                found.append(self._files.open(applied=applied))
            except Exception as error:
                found.append(error)

        def opened() -> None:
            if isinstance(found[0], ReplicaDamaged):
                self.damaged(found[0])
                return
            if isinstance(found[0], Exception):
                self._fail(found[0])
                return
            votes, store = found[0]
            self._store = store
            self._work = ReplicaWork(store, self._ports, self._persisted, self._fail)
            if store.fault is not None:
                raise store.fault
            take(votes)

        assert self._next is None
        self._next = guarded(opened, self._fail)
        self._ports.run_blocking(open_, guarded(self._quiet, self._fail))

    def _take_part(self, votes: Votes) -> None:
        log, roll = self._log, self._ports.random_below
        self.group = Group(self._node, log, votes, self, roll, self._settings, applied=log.applied_index)
        if isinstance(self.fault, ReplicaDamaged) and self._store is not None:
            self._ports.log("INF", f"The replica of {self.title} is repaired")
            self.care.repaired(self._store)
        self.fault = None
        self._taker = SegmentTaker(self._ports, self._files, self.tell, self._import)
        self._groups.add(self.group_id, self.group, self._other, self.group if self._settings.rests else None)
        self._applied()
        if self._leads_first and not votes.term:
            self._ports.call_later(_FIRST_ELECTION_NS, self._campaign)
        self._changed()

    def _applied(self) -> None:
        if self._on_applied is not None and self._store is not None:
            self._on_applied(self._store)

    def _campaign(self) -> None:
        if self.group is not None and not self.group.term:
            self.group.campaign()

    def _leave_group(self) -> None:
        self.reads.stop()
        group, self.group = self.group, None
        self._changes, self._changed_at = [], 0
        silent, self._silent = self._silent, None
        self._sender.stop()
        self.care.steps_down()
        if silent is not None:
            silent.stop()
            self._groups.remove(self.group_id)
        if self._taker is not None:
            self._taker.stop()
        if group is not None:
            group.stop()
            self._groups.remove(self.group_id)

    def _when_quiet(self, then: Callable[[], None], *, deleted: bool = False) -> None:
        """Let neither stream nor follower work on the store, and then go on like this; what was to follow does not."""
        settles, self._next = self._next is not None, then
        if settles:
            return
        stream, self.stream = self.stream, None
        work, self._work = self._work, None
        if stream is not None:
            self._stays = not stream.is_read_back
            self._host.release_stream(self.name, deleted=deleted)
            upkeep = stream.committer.upkeep
            if self._commit_runs:
                self._when_synced = lambda: upkeep.when_quiet(self._quiet)
            else:
                upkeep.when_quiet(self._quiet)
        elif work is not None:
            work.stop(self._quiet)
        else:
            self._quiet()

    def _quiet(self) -> None:
        if self._saves_votes:
            self._waits_for_votes = True
            return
        then, self._next = self._next, None
        assert then is not None
        then()

    def _let_go(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.let_go()

    def _fail(self, error: Exception) -> None:
        """It cannot go on like this: from the beginning, after a while, or with what others have."""
        if isinstance(error, ReplicaDamaged):
            self.damaged(error)
            return
        if str(error) != self._told:  # a full disk lets it come back, and fail with the next write
            self._told = str(error)
            self._ports.log("ERR", f"The replica of {self.title} does not take part: {error}")
        self.fault = error
        self._leave_group()
        self._when_quiet(self._wait)
        self._changed()

    # --- damage -----------------------------------------------------------------------------------------------------

    @property
    def leads_now(self) -> bool:
        """Whether the stream runs here."""
        return self.stream is not None

    @property
    def settled_store(self) -> FileStore | None:
        """The store, while it takes part and nothing else is about to happen to it."""
        return self._store if self._next is None and self.group is not None else None

    def scrub_next(self) -> bool:
        """On a follower: have one more piece of its log read back; False: that was all. A leader's stream does it."""
        return self._work is not None and self._work.scrub_next()

    def damaged(self, error: ReplicaDamaged) -> None:
        """Something is lost that this replica had: it is silent until it has it again."""
        if self.fault is None or str(self.fault) != str(error):
            self._ports.log("ERR", f"The replica of {self.title} is damaged, and gets a copy: {error}")
        self.fault = error
        failed: list[Exception] = []

        def note() -> None:
            try:
                self._files.note_damaged(str(error))
            except Exception as refused:
                failed.append(refused)

        def noted() -> None:
            if failed:
                self._fail(failed[0])
            else:
                peers, ports = self._peers, self._ports
                self._silent = SilentReplica(self._node, peers, ports, self._files, self.tell, self._repaired)
                self._groups.add(self.group_id, self._silent, self._silent.other)

        def begin() -> None:
            self._let_go()
            self._next = guarded(noted, self._fail)
            self._ports.run_blocking(note, guarded(self._quiet, self._fail))

        self._leave_group()
        self._when_quiet(guarded(begin, self._fail))
        self._changed()

    def _repaired(self, taken: SegmentImport) -> bool:
        """A copy of what another replica has is here: it takes the place of the log."""
        if self._silent is not None:
            self._leave_group()
            self._when_quiet(lambda: self._install(lambda: self._files.end_repair(taken)))
        return True

    def drop_copy(self, to: int) -> None:
        """What this node was given is of no use to it."""
        self._sender.drop(to)

    def _wait(self) -> None:
        self._let_go()
        self._retry = self._ports.call_later(RETRY_NS, self.start)

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change(self)

    # --- what the group has done for it (`GroupPorts`) --------------------------------------------------------------

    def send(self, to: int, message: bytes) -> None:
        """See `GroupPorts`."""
        self._groups.send(self.group_id, to, message)

    def save_votes(self, votes: Votes) -> None:
        """See `GroupPorts`."""
        failed: list[Exception] = []
        group = self.group

        def save() -> None:
            try:
                self._files.save(votes)
            except Exception as error:
                failed.append(error)

        def saved() -> None:
            self._saves_votes = False
            if self._waits_for_votes:
                self._waits_for_votes = False
                self._quiet()
            if group is None or group is not self.group:
                return
            if failed:
                group.fail(failed[0])
            else:
                group.votes_saved(votes.version)

        self._saves_votes = True
        self._ports.run_blocking(save, guarded(saved, self._fail))

    def sync_log(self) -> None:
        """See `GroupPorts`."""
        if self.stream is not None:
            if not (self._proposes or self._commit_runs) or self._log_waits:  # else that commit will do
                self.stream.committer.wake()
        elif self._work is not None:
            self._work.wake()

    def committed(self, entries: Sequence[Entry]) -> None:
        """See `GroupPorts`."""
        done = self._log.commit(entries[-1][0])
        if self.stream is not None:
            self.stream.committer.committed(done)
        elif self._work is not None and self._store is not None and self._store.erasing:
            self._work.wake()  # what the leader has erased is overwritten here
        if self._on_applied is not None:
            self._applied()
        group = self.group
        if group is not None and group.leader != self._known_leader:
            self._known_leader = group.leader
            self._changed()

    def leads(self, term: int) -> None:
        """See `GroupPorts`."""

        def begin() -> None:
            self._log.lead(term)
            self._run_stream()

        self._when_quiet(guarded(begin, self._fail))

    def lead_anew(self) -> None:
        """The stream, if it is led here, is made again from what its store has."""
        if self.stream is not None:
            self._when_quiet(guarded(self._run_stream, self._fail))

    def _run_stream(self) -> None:
        assert self._store is not None
        self.stream = self._host.lead_stream(self._store, self)
        if self._store.log.pending_bytes:
            self.stream.committer.wake()  # a unit that was left open is given up
        self._persisted()
        self._changed()

    def steps_down(self) -> None:
        """See `GroupPorts`."""
        group = self.group
        if group is not None:
            group.hold()
            self._changes, self._changed_at = [], 0
            self._sender.stop()
            self._when_quiet(lambda: self._reopen(group))
            self._changed()

    def behind(self, to: int) -> None:
        """See `GroupPorts`."""
        # ... also by a leader that does not lead yet: it may need this very follower for that.
        if self.group is not None and self.group.is_leader and self._store is not None:
            self._sender.offer(to, self._store, _membership(self.group.votes))

    def wakes(self) -> None:
        """See `GroupPorts`."""
        self._groups.awake(self.group_id)

    def stopped(self, error: Exception) -> None:
        """See `GroupPorts`."""
        if not isinstance(error, LedAway):
            self._fail(error)
            return
        self._leave_group()
        self._when_quiet(self._wait)
        self._changed()

    # --- whole segments ---------------------------------------------------------------------------------------------

    def tell(self, to: int, kind: int, body: bytes) -> None:
        """Send something that is not Raft's."""
        self._groups.send(self.group_id, to, body, kind=kind)

    def _other(self, sender: int, kind: int, body: memoryview) -> None:
        """A message that is not Raft's."""
        if kind in (LOG_END_WANTED, LOG_END):
            self.reads.heard(sender, kind, bytes(body))
        elif kind == WANTED:
            self._sender.wanted(sender, bytes(body))
        elif kind == REPAIR:
            self.care.asked(sender, bytes(body))
        elif kind == HAVE:
            taken = self._sender.has(sender, bytes(body))
            if taken is not None and self.group is not None:
                self.group.has_taken(sender, *taken)
        elif self._taker is None or self.group is None or self._store is None or self.group.is_leader:
            return
        elif kind == MANIFEST and sender == self.group.leader:
            self._taker.offered(sender, bytes(body), self._log)
        elif kind == PIECE:
            self._taker.piece(sender, bytes(body))

    def _import(self, taken: SegmentImport) -> bool:
        """All segments of another replica are here: they take the place of the log, and it begins from them.

        False: the log has their end by now. They were on their way for a while, and it may have acknowledged more.
        """
        group, manifest = self.group, taken.manifest
        if group is None or self._store is None or not self._log.lacks(manifest.frame, manifest.term):
            return False
        group.hold()
        votes = group.votes
        if manifest.membership.applied_conf > votes.applied_conf:
            votes = with_members(votes, manifest.membership)
        votes = replace(votes, version=votes.version + 1)
        self._leave_group()
        self._when_quiet(lambda: self._install(lambda: self._files.end_import(taken, votes)))
        return True

    def _install(self, work: Callable[[], None]) -> None:
        """Nothing works on the files: let a copy be the log from now on, and begin with it."""
        failed: list[Exception] = []

        def end() -> None:
            try:
                work()
            except Exception as error:
                failed.append(error)

        def ended() -> None:
            if failed:
                self._fail(failed[0])
            else:
                self.start()

        self._let_go()
        assert self._next is None
        self._next = guarded(ended, self._fail)
        self._ports.run_blocking(end, guarded(self._quiet, self._fail))

    def _reopen(self, group: Group) -> None:
        """Open the log again up to what is committed: what the stream had indexed ahead of that is dropped.

        If there is nothing of that kind, as when a quiet stream is handed over, it goes on as it is: reading a long log
        back takes its time.
        """
        if self._stays and self._store is not None and self._log.follow():
            self._work = ReplicaWork(self._store, self._ports, self._persisted, self._fail)
            self._follow_again(group)
            return
        self._let_go()
        self._open(group.applied, lambda _: self._follow_again(group))

    def _follow_again(self, group: Group) -> None:
        self._applied()
        group.resume(self._log)
        self._changed()

    # --- what the leader's committer says (`Replication`) -----------------------------------------------------------

    def begun(self, job: Job, *, awaited: bool) -> bool:
        """See `Replication`."""
        assert isinstance(job, CommitJob) and self.group is not None
        frames = self._log.proposals(job)
        self._proposes = True
        leads = not frames or self.group.propose(frames)
        self._proposes = False
        if not leads:
            return False
        self._commit_runs = True
        if self._changes and self._store is not None and not self._store.atomic_open:
            self._propose_changes()
        if awaited:
            self._groups.flush()
            self._ports.flush()  # the disks of others work meanwhile
            job.run_inline()
        return True

    def synced(self, fault: StorageFault | None) -> None:
        """See `Replication`."""
        self._commit_runs = False
        when_synced, self._when_synced = self._when_synced, None
        if when_synced is not None:
            when_synced()
        elif fault is not None:
            self._fail(fault)
        else:
            self._persisted()

    def confirm(self, read: Callable[[bool], None]) -> None:
        """See `Replication`. All reads of a turn ask together."""
        if not self._reads:
            self._ports.call_soon(self._confirm)
        self._reads.append(read)

    def _confirm(self) -> None:
        reads, self._reads = self._reads, []
        if self.group is not None:
            self.group.confirm(reads)
        else:
            for read in reads:
                read(False)

    def makes_sure(self, then: Callable[[], None]) -> bool:
        """See `Replication`. Who has heard of this leader votes for nobody else for an election's time."""
        asked_ns = self._ports.now_ns()
        if 0 <= asked_ns - self._sure_ns < _SURE_NS:
            return True

        def told(leads: bool) -> None:
            waiting, self._unsure = self._unsure, []
            if leads:
                self._sure_ns = asked_ns
                for go_on in waiting:
                    go_on()

        self._unsure.append(then)
        if len(self._unsure) == 1:
            self.confirm(told)
        return False

    def change(self, changes: Sequence[tuple[MemberKind, int]], move: int = 0) -> None:
        """Have the leader propose another membership: see `Group.change`. It may have to wait for a commit to begin."""
        if self.stream is not None and self._store is not None:
            self._changes.append((changes, move))
            if self._log_waits or self._store.atomic_open:  # Raft's own entry would end the unit
                self.stream.committer.wake()
            else:
                self._propose_changes()

    def _propose_changes(self) -> None:
        """Nothing that the stream has appended waits to be proposed: the next entry may be Raft's own."""
        changes, self._changes = self._changes, []
        for one, move in changes:
            if self.group is None or not self.group.change(one, move):
                self._ports.log("WRN", f"The replicas of {self.title} could not be changed now")
            elif self._store is not None:
                self._changed_at = self._log.last_index

    @property
    def is_changing(self) -> bool:
        """Whether a membership that was proposed here is not applied yet, or may not be."""
        return bool(self._changes) or self.group is None or self.group.applied < self._changed_at

    @property
    def _log_waits(self) -> bool:
        """Whether something was appended that no commit has taken yet."""
        return self._store is not None and self._store.log.pending_bytes > 0

    def _persisted(self) -> None:
        self._told = ""
        if self.group is not None:
            self._files.synced(self._log)
            self.group.persisted()
            self._groups.flush()


StreamReplica = Replica[Stream]
"""Of a stream."""


def _membership(votes: Votes) -> Membership:
    return Membership(
        votes.voters,
        votes.learners,
        votes.outgoing,
        votes.next_learners,
        votes.auto_leave,
        votes.applied_conf,
        votes.move,
    )
