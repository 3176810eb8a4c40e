"""What a leader's commits go through: proposed before they are written, and committed when a majority has them.

    commit begins ──► its frames are proposed ──► written and synced here ──► the group is told
                         └─ another membership is proposed with it, if one waits

A membership is an entry of Raft's own, which is written at once: so it is proposed when nothing that the stream has
appended waits for its turn, which is when a commit begins, or when there is nothing to commit.

What this is not: when it is committed. The group says so to the replica, and that to the stream's committer.

Invariant: at most one commit is on its way to the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.values import Job
from slipstream.replication.raft.group import Group
from slipstream.replication.raft.groups import TICK_NS, Groups
from slipstream.replication.raft.member_steps import MemberKind
from slipstream.replication.raft.settings import STREAM_DEFAULTS
from slipstream.replication.replica.led import Led

__all__ = ["CommittingReplica", "LeaderCommits"]

_SURE_NS: Final = STREAM_DEFAULTS.election_ticks * TICK_NS // 2
"""So long after it was certain that this server leads, it still is."""


class CommittingReplica(Protocol):
    """Whose commits these are. `Replica` is one."""

    title: str
    group: Group | None

    @property
    def stream(self) -> Led | None:
        """What runs on its store while this server leads."""
        ...

    @property
    def store(self) -> FileStore | None:
        """Its store, while its files are open."""
        ...

    def persisted(self) -> None:
        """More of the log is on this disk."""
        ...

    def stopped(self, error: Exception) -> None:
        """It cannot go on."""
        ...


class LeaderCommits:
    """Those of one replica, while it leads: `Replication` for its stream."""

    def __init__(self, replica: CommittingReplica, groups: Groups, ports: Ports) -> None:
        """Nothing is under way."""
        self._replica = replica
        self._groups = groups
        self._ports = ports
        self._proposes = False  # a commit is being proposed
        self._runs = False  # ... is proposed and not on disk
        self._when_synced: Callable[[], None] | None = None
        self._reads: list[Callable[[bool], None]] = []  # of this turn
        self._unsure: list[Callable[[], None]] = []  # what waits until it is certain that this one leads
        self._sure_ns = 0  # when that was last asked, and so
        self._changes: list[tuple[Sequence[tuple[MemberKind, int]], int]] = []  # of the membership, to be proposed
        self._changed_at = 0  # where the last of them is in the log

    # --- what the stream's committer says (`Replication`) -----------------------------------------------------------

    def begun(self, job: Job, *, awaited: bool) -> bool:
        """See `Replication`."""
        group, store = self._replica.group, self._replica.store
        assert isinstance(job, CommitJob) and group is not None and store is not None and store.replica is not None
        frames = store.replica.proposals(job)
        self._proposes = True
        leads = not frames or group.propose(frames)
        self._proposes = False
        if not leads:
            return False
        self._runs = True
        if self._changes and not store.atomic_open:
            self._propose_changes()
        if awaited:
            self._groups.flush()
            self._ports.flush()  # the disks of others work meanwhile
            job.begin_inline()
        return True

    def synced(self, fault: StorageFault | None) -> None:
        """See `Replication`."""
        self._runs = False
        when_synced, self._when_synced = self._when_synced, None
        if when_synced is not None:
            when_synced()
        elif fault is not None:
            self._replica.stopped(fault)
        else:
            self._replica.persisted()

    def confirm(self, read: Callable[[bool], None]) -> None:
        """See `Replication`. All reads of a turn ask together."""
        if not self._reads:
            self._ports.call_soon(self._confirm)
        self._reads.append(read)

    def _confirm(self) -> None:
        reads, self._reads = self._reads, []
        if self._replica.group is not None:
            self._replica.group.confirm(reads)
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

    # --- what the replica asks --------------------------------------------------------------------------------------

    @property
    def syncs_soon(self) -> bool:
        """Whether a commit is under way with which all that the log has is synced."""
        return (self._proposes or self._runs) and not self._log_waits

    def when_synced(self, then: Callable[[], None]) -> None:
        """The stream is released: go on when its last commit is on disk, which is now if there is none."""
        if self._runs:
            self._when_synced = then
        else:
            then()

    def forget_changes(self) -> None:
        """It leads no more: whoever leads next is asked again."""
        self._changes, self._changed_at = [], 0

    # --- membership -------------------------------------------------------------------------------------------------

    def change(self, changes: Sequence[tuple[MemberKind, int]], move: int = 0) -> None:
        """Propose another membership: see `Group.change`. It may have to wait for a commit to begin."""
        stream, store = self._replica.stream, self._replica.store
        if stream is not None and store is not None:
            self._changes.append((changes, move))
            if self._log_waits or store.atomic_open:  # Raft's own entry would end the unit
                stream.committer.wake()
            else:
                self._propose_changes()

    @property
    def is_changing(self) -> bool:
        """Whether a membership that was proposed here is not applied yet, or may not be."""
        group = self._replica.group
        return bool(self._changes) or group is None or group.applied < self._changed_at

    def _propose_changes(self) -> None:
        """Nothing that the stream has appended waits to be proposed: the next entry may be Raft's own."""
        changes, self._changes = self._changes, []
        for one, move in changes:
            group, store = self._replica.group, self._replica.store
            if group is None or not group.change(one, move):
                self._ports.log("WRN", f"The replicas of {self._replica.title} could not be changed now")
            elif store is not None and store.replica is not None:
                self._changed_at = store.replica.last_index

    @property
    def _log_waits(self) -> bool:
        """Whether something was appended that no commit has taken yet."""
        store = self._replica.store
        return store is not None and store.log.pending_bytes > 0
