"""The log of the meta group: a replicated store, driven by its group, whose messages are handed on when committed.

    leader:   append ──► end of the turn: one commit, proposed and written ──► committed ──► handed on
    follower: entries of the leader ──► written ──► committed ──► handed on

Messages are handed on one by one, in their order. If one of them is missing, because it was replaced by a later one of
its subject before this server got it, everything is handed on anew instead: nobody has to know what was removed.

A leader that is deposed lets its commit end and opens the store again as far as it is committed, which forgets what was
appended ahead; the frames stay, and may still be committed.

What this is not: what the messages mean (`MetaGroup`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk import Disk
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.replica_log import Entry, ReplicaLog
from slipstream.jetstream.store.file.votes import VoteFile, Votes
from slipstream.jetstream.store.values import ALL, Job, StoredMessage
from slipstream.replication.group import Group
from slipstream.replication.member_steps import MemberKind
from slipstream.replication.meta.founding import Charter
from slipstream.units import MIB

__all__ = ["LogListener", "LogPorts", "MetaLog", "OpenedLog", "check_log", "open_log"]

_LOG = "log"
_READ_BYTES = 4 * MIB


class LogPorts(Protocol):
    """Threads, dice and the end of a turn. `jetstream.ports.Ports` are such."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call once at the end of this turn of the loop."""
        ...

    def run_commit(self, job: Job, on_done: Callable[[], None]) -> None:
        """Run a commit in a thread, then `on_done` on the loop."""
        ...

    def run_blocking(self, job: Callable[[], None], on_done: Callable[[], None]) -> None:
        """Run `job` in a thread, then `on_done` on the loop."""
        ...

    def random_below(self, bound: int) -> int:
        """A number in `[0, bound)`."""
        ...


class LogListener(Protocol):
    """Who understands the messages."""

    def send(self, to: int, message: bytes) -> None:
        """A message of the group for another server."""
        ...

    def message(self, seq: int, subject: bytes, payload: bytes) -> None:
        """The next message is committed.

        Raises:
            StorageFault: it cannot be understood; the group stops.
        """
        ...

    def messages_anew(self, messages: list[tuple[int, bytes, bytes]]) -> None:
        """These are all messages that there are.

        Raises:
            StorageFault: one cannot be understood; the group stops.
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

    def stopped(self, error: Exception) -> None:
        """The group is of no use any more."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """What was found in a directory, or made there."""

    store: FileStore
    votes: Votes
    file: VoteFile
    reopen: Callable[[int], FileStore]
    """Opens the store again, indexed as far as it is committed; blocks."""


def open_log(disk: Disk, directory: str, charter: Charter, options: FileStoreOptions) -> OpenedLog:
    """Open the log of the meta group, or make it. Blocks.

    Raises:
        StorageFault: it cannot be read, or votes are missing that must have been there: this server must not vote.
    """
    path = f"{directory}/{_LOG}"
    assert options.replicated
    file = VoteFile(disk, directory)
    votes = file.load() if disk.is_dir(directory) else None
    if votes is None and not (disk.is_dir(path) and disk.list_dir(path)):
        FileStore.create(disk, path, uid=charter.uid, config=b"{}", options=options)
        disk.sync_dir(directory)

    def reopen(committed: int) -> FileStore:
        return FileStore.open(disk, path, options, committed=committed)

    store = reopen(votes.commit if votes is not None else 0)
    if votes is None:
        if store.replica is not None and store.replica.last_index:
            raise StorageFault("term and vote are missing: this server must not vote again", path=directory)
        votes = Votes(version=1, voters=sorted(charter.voters))
        file.save(votes)
    return OpenedLog(store, votes, file, reopen)


def check_log(disk: Disk, directory: str, options: FileStoreOptions, *, has_votes: bool) -> None:
    """See whether a log that was made is whole. Blocks.

    Raises:
        StorageFault: something that was there is lost.
        OSError: the disk refused.
    """
    votes = VoteFile(disk, directory).load()
    if votes is None:
        if has_votes:
            raise StorageFault("term and vote are missing", path=directory)
        return
    store = FileStore.open(disk, f"{directory}/{_LOG}", options, committed=votes.commit)
    lost = [*store.report.unusable_files, *store.report.missing_segments, *store.report.damaged_regions]
    store.let_go()
    if lost or store.lost().seqs:
        raise StorageFault("a part of the meta group's log cannot be read", path=directory)


class MetaLog:
    """One server's member of the meta group. Implements `GroupPorts`."""

    def __init__(self, node: int, opened: OpenedLog, ports: LogPorts, listener: LogListener) -> None:
        """Nothing is handed on before `start`.

        Raises:
            StorageFault: log and votes contradict each other.
        """
        self._ports = ports
        self._listener = listener
        self._file = opened.file
        self._reopen = opened.reopen
        self._store = opened.store
        self._job: Job | None = None  # the commit that runs
        self._commit_due = False  # a commit follows at the end of the turn
        self._deposed = False  # the store has to be opened again
        self._changes: list[Sequence[tuple[MemberKind, int]]] = []  # of the membership, to be proposed
        self.handed_seq = 0
        """The last message that was handed on."""
        self.group = Group(node, self._frames, opened.votes, self, ports.random_below, applied=opened.votes.commit)
        """The member itself: ticks, messages, facts."""

    @property
    def _frames(self) -> ReplicaLog:
        frames = self._store.replica
        assert frames is not None
        return frames

    @property
    def next_seq(self) -> int:
        """The sequence that the next message gets."""
        return self._store.last_seq + 1

    def start(self) -> None:
        """Hand on what is known to be committed."""
        self._hand_on_all()

    def append(self, now_ns: int, subject: bytes, payload: bytes) -> int:
        """A leader's next message; its sequence. It is committed with all others of this turn."""
        store = self._store
        seq = store.last_seq + 1
        store.append(seq, max(now_ns, store.last_ts_ns), subject, b"", payload)
        self._commit_soon()
        return seq

    def remove(self, seq: int) -> None:
        """A leader has no more use for a message: a later one says more."""
        self._store.delete(seq)
        self._commit_soon()

    def change(self, changes: Sequence[tuple[MemberKind, int]]) -> None:
        """A leader has another membership proposed: see `Group.change`. It may have to wait for a commit to begin."""
        self._changes.append(changes)
        if self._store.log.pending_bytes:
            self._commit_soon()
        else:
            self._propose_changes()

    def _propose_changes(self) -> None:
        """Nothing that was appended waits to be proposed: the next entry may be Raft's own."""
        changes, self._changes = self._changes, []
        for one in changes:
            self.group.change(one)

    def close(self) -> None:
        """End. What was promised is on disk, and the next start reads it."""
        self.group.stop()

    # --- what the group asks for ------------------------------------------------------------------------------------

    def send(self, to: int, message: bytes) -> None:
        """See `GroupPorts.send`."""
        self._listener.send(to, message)

    def save_votes(self, votes: Votes) -> None:
        """See `GroupPorts.save_votes`."""
        faults: list[Exception] = []

        def save() -> None:
            try:
                self._file.save(votes)
            except Exception as error:
                faults.append(error)

        def saved() -> None:
            if faults:
                self.group.fail(faults[0])
            else:
                self.group.votes_saved(votes.version)

        self._ports.run_blocking(save, saved)

    def sync_log(self) -> None:
        """See `GroupPorts.sync_log`."""
        self._commit_soon()

    def committed(self, entries: Sequence[Entry]) -> None:
        """See `GroupPorts.committed`."""
        self._frames.commit(entries[-1][0])
        self._hand_on()

    def leads(self, term: int) -> None:
        """See `GroupPorts.leads`."""
        self._frames.lead(term)
        self._listener.leads(term)

    def steps_down(self) -> None:
        """See `GroupPorts.steps_down`."""
        self._deposed = True
        self._changes.clear()
        self.group.hold()
        self._listener.steps_down()
        if self._job is None:
            self._open_again()

    def behind(self, to: int) -> None:
        """See `GroupPorts.behind`: this log is not compacted, so nobody is."""

    def wakes(self) -> None:
        """See `GroupPorts.wakes`: it never rests."""

    def stopped(self, error: Exception) -> None:
        """See `GroupPorts.stopped`."""
        self._listener.stopped(error)

    # --- commits ----------------------------------------------------------------------------------------------------

    def _commit_soon(self) -> None:
        if not self._commit_due:
            self._commit_due = True
            self._ports.call_soon(self._commit)

    def _commit(self) -> None:
        self._commit_due = False
        if self._job is not None or self._deposed or self.group.is_stopped:
            return  # it follows when that is over
        job = self._store.begin_commit()
        if job is None:
            self.group.persisted()
            self._propose_changes()
            return
        assert isinstance(job, CommitJob)
        self._job = job
        frames = self._frames.proposals(job)
        if frames:
            self.group.propose(frames)  # if it is deposed by this, the frames are written all the same
        self._propose_changes()
        self._ports.run_commit(job, self._written)

    def _written(self) -> None:
        job, self._job = self._job, None
        assert job is not None
        fault = self._store.finish_commit(job).fault
        if fault is not None:
            self.group.fail(fault)
            return
        if self._deposed:
            self._open_again()
            return
        self.group.persisted()
        if not self.group.is_stopped:
            self._try(self._hand_on)
            self._commit_soon()

    def _open_again(self) -> None:
        outcome: list[FileStore | Exception] = []

        def reopen() -> None:
            try:
                outcome.append(self._reopen(self.group.applied))
            except Exception as error:
                outcome.append(error)

        def opened() -> None:
            (found,) = outcome
            if isinstance(found, Exception):
                self.group.fail(found)
                return
            self._store = found
            self._deposed = False
            self._try(self._hand_on)
            self.group.resume(self._frames)

        self._ports.run_blocking(reopen, opened)

    # --- handing on -------------------------------------------------------------------------------------------------

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StorageFault as fault:
            self.group.fail(fault)

    def _hand_on(self) -> None:
        store = self._store
        first, last = self.handed_seq + 1, store.committed_seq
        if first > last:
            return
        for seq in range(first, last + 1):
            one = store.get(seq)
            if not isinstance(one, StoredMessage):
                self._hand_on_all()
                return
            self.handed_seq = seq
            self._listener.message(seq, one.subject, one.payload)
        self._listener.applied()

    def _hand_on_all(self) -> None:
        store = self._store
        messages: list[tuple[int, bytes, bytes]] = []
        seq, last = 1, store.committed_seq
        while seq <= last:
            batch = store.read_batch(ALL, seq, max_msgs=10_000, max_bytes=_READ_BYTES, up_to_seq=last)
            if not batch:
                break
            for one in batch:
                if not isinstance(one, StoredMessage):
                    raise StorageFault(f"message {one.seq} of the meta group cannot be read: {one.reason}")
                messages.append((one.seq, one.subject, one.payload))
            seq = batch[-1].seq + 1
        self.handed_seq = last
        self._listener.messages_anew(messages)
        self._listener.applied()
