"""Who takes which part of a work queue: there, no two consumers may want the same message."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.jetstream.errors import invalid_config
from slipstream.subjects.collisions import COMPARE_STEPS_MAX, SubjectSet, TooManySteps

__all__ = ["Partition"]


class Partition:
    """The filters of all consumers of a work queue."""

    def __init__(self) -> None:
        """Nobody takes anything yet."""
        self._of: dict[str, tuple[bytes, ...]] = {}  # name of a consumer → its filters
        self._filters: SubjectSet[str] = SubjectSet()
        self._unfiltered: set[str] = set()

    def set(self, name: str, filters: Sequence[bytes]) -> None:
        """A consumer came, or has other filters."""
        self.drop(name)
        self._of[name] = tuple(filters)
        if not filters:
            self._unfiltered.add(name)
        self._add(name)

    def drop(self, name: str) -> None:
        """A consumer is gone."""
        self._unfiltered.discard(name)
        for subject in self._of.pop(name, ()):
            self._filters.remove(subject, name)

    def is_free(self, name: str, filters: Sequence[bytes]) -> bool:
        """Whether a consumer may have these filters beside the others.

        Raises:
            ApiError: they cannot be compared in time.
        """
        if not filters:
            return True  # judged by whether there are others at all
        if self._unfiltered - {name}:
            return False
        wanted: SubjectSet[str] = SubjectSet()
        for subject in filters:
            wanted.add(subject, name)
        for subject in self._of.get(name, ()):
            self._filters.remove(subject, name)
        try:
            return self._filters.overlap_with(wanted, COMPARE_STEPS_MAX + 2 * len(self._filters)) is None
        except TooManySteps:
            raise invalid_config("filter subjects have wildcards in too many different places") from None
        finally:
            self._add(name)

    def _add(self, name: str) -> None:
        for subject in self._of.get(name, ()):
            self._filters.add(subject, name)
