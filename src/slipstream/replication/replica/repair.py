"""A replica that has lost something gets it anew from the others, and is counted for nothing until it has.

    damaged ──► silent: no vote, no answer, whatever Raft says to it
            ──REPAIR──► the leader, which is certain that it leads: makes it a learner, by an entry E
            ◄──────────  a copy of whole segments that ends behind E ──► opened ──► takes part again
    the leader: caught up ──► a voter as before

If the end of the log and the votes are whole, and only old messages are damaged, it goes on until it is a learner: so
the group never has fewer voters than it needs because of damage that can wait its turn.

It keeps its number, and that is safe: E is behind everything that it ever acknowledged to this leader, and was agreed
on without it. So an acknowledgement that is still on its way is true when it comes back; and a candidate that does not
have E finds no majority of the others, whatever this one had voted.

What this is not: the decision that something is lost (`Replica`), or the copy (`segment_catch_up`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file.replica.segment_import import SegmentImport
from slipstream.jetstream.store.file.replica.segment_transfer import decode_manifest
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.replication.replica.segment_catch_up import MANIFEST, PIECE, SegmentTaker, Send

__all__ = ["REPAIR", "TOKEN_BYTES", "RepairLeader", "SilentReplica", "new_token"]

REPAIR: Final = 7
"""Kind of the message that asks for it, with a token for each damage; those before are of `follower_reads`."""
_ASK_TICKS: Final = 10
TOKEN_BYTES: Final = 9
_UNHEARD_LOOKS: Final = 10  # a member that took part when it asked, and asks no more, found that nothing is lost
_AGAIN: Final = 5  # asked so often in vain, the leader proposes its change once more


def new_token(ports: Ports, *, silent: bool = False) -> bytes:
    """For a damage that was just found; the first byte says whether the member still takes part."""
    return bytes((silent,)) + ports.random_below(1 << 62).to_bytes(TOKEN_BYTES - 1, "big")


class _Nothing:
    """In the place of a log that cannot be read: any copy may replace it."""

    applied_index = 0

    def lacks(self, frame: int, term: int) -> bool:
        del frame, term
        return True


class SilentReplica:
    """A damaged member of a group, until it has a copy. Implements `GroupMember`."""

    def __init__(
        self,
        node: int,
        peers: Callable[[], Sequence[int]],
        ports: Ports,
        files: ReplicaFiles,
        send: Send,
        complete: Callable[[SegmentImport], bool],
    ) -> None:
        """Ask all of `peers`, one of which leads; `complete` is called when a copy is there."""
        self._node = node
        self._peers = peers
        self._send = send
        self._token = new_token(ports, silent=True)
        self._ticks = 0
        self._taker = SegmentTaker(ports, files, send, complete)

    def tick(self) -> None:
        """A tick has passed."""
        if self._ticks % _ASK_TICKS == 0:
            for peer in self._peers():
                if peer != self._node:
                    self._send(peer, REPAIR, self._token)
        self._ticks += 1

    def receive(self, message: bytes) -> bool:
        """Nothing that Raft says is answered."""
        del message
        return True

    def unreachable(self, node: int) -> None:
        """It asks again."""

    def other(self, sender: int, kind: int, body: memoryview) -> None:
        """A message that is not Raft's: a copy, in which this member is a learner already."""
        if kind == PIECE:
            self._taker.piece(sender, bytes(body))
        elif kind == MANIFEST and (manifest := decode_manifest(bytes(body))) is not None:
            members = manifest.membership
            is_out = self._node in members.learners and self._node not in (*members.voters, *members.outgoing)
            if is_out and manifest.frame >= members.applied_conf:
                self._taker.offered(sender, bytes(body), _Nothing())

    def stop(self) -> None:
        """Ask no more."""
        self._taker.stop()


class _Asked:
    """A member that asks."""

    __slots__ = ("looks", "needs", "times", "token")

    def __init__(self, token: bytes, needs: int) -> None:
        self.token = token
        self.needs = needs  # the entry that makes it a learner, or a later one
        self.times = 0
        self.looks = 0  # at whether it is back, since it asked


class RepairLeader:
    """What the leader of a group does for damaged members. Nothing of it has to survive: they ask again."""

    def __init__(self) -> None:
        """Nobody has asked."""
        self._asked: dict[int, _Asked] = {}

    @property
    def waiting(self) -> Collection[int]:
        """Members that have asked, and are not back."""
        return self._asked.keys()

    def asked(
        self, node: int, token: bytes, votes: Votes, last_index: int, applied: int
    ) -> Literal["demote", "wait", "offer"]:
        """A member is damaged, and this leader is certain that it leads: what to do for it.

        Args:
            node: who asks.
            token: which damage it is about.
            votes: the membership as it is agreed on.
            last_index: of the leader's log.
            applied: up to where that is committed and applied.
        """
        known = self._asked.get(node)
        if known is None or known.token != token:
            # Also if it is a learner: an entry that it cannot have acknowledged, by which its return is seen.
            known = self._asked[node] = _Asked(token, last_index + 1)
        else:
            known.times += 1
        known.looks = 0
        left = len(votes.voters) - (node in votes.voters)
        if votes.outgoing or left <= (len(votes.voters) + len(votes.learners)) // 2:
            return "wait"  # others are away already
        if votes.applied_conf < known.needs or node in votes.voters:
            return "demote" if known.times % _AGAIN == 0 else "wait"
        return "offer" if node in votes.learners and applied >= votes.applied_conf else "wait"

    def is_new(self, node: int, token: bytes) -> bool:
        """Whether this is about another damage than before: what was given for that does not count."""
        return node not in self._asked or self._asked[node].token != token

    def is_back(self, node: int, matched: int) -> bool:
        """Whether a learner has what it was missing; `matched` is what Raft knows that it has."""
        known = self._asked.get(node)
        if known is None:
            return True
        known.looks += 1
        # Who still takes part is about to notice that it is a learner, and then to be silent: it is not back before.
        if matched >= known.needs and (known.token[0] or known.looks > _UNHEARD_LOOKS):
            del self._asked[node]
            return True
        return False

    def clear(self) -> None:
        """This server leads no more."""
        self._asked.clear()
