"""Interest in plain Python: a list of subscriptions and a matcher that compares tokens."""

from __future__ import annotations


def matches(pattern: bytes, subject: bytes) -> bool:
    wanted, given = pattern.split(b"."), subject.split(b".")
    if b"" in given:
        # A subject with an empty token reaches only a subscription to exactly itself, which cannot exist.
        return pattern == subject
    for index, token in enumerate(wanted):
        if token == b">" and index == len(wanted) - 1:
            return len(given) > index
        if index >= len(given) or (token != b"*" and token != given[index]):
            return False
    return len(wanted) == len(given)


class Interest:
    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []

    def insert(self, key: int, pattern: bytes) -> None:
        self.entries.append((key, pattern))

    def remove(self, key: int) -> bool:
        kept = [entry for entry in self.entries if entry[0] != key]
        found = len(kept) < len(self.entries)
        self.entries = kept
        return found

    def match(self, subject: bytes) -> set[int]:
        return {key for key, pattern in self.entries if matches(pattern, subject)}
