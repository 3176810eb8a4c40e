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
to again, and the next one is opened when no thread works on it (`handover`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.replica.log import Entry, ReplicaLog
from slipstream.jetstream.store.file.replica.segment_import import SegmentImport
from slipstream.jetstream.store.file.replica.segment_transfer import Membership
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.stream import Stream
from slipstream.replication.raft.group import Group, LedAway
from slipstream.replication.raft.groups import Groups
from slipstream.replication.raft.marks import ReplicaDamaged
from slipstream.replication.raft.settings import STREAM_DEFAULTS, GroupSettings
from slipstream.replication.replica.care import ReplicaCare
from slipstream.replication.replica.files import ReplicaFiles, with_members
from slipstream.replication.replica.follower_reads import LOG_END, LOG_END_WANTED, FollowerReads
from slipstream.replication.replica.handover import Handover
from slipstream.replication.replica.leader_commits import LeaderCommits
from slipstream.replication.replica.led import Led
from slipstream.replication.replica.repair import REPAIR, SilentReplica
from slipstream.replication.replica.segment_catch_up import HAVE, MANIFEST, PIECE, WANTED, SegmentSender, SegmentTaker
from slipstream.replication.replica.work import ReplicaWork

__all__ = ["RETRY_NS", "Replica", "StreamHost", "StreamReplica"]

L = TypeVar("L", bound=Led)
L_co = TypeVar("L_co", bound=Led, covariant=True)

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

    # A server has thousands, and `StreamReplica(…)` would put its type into a dictionary of each.
    __slots__ = (
        "__weakref__",
        "_files",
        "_groups",
        "_handover",
        "_host",
        "_known_leader",
        "_leads_first",
        "_node",
        "_on_applied",
        "_on_change",
        "_peers",
        "_ports",
        "_retry",
        "_sender",
        "_settings",
        "_silent",
        "_stays",
        "_taker",
        "_told",
        "_work",
        "care",
        "commits",
        "fault",
        "group",
        "group_id",
        "name",
        "reads",
        "store",
        "stream",
        "title",
    )

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
        self.store: FileStore | None = None
        """Its store, while its files are open."""
        self._work: ReplicaWork | None = None
        self.commits = LeaderCommits(self, groups, ports)
        """What its stream's commits go through while it leads, and changes of the membership."""
        self._known_leader = 0
        self._stays = False  # the store may go on without being read back
        self._handover = Handover(ports, self._fail)
        self._sender = SegmentSender(ports, self.tell)
        self.reads = FollowerReads(node, self, ports)
        """Reads while it follows."""
        self._taker: SegmentTaker | None = None
        self._silent: SilentReplica | None = None  # while it is damaged
        self.care = ReplicaCare(node, self, ports, peers, is_moving)
        """Whether it is whole, and on a leader, whether the others are."""
        self._told = ""  # why it did not take part, as long as nothing could be written since
        self._retry: Cancel | None = None

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
        return self.store.messages if self.store is not None else 0

    @property
    def readable(self) -> FileStore | None:
        """Its store, unless that is being opened: readers see what is committed as far as is known here."""
        works = self._work is not None or self.stream is not None
        return self.store if works and self.group is not None and not self._handover.is_under_way else None

    @property
    def log_end(self) -> int | None:
        """Index of the last entry of its log; None while it is not open, or may lack what a replica had that was here
        before: see `Votes.floor_index`."""
        if self.store is None or self.group is None or not self.group.may_vote:
            return None
        return self.log.last_index

    @property
    def log(self) -> ReplicaLog:
        """The log of its store, which is open."""
        assert self.store is not None and self.store.replica is not None
        return self.store.replica

    def _open(self, applied: int, take: Callable[[Votes], None]) -> None:
        """Read the files; then there is another store, and `take` goes on with it."""

        def opened(found: tuple[Votes, FileStore]) -> None:
            votes, self.store = found
            self._work = ReplicaWork(self.store, self._ports, self.persisted, self._fail)
            if self.store.fault is not None:
                raise self.store.fault
            take(votes)

        self._handover.run_alone(lambda: self._files.open(applied=applied), opened)

    def _take_part(self, votes: Votes) -> None:
        log, roll = self.log, self._ports.random_below
        self.group = Group(self._node, log, votes, self, roll, self._settings, applied=log.applied_index)
        if isinstance(self.fault, ReplicaDamaged) and self.store is not None:
            self._ports.log("INF", f"The replica of {self.title} is repaired")
            self.care.repaired(self.store)
        self.fault = None
        self._taker = SegmentTaker(self._ports, self._files, self.tell, self._import)
        self._groups.add(self.group_id, self.group, self._other, self.group if self._settings.rests else None)
        self._applied()
        if self._leads_first and not votes.term:
            self._ports.call_later(_FIRST_ELECTION_NS, self._campaign)
        self._changed()

    def _applied(self) -> None:
        if self._on_applied is not None and self.store is not None:
            self._on_applied(self.store)

    def _campaign(self) -> None:
        if self.group is not None and not self.group.term:
            self.group.campaign()

    def _leave_group(self) -> None:
        self.reads.stop()
        group, self.group = self.group, None
        self.commits.forget_changes()
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
        if not self._handover.leave(then):
            return
        stream, self.stream = self.stream, None
        work, self._work = self._work, None
        if stream is not None:
            self._stays = not stream.is_read_back
            self._host.release_stream(self.name, deleted=deleted)
            upkeep = stream.committer.upkeep
            self.commits.when_synced(lambda: upkeep.when_quiet(self._handover.left))
        elif work is not None:
            work.stop(self._handover.left)
        else:
            self._handover.left()

    def _let_go(self) -> None:
        store, self.store = self.store, None
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
        return self.store if self.group is not None and not self._handover.is_under_way else None

    def scrub_next(self) -> bool:
        """On a follower: have one more piece of its log read back; False: that was all. A leader's stream does it."""
        return self._work is not None and self._work.scrub_next()

    def damaged(self, error: ReplicaDamaged) -> None:
        """Something is lost that this replica had: it is silent until it has it again."""
        if self.fault is None or str(self.fault) != str(error):
            self._ports.log("ERR", f"The replica of {self.title} is damaged, and gets a copy: {error}")
        self.fault = error

        def noted(_: None) -> None:
            peers, ports = self._peers, self._ports
            self._silent = SilentReplica(self._node, peers, ports, self._files, self.tell, self._repaired)
            self._groups.add(self.group_id, self._silent, self._silent.other)

        def begin() -> None:
            self._let_go()
            self._handover.run_alone(lambda: self._files.note_damaged(str(error)), noted)

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
        group = self.group

        def saved(error: Exception | None) -> None:
            if group is None or group is not self.group:
                return
            if error is not None:
                group.fail(error)
            else:
                group.votes_saved(votes.version)

        self._handover.save_votes(lambda: self._files.save(votes), saved)

    def sync_log(self) -> None:
        """See `GroupPorts`."""
        if self.stream is not None:
            if not self.commits.syncs_soon:
                self.stream.committer.wake()
        elif self._work is not None:
            self._work.wake()

    def committed(self, entries: Sequence[Entry]) -> None:
        """See `GroupPorts`."""
        done = self.log.commit(entries[-1][0])
        if self.stream is not None:
            self.stream.committer.committed(done)
        elif self._work is not None and self.store is not None and self.store.erasing:
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
            self.log.lead(term)
            self._run_stream()

        self._when_quiet(guarded(begin, self._fail))

    def lead_anew(self) -> None:
        """The stream, if it is led here, is made again from what its store has."""
        if self.stream is not None:
            self._when_quiet(guarded(self._run_stream, self._fail))

    def _run_stream(self) -> None:
        assert self.store is not None
        self.stream = self._host.lead_stream(self.store, self.commits)
        if self.store.log.pending_bytes:
            self.stream.committer.wake()  # a unit that was left open is given up
        self.persisted()
        self._changed()

    def steps_down(self) -> None:
        """See `GroupPorts`."""
        group = self.group
        if group is not None:
            group.hold()
            self.commits.forget_changes()
            self._sender.stop()
            self._when_quiet(lambda: self._reopen(group))
            self._changed()

    def behind(self, to: int) -> None:
        """See `GroupPorts`."""
        # ... also by a leader that does not lead yet: it may need this very follower for that.
        if self.group is not None and self.group.is_leader and self.store is not None:
            self._sender.offer(to, self.store, _membership(self.group.votes))

    def rests(self) -> None:
        """See `GroupPorts`."""
        self.log.rest()

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
        elif self._taker is None or self.group is None or self.store is None or self.group.is_leader:
            return
        elif kind == MANIFEST and sender == self.group.leader:
            self._taker.offered(sender, bytes(body), self.log)
        elif kind == PIECE:
            self._taker.piece(sender, bytes(body))

    def _import(self, taken: SegmentImport) -> bool:
        """All segments of another replica are here: they take the place of the log, and it begins from them.

        False: the log has their end by now. They were on their way for a while, and it may have acknowledged more.
        """
        group, manifest = self.group, taken.manifest
        if group is None or self.store is None or not self.log.lacks(manifest.frame, manifest.term):
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
        self._let_go()
        self._handover.run_alone(work, lambda _: self.start())

    def _reopen(self, group: Group) -> None:
        """Open the log again up to what is committed: what the stream had indexed ahead of that is dropped.

        If there is nothing of that kind, as when a quiet stream is handed over, it goes on as it is: reading a long log
        back takes its time.
        """
        if self._stays and self.store is not None and self.log.follow():
            self._work = ReplicaWork(self.store, self._ports, self.persisted, self._fail)
            self._follow_again(group)
            return
        self._let_go()
        self._open(group.applied, lambda _: self._follow_again(group))

    def _follow_again(self, group: Group) -> None:
        self._applied()
        group.resume(self.log)
        self._changed()

    def persisted(self) -> None:
        """More of the log is on this disk."""
        self._told = ""
        if self.group is not None:
            self._files.synced(self.log)
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
