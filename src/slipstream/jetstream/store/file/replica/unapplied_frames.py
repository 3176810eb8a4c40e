"""Frames of a replica's log that are not in its index yet, because nobody knows that they are committed.

What they hold does not count, but a segment that begins behind them must: its first sequence is above theirs, and its
head must not take back what they say about configuration and notes.
"""

from __future__ import annotations

from slipstream.jetstream.store.file.recovered import Fact
from slipstream.kernels.log.record import CONFIG

__all__ = ["UnappliedFrames"]


class UnappliedFrames:
    """Those at the end of one log.

    Args:
        last_seq: last sequence in them; 0: there are none.
        facts: what they say about configuration and notes, by their numbers.
    """

    __slots__ = ("_facts", "last_seq")

    def __init__(self, last_seq: int, facts: dict[int, list[Fact]]) -> None:
        self.last_seq = last_seq
        self._facts = facts

    def add(self, number: int, last_seq: int, facts: list[Fact]) -> None:
        """One more."""
        self.last_seq = last_seq
        if facts:
            self._facts[number] = facts

    def cut(self, number: int, last_seq: int) -> None:
        """The log ends before this frame, with this sequence."""
        self.last_seq = last_seq
        self._facts = {other: self._facts[other] for other in self._facts if other < number}

    def apply(self, first: int, last: int) -> None:
        """What these say holds now."""
        for number in range(first, last + 1):
            self._facts.pop(number, None)

    def clear(self) -> None:
        """All that the log has is in the index."""
        self.last_seq = 0

    def facts_at_end(self, config: bytes, notes: dict[bytes, bytes]) -> tuple[bytes, dict[bytes, bytes]]:
        """Configuration and notes as they are if every frame of this replica comes to be committed."""
        if not self._facts:
            return config, notes
        notes = dict(notes)
        for facts in self._facts.values():
            for kind, key, value in facts:
                if kind == CONFIG:
                    config = value
                else:
                    notes[key] = value  # empty: it says that there is none, as the record does
        return config, notes
