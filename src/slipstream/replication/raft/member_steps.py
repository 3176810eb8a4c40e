"""From the members that a group has to those that it should have: one step, and then the next.

    missing ──► learners, one by one ──► all have caught up ──► one joint change to those that are wanted ──► left
    a leader that is not wanted: ──► hands over first; if nobody who is wanted votes yet, they do, and it stays for that

A pure function of what the group's log says, asked again after every step: so it does not matter who leads, or how
often that changes on the way. Each change carries the number of the wish that it is for, and a leader whose log has one
that it has not heard of does nothing: else it could lead the group back to servers that were told to go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

__all__ = ["SETTLED", "WAIT", "HandOver", "MemberKind", "Members", "NextMembers", "move_of", "next_step"]

MemberKind = Literal["voter", "learner", "gone"]
_CONTEXT_TAG: Final = 0x1A  # field 3 of a change of the membership (`ConfChangeV2`): bytes


class Members(Protocol):
    """A membership as it is kept. `Votes` is one."""

    @property
    def voters(self) -> Sequence[int]:
        """Those that count."""
        ...

    @property
    def learners(self) -> Sequence[int]:
        """Those that only follow."""
        ...

    @property
    def outgoing(self) -> Sequence[int]:
        """Voters of before, while a joint state lasts."""
        ...

    @property
    def move(self) -> int:
        """Which wish it came from."""
        ...


@dataclass(frozen=True, slots=True)
class NextMembers:
    """Propose this."""

    changes: tuple[tuple[MemberKind, int], ...]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Let this member lead."""

    to: int


SETTLED: Final = "settled"
"""The group has the members that it should have, and its log says for which wish."""
WAIT: Final = "wait"
"""For members that are to catch up, or for a leader that knows of the last wish."""


def next_step(
    node: int, members: Members, wanted: Sequence[int], move: int, ready: Collection[int], gone: Collection[int] = ()
) -> NextMembers | HandOver | Literal["settled", "wait"]:
    """What the leader does next.

    Args:
        node: the leader.
        members: of the group, applied.
        wanted: who should be.
        move: the number of this wish.
        ready: members that have all but the latest entries, and answer.
        gone: who left before, and may still have what it had then: it is no member until that is removed.
    """
    if members.move > move:
        return WAIT
    voters, learners, target = set(members.voters), set(members.learners), set(wanted)
    if node not in voters:  # elected by those that were before: once the joint state is left, it could propose nothing
        after = sorted(voters & set(ready))
        return HandOver(after[0]) if after else WAIT
    if members.outgoing:
        return NextMembers(())
    if voters == target and not learners:
        # The log has to say so before anybody is told: then a leader that knows of an earlier wish only does nothing.
        return SETTLED if members.move == move else NextMembers((("voter", min(voters)),))
    for stray in sorted(learners - target):  # of a wish that another one replaced
        return NextMembers((("gone", stray),))
    for missing in sorted(target - voters - learners - set(gone)):
        return NextMembers((("learner", missing),))
    new, heirs = sorted(target - voters), sorted(voters & target & set(ready))
    if not set(new) <= learners & set(ready):
        return WAIT
    if node in target:
        return NextMembers(tuple(_joint(new, sorted(voters - target))))
    if heirs:
        return HandOver(heirs[0])
    return NextMembers(tuple(_joint(new, sorted(voters - target - {node})))) if new else WAIT


def _joint(new: Sequence[int], gone: Sequence[int]) -> list[tuple[MemberKind, int]]:
    return [*((("voter"), node) for node in new), *((("gone"), node) for node in gone)]


def move_of(change: bytes) -> int:
    """Which wish an entry is for that changes the membership, 0 if it does not say."""
    at = 0
    while at < len(change):
        tag, at = change[at], at + 1
        length, shift = 0, 0
        while at < len(change):
            byte, at = change[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if tag & 7 == 2:
            if tag == _CONTEXT_TAG:
                return int.from_bytes(change[at : at + length], "big") if length == 8 else 0
            at += length
    return 0
