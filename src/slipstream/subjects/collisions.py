"""Which of many subjects are in each other's way, in about as many steps as there are subjects.

Short lists are compared pair by pair, which is quicker than building a set and names the first pair. Where subjects
have wildcards in so many different places that there is no shortcut, the question is refused (`TooManySteps`),
because it would hold up everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from slipstream.kernels.subjects.subject import is_subset, overlaps
from slipstream.kernels.subjects.subjectset import SubjectSet, TooManySteps

__all__ = ["COMPARE_STEPS_MAX", "SubjectSet", "TooManySteps", "covers_all", "overlap_within", "subset_within"]

COMPARE_STEPS_MAX: Final = 250_000  # of one question: 12 to 20 ms; 20,000 ordinary subjects take a fifth of it
_FEW: Final = 32  # subjects that are compared pair by pair

Pair = tuple[int, int]


def overlap_within(subjects: Sequence[bytes]) -> Pair | None:
    """Positions of two of these that overlap, the lower one first; the first such pair if there are few.

    Raises:
        TooManySteps: there is no shortcut.
    """
    if len(subjects) <= _FEW:
        return _first_pair(subjects, overlaps)
    found = SubjectSet(subjects).overlap_within(COMPARE_STEPS_MAX)
    return (min(found), max(found)) if found is not None else None


def subset_within(subjects: Sequence[bytes]) -> bool:
    """Whether one of these is contained in another, or given twice.

    Raises:
        TooManySteps: there is no shortcut.
    """
    if len(subjects) <= _FEW:
        return _first_pair(subjects, lambda one, two: is_subset(one, two) or is_subset(two, one)) is not None
    return SubjectSet(subjects).subset_within(COMPARE_STEPS_MAX) is not None


def covers_all(wide: Sequence[bytes], narrow: Sequence[bytes]) -> bool:
    """Whether each of `narrow` is known to be contained in one of `wide`."""
    if len(wide) * len(narrow) <= _FEW * _FEW:
        return all(any(is_subset(own, one) for one in wide) for own in narrow)
    members = SubjectSet(wide)
    try:
        return all(members.covering(own, COMPARE_STEPS_MAX // len(narrow)) for own in narrow)
    except TooManySteps:
        return False


def _first_pair(subjects: Sequence[bytes], related: Callable[[bytes, bytes], bool]) -> Pair | None:
    for index, subject in enumerate(subjects):
        for other in range(index + 1, len(subjects)):
            if related(subject, subjects[other]):
                return index, other
    return None
