"""Term, vote and membership of a replica: what it must never forget, in one small file.

    0      slot          4096   the same slot again

A slot is written and synced, then the other one: after `save` both say the same. So a crash inside `save` leaves one
whole slot, the new or the old, and damage to one of them later costs nothing. A replica that cannot read either must
not vote: it could vote twice in one term, and two leaders would be elected.

What this is not: the log. `commit` is a hint that saves work at a start, and never ahead of what is synced.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.kernels.log.record import crc32c

__all__ = ["VOTE_NAME", "VoteFile", "Votes"]

VOTE_NAME: Final = "VOTE"
SLOT_BYTES: Final = 4096
"""Distance of the slots: a device that spoils one block spoils one slot. Also the most that a membership may take."""
_MAGIC = b"SLIPVOT1"
_HEAD = struct.Struct("<8sII")


class Votes(msgspec.Struct, frozen=True, array_like=True):
    """What a replica has promised."""

    version: int = 0
    """Grows with every save."""
    term: int = 0
    vote: int = 0
    """For whom in this term, 0 for nobody."""
    commit: int = 0
    """An index that is known to be committed."""
    voters: list[int] = []
    learners: list[int] = []
    outgoing: list[int] = []
    """Voters of before, while a joint state lasts."""
    next_learners: list[int] = []
    auto_leave: bool = False
    applied_conf: int = 0
    """Index of the entry that made this membership; those up to it must not be applied to it again."""
    move: int = 0
    """Which wish for other members this membership came from: the leader does nothing for an earlier one."""
    made_by: int = 0
    """... and which one this replica was made by: it left by a later one, if at all."""
    floor_term: int = 0
    floor_index: int = 0
    """A replica that was made later than its group, perhaps where one was removed before: it has forgotten what that
    one had, so until its log has this entry it neither votes nor asks for votes."""

    @property
    def members(self) -> tuple[list[int], list[int], list[int], list[int], bool]:
        """The membership as the Raft core takes and gives it."""
        return self.voters, self.learners, self.outgoing, self.next_learners, self.auto_leave

    def with_members(
        self, members: tuple[list[int], list[int], list[int], list[int], bool], index: int, move: int
    ) -> Votes:
        """Another membership, made by the entry with this index for a wish."""
        voters, learners, outgoing, next_learners, auto_leave = members
        return msgspec.structs.replace(
            self,
            voters=voters,
            learners=learners,
            outgoing=outgoing,
            next_learners=next_learners,
            auto_leave=auto_leave,
            applied_conf=index,
            move=move,
        )


class VoteFile:
    """The file in a stream's directory. Every call blocks."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Not read yet."""
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{VOTE_NAME}"

    def load(self) -> Votes | None:
        """What was saved last, None if nothing ever was.

        Raises:
            StorageFault: the file is there and cannot be read: this replica must not vote.
        """
        if VOTE_NAME not in self._disk.list_dir(self._directory):
            return None
        try:
            data = self._disk.read(self._path, 0, 2 * SLOT_BYTES)
        except OSError as error:
            raise StorageFault(str(error), path=self._path) from error
        slots = [found for at in (0, SLOT_BYTES) if (found := _decode(data[at : at + SLOT_BYTES])) is not None]
        if slots:
            return max(slots, key=lambda slot: slot.version)
        if data.strip(b"\0"):
            raise StorageFault("term and vote cannot be read", path=self._path)
        return None  # made by a `save` that did not live to write anything

    def save(self, votes: Votes) -> None:
        """Keep this, durably. The version must be above the one before.

        Raises:
            OSError: it may not be on stable storage, and nothing that depends on it may be said.
        """
        body = msgspec.msgpack.encode(votes)
        slot = _HEAD.pack(_MAGIC, len(body), crc32c(body)) + body
        if len(slot) > SLOT_BYTES:
            raise ValueError("the membership is too large")
        disk = self._disk
        if VOTE_NAME not in disk.list_dir(self._directory):
            disk.create(self._path)
            disk.allocate(self._path, 2 * SLOT_BYTES)
            disk.sync(self._path)
            disk.sync_dir(self._directory)
        for at in (0, SLOT_BYTES):
            disk.write(self._path, at, slot.ljust(SLOT_BYTES, b"\0"))
            disk.sync(self._path)


def _decode(slot: bytes) -> Votes | None:
    if len(slot) < _HEAD.size:
        return None
    magic, length, checksum = _HEAD.unpack_from(slot)
    body = slot[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(body) != length or crc32c(body) != checksum:
        return None
    try:
        return msgspec.msgpack.decode(body, type=Votes)
    except msgspec.DecodeError:
        return None
