"""The meta group as this server sees it: what is agreed on, and on the leader, what is to be.

The leader judges requests against its draft, appends what follows from them, and is told when that is committed. Every
server is told of changes when they are committed, in the same order.

    propose(entries) ──► draft, log ──► committed ──► state, `changed` ──► `done`

Entries that a later one of the same subject replaces are removed by the leader, and so are those that say "gone", once
they are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.ids import META_GROUP, NO_NODE
from slipstream.replication.meta.entries import Assignment, Node, encode
from slipstream.replication.meta.log import MetaLog
from slipstream.replication.meta.state import MetaState
from slipstream.replication.raft.groups import Groups
from slipstream.replication.raft.member_steps import MemberKind
from slipstream.replication.raft.ports import GroupFacts
from slipstream.replication.replica.files import ReplicaFiles

__all__ = ["Change", "MetaGroup", "MetaListener"]

Entry = Node | Assignment
Change = tuple[Entry | None, Entry | None]
"""What was there, and what is."""

_GONE_KEPT: Final = 64  # messages that only say "gone", before they are removed
_LEADERLESS_TICKS: Final = 30  # without a leader for so long, callers are told
_CHANGE_TICKS: Final = 20  # a change of the membership that is not agreed on by then is proposed again


class MetaListener(Protocol):
    """Who acts on what is agreed."""

    def changed(self, old: Entry | None, new: Entry | None) -> None:
        """An entry was made, replaced or removed."""
        ...

    def leads(self) -> None:
        """This server leads the meta group."""
        ...

    def steps_down(self) -> None:
        """It does no more."""
        ...


class MetaGroup:
    """This server's member of the meta group. Implements `LogListener`."""

    def __init__(
        self,
        node: int,
        files: ReplicaFiles,
        ports: Ports,
        groups: Groups,
        listener: MetaListener,
        reachable: Callable[[], Sequence[int]],
    ) -> None:
        """As its files say; `start` follows. `reachable` are the servers that can be asked."""
        self.state = MetaState()
        """What is agreed on."""
        self.draft: MetaState | None = None
        """On the leader: the same with what it has proposed."""
        self._node = node
        self._ports = ports
        self._listener = listener
        self._seqs: dict[bytes, int] = {}  # subject → the message that counts
        self._proposed: dict[bytes, int] = {}  # the same of what this leader has proposed
        self._gone: dict[bytes, int] = {}  # the same of committed messages that say "gone"
        self._waiting: list[tuple[int, Callable[[bool], None]]] = []  # sequence, what is called when it is committed
        self._leaderless_ticks = 0
        self._changed_from = (-1, 0)  # the membership that a change was proposed to, and ticks until it is given up
        self._log = MetaLog(node, files, ports, groups, reachable, self)

    # --- facts ------------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this server leads, and knows all that was agreed on."""
        return self.draft is not None

    @property
    def leader(self) -> int:
        """The number of who leads, as far as it is known here; 0 for nobody."""
        return self._log.group.leader if self._log.group is not None else NO_NODE

    @property
    def is_leaderless(self) -> bool:
        """Whether nobody has led for a while."""
        return self._leaderless_ticks >= _LEADERLESS_TICKS

    @property
    def handed_seq(self) -> int:
        """Up to which message of its log this server knows what was agreed on."""
        return self._log.handed_seq

    @property
    def term(self) -> int:
        """Raft's."""
        return self._log.group.term if self._log.group is not None else self.votes.term

    @property
    def applied_index(self) -> int:
        """Of the log."""
        return self._log.group.applied if self._log.group is not None else 0

    @property
    def log_bytes(self) -> int:
        """Of the log here."""
        return self._log.size_bytes

    @property
    def cut_ns(self) -> int:
        """When entries at the beginning of the log were last seen to be gone; 0: never."""
        return self._log.cut_ns

    def lags(self) -> dict[int, int]:
        """On the leader: how many entries each of the others is known to miss."""
        return self._log.group.lags() if self._log.group is not None else {}

    def facts(self) -> GroupFacts:
        """What monitoring shows."""
        if self._log.group is not None:
            return self._log.group.facts()
        votes = self.votes
        return GroupFacts("CLOSED", NO_NODE, votes.term, votes.vote, 0, 1, 0, tuple(votes.voters))

    @property
    def votes(self) -> Votes:
        """Term, vote and members."""
        return self._log.votes

    @property
    def is_changing(self) -> bool:
        """Whether a change of the membership was proposed, and is not agreed on."""
        before, ticks = self._changed_from
        return before == self.votes.applied_conf and ticks > 0

    def has_caught_up(self, node: int, most: int) -> bool:
        """On the leader: whether a member is known to miss at most so many entries."""
        lag, last = self.lags().get(node), self.facts().last_index
        return lag is not None and lag <= most and lag < last and self._log.is_back(node, last - lag)

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open its files, tell of all that is known to be agreed on, and take part."""
        self._log.start()

    def tick(self) -> None:
        """A tick has passed."""
        self._log.tick()
        self._changed_from = (self._changed_from[0], max(self._changed_from[1] - 1, 0))
        self._leaderless_ticks = 0 if self.leader != NO_NODE else self._leaderless_ticks + 1

    def transfer(self, to: int) -> None:
        """Have another server lead."""
        if self._log.group is not None:
            self._log.group.transfer(to)

    def change(self, changes: Sequence[tuple[MemberKind, int]]) -> None:
        """On the leader: have other members. One change at a time."""
        self._changed_from = (self.votes.applied_conf, _CHANGE_TICKS)
        self._log.change(changes)

    def close(self) -> None:
        """End."""
        self._log.close()

    # --- the leader -------------------------------------------------------------------------------------------------

    @property
    def next_group(self) -> int:
        """The number of the group of a stream that is proposed next: never used before, and never again."""
        return META_GROUP + self._log.next_seq

    def propose(self, entries: Iterable[Entry | bytes], done: Callable[[bool], None]) -> None:
        """On the leader: have entries agreed on, or the ones under these subjects removed.

        Args:
            entries: at least one. A stream that is new has `next_group` as its group, and is the first.
            done: called when they are, with True; with False if this server no longer leads, and nobody here knows.
        """
        draft, log, seq = self.draft, self._log, 0
        assert draft is not None
        for entry in entries:
            if isinstance(entry, bytes):
                draft.remove(entry)
                subject, payload = entry, b""
            else:
                draft.put(entry)
                subject, payload = encode(entry)
            seq = log.append(self._ports.now_ns(), subject, payload)
            replaced = self._proposed.get(subject) or self._seqs.get(subject)
            if replaced is not None:
                log.remove(replaced)
            self._proposed[subject] = seq
            self._gone.pop(subject, None)
        self._waiting.append((seq, done))

    # --- what the log tells -----------------------------------------------------------------------------------------

    def message(self, seq: int, subject: bytes, payload: bytes) -> None:
        """See `LogListener.message`."""
        self._note(seq, subject, payload)
        old, new = self.state.apply(subject, payload)
        if old != new:
            self._listener.changed(old, new)

    def messages_anew(self, messages: list[tuple[int, bytes, bytes]]) -> None:
        """See `LogListener.messages_anew`."""
        before = dict(self.state.keys())
        self._seqs.clear()
        self._gone.clear()
        for seq, subject, payload in messages:
            self._note(seq, subject, payload)
            self.state.apply(subject, payload)
        present = {subject for _, subject, payload in messages if payload}
        for subject in before.keys() - present:
            self.state.remove(subject)
        now = self.state.keys()
        for subject in [*before.keys() - present, *now]:
            if before.get(subject) != now.get(subject):
                self._listener.changed(before.get(subject), now.get(subject))

    def applied(self) -> None:
        """See `LogListener.applied`."""
        done_seq = self._log.handed_seq
        while self._waiting and self._waiting[0][0] <= done_seq:
            self._waiting.pop(0)[1](True)
        if self.draft is not None and len(self._gone) > _GONE_KEPT:
            self._sweep()

    def leads(self, term: int) -> None:
        """See `LogListener.leads`."""
        self.draft = self.state.copy()
        self._sweep()
        self._listener.leads()

    def steps_down(self) -> None:
        """See `LogListener.steps_down`."""
        self.draft = None
        self._proposed.clear()
        waiting, self._waiting = self._waiting, []
        self._listener.steps_down()
        for _, done in waiting:
            done(False)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _note(self, seq: int, subject: bytes, payload: bytes) -> None:
        self._seqs[subject] = seq
        if self._proposed.get(subject) == seq:
            del self._proposed[subject]
        if payload:
            self._gone.pop(subject, None)
        elif subject not in self._proposed:
            self._gone[subject] = seq

    def _sweep(self) -> None:
        for subject, seq in self._gone.items():
            self._log.remove(seq)
            self._seqs.pop(subject, None)
        self._gone.clear()
