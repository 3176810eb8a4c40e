"""The streams that this server keeps, as the meta group assigns them: made, changed and ended.

A stream with one copy is an ordinary one of its account. One with several is a `StreamReplica`, and a stream of the
account only while this server leads it.

    assigned ──► files made ──► replica, or stream        another configuration ──► the leader takes it
    gone, elsewhere, or another of the same name ──► ended ──► files removed     other servers ──► the leader moves it

What this is not: who decides (`meta`), or who is asked (`api.cluster`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file import FileStoreOptions
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.stream.stream import Stream
from slipstream.replication.ids import NO_NODE
from slipstream.replication.kept_streams import KeptStream, KeptStreams
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.moves import Left, Settled
from slipstream.replication.raft.groups import Groups
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.replication.replica.host import ReplicaHost
from slipstream.replication.replica.member_moves import MemberMoves
from slipstream.replication.replica.stream_replica import StreamReplica

__all__ = ["Hosting"]

_SCRUB_TICKS = 98  # between two segments of followers that are read back, as `account.scrub` does it for streams
_MADE_AT_ONCE = 40  # streams with one copy in one event: some 20 ms
_LOOK_TICKS = 7  # between two looks at who leads and what is whole; not in step with elections, where Raft counts anew


class Hosting:
    """All of them."""

    def __init__(
        self,
        node: int,
        disk: Disk,
        directory: str,
        options: Callable[[], FileStoreOptions],
        groups: Groups,
        ports: Ports,
        account: Callable[[str], JetStreamAccount | None],
        changed: Callable[[Assignment], None],
        released: Callable[[Assignment], None],
        leaderless: Callable[[Assignment], None],
        say: Callable[[Settled | Left], None],
    ) -> None:
        """None yet.

        Args:
            node: this server.
            disk: where files are.
            directory: of the replicas, one directory each by the number of their group.
            options: how a replicated stream is stored.
            groups: those of this server.
            ports: threads and the log.
            account: an account by its name, if it may use JetStream here.
            changed: is told of a stream that is led by another server now, or by this one.
            released: is told of one that was held back here for a backup, and is led by another server now.
            leaderless: is told of one that nobody has led for a while.
            say: tells the meta group's leader, perhaps in vain.
        """
        self._node = node
        self._disk = disk
        self._directory = directory
        self._options = options
        self._groups = groups
        self._ports = ports
        self._account = account
        self._changed = changed
        self._released = released
        self._leaderless = leaderless
        self.kept = KeptStreams(account)
        """The streams, and what is known of them."""
        self._ticks = 0
        self._grouped = {int(name) for name in disk.list_dir(directory) if name.isdecimal()}  # groups that have files
        self._moving: set[tuple[str, str]] = set()  # of those: whose servers change
        self._going: set[int] = set()  # groups whose files are about to be removed
        self._left: dict[tuple[str, str], Left] = {}  # whose files were removed, which is to be said
        self._say = say
        self._moves = MemberMoves(node, say)
        self._to_make: deque[KeptStream] = deque()  # with one copy, for the turns that follow
        self._made_in_turn = 0
        self._scrubbed: deque[StreamReplica] = deque()  # those that have their turn before the others

    # --- events -----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A tick has passed. There may be many streams, so leaders are looked for now and then."""
        self._moves.tick()
        for said in self._left.values():
            if said.group not in self._going and self._moves.is_due:
                self._say(said)
        for key in self._moving:
            kept = self.kept.find(*key)
            if kept is not None and kept.replica is not None and kept.replica.stream is not None:
                self._moves.look(kept.assignment, kept.replica)
        self._ticks += 1
        if self._ticks % _LOOK_TICKS:
            return
        if self._ticks % _SCRUB_TICKS == 0:
            self._scrub()
        for kept in self.kept:
            if kept.replica is not None:
                kept.replica.care.look()
            if kept.look_for_leader(_LOOK_TICKS):
                self._leaderless(kept.assignment)

    def _scrub(self) -> None:
        """Damage is found while others still have what is lost."""
        if not self._scrubbed:
            self._scrubbed.extend(kept.replica for kept in self.kept if kept.replica is not None)
        while self._scrubbed and not self._scrubbed[0].scrub_next():
            self._scrubbed.popleft()

    def assigned(self, old: Assignment | None, new: Assignment | None) -> None:
        """The meta group has agreed on something else."""
        left = new.left_at(self._node) if new is not None else 0
        is_here = new is not None and self._node in new.hosts and not left
        is_same = old is not None and new is not None and old.uid == new.uid
        if old is not None:
            self._left.pop((old.account, old.name), None)
            if not (is_here and is_same):
                self._end(old, left_by=(left or new.move) if is_same and new is not None else 0)
        if new is None:
            return
        if left:
            self._leave(new, left)
        elif is_here:
            self._keep(new)

    def _keep(self, assignment: Assignment) -> None:
        """A stream is to be kept here, from now on or as before."""
        kept = self.kept.find(assignment.account, assignment.name)
        if kept is None:
            kept = self.kept.add(assignment)
        kept.assignment = assignment
        if assignment.is_moving:
            self._moving.add((assignment.account, assignment.name))
        else:
            self._moving.discard((assignment.account, assignment.name))
            self._moves.forget(assignment.group)
        if self._account(assignment.account) is None:
            return
        if kept.is_alone and assignment.is_replicated:
            kept.is_alone = kept.is_begun = False
        if kept.is_begun:
            self._follow_config(kept)
            kept.look_at_direct(self._account(kept.assignment.account))
        else:
            self._make_in_turn(kept)

    def open_restored(self, assignment: Assignment) -> None:
        """All of a backup is there: the stream is open from now on."""
        kept = self.kept.find(assignment.account, assignment.name)
        if kept is None:
            return
        if kept.replica is not None:
            kept.replica.lead_anew()
        elif not assignment.is_replicated:
            self._make(kept)

    def account_opened(self, account: JetStreamAccount) -> None:
        """An account may use JetStream here from now on."""
        for kept in list(self.kept):
            if kept.assignment.account == account.name and not kept.is_begun:
                self._make_in_turn(kept)

    def close(self) -> None:
        """End: the files stay."""
        self._to_make.clear()
        for kept in self.kept:
            if kept.replica is not None:
                kept.replica.stop(lambda: None)

    def leave(self) -> None:
        """This server is no member of the cluster any more: nothing runs here, the files stay."""
        for kept in self.kept:
            host = self._account(kept.assignment.account)
            if kept.replica is not None:
                kept.replica.stop(lambda: None)
            elif host is not None and not kept.assignment.is_replicated:
                host.release_stream(kept.assignment.name)
            kept.ended = True
        self.kept.clear()
        self._moving.clear()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _make_in_turn(self, kept: KeptStream) -> None:
        """Make it now, or when others were: a server that starts hears of all its streams in one event."""
        if kept.assignment.is_replicated:
            self._make(kept)  # a thread does
            return
        self._to_make.append(kept)
        if not self._made_in_turn:
            self._make_some()
        elif self._made_in_turn < _MADE_AT_ONCE:
            self._make_next()

    def _make_some(self) -> None:
        self._made_in_turn = 0
        while self._to_make and self._made_in_turn < _MADE_AT_ONCE:
            self._make_next()
        if self._made_in_turn:
            self._ports.call_soon(self._make_some)

    def _make_next(self) -> None:
        kept = self._to_make.popleft()
        self._made_in_turn += 1
        if not (kept.ended or kept.is_begun):
            self._make(kept)

    def _make(self, kept: KeptStream) -> None:
        if kept.assignment.is_replicated:
            self._make_replica(kept)
            return
        assignment, host = kept.assignment, self._account(kept.assignment.account)
        if host is None:
            return
        if assignment.group in self._grouped:
            return  # it has a group since, which this server has yet to hear of again
        kept.is_begun = kept.is_alone = True
        if assignment.restoring:
            return  # who takes in the backup makes it (`restores`), or it is opened by `open_restored`
        if host.streams.get(assignment.name) is not None:
            self._follow_config(kept)
            return
        host.place_stream(assignment.config, assignment.created_ns, partial(self._made, kept))

    def _made(self, kept: KeptStream, outcome: Stream | ApiError) -> None:
        assignment = kept.assignment
        if isinstance(outcome, ApiError):
            self._log("ERR", assignment, f"could not be made: {outcome}")
            kept.error = outcome.description
            self._changed(assignment)
        elif not kept.ended:
            self._follow_config(kept)
            self._changed(assignment)

    def _make_replica(self, kept: KeptStream) -> None:
        assignment = kept.assignment
        if kept.is_begun or assignment.group in self._going:
            return  # the files of an earlier stay are removed first
        kept.is_begun = True
        self._grouped.add(assignment.group)
        files = self._files(assignment)
        config = assignment.config
        if config.storage is StorageType.MEMORY:
            self._log("INF", assignment, "has copies: it counts as memory, and is kept in files")
        found: list[bool | StorageFault] = []
        alone: list[str | None] = []  # where the stream is, if it was this server's alone

        def create() -> None:
            try:
                if alone and not files.was_made:
                    files.adopt(alone[0], self._node, move=assignment.move)
                found.append(
                    files.create(
                        assignment.uid,
                        to_stored(config, assignment.created_ns),
                        assignment.founders,
                        first_seq=max(config.first_seq, 1),
                        floor=(assignment.floor_term, assignment.floor_index),
                        move=assignment.move,
                    )
                )
            except StorageFault as fault:
                found.append(fault)

        def created() -> None:
            host = self._account(assignment.account)
            if isinstance(found[0], StorageFault):
                self._log("ERR", assignment, f"could not be made: {found[0]}")
            if kept.ended:
                self._remove(kept.assignment, kept.left_by)
            elif found[0] is False:
                kept.is_begun = False  # what is agreed on since has yet to be heard of
                if kept.assignment is not assignment:
                    self._make(kept)
            elif found[0] is True and host is not None:
                kept.host = ReplicaHost(host, kept.is_restoring, lambda: self._released(kept.assignment))
                kept.replica = StreamReplica(
                    assignment.name,
                    assignment.group,
                    self._node,
                    kept.host,
                    files,
                    self._groups,
                    host.ports,
                    on_change=lambda _: self._leader_changed(kept),
                    leads_first=assignment.preferred == self._node and not assignment.move,
                    peers=kept.hosts,
                    is_moving=kept.is_moving,
                )
                kept.replica.start()

        def detached(directory: str | None) -> None:
            alone.append(directory)
            self._ports.run_blocking(create, created)

        host = self._account(assignment.account)
        if assignment.founders == [self._node] and host is not None:
            host.detach_stream(assignment.name, assignment.created_ns, detached)
        else:
            self._ports.run_blocking(create, created)

    def _leader_changed(self, kept: KeptStream) -> None:
        if kept.ended:
            return
        self._follow_config(kept)
        kept.look_at_direct(self._account(kept.assignment.account))
        self._changed(kept.assignment)
        group = kept.replica.group if kept.replica is not None else None
        host = self._account(kept.assignment.account)
        if group is None or host is None or group.leader in (NO_NODE, kept.leader):
            return
        kept.leader, kept.leader_since_ns = group.leader, self._ports.now_ns()
        for hook in host.on_moved if kept.leader != self._node else ():
            hook(kept.assignment.name)

    def _follow_config(self, kept: KeptStream) -> None:
        """Have the stream be as it is assigned, if it runs here."""
        assignment = kept.assignment
        host, stream = self._account(assignment.account), self.kept.led(assignment.account, assignment.name)
        if host is None or stream is None or stream.config == assignment.config:
            return

        def done(outcome: Stream | ApiError) -> None:
            if isinstance(outcome, ApiError):
                self._log("ERR", assignment, f"could not be changed: {outcome}")
            self._changed(assignment)

        host.change_stream(assignment.config, done)

    def _end(self, assignment: Assignment, left_by: int = 0) -> None:
        """Keep a stream no longer; `left_by`: others go on with it."""
        kept = self.kept.pop(assignment)
        host = self._account(assignment.account)
        self._moving.discard((assignment.account, assignment.name))
        self._moves.forget(assignment.group)
        if kept is None:
            if not left_by and assignment.move:
                self._remove(assignment)  # that it left once need not be known any more
            return
        kept.ended, kept.left_by = True, left_by
        kept.look_at_direct(self._account(kept.assignment.account))
        if assignment.is_replicated and kept.is_begun:
            self._going.add(assignment.group)
            if kept.replica is not None:
                kept.replica.stop(partial(self._remove, assignment, left_by), deleted=not left_by)
        elif not assignment.is_replicated and host is not None:
            if assignment.name in host.streams:
                host.delete_stream(assignment.name, lambda _: None)
            else:
                host.drop_found(assignment.name, assignment.created_ns)

    def _leave(self, assignment: Assignment, move: int) -> None:
        """This server left the group of a stream: its files go, and that is said until it is noted."""
        said = Left(assignment.account, assignment.name, assignment.group, self._node, move)
        self._left[assignment.account, assignment.name] = said
        if assignment.group not in self._going:
            self._going.add(assignment.group)
            self._remove(assignment, move)

    def _remove(self, assignment: Assignment, left_by: int = 0) -> None:
        """Nothing works on the files of a replica: they go."""
        files, faults = self._files(assignment), list[StorageFault]()

        def remove() -> None:
            try:
                if left_by:
                    files.leave(left_by)
                else:
                    files.destroy()
            except StorageFault as fault:
                faults.append(fault)

        def removed() -> None:
            if faults:
                self._log("ERR", assignment, f"could not be removed: {faults[0]}")
            else:
                self._going.discard(assignment.group)
            again = self.kept.find(assignment.account, assignment.name)
            if again is not None and not again.is_begun:
                self._make(again)

        self._ports.run_blocking(remove, removed)

    def _files(self, assignment: Assignment) -> ReplicaFiles:
        return ReplicaFiles(self._disk, f"{self._directory}/{assignment.group}", self._options)

    def _log(self, level: str, assignment: Assignment, text: str) -> None:
        self._ports.log(level, f"Stream '{assignment.account} > {assignment.name}' {text}")
