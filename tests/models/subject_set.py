"""What `kernels.subjectset` means: a list of patterns, every one compared with every other."""

from __future__ import annotations

from slipstream.kernels.subjects.subject import is_subset, matches, overlaps


class SubjectSetModel:
    def __init__(self) -> None:
        self.members: list[tuple[bytes, int]] = []

    def add(self, subject: bytes, owner: int) -> None:
        if b"" not in subject.split(b"."):
            self.members.append((subject, owner))

    def remove(self, subject: bytes, owner: int) -> None:
        self.members.remove((subject, owner))

    def overlapping(self, subject: bytes) -> list[int]:
        return [owner for own, owner in self.members if overlaps(own, subject)]

    def covering(self, subject: bytes) -> list[int]:
        return [owner for own, owner in self.members if is_subset(subject, own)]

    def matching(self, literal: bytes) -> list[int]:
        return [owner for own, owner in self.members if matches(own, literal)]

    def overlaps_with(self, other: SubjectSetModel) -> set[tuple[int, int]]:
        return {(one, two) for a, one in self.members for b, two in other.members if overlaps(a, b)}

    def overlaps_within(self) -> set[tuple[int, int]]:
        return {
            (one, two)
            for i, (a, one) in enumerate(self.members)
            for j, (b, two) in enumerate(self.members)
            if i != j and overlaps(a, b)
        }

    def subsets_within(self) -> set[tuple[int, int]]:
        return {
            (one, two)
            for i, (a, one) in enumerate(self.members)
            for j, (b, two) in enumerate(self.members)
            if i != j and is_subset(a, b)
        }
