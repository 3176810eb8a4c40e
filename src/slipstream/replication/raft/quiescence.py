"""Groups that have nothing to do rest: not ticked, and silent. A pair of servers has one heartbeat for all of them.

    leader, nothing new for a while, all have all ──REST term, index──► follower: is that so here? it rests
    all who can be reached have said so: the leader rests, too ◄──RESTED─────────┘

    while groups of the two rest: BEAT, both ways, with a digest of which groups

Awake again: at anything that happens to the group itself; when the other server is lost or falls silent; when two
servers disagree for a while about who rests. Whoever wakes for such a reason tells the other, and after that Raft alone
decides: a group is awake when in doubt, and being awake is never wrong.

What this is not: a lease. Nobody leads, reads or votes because of a beat; it only says that there is no need to ask.

Invariants: a follower rests only under a leader of its own term, with the same log, all of it applied. A leader rests
only with a majority that does. Two servers that rest in a group hear from each other, or wake.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

__all__ = ["BEATS_GROUP", "REST_KINDS", "Quiescence", "QuiescentMember", "RestPoint"]

BEATS_GROUP: Final = (1 << 63) + 1
"""In the place of a group's number: heartbeats of servers."""
_BEAT: Final = 1  # kind of its messages
_REST, _RESTED, _WAKE = 16, 17, 18
REST_KINDS: Final = frozenset((_REST, _RESTED, _WAKE))
"""Kinds of messages of a group that are about this."""
_BEAT_TICKS: Final = 2
_SILENT_TICKS: Final = 5
"""Without a word of the other server for so long, its groups wake; an election takes as long as ever from then on."""
_STRANGE_BEATS: Final = 5  # in a row with another digest: what one of the two has heard is on its way no more
_POINT: Final = struct.Struct("<QQ")
_DIGEST: Final = struct.Struct("<Q")


class RestPoint(NamedTuple):
    """Where a group stands when it rests."""

    term: int
    last_index: int


class QuiescentMember(Protocol):
    """A member of a group that may rest. `Group` is one."""

    def rest_point(self, without: Collection[int]) -> RestPoint | None:
        """On a leader, after a tick: where it could rest, as far as it knows; these nodes need not have everything."""
        ...

    def others(self) -> Collection[int]:
        """The other members."""
        ...

    def is_majority(self, nodes: Collection[int]) -> bool:
        """Whether this member with these could commit."""
        ...

    def may_rest(self, leader: int, point: RestPoint) -> bool:
        """On a follower: whether it stands there, and follows this one."""
        ...

    def rest(self) -> None:
        """It is not ticked from now on."""
        ...

    def wake(self) -> None:
        """It is to be ticked again, if it was not."""
        ...


class _Pair:
    """This server and another one."""

    __slots__ = ("digest", "groups", "silent_ticks", "strange_beats")

    def __init__(self) -> None:
        self.groups: set[int] = set()  # that rest, and of which one of the two is the leader
        self.digest = 0
        self.silent_ticks = 0
        self.strange_beats = 0


class Quiescence:
    """Of all groups of one server."""

    def __init__(self, send: Callable[[int, int, int, bytes], None], rests: Callable[[int], None]) -> None:
        """Nobody rests. `send` takes group, node, kind and body, `rests` the number of a group not to be ticked."""
        self._send = send
        self._rests = rests
        self._members: dict[int, QuiescentMember] = {}
        self._asked: dict[int, tuple[RestPoint, set[int]]] = {}  # by leaders: who has answered
        self._resting: dict[int, tuple[int, Collection[int]]] = {}  # its part of digests, and of which pairs
        self._pairs: dict[int, _Pair] = {}
        self._lost: set[int] = set()
        self._ticks = 0

    def __len__(self) -> int:
        """How many groups rest."""
        return len(self._resting)

    # --- groups -----------------------------------------------------------------------------------------------------

    def add(self, group: int, member: QuiescentMember) -> None:
        """One more, awake."""
        self._members[group] = member

    def remove(self, group: int) -> None:
        """It takes part no more: those who rest with it must find another leader."""
        if self._members.pop(group, None) is None:
            return
        self._asked.pop(group, None)
        for node in self._resting[group][1] if group in self._resting else ():
            self._send(group, node, _WAKE, b"")
        self.awake(group)

    def awake(self, group: int) -> None:
        """Something happened to it: it rests no more."""
        part, nodes = self._resting.pop(group, (0, ()))
        for node in nodes:
            pair = self._pairs[node]
            pair.groups.discard(group)
            pair.digest ^= part
            if not pair.groups:
                del self._pairs[node]

    def ticked(self, group: int) -> None:
        """A tick has passed for it: if it leads and has nothing to do, ask whether all may rest."""
        member = self._members.get(group)
        point = member.rest_point(self._lost) if member is not None else None
        if member is None or point is None:
            return
        self._asked[group] = (point, set())
        for node in member.others():
            if node not in self._lost:
                self._send(group, node, _REST, _POINT.pack(*point))
        self._look(group, member)

    def received(self, sender: int, group: int, kind: int, body: bytes) -> bool:
        """A message of a group that is about this; False: it says nothing."""
        member = self._members.get(group)
        if member is None or len(body) != (0 if kind == _WAKE else _POINT.size):
            return False
        if kind == _WAKE:
            member.wake()
            return True
        point = RestPoint(*_POINT.unpack(body))
        if kind == _REST:
            if not member.may_rest(sender, point):
                return False
            self._send(group, sender, _RESTED, body)
            self._rest(group, member, point.term, (sender,))
            return True
        asked = self._asked.get(group)
        if asked is None or asked[0] != point:
            return False
        asked[1].add(sender)
        self._look(group, member)
        return True

    def _look(self, group: int, member: QuiescentMember) -> None:
        """Whether all have answered, and all is as it was when they were asked."""
        point, answered = self._asked[group]
        if member.rest_point(self._lost) != point:
            del self._asked[group]
        elif member.is_majority(answered) and all(node in answered or node in self._lost for node in member.others()):
            del self._asked[group]
            self._rest(group, member, point.term, answered)

    def _rest(self, group: int, member: QuiescentMember, term: int, nodes: Collection[int]) -> None:
        self.awake(group)
        part = int.from_bytes(blake2b(_POINT.pack(group, term), digest_size=8).digest(), "little")
        self._resting[group] = (part, nodes)
        for node in nodes:
            pair = self._pairs.setdefault(node, _Pair())
            pair.groups.add(group)
            pair.digest ^= part
        member.rest()
        self._rests(group)

    # --- servers ----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A tick has passed."""
        self._ticks += 1
        for node, pair in list(self._pairs.items()):
            pair.silent_ticks += 1
            if pair.silent_ticks >= _SILENT_TICKS:
                self._wake(node)
            elif self._ticks % _BEAT_TICKS == 0:
                self._send(BEATS_GROUP, node, _BEAT, _DIGEST.pack(pair.digest))

    def heard(self, node: int) -> None:
        """Something came from this server."""
        if (pair := self._pairs.get(node)) is not None:
            pair.silent_ticks = 0

    def beat(self, node: int, kind: int, body: bytes) -> bool:
        """A heartbeat of a server; False: it is none."""
        if kind != _BEAT or len(body) != _DIGEST.size:
            return False
        if (pair := self._pairs.get(node)) is not None:
            pair.strange_beats = 0 if _DIGEST.unpack(body)[0] == pair.digest else pair.strange_beats + 1
            if pair.strange_beats >= _STRANGE_BEATS:
                self._wake(node)
        return True

    def peer_up(self, node: int) -> None:
        """A server can be reached: leaders that rest without it have something to do."""
        self._lost.discard(node)
        for group in [group for group in self._resting if node in self._members[group].others()]:
            self._members[group].wake()

    def peer_down(self, node: int) -> None:
        """It cannot any more."""
        self._lost.add(node)
        self._wake(node)

    def _wake(self, node: int) -> None:
        """All that rest with this server, and have it know."""
        pair = self._pairs.get(node)
        for group in sorted(pair.groups) if pair is not None else ():
            if node not in self._lost:
                self._send(group, node, _WAKE, b"")
            self._members[group].wake()
