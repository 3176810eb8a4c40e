"""All groups of this node: one clock for them, and one batch a turn for each peer.

    tick ──► every group                 send ──► what each peer gets in this turn ──► end of the turn: one batch
    received(sender, batch) ──► each message to its group

The first byte of a message says what it is: 0 is Raft's own, anything else belongs to whoever keeps the group's log
(segments for a replica that is far behind).

What this is not: reliable. A batch that the transport does not take is lost, and the groups in it are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

__all__ = ["RAFT_MESSAGE", "TICK_NS", "Batch", "GroupMember", "Groups", "Transport"]

TICK_NS: Final = 100_000_000
RAFT_MESSAGE: Final = 0
"""Kind of the messages that Raft makes."""

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
        self._out: dict[int, list[tuple[int, bytes]]] = {}
        self.dropped = 0
        """Messages in that no group here had use for."""
        self.undelivered = 0
        """Messages out that the transport did not take."""

    def __len__(self) -> int:
        return len(self._members)

    def add(self, group_id: int, member: GroupMember, others: OtherKinds = _nothing_else) -> None:
        """From now on it is ticked and gets its messages; what is not Raft's goes to `others`."""
        assert group_id not in self._members
        self._members[group_id] = (member, others)

    def remove(self, group_id: int) -> None:
        """No more; nothing if it is not here."""
        self._members.pop(group_id, None)

    def tick(self) -> None:
        """`TICK_NS` have passed, or more: a tick that was missed is not made up for."""
        for member, _ in list(self._members.values()):
            member.tick()

    def received(self, sender: int, batch: Iterable[tuple[int, bytes]]) -> None:
        """Messages of a peer."""
        for group_id, message in batch:
            found = self._members.get(group_id)
            if found is None or not message:
                self.dropped += 1
            elif message[0] == RAFT_MESSAGE:
                if not found[0].receive(message[1:]):
                    self.dropped += 1
            else:
                found[1](sender, message[0], memoryview(message)[1:])

    def send(self, group_id: int, to: int, message: bytes, *, kind: int = RAFT_MESSAGE) -> None:
        """With the next batch for this node."""
        if not self._out:
            self._call_soon(self._flush)
        self._out.setdefault(to, []).append((group_id, bytes((kind,)) + message))

    def _flush(self) -> None:
        out, self._out = self._out, {}
        for to, batch in out.items():
            if not self._transport.send(to, batch):
                self.undelivered += len(batch)
                for group_id in dict.fromkeys(group_id for group_id, _ in batch):
                    if group_id in self._members:
                        self._members[group_id][0].unreachable(to)
