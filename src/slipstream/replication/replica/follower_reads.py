"""Reads that a replica answers which does not lead: what was committed when it was asked is in them.

    read ──► the leader is asked how far it is (Raft's ReadIndex) ──► applied so far here ──► the read goes on
               └─ no word within a moment ─► all replicas are asked for the end of their logs; if a majority has nothing
                  behind what is applied here, nothing else can be committed, and the read goes on without a leader
               └─ neither, for some seconds ─► the read is dropped: nobody here knows what is true

All reads that come while a question is on its way ask together with the next one. No clock is trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from typing import Final, Protocol

from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.replication.ids import NO_NODE
from slipstream.replication.raft.group import Group

__all__ = ["LOG_END", "LOG_END_WANTED", "FollowerReads", "ReadingReplica"]

LOG_END_WANTED: Final = 5
LOG_END: Final = 6
"""Kinds of messages beside Raft's; those before are of `segment_catch_up`."""

_NUMBER: Final = struct.Struct("<Q")
_END: Final = struct.Struct("<QQ")  # number of the question, index
_CONTEXT: Final = struct.Struct("<QQ")  # node, number
_AGAIN_NS: Final = 200_000_000
_DROPPED_NS: Final = 4_000_000_000
_WAITING_MAX: Final = 10_000
_NONCES: Final = 1 << 62

Read = Callable[[], None]


class ReadingReplica(Protocol):
    """The replica that is read. `Replica` is one."""

    @property
    def group(self) -> Group | None:
        """Its member of the group, while it takes part."""
        ...

    @property
    def log_end(self) -> int | None:
        """Index of the last entry of its log; None while it is not open."""
        ...

    def tell(self, to: int, kind: int, body: bytes) -> None:
        """Send something that is not Raft's."""
        ...


class FollowerReads:
    """Those of one replica."""

    def __init__(self, node: int, replica: ReadingReplica, ports: Ports) -> None:
        """Nobody reads yet."""
        self._node = node
        self._replica = replica
        self._ports = ports
        self._number = 0  # of the last question
        self._waiting: list[tuple[int, Read]] = []  # since when, and what goes on
        self._asking: list[tuple[int, Read]] = []
        self._unanswered = 0  # questions in a row that the leader said nothing to
        self._ends: dict[int, int] = {}  # what replicas answered to this question
        self._timer: Cancel | None = None
        self._scheduled = False

    def read(self, read: Read) -> None:
        """Go on with a read when all is here that was committed before; never, if nobody can say."""
        if len(self._waiting) + len(self._asking) >= _WAITING_MAX:
            return
        self._waiting.append((self._ports.now_ns(), read))
        if self._timer is None and not self._scheduled:
            self._scheduled = True
            self._ports.call_soon(guarded(self._ask, self._broke))

    def stop(self) -> None:
        """Nobody reads here any more."""
        self._end_question()
        self._waiting.clear()
        self._asking.clear()

    def heard(self, sender: int, kind: int, body: bytes) -> None:
        """Another replica asks for the end of the log, or tells its own."""
        if kind == LOG_END_WANTED and len(body) == _NUMBER.size:
            end = self._replica.log_end
            if end is not None:
                self._replica.tell(sender, LOG_END, _END.pack(*_NUMBER.unpack(body), end))
        elif kind == LOG_END and len(body) == _END.size:
            number, end = _END.unpack(body)
            if number == self._number and self._timer is not None:
                self._ends[sender] = end
                self._look_at_ends()

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _context(self) -> bytes:
        return _CONTEXT.pack(self._node, self._number)

    def _ask(self) -> None:
        self._scheduled = False
        if self._timer is not None:
            return  # what has come since that question was asked waits for the next one
        group = self._replica.group
        self._asking += self._waiting
        self._waiting.clear()
        if not self._asking:
            return
        # An answer may come late, to a process that was started since: its questions have other numbers.
        self._number = (self._number or self._ports.random_below(_NONCES)) + 1
        self._ends.clear()
        self._timer = self._ports.call_later(_AGAIN_NS, guarded(self._again, self._broke))
        if group is None:
            return
        if self._unanswered or group.leader == NO_NODE:
            for node in {*group.votes.voters, *group.votes.outgoing} - {self._node}:
                self._replica.tell(node, LOG_END_WANTED, _NUMBER.pack(self._number))
        number = self._number

        def told(is_known: bool) -> None:
            if is_known and number == self._number:
                self._unanswered = 0
                self._go_on()

        group.ask_to_read(self._context, told)

    def _again(self) -> None:
        """Nobody has answered: a message was lost, or there is no leader."""
        self._end_question()
        self._unanswered += 1
        oldest_ns = self._ports.now_ns() - _DROPPED_NS
        self._asking = [(since_ns, read) for since_ns, read in self._asking if since_ns > oldest_ns]
        self._ask()

    def _look_at_ends(self) -> None:
        """Whatever is committed is in the logs of a majority, so it is in one of these."""
        group, own = self._replica.group, self._replica.log_end
        if group is None or own is None:
            return
        ends = {**self._ends, self._node: own}
        has_no_more = {node for node, end in ends.items() if end <= group.applied}
        votes = group.votes
        if _is_majority(has_no_more, votes.voters) and (
            not votes.outgoing or _is_majority(has_no_more, votes.outgoing)
        ):
            self._go_on()

    def _go_on(self) -> None:
        self._end_question()
        reads, self._asking = self._asking, []
        for _, read in reads:
            read()
        if self._waiting:
            self._ask()

    def _end_question(self) -> None:
        if self._timer is not None:
            self._timer()
            self._timer = None
            if self._replica.group is not None:
                self._replica.group.forget_read(self._context)

    def _broke(self, error: Exception) -> None:
        self._ports.report("Reads of a replica", error)
        self.stop()


def _is_majority(some: Collection[int], voters: Collection[int]) -> bool:
    return sum(voter in some for voter in voters) > len(voters) // 2
