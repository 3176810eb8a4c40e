"""The streams that this server keeps, and what it knows of them: who leads, what follows, what has failed.

What this is not: when they are made, changed or ended (`hosting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.stream.stream import Stream
from slipstream.replication.ids import NO_NODE
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.responsibility import StreamRole
from slipstream.replication.raft.group import Group
from slipstream.replication.replica.direct_replica import DirectReplica
from slipstream.replication.replica.host import ReplicaHost
from slipstream.replication.replica.stream_replica import StreamReplica

__all__ = ["KeptStream", "KeptStreams"]

_LEADERLESS_TICKS = 30  # without a leader for so long, callers are told


class KeptStream:
    """A stream of this server."""

    __slots__ = (
        "assignment",
        "direct",
        "ended",
        "error",
        "host",
        "is_alone",
        "is_begun",
        "leader",
        "leader_since_ns",
        "leaderless_ticks",
        "left_by",
        "replica",
    )

    def __init__(self, assignment: Assignment) -> None:
        """Nothing of it is made yet."""
        self.assignment = assignment
        self.replica: StreamReplica | None = None
        self.host: ReplicaHost | None = None
        self.is_begun = False  # its files are being made, or were
        self.is_alone = False  # ... as those of an ordinary stream
        self.ended = False
        self.left_by = 0  # ended by this wish; 0: for good
        self.error: str | None = None
        self.leaderless_ticks = 0
        self.leader = NO_NODE  # the last that was known
        self.leader_since_ns = 0
        self.direct: DirectReplica | None = None  # answers direct gets while it follows

    def hosts(self) -> Sequence[int]:
        """The servers that keep it."""
        return self.assignment.hosts

    def is_moving(self) -> bool:
        """Whether it gets other ones."""
        return self.assignment.is_moving

    def is_restoring(self) -> bool:
        """Whether a backup fills it."""
        return self.assignment.restoring

    @property
    def is_leaderless(self) -> bool:
        """Whether nobody has led it for a while."""
        return self.leaderless_ticks >= _LEADERLESS_TICKS

    def look_for_leader(self, ticks: int) -> bool:
        """So many ticks after the last look; whether that nobody leads it is news now."""
        group = self.replica.group if self.replica is not None else None
        has_leader, was_leaderless = group is None or group.leader != NO_NODE, self.is_leaderless
        self.leaderless_ticks = 0 if has_leader else self.leaderless_ticks + ticks
        return self.is_leaderless and not was_leaderless

    def look_at_direct(self, account: JetStreamAccount | None) -> None:
        """Answer direct gets from a copy here, while another server leads the stream; a leader's `DirectApi` does."""
        replica, config = self.replica, self.assignment.config
        wanted = (
            config.allow_direct
            and not self.ended
            and not self.assignment.restoring
            and replica is not None
            and replica.stream is None
            and replica.readable is not None
        )
        if self.direct is not None and not (wanted and self.direct.config == config):
            self.direct.close()
            self.direct = None
        if wanted and self.direct is None and replica is not None and account is not None:
            self.direct = DirectReplica(replica, config, account.ports, account.facts)


class KeptStreams:
    """All of them, by account and name."""

    def __init__(self, account: Callable[[str], JetStreamAccount | None]) -> None:
        """None yet. `account`: one by its name, if it may use JetStream here."""
        self._account = account
        self._by_name: dict[tuple[str, str], KeptStream] = {}

    def __iter__(self) -> Iterator[KeptStream]:
        """Each of them."""
        return iter(self._by_name.values())

    def find(self, account: str, name: str) -> KeptStream | None:
        """The one of this name."""
        return self._by_name.get((account, name))

    def add(self, assignment: Assignment) -> KeptStream:
        """One is kept from now on."""
        kept = self._by_name[assignment.account, assignment.name] = KeptStream(assignment)
        return kept

    def pop(self, assignment: Assignment) -> KeptStream | None:
        """It is kept no longer."""
        return self._by_name.pop((assignment.account, assignment.name), None)

    def clear(self) -> None:
        """Nothing is kept here any more."""
        self._by_name.clear()

    def led(self, account: str, name: str) -> Stream | None:
        """A stream that this server leads, or of which it keeps the only copy."""
        kept = self.find(account, name)
        host = self._account(account)
        return None if kept is None or host is None else host.streams.get(name)

    def replica(self, account: str, name: str) -> StreamReplica | None:
        """The replica of a stream, if it has several and one is here."""
        kept = self.find(account, name)
        return kept.replica if kept is not None else None

    def direct(self, account: str, name: str) -> DirectReplica | None:
        """What answers direct gets of a stream here, while another server leads it."""
        kept = self.find(account, name)
        return kept.direct if kept is not None else None

    def leader_since_ns(self, assignment: Assignment) -> int:
        """Since when the present leader of a stream is known to lead it; 0: nobody is."""
        kept = self.find(assignment.account, assignment.name)
        return kept.leader_since_ns if kept is not None else 0

    def followed(self, account: str) -> list[tuple[Assignment, FileStore]]:
        """The copies of an account's streams that other servers lead, as far as they can be read."""
        kept = (one for (host, _), one in self._by_name.items() if host == account)
        found = ((one.assignment, one.replica) for one in kept if one.replica is not None)
        stores = ((assignment, one.readable) for assignment, one in found if one.stream is None)
        return [(assignment, store) for assignment, store in stores if store is not None]

    def followed_bytes(self, account: str, storage: StorageType) -> int:
        """What those take."""
        found = self.followed(account)
        return sum(store.size_bytes for assignment, store in found if assignment.config.storage is storage)

    def keeps(self, assignment: Assignment) -> bool:
        """Whether a copy of a stream is here."""
        kept = self.find(assignment.account, assignment.name)
        return kept is not None and kept.assignment.group == assignment.group

    def leads(self, assignment: Assignment) -> bool:
        """Whether this server leads a stream with several copies, even if it is not open yet."""
        kept = self.find(assignment.account, assignment.name)
        group = kept.replica.group if kept is not None and kept.replica is not None else None
        return group is not None and group.is_leader

    def held(self, assignment: Assignment) -> Stream | None:
        """A stream with several copies that this server leads, and that is not open while a backup fills it."""
        kept = self.find(assignment.account, assignment.name)
        if kept is None or kept.assignment.group != assignment.group or kept.host is None:
            return None
        return kept.host.held

    def faults(self) -> list[tuple[Assignment, str]]:
        """Replicas that do not take part, and why."""
        found = ((kept.assignment, kept.replica.fault) for kept in self._by_name.values() if kept.replica is not None)
        return [(assignment, str(fault)) for assignment, fault in found if fault is not None]

    def groups(self) -> list[tuple[Assignment, Group]]:
        """The groups that this server takes part in."""
        found = ((kept.assignment, kept.replica.group) for kept in self._by_name.values() if kept.replica is not None)
        return [(assignment, group) for assignment, group in found if group is not None]

    def leading(self) -> list[tuple[Assignment, Group]]:
        """Those of them that this server leads."""
        return [(assignment, group) for assignment, group in self.groups() if group.is_leader]

    def view(self, account: str, name: str) -> StreamRole | None:
        """What this server knows of a stream that is kept here; None: it is not, or its replica takes no part now."""
        kept = self.find(account, name)
        if kept is None:
            return None
        if self.led(account, name) is not None:
            return StreamRole.LED_HERE
        if kept.replica is not None and kept.replica.group is None:
            return None  # it opens its files, or has failed: that nobody leads cannot be said from here
        return StreamRole.LEADERLESS if kept.is_leaderless else StreamRole.ELSEWHERE

    def is_up_to_date(self, assignment: Assignment) -> Stream | None:
        """The stream of an assignment, if it runs here and is as that says."""
        kept, stream = self.find(assignment.account, assignment.name), None
        if kept is not None and kept.assignment == assignment:
            stream = self.led(assignment.account, assignment.name)
        return stream if stream is not None and stream.config == assignment.config else None

    def error(self, assignment: Assignment) -> str | None:
        """Why a stream with one copy, which is kept here, could not be made."""
        kept = self.find(assignment.account, assignment.name)
        return kept.error if kept is not None else None
