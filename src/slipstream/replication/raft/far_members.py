"""Members that are so far behind that the log has no entries for them: they get whole segments, beside Raft.

Raft asks for a snapshot for such a member, again and again. It gets one, without data, as soon as the member says that
it has got the segments: that tells Raft where it goes on.
"""

from __future__ import annotations

__all__ = ["FarMembers"]


class FarMembers:
    """Those of one leader; few, and most groups have none."""

    __slots__ = ("_behind", "_taken", "_told")

    def __init__(self) -> None:
        self._behind: list[int] = []  # Raft asked for them, and nobody was told
        self._taken: dict[int, tuple[int, int]] = {}  # what they have got: index and term
        self._told: list[int] = []  # Raft has sent them a snapshot, and waits

    def taken(self, node: int, index: int, term: int) -> None:
        """A member says that it has all up to this entry."""
        self._taken[node] = (index, term)

    def asked(self, node: int, request_index: int) -> tuple[int, int] | None:
        """Raft wants to send it a snapshot: index and term of what it has got; None: nothing that would do."""
        index, term = self._taken.pop(node, (0, 0))
        if index == 0 or index < request_index:
            if node not in self._behind:
                self._behind.append(node)
            return None
        self._told.append(node)
        return index, term

    def next_told(self) -> int | None:
        """One that Raft waits for."""
        return self._told.pop() if self._told else None

    def next_behind(self) -> int | None:
        """One that needs segments."""
        return self._behind.pop() if self._behind else None
