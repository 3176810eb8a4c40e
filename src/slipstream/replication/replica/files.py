"""The directory of one replica.

    REACHED      how far the log was on disk; see `reached`
    VOTE         term, vote and membership; a replica without it was never more than begun
    LEFT         the number of a wish by which a replica left the group; one that was made by an earlier wish is removed
    log/         the store
    log.import/  segments of another replica, which are to take its place
    REPAIR, log.damaged/  see `raft.marks`

What this is not: the decision that a replica is made. A directory that should be there and is not belongs to a server
that was wiped: a replica that began anew in it could vote twice in a term, so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.disk import Disk, make_dirs
from slipstream.jetstream.store.file.replica.log import ReplicaLog
from slipstream.jetstream.store.file.replica.reached import ReachedFile
from slipstream.jetstream.store.file.replica.segment_import import SegmentImport, remove_import, replace_by_import
from slipstream.jetstream.store.file.replica.segment_transfer import Membership
from slipstream.jetstream.store.file.replica.shape import FIRST_TERM, shape_replica
from slipstream.jetstream.store.file.replica.votes import VOTE_NAME, VoteFile, Votes
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.replication.raft.marks import ReplicaDamaged, ReplicaMarks

__all__ = ["ReplicaFiles", "with_members"]

_LEFT: Final = "LEFT"
_NORMAL: Final = 0  # kind of an entry that is no change of the membership
_READ_BYTES: Final = 1 << 20


class ReplicaFiles:
    """Every call blocks."""

    def __init__(self, disk: Disk, directory: str, options: Callable[[], FileStoreOptions], *, made: str = "") -> None:
        """Nothing is read or made yet; `options` are those of a replicated store, `made` is a mark: `raft.marks`."""
        self._disk = disk
        self._options = options
        self.directory = directory
        self._log = f"{directory}/log"
        self._votes = VoteFile(disk, directory)
        self._marks = ReplicaMarks(disk, directory, self._log, made)
        self._reached = ReachedFile(disk, directory)

    @property
    def is_there(self) -> bool:
        """Whether a replica was made here, or begun."""
        return VOTE_NAME in self._disk.list_dir(self.directory)

    @property
    def was_made(self) -> bool:
        """Whether there is a replica, or was one that left."""
        names = self._disk.list_dir(self.directory)
        return _LEFT in names or (VOTE_NAME in names and self._disk.is_dir(self._log))

    def create(
        self,
        uid: bytes,
        config: bytes,
        voters: Sequence[int],
        *,
        first_seq: int = 1,
        floor: tuple[int, int] = (0, 0),
        move: int = 0,
    ) -> bool:
        """Make a replica that has nothing, of a group that was founded by these. Nothing happens if it is there.

        Nor if it was, and is damaged: `open` says so.

        False: by a later wish than `move` this server left the group, and has nothing of it. Who starts again may know
        less than when it ended, and must not begin anew with an earlier floor.

        `floor` is the term and the index of an entry that the group has: see `Votes.floor_index`. Nobody who leads in
        an earlier term is believed.

        Raises:
            StorageFault: the disk refused.
        """
        try:
            left, there, is_broken = self._left(), None, False
            try:
                there = self._votes.load()
            except StorageFault:
                is_broken = True
            if is_broken or (there is None and self._marks.was_made):
                return True  # it was made, and is damaged
            if there is not None and left <= there.made_by:
                return True
            if left:
                self._remove_replica()
            if move <= left and left:
                return False
            disk = self._disk
            if self.is_there:  # begun, and cut short before anything was in it
                disk.remove(f"{self.directory}/{VOTE_NAME}")
            self._make_directory()
            if disk.is_dir(self._log):
                self._remove_log()  # begun, and cut short
            FileStore.create(
                disk, self._log, uid=uid, config=config, options=self._options(), first_seq=first_seq
            ).let_go()
            term, index = floor
            votes = Votes(version=1, term=term, voters=list(voters), floor_term=term, floor_index=index, made_by=move)
            self._votes.save(votes)
            self._marks.note_made()
            return True
        except OSError as error:
            raise StorageFault(str(error), path=self.directory) from error

    def adopt(self, directory: str | None, node: int, *, move: int) -> None:
        """Have the stream in this directory, which was alone, be the first replica of a group: `node` is all of it.

        A crash leaves the stream where it was, or here: the votes are written first, and say nothing without a log. One
        name decides.

        Raises:
            StorageFault: the disk refused, it cannot be read, or there is no such stream.
        """
        disk = self._disk
        try:
            if disk.is_dir(self._log):
                raise StorageFault("this replica was made, and its votes are gone", path=self.directory)
            if directory is None:
                raise StorageFault("the only copy of this stream is not here", path=self.directory)
            frame = shape_replica(disk, directory, self._options())
            self._make_directory()
            votes = Votes(version=1, term=FIRST_TERM, vote=node, commit=frame, voters=[node], made_by=move)
            self._votes.save(votes)
            disk.rename(directory, self._log)
            disk.sync_dir(self.directory)
            disk.sync_dir(directory.rsplit("/", 1)[0])
        except OSError as error:
            raise StorageFault(str(error), path=self.directory) from error

    def _make_directory(self) -> None:
        """Durably, with those above it."""
        disk, above = self._disk, self.directory.rsplit("/", 1)[0]
        while above and not disk.is_dir(above):
            above = above.rsplit("/", 1)[0]
        make_dirs(disk, self.directory, below=above)
        while above:  # made at some start, perhaps just now, and a start does not wait for disks
            above = above.rpartition("/")[0]
            with suppress(PermissionError):  # not every directory up there is ours to open
                disk.sync_dir(above)

    def open(self, *, applied: int = 0) -> tuple[Votes, FileStore]:
        """The replica as it was left; `applied` is known to be committed, whatever the files say.

        Raises:
            ReplicaDamaged: something that was there is lost: it must not take part before it is repaired.
            StorageFault: the disk refused.
        """
        try:
            self._marks.check()
            votes = self._votes.load() if self.is_there else None
            replace_by_import(self._disk, self._log)
            if votes is None:
                raise ReplicaDamaged("this replica was made, and its votes are gone", path=self.directory)
            self._marks.note_made()
            self._marks.repaired()
            store = FileStore.open(self._disk, self._log, self._options(), committed=max(votes.commit, applied))
            assert store.replica is not None
            gone = [*store.report.unusable_files, *(f"segment {no}" for no in store.report.missing_segments)]
            lost = f"{gone[0]} is lost" if gone else self._reached.misses(store.replica)
            if lost and len(votes.voters) > 1:  # what was in it may have been the end of the log
                store.let_go()
                raise ReplicaDamaged(lost, path=self.directory)
            if not store.config:
                store.let_go()
                raise ReplicaDamaged("the configuration of the stream is lost", path=self.directory)
            return _with_certain(votes, store.replica), store
        except OSError as error:
            kind = ReplicaDamaged if isinstance(error, FileNotFoundError) else StorageFault
            raise kind(str(error), path=self.directory) from error
        except ReplicaDamaged:
            raise
        except StorageFault as fault:
            if isinstance(fault.__cause__, OSError) and not isinstance(fault.__cause__, FileNotFoundError):
                raise  # the device, which may be better the next time
            raise ReplicaDamaged(fault.text, path=fault.path, offset=fault.offset) from fault

    def note_made(self) -> None:
        """There was a replica here: what is not there any more was lost.

        Raises:
            OSError: that may not be kept.
        """
        self._marks.note_made()

    def synced(self, log: ReplicaLog) -> None:
        """The log is on disk as far as it says: that is noted beside it. Does not block."""
        self._reached.note(log)

    def note_damaged(self, reason: str) -> None:
        """It is not to be opened again before it is repaired.

        Raises:
            OSError: that may not be kept.
        """
        self._marks.note_damaged(reason)

    def end_repair(self, taken: SegmentImport) -> None:
        """All of a copy is there, whatever was lost: the next `open` finds it. What was voted stays, if it can be read.

        Raises:
            StorageFault: it is no log, and is gone; or the disk refused.
        """
        manifest = taken.manifest
        try:
            votes = (self._votes.load() if self.is_there else None) or Votes()
        except StorageFault:
            votes = Votes()
        if manifest.term > votes.term:
            votes = replace(votes, term=manifest.term, vote=0)
        votes = replace(votes, made_by=max(votes.made_by, self._left()))
        self.end_import(taken, with_members(replace(votes, version=votes.version + 1, commit=0), manifest.membership))

    def save(self, votes: Votes) -> None:
        """Keep these.

        Raises:
            OSError: they may not be kept.
        """
        self._votes.save(votes)

    def begin_import(self, manifest: bytes) -> SegmentImport:
        """Take in segments of another replica, beside the log.

        Raises:
            StorageFault: this is no manifest, or the disk refused.
        """
        return SegmentImport(self._disk, self._log, manifest)

    def end_import(self, taken: SegmentImport, votes: Votes) -> None:
        """All of it is there: the next `open` finds it in the place of the log. `votes` are saved first.

        A membership may be known before its entry is there, but never be older than the log is.

        Raises:
            StorageFault: it is no log, and is gone; or the disk refused.
        """
        try:
            self._votes.save(votes)
            self._reached.forget()
        except OSError as error:
            raise StorageFault(str(error), path=self.directory) from error
        taken.finish(self._options())

    def leave(self, move: int) -> None:
        """Remove the replica; that it left by this wish stays known.

        Raises:
            StorageFault: the disk refused.
        """
        try:
            if self._disk.is_dir(self.directory):
                if self._left() < move:
                    write_whole_file(self._disk, f"{self.directory}/{_LEFT}", b"%d" % move)
                    self._disk.sync_dir(self.directory)
                self._remove_replica()
        except OSError as error:
            raise StorageFault(str(error), path=self.directory) from error

    def destroy(self) -> None:
        """Remove all of it.

        Raises:
            StorageFault: the disk refused.
        """
        try:
            self._remove_replica()
            if self._disk.is_dir(self.directory):
                for name in self._disk.list_dir(self.directory):
                    self._disk.remove(f"{self.directory}/{name}")
                self._disk.remove_dir(self.directory)
                self._disk.sync_dir(self.directory.rsplit("/", 1)[0])
        except OSError as error:
            raise StorageFault(str(error), path=self.directory) from error

    def _left(self) -> int:
        """By which wish a replica left, 0 if none did."""
        if _LEFT not in self._disk.list_dir(self.directory):
            return 0
        return int(self._disk.read(f"{self.directory}/{_LEFT}", 0, 20))

    def _remove_replica(self) -> None:
        """The votes go first: what is left then was never more than begun."""
        self._marks.forget()
        self._reached.forget()
        if self.is_there:
            self._disk.remove(f"{self.directory}/{VOTE_NAME}")
            self._disk.sync_dir(self.directory)
        if self._disk.is_dir(self._log):
            self._remove_log()
        remove_import(self._disk, self._log)
        if self._disk.is_dir(self.directory):
            self._disk.sync_dir(self.directory)  # that it is gone is about to be said

    def _remove_log(self) -> None:
        self._disk.remove_many([f"{self._log}/{name}" for name in self._disk.list_dir(self._log)])
        self._disk.remove_dir(self._log)


def with_members(votes: Votes, members: Membership) -> Votes:
    """The same with another membership."""
    return replace(
        votes,
        voters=members.voters,
        learners=members.learners,
        outgoing=members.outgoing,
        next_learners=members.next_learners,
        auto_leave=members.auto_leave,
        applied_conf=members.applied_conf,
        move=members.move,
    )


def _with_certain(votes: Votes, log: ReplicaLog) -> Votes:
    """Of several memberships behind what is applied, all but the last are known to be committed.

    A leader proposes one when the one before is applied. Raft has to know: it must not ask for votes under a membership
    that may be two behind, whose majority need not meet that of the present one.
    """
    changes: list[int] = []
    index = log.applied_index + 1
    while index <= log.last_index:
        entries = log.entries(index, log.last_index + 1, _READ_BYTES)
        changes += [number for number, _, kind, _ in entries if kind != _NORMAL and number > votes.applied_conf]
        index = entries[-1][0] + 1
    return replace(votes, commit=max(votes.commit, changes[-2])) if len(changes) > 1 else votes
