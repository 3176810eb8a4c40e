"""What `kernels.pendingremovals` means: a set of sequences taken off the plain index."""

from __future__ import annotations

from collections.abc import Sequence

from models.message_index import MessageIndexModel


class PendingRemovalsModel:
    """Every answer is that of a copy of the index from which everything pending was deleted."""

    def __init__(self, index: MessageIndexModel) -> None:
        self.index = index
        self.open: set[int] = set()
        self.logged: set[int] = set()
        self.taken: list[set[int]] = []

    def left(self) -> MessageIndexModel:
        """What writers see."""
        copy = MessageIndexModel()
        copy.subjects = {seq: name for seq, name in self.index.subjects.items() if not self.is_removed(seq)}
        copy.sizes, copy.last_seq = self.index.sizes, self.index.last_seq
        return copy

    def is_removed(self, seq: int) -> bool:
        return seq in self.open.union(self.logged, *self.taken)

    def remove(self, seq: int) -> bool:
        if seq not in self.left().subjects:
            return False
        self.open.add(seq)
        return True

    def remove_below(self, first_seq: int) -> int:
        self.index.skip_to(first_seq - 1)
        gone = self.left().passing((), 0, first_seq - 1)
        self.open.update(gone)
        return len(gone)

    def log(self) -> None:
        self.logged |= self.open
        self.open = set()

    def take(self, *, anything: bool) -> None:
        """`anything`: also a floor that no message was below has to be settled."""
        if anything:
            self.taken.append(self.logged)
            self.logged = set()
        assert not self.logged

    def settle(self) -> None:
        for seq in self.taken.pop(0) if self.taken else ():
            self.index.delete(seq)

    def matching(self, filters: Sequence[bytes], up_to: int, keep: int) -> list[int]:
        found = self.left().passing(filters, 0, up_to)
        return found[: max(len(found) - keep, 0)]
