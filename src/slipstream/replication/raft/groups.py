"""All groups of this node: one clock for them, and one batch a turn for each peer.

    tick ──► every group that is awake   send ──► what each peer gets in this turn ──► end of the turn: one batch
    received(sender, batch) ──► each message to its group

The first byte of a message says what it is: 0 is Raft's own, anything else belongs to whoever keeps the group's log
(segments for a replica that is far behind).

A group that has nothing to do rests (`quiescence`): it costs nothing until something happens to it.

What this is not: reliable. A batch that the transport does not take is lost, and the groups in it are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from slipstream.replication.raft.quiescence import BEATS_GROUP, REST_KINDS, Quiescence, QuiescentMember

__all__ = ["RAFT_MESSAGE", "TICK_NS", "Batch", "GroupMember", "Groups", "Transport"]

TICK_NS: Final = 100_000_000
RAFT_MESSAGE: Final = 0
"""Kind of the messages that Raft makes."""
_LARGE: Final = 64 * 1024  # a message that is worth a write of its own
_SLICE: Final = 100  # groups ticked at a time: an event takes some milliseconds, however many there are

Batch = Sequence[tuple[int, bytes]]
"""Messages, each with the number of its group."""


class Transport(Protocol):
    """Connections to the other nodes. `Groups.received` takes what comes in."""

    def send(self, to: int, batch: Batch) -> bool:
        """Hand it over; False: there is no connection, or too much on it, and nothing was taken."""
        ...


class GroupMember(Protocol):
    """This node's member of a group. `Group` is one."""

    def tick(self) -> None:
        """A tick has passed."""
        ...

    def receive(self, message: bytes) -> bool:
        """A message of another member; False: it was dropped."""
        ...

    def unreachable(self, node: int) -> None:
        """Something for this node was lost."""
        ...


OtherKinds = Callable[[int, int, memoryview], None]
"""`(sender, kind, body)`: a message that is not Raft's."""


def _nothing_else(sender: int, kind: int, body: memoryview) -> None:
    pass


class Groups:
    """By their numbers."""

    def __init__(self, transport: Transport, call_soon: Callable[[Callable[[], None]], None]) -> None:
        """None yet. `call_soon` calls at the end of the turn."""
        self._transport = transport
        self._call_soon = call_soon
        self._members: dict[int, tuple[GroupMember, OtherKinds]] = {}
        self._awake: dict[int, GroupMember] = {}
        self._due: list[int] = []  # those that this tick has not reached yet
        self._out: dict[int, list[tuple[int, bytes]]] = {}
        self._lost: dict[tuple[int, int], None] = {}  # group and node of what the transport did not take in this turn
        self._quiescence = Quiescence(self._send_kind, self._rests)
        self.dropped = 0
        """Messages in that no group here had use for."""
        self.undelivered = 0
        """Messages out that the transport did not take."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def resting(self) -> int:
        """How many have nothing to do, and are not ticked."""
        return len(self._quiescence)

    def add(
        self,
        group_id: int,
        member: GroupMember,
        others: OtherKinds = _nothing_else,
        quiescent: QuiescentMember | None = None,
    ) -> None:
        """From now on it is ticked and gets its messages; what is not Raft's goes to `others`.

        A member that may rest is `quiescent`, and says `awake` when something happens to it.
        """
        assert group_id not in self._members
        self._members[group_id] = (member, others)
        self._awake[group_id] = member
        if quiescent is not None:
            self._quiescence.add(group_id, quiescent)

    def remove(self, group_id: int) -> None:
        """No more; nothing if it is not here."""
        self._quiescence.remove(group_id)
        self._members.pop(group_id, None)
        self._awake.pop(group_id, None)

    def awake(self, group_id: int) -> None:
        """Something happened to a group that rested."""
        if group_id in self._members:
            self._quiescence.awake(group_id)
            self._awake[group_id] = self._members[group_id][0]

    def peer_up(self, node: int) -> None:
        """This node can be reached."""
        self._quiescence.peer_up(node)

    def peer_down(self, node: int) -> None:
        """It cannot any more."""
        self._quiescence.peer_down(node)

    def tick(self) -> None:
        """`TICK_NS` have passed, or more: a tick that was missed is not made up for."""
        self._quiescence.tick()
        if not self._due:
            self._due = list(reversed(self._awake))
            self._tick_some()

    def _tick_some(self) -> None:
        for _ in range(min(_SLICE, len(self._due))):
            group_id = self._due.pop()
            member = self._awake.get(group_id)
            if member is not None:
                member.tick()
                self._quiescence.ticked(group_id)
        if self._due:
            self._call_soon(self._tick_some)

    def received(self, sender: int, batch: Iterable[tuple[int, bytes]]) -> None:
        """Messages of a peer."""
        self._quiescence.heard(sender)
        for group_id, message in batch:
            found = self._members.get(group_id)
            if not message:
                self.dropped += 1
            elif group_id == BEATS_GROUP:
                self.dropped += not self._quiescence.beat(sender, message[0], message[1:])
            elif found is None:
                self.dropped += 1
            elif message[0] == RAFT_MESSAGE:
                if not found[0].receive(message[1:]):
                    self.dropped += 1
            elif message[0] in REST_KINDS:
                self.dropped += not self._quiescence.received(sender, group_id, message[0], message[1:])
            else:
                found[1](sender, message[0], memoryview(message)[1:])

    def send(self, group_id: int, to: int, message: bytes, *, kind: int = RAFT_MESSAGE) -> None:
        """With the next batch for this node; a large one at once, so that it is read while the next one is made."""
        one = (group_id, bytes((kind,)) + message)
        if len(message) >= _LARGE:
            self._hand_over(to, [*self._out.pop(to, ()), one])
            return
        if not self._out:
            self._call_soon(self.flush)
        self._out.setdefault(to, []).append(one)

    def flush(self) -> None:
        """Hand over now what was to be sent at the end of the turn."""
        out, self._out = self._out, {}
        for to, batch in out.items():
            self._hand_over(to, batch)

    def _send_kind(self, group_id: int, to: int, kind: int, body: bytes) -> None:
        self.send(group_id, to, body, kind=kind)

    def _rests(self, group_id: int) -> None:
        self._awake.pop(group_id, None)

    def _hand_over(self, to: int, batch: Batch) -> None:
        if not self._transport.send(to, batch):
            self.undelivered += len(batch)
            if not self._lost:
                self._call_soon(self._tell_lost)
            self._lost |= dict.fromkeys((group_id, to) for group_id, _ in batch)

    def _tell_lost(self) -> None:
        """Not before the turn ends: a group that sends is amid something."""
        lost, self._lost = self._lost, {}
        for group_id, to in lost:
            if group_id in self._members:
                self._members[group_id][0].unreachable(to)
