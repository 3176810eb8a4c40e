"""What a member of a group says only when its log is on disk: answers and votes, in the order they were made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipstream_raft import Ready

from slipstream.jetstream.store.file.replica.log import Entry

__all__ = ["WaitingAnswers"]

Message = tuple[int, int, bytes]
"""To whom, its kind, and itself."""


class WaitingAnswers:
    """Of each `Ready` that is not on disk: what is sent then, and its entries."""

    __slots__ = ("_readies",)

    def __init__(self) -> None:
        # Number, and the index that has to be synced. Few at a time; the room of a deque would be a good part of what
        # an idle group takes.
        self._readies: list[tuple[int, int, list[Message], Sequence[Entry]]] = []

    def __bool__(self) -> bool:
        return bool(self._readies)

    def add(self, ready: Ready, last_index: int) -> None:
        """All that is in the log by now has to be synced before. One without answers waits for those before it, too."""
        self._readies.append((ready.number, last_index, ready.persisted_messages, ready.entries))

    def done(self, synced_index: int) -> int:
        """Number of the last `Ready` that is on disk; 0: none."""
        return max((number for number, index, *_ in self._readies if index <= synced_index), default=0)

    def take(self, number: int) -> Iterator[Message]:
        """What may be sent when all up to this `Ready` is on disk."""
        while self._readies and self._readies[0][0] <= number:
            yield from self._readies.pop(0)[2]

    def entries(self) -> Iterator[Sequence[Entry]]:
        """What Raft takes to be on its way to the disk."""
        return (entries for *_, entries in self._readies)
