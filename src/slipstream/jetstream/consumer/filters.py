"""The subjects a consumer wants: as given, as the store takes them, and as a question about one subject.

A filter list that covers everything the stream can hold is the same as none, and reading without filters is faster;
`Filters.for_store` knows that. Whether a subject is wanted does not cost more with a thousand filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.kernels.subjects.filterset import FilterSet
from slipstream.kernels.subjects.subject import is_literal, overlaps
from slipstream.subjects.collisions import covers_all

__all__ = ["Filters", "subjects_of"]

_NO_KEY = 0  # of the hash of tokens: who aims at one slot makes only their own consumer slow


def subjects_of(config: ConsumerConfig) -> list[str]:
    """The filters of a configuration, whichever of the two fields they are in."""
    return list(config.filter_subjects) or ([config.filter_subject] if config.filter_subject else [])


class Filters:
    """The filters of one consumer. Immutable; a change makes a new one."""

    __slots__ = ("_literals", "_patterns", "for_store", "subjects")

    def __init__(self, subjects: Iterable[str], stream_subjects: Sequence[str]) -> None:
        """Take filters as configured, and the subjects of all messages of their stream; none if those are unknown."""
        self.subjects = tuple(subject.encode() for subject in subjects)
        self._literals = frozenset(subject for subject in self.subjects if is_literal(subject))
        self._patterns = FilterSet((subject for subject in self.subjects if subject not in self._literals), _NO_KEY)
        collected = [subject.encode() for subject in stream_subjects]
        covered = bool(collected) and covers_all(self.subjects, collected)
        self.for_store: tuple[bytes, ...] = () if covered else self.subjects

    def match(self, subject: bytes) -> bool:
        """Whether a message on this subject is wanted."""
        if not self.for_store or subject in self._literals:
            return True
        return self._patterns.matches(subject)

    @property
    def literals(self) -> frozenset[bytes] | None:
        """All wanted subjects, if they can be listed; None: there are patterns, or everything is wanted."""
        return self._literals if self.for_store and not self._patterns.patterns else None

    def touch(self, subject: bytes) -> bool:
        """Whether a message matching this filter could be wanted."""
        return not self.for_store or any(overlaps(subject, own) for own in self.subjects)
