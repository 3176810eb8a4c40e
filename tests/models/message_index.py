"""What `kernels.subjectindex` means, in the plainest Python: a sorted dict of sequence to subject."""

from __future__ import annotations

from collections.abc import Sequence


def matches(pattern: bytes, subject: bytes) -> bool:
    """NATS wildcard match, token by token."""
    wanted, tokens = pattern.split(b"."), subject.split(b".")
    for i, want in enumerate(wanted):
        if want == b">":
            return len(tokens) > i
        if i >= len(tokens) or want not in (b"*", tokens[i]):
            return False
    return len(wanted) == len(tokens)


class MessageIndexModel:
    """Every answer is computed from the whole content."""

    def __init__(self) -> None:
        self.subjects: dict[int, bytes] = {}
        self.sizes: dict[int, int] = {}
        self.last_seq = 0

    def append(self, seq: int, subject: bytes, size: int) -> None:
        self.subjects[seq] = subject
        self.sizes[seq] = size
        self.last_seq = seq

    def skip_to(self, last_seq: int) -> None:
        self.last_seq = max(self.last_seq, last_seq)

    def delete(self, seq: int) -> bool:
        return self.subjects.pop(seq, None) is not None

    def trim_to(self, first_seq: int) -> int:
        gone = [seq for seq in self.subjects if seq < first_seq]
        for seq in gone:
            del self.subjects[seq]
        self.last_seq = max(self.last_seq, first_seq - 1)
        return len(gone)

    @property
    def removed(self) -> list[int]:
        return sorted(self.sizes.keys() - self.subjects.keys())

    @property
    def first_seq(self) -> int:
        return min(self.subjects, default=self.last_seq + 1)

    @property
    def messages(self) -> int:
        return len(self.subjects)

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes[seq] for seq in self.subjects)

    @property
    def num_subjects(self) -> int:
        return len(set(self.subjects.values()))

    def passing(self, filters: Sequence[bytes], from_seq: int = 0, up_to: int = 1 << 63) -> list[int]:
        return [
            seq
            for seq, subject in sorted(self.subjects.items())
            if from_seq <= seq <= up_to and (not filters or any(matches(f, subject) for f in filters))
        ]

    def subject_state(self, subject: bytes) -> tuple[int, int, int]:
        seqs = [seq for seq, name in self.subjects.items() if name == subject]
        return (min(seqs), max(seqs), len(seqs)) if seqs else (0, 0, 0)

    def subjects_matching(self, filters: Sequence[bytes]) -> list[tuple[bytes, int]]:
        counts: dict[bytes, int] = {}
        for seq in self.passing(filters):
            counts[self.subjects[seq]] = counts.get(self.subjects[seq], 0) + 1
        return sorted(counts.items())

    def last_per_subject(self, filters: Sequence[bytes], up_to: int) -> list[int]:
        newest: dict[bytes, int] = {}
        for seq in self.passing(filters, 0, up_to or 1 << 63):
            newest[self.subjects[seq]] = seq
        return sorted(newest.values())

    def deleted(self, limit: int) -> list[int]:
        if not self.subjects:
            return []
        return [seq for seq in range(self.first_seq, self.last_seq + 1) if seq not in self.subjects][:limit]
