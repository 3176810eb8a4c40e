"""Holds: while one lasts, a stream's retention removes nothing from a sequence on.

A bulk reader that has to be able to read the same messages again takes one. Retention means limits, age, life times,
and acknowledgements under interest and work-queue retention; what a user purges, deletes or rolls up goes all the same.

Holds are kept in memory: they end with the server. A reader learns of that by counting what it reads again.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Hold", "Holds"]

NO_FLOOR = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps everything from `first_seq` on, until a time."""

    id: str
    first_seq: int
    expires_ns: int


class Holds:
    """The holds on one stream."""

    __slots__ = ("_holds", "floor")

    def __init__(self) -> None:
        """Nothing is held."""
        self._holds: dict[str, Hold] = {}
        self.floor = NO_FLOOR  # lowest sequence held; above every sequence when there is no hold

    def __len__(self) -> int:
        """Holds now in force."""
        return len(self._holds)

    def find(self, id_: str) -> Hold | None:
        """The hold with this id."""
        return self._holds.get(id_)

    def put(self, hold: Hold) -> None:
        """Add or replace one."""
        self._holds[hold.id] = hold
        self._measure()

    def remove(self, id_: str) -> bool:
        """End one; False when there is none."""
        if self._holds.pop(id_, None) is None:
            return False
        self._measure()
        return True

    def expire(self, now_ns: int) -> list[Hold]:
        """End those whose time has come, and name them."""
        due = [hold for hold in self._holds.values() if hold.expires_ns <= now_ns]
        for hold in due:
            del self._holds[hold.id]
        self._measure()
        return due

    def drop_lowest(self) -> Hold | None:
        """End the one that holds most, and name it."""
        lowest = min(self._holds.values(), key=lambda hold: hold.first_seq, default=None)
        if lowest is not None:
            self.remove(lowest.id)
        return lowest

    def next_expiry_ns(self) -> int | None:
        """When to look again."""
        return min((hold.expires_ns for hold in self._holds.values()), default=None)

    def _measure(self) -> None:
        self.floor = min((hold.first_seq for hold in self._holds.values()), default=NO_FLOOR)
