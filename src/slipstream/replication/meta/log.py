"""The log of the meta group: a replica like that of a stream, whose messages are handed on when they are committed.

    leader:   append ──► end of the turn: one commit, proposed and written ──► committed ──► handed on
    follower: entries of the leader ──► written ──► committed ──► handed on

Messages are handed on one by one, in their order. If one of them is missing, because it was replaced by a later one of
its subject before this server got it, everything is handed on anew instead: nobody has to know what was removed.

Upkeep, segments for who is behind, repair of what is damaged and a disk that is full are the replica's (ADR 84).

What this is not: what the messages mean (`MetaGroup`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.jetstream.store.values import ALL, Committed, StoredMessage
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.replication.ids import META_GROUP
from slipstream.replication.meta.founding import Charter
from slipstream.replication.raft.group import Group
from slipstream.replication.raft.groups import Groups
from slipstream.replication.raft.marks import ReplicaDamaged
from slipstream.replication.raft.member_steps import MemberKind
from slipstream.replication.raft.settings import META_DEFAULTS
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.replication.replica.stream_replica import Replica
from slipstream.replication.replica.work import NO_STREAM, ReplicaWork
from slipstream.units import MIB

__all__ = ["SEGMENT_BYTES", "LogListener", "MetaLog", "make_log", "meta_files"]

SEGMENT_BYTES: Final = MIB
"""Of the log. The segment that is written and the newest two closed ones are not compacted: so it is not much longer
than what is in force."""
_READ_BYTES: Final = 4 * MIB
_LOOK_TICKS: Final = 7  # between two looks whether all of it can be read
_SCRUB_TICKS: Final = 98  # between two segments that are read back, as for streams


class LogListener(Protocol):
    """Who understands the messages."""

    def message(self, seq: int, subject: bytes, payload: bytes) -> None:
        """The next message is committed.

        Raises:
            StorageFault: it cannot be understood; this server takes no part as long as that is so.
        """
        ...

    def messages_anew(self, messages: list[tuple[int, bytes, bytes]]) -> None:
        """These are all messages that there are.

        Raises:
            StorageFault: one cannot be understood.
        """
        ...

    def applied(self) -> None:
        """All that is committed was handed on."""
        ...

    def leads(self, term: int) -> None:
        """This server may append from now on; everything that was ever committed was handed on."""
        ...

    def steps_down(self) -> None:
        """It may not any more. What it appended and was not told of as committed may have happened or not."""
        ...


def meta_files(disk: Disk, directory: str, options: Callable[[], FileStoreOptions]) -> ReplicaFiles:
    """Where the meta group's log and votes are: beside the promise, with which all of it would be lost."""
    return ReplicaFiles(
        disk, directory, lambda: replace(options(), segment_bytes=SEGMENT_BYTES), made=f"{directory}/log.made"
    )


def make_log(files: ReplicaFiles, charter: Charter, *, was_made: bool) -> None:
    """Make the log of a cluster that was founded, if it is not there. Blocks.

    `was_made`: there was one, so if its votes are gone they were lost, and it is not begun anew.

    Raises:
        OSError, StorageFault: the disk refused.
    """
    if was_made:
        files.note_made()
    files.create(charter.uid, NO_STREAM, sorted(charter.voters))


class _MetaLead:
    """In the place of a stream, on the server that leads. Implements `Led`, and its commits and upkeep."""

    is_read_back = False

    def __init__(self, store: FileStore, replication: Replication, ports: Ports, failed: Callable[[Exception], None]):
        self.store = store
        self._work = ReplicaWork(store, ports, lambda: None, failed, replication)

    @property
    def committer(self) -> _MetaLead:
        return self

    @property
    def upkeep(self) -> _MetaLead:
        return self

    def wake(self) -> None:
        self._work.wake()

    def scrub_next(self) -> bool:
        return self._work.scrub_next()

    def committed(self, done: Committed) -> None:
        """Everybody is told of it in the same way, `MetaLog` hands it on."""

    def release(self) -> None:
        self._work.stop(lambda: None)

    def when_quiet(self, callback: Callable[[], None]) -> None:
        self._work.stop(callback)


class MetaLog:
    """One server's member of the meta group. Implements `StreamHost`."""

    def __init__(
        self,
        node: int,
        files: ReplicaFiles,
        ports: Ports,
        groups: Groups,
        reachable: Callable[[], Sequence[int]],
        listener: LogListener,
    ) -> None:
        """Nothing is handed on before `start`. `reachable` are servers that may know more, if this one has nothing."""
        self._ports = ports
        self._listener = listener
        self._reachable = reachable
        self._lead: _MetaLead | None = None
        self._leads = False  # ... and the listener was told
        self._votes = Votes()  # the last that were known
        self._ticks = 0
        self.handed_seq = 0
        """The last message that was handed on."""
        self._first_index = 0
        self.cut_ns = 0
        """When it was seen that entries at the beginning are gone, because the messages in force are enough; 0: never
        since the start."""
        self._replica: Replica[_MetaLead] = Replica(
            "_meta_",
            META_GROUP,
            node,
            self,
            files,
            groups,
            ports,
            META_DEFAULTS,
            on_change=self._changed,
            on_applied=self._hand_on,
            title="the meta group",
            peers=self._members,
            is_moving=lambda: True,  # who is a member is the meta group's own matter: `meta.membership`
        )

    @property
    def group(self) -> Group | None:
        """The member itself, while it takes part."""
        return self._replica.group

    @property
    def votes(self) -> Votes:
        """Term, vote and members, as they were known last."""
        if self._replica.group is not None:
            self._votes = self._replica.group.votes
        return self._votes

    @property
    def next_seq(self) -> int:
        """On the leader: the sequence that the next message gets."""
        assert self._lead is not None
        return self._lead.store.last_seq + 1

    def is_back(self, member: int, matched: int) -> bool:
        """On the leader: whether a member that was damaged has what it lacked."""
        return self._replica.care.is_back(member, matched)

    def start(self) -> None:
        """Open the files, hand on what is known to be committed, and take part."""
        self._replica.start()

    def tick(self) -> None:
        """A tick has passed."""
        self._ticks += 1
        if self._ticks % _LOOK_TICKS == 0:
            self._replica.care.look()
            self._look_at_beginning()
        if self._ticks % _SCRUB_TICKS == 0:
            (self._lead or self._replica).scrub_next()

    @property
    def size_bytes(self) -> int:
        """Of the log, while it can be read."""
        store = self._replica.readable
        return store.log_bytes if store is not None else 0

    def _look_at_beginning(self) -> None:
        group = self._replica.group
        first_index = group.facts().first_index if group is not None else self._first_index
        if 0 < self._first_index < first_index:
            self.cut_ns = self._ports.now_ns()
        self._first_index = first_index

    def append(self, now_ns: int, subject: bytes, payload: bytes) -> int:
        """A leader's next message; its sequence. It is committed with all others of this turn."""
        assert self._lead is not None
        store = self._lead.store
        seq = store.last_seq + 1
        store.append(seq, max(now_ns, store.last_ts_ns), subject, b"", payload)
        self._lead.wake()
        return seq

    def remove(self, seq: int) -> None:
        """A leader has no more use for a message: a later one says more."""
        assert self._lead is not None
        self._lead.store.delete(seq)
        self._lead.wake()

    def change(self, changes: Sequence[tuple[MemberKind, int]]) -> None:
        """A leader has another membership proposed: see `Group.change`."""
        self._replica.commits.change(changes)

    def close(self) -> None:
        """End. What was promised is on disk, and the next start reads it."""
        self._replica.stop(lambda: None)

    # --- the replica -------------------------------------------------------------------------------------------------

    def lead_stream(self, store: FileStore, replication: Replication) -> _MetaLead:
        """See `StreamHost`."""
        self._lead = _MetaLead(store, replication, self._ports, self._replica.stopped)
        return self._lead

    def release_stream(self, name: str, *, deleted: bool = False) -> None:
        """See `StreamHost`."""
        del name, deleted
        lead, self._lead = self._lead, None
        told, self._leads = self._leads, False
        if lead is not None:
            lead.release()
        if told:
            self._listener.steps_down()

    def _changed(self, replica: Replica[_MetaLead]) -> None:
        if replica.leads_now and not self._leads and replica.group is not None:
            self._leads = True
            self._listener.leads(replica.group.term)

    def _members(self) -> Sequence[int]:
        """Who may be asked for a copy, and may ask for one. A server that lost its votes knows who can be reached."""
        votes = self.votes
        return [*votes.voters, *votes.learners, *votes.outgoing] or self._reachable()

    # --- handing on --------------------------------------------------------------------------------------------------

    def _hand_on(self, store: FileStore) -> None:
        first, last = self.handed_seq + 1, store.committed_seq
        if first == 1:
            self._hand_on_all(store)
            return
        if first > last:
            return
        for seq in range(first, last + 1):
            one = store.get(seq)
            if not isinstance(one, StoredMessage):
                self._hand_on_all(store)
                return
            self._listener.message(seq, one.subject, one.payload)
            self.handed_seq = seq
        self._listener.applied()

    def _hand_on_all(self, store: FileStore) -> None:
        messages: list[tuple[int, bytes, bytes]] = []
        seq, last = 1, store.committed_seq
        while seq <= last:
            batch = store.read_batch(ALL, seq, max_msgs=10_000, max_bytes=_READ_BYTES, up_to_seq=last)
            if not batch:
                break
            for one in batch:
                if not isinstance(one, StoredMessage):
                    raise ReplicaDamaged(f"message {one.seq} cannot be read: {one.reason}")
                messages.append((one.seq, one.subject, one.payload))
            seq = batch[-1].seq + 1
        self._listener.messages_anew(messages)
        self.handed_seq = last
        self._listener.applied()
