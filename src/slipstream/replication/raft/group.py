"""One member of one Raft group: between the Raft core, which only computes, and a log, a file of votes and a network.

    tick, receive, propose ──► RawNode ──► Ready ─┬─ votes changed: save them; everything below waits for it
                                                  ├─ entries: into the log, which has to be synced
                                                  ├─ a leader's messages: sent
                                                  └─ committed: applied
    persisted (the log is on disk up to `synced_index`) ──► what depended on it is sent: answers, votes

It decides nothing of the protocol. It keeps its promises to it: an entry is written after the term and the vote it
belongs to are saved, an answer leaves after what it promises is on disk, in the order they were made, a membership is
saved before anything is said under it.

What this is not: who writes. `GroupPorts` does all that takes time, and says when it is done; meanwhile messages are
taken in and nothing goes out. Nor does it know streams: `leads` and `steps_down` are where one begins and ends.

Invariants: `applied` moves forward, one `Ready` after another. A leader is told `leads` once a term, when everything in
its log is applied, and `steps_down` before anything of another leader is written. After `stopped` nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final
from weakref import proxy

from slipstream_raft import (
    ADD_LEARNER,
    ADD_VOTER,
    NORMAL,
    REMOVE,
    GroupStopped,
    ProposalDropped,
    RaftError,
    RawNode,
    Ready,
    Snapshot,
)

from slipstream.errors import SlipstreamError, StorageFault
from slipstream.jetstream.store.file.replica.log import Entry
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.ids import NO_NODE
from slipstream.replication.raft.ballot import Ballot
from slipstream.replication.raft.far_members import FarMembers
from slipstream.replication.raft.marks import ReplicaDamaged
from slipstream.replication.raft.member_steps import MemberKind, move_of
from slipstream.replication.raft.pending_reads import PendingReads, tell
from slipstream.replication.raft.ports import GroupFacts, GroupLog, GroupPorts
from slipstream.replication.raft.quiescence import RestPoint
from slipstream.replication.raft.settings import DEFAULTS, GroupSettings
from slipstream.replication.raft.waiting_answers import WaitingAnswers

__all__ = ["Group", "LedAway"]

_CHANGES: Final[dict[MemberKind, int]] = {"voter": ADD_VOTER, "learner": ADD_LEARNER, "gone": REMOVE}
_LEADER: Final = "leader"
_REPLICATE: Final = "statereplicate"  # how Raft calls a member that is sent what is new
_BEYOND_THE_LOG: Final = "to_commit"  # what Raft stops with if the leader says that more is committed than is here
_VOTE_ANSWERS: Final = (6, 18)  # kinds of Raft's messages: to a request for a vote, and for a vote in advance


class LedAway(SlipstreamError):
    """This leader has applied that it is no member any more: it begins anew, as one that only listens."""


class Group:
    """A member."""

    __slots__ = (
        "__weakref__",
        "_applied_term",
        "_ballot",
        "_draining",
        "_ended",
        "_far",
        "_first_index",
        "_first_ticks",
        "_hard_state",
        "_holding",
        "_last_seen",
        "_leads",
        "_led_away",
        "_log",
        "_makes_ready",
        "_node",
        "_ports",
        "_quiet_ticks",
        "_random_below",
        "_reads",
        "_ready",
        "_rests",
        "_role",
        "_ticks_to_hold",
        "_transfer_ticks",
        "_waiting",
        "applied",
        "leader",
        "node",
        "settings",
        "term",
    )

    def __init__(
        self,
        node: int,
        log: GroupLog,
        votes: Votes,
        ports: GroupPorts,
        random_below: Callable[[int], int],
        settings: GroupSettings = DEFAULTS,
        *,
        applied: int,
    ) -> None:
        """As its files say: the log, which is applied up to `applied`, and the votes. A follower at first.

        Raises:
            StorageFault: they contradict each other; this member must not take part as it is.
        """
        self.node = node
        """This node."""
        self._log = log
        self._ballot = Ballot(node, votes)
        self._ports = ports
        self._random_below = random_below
        self.settings = settings
        """Its numbers."""
        self.applied = applied
        """Index of the last entry that is applied."""
        self._applied_term = 0
        self.term = votes.term
        """The latest it has heard of."""
        self.leader = NO_NODE
        """Who leads, as far as is known here."""
        self._role = ""
        self._hard_state = (votes.term, votes.vote, max(votes.commit, applied))
        self._leads = False  # ... and `leads` was called
        self._led_away = False  # it leads, and is no member any more
        self._transfer_ticks = 0  # a transfer may still be under way
        self._holding = False
        self._ended = False
        self._draining = False
        self._makes_ready = False
        self._ready: Ready | None = None  # taken, and waits for its votes
        self._waiting = WaitingAnswers()
        self._far = FarMembers()
        self._first_index = log.first_index  # as the core knows it
        self._ticks_to_hold = 0
        self._reads = PendingReads()
        self._rests = False
        # Who led last asks first: after a start of all nobody waits until an election is due. Who has a leader does
        # not listen.
        self._first_ticks = settings.election_ticks if votes.vote == node else 0
        self._quiet_ticks = 0
        self._last_seen = (0, 0, 0)  # with the tick before: what changes whenever something happens
        try:
            self._node = RawNode(
                node,
                # A cycle through the core would never be freed: Python's collector does not look into it.
                proxy(self),
                hard_state=self._hard_state,
                conf_state=votes.members,
                first_index=log.first_index,
                last_index=log.last_index,
                terms=log.terms(),
                applied=applied,
                election_tick=settings.election_ticks,
                heartbeat_tick=settings.heartbeat_ticks,
                max_size_per_msg=settings.message_bytes,
                max_inflight_msgs=settings.messages_in_flight,
                max_uncommitted_size=settings.uncommitted_bytes,
                max_committed_size_per_ready=settings.apply_bytes,
                window_bytes=settings.window_bytes,
                skip_bcast_commit=not settings.tells_commits,
            )
        except RaftError as error:
            raise StorageFault(f"log and votes contradict each other: {error}") from error
        self._roll()

    # --- facts ------------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether Raft has it for the leader; `leads` comes later."""
        return self._role == _LEADER

    @property
    def is_stopped(self) -> bool:
        """Whether it does nothing any more."""
        return self._ended

    @property
    def votes(self) -> Votes:
        """As they were saved last, or are being saved."""
        return self._ballot.votes

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for a disk or for whoever holds it."""
        return not (self._ballot.saving or self._holding or self._waiting)

    @property
    def may_vote(self) -> bool:
        """Whether it has all that its votes promise: see `Votes.floor_index`."""
        return self._ballot.may_vote(self._log)

    def lags(self) -> dict[int, int]:
        """On a leader: how many committed entries each of the others is not known to have; others are on their way."""
        if self._ended or not self.is_leader:
            return {}
        status = self._node.status()
        return {node: max(0, status.committed - at) for node, (at, *_) in status.progress if node != self.node}

    def caught_up(self, entries: int) -> set[int]:
        """On a leader: the members that answer, and have all, or are sent what is new and miss no more than so many."""
        if self._ended or not self.is_leader:
            return set()
        status = self._node.status()
        last = status.last_index

        def is_near(matched: int, state: str) -> bool:
            return matched == last or (state == _REPLICATE and matched >= last - entries)

        return {
            node
            for node, (matched, _, state, is_active, _) in status.progress
            if node == self.node or (is_active and is_near(matched, state))
        }

    def facts(self) -> GroupFacts:
        """What monitoring shows."""
        log, votes = self._log, self.votes
        state = "CLOSED" if self._ended else self._role.upper() or "FOLLOWER"
        return GroupFacts(
            state,
            self.leader,
            self.term,
            votes.vote,
            self.applied,
            log.first_index,
            log.last_index,
            tuple(votes.voters),
        )

    # --- events -----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A tick has passed. One that was missed is never made up for."""
        self._transfer_ticks = max(self._transfer_ticks - 1, 0)
        if self._leads and not self._ended:
            self._hold()
        if self.is_leader or self.may_vote:
            self._do(self._campaign_first if self._first_ticks else self._node.tick)
        seen = (self.term, self._log.last_index, self._reads.number)
        self._quiet_ticks = self._quiet_ticks + 1 if seen == self._last_seen else 0
        self._last_seen = seen

    def receive(self, message: bytes) -> bool:
        """A message of another member; False: it says nothing to this group, and was dropped."""
        try:
            return self._do(lambda: self._node.step(message))
        except RaftError:
            return False

    def propose(self, frames: Sequence[bytes]) -> bool:
        """A leader's next entries, which are in its log already. False: it leads no more, and has been told."""
        try:
            if self._leads and self._do(lambda: self._node.propose(frames)):
                return self._leads
        except ProposalDropped:
            self._step_down()
        return False

    def change(self, changes: Sequence[tuple[MemberKind, int]], move: int = 0) -> bool:
        """Propose another membership: what becomes of which node, and for which wish. False: not now.

        More than one change at once makes a joint state, which has to be left: nothing in the list. The entry is Raft's
        own: it is written now, so whatever the leader appended before must be proposed.
        """
        joint = 2 if len(changes) > 1 else 0
        steps, context = [(_CHANGES[kind], node) for kind, node in changes], move.to_bytes(8, "big") if move else None
        try:
            return self._leads and self._do(
                lambda: self._node.propose_conf_change(steps, transition=joint, context=context)
            )
        except RaftError:
            return False

    def persisted(self) -> None:
        """The log is on disk up to its `synced_index`."""
        if self._ended or not self._waiting:
            return
        done = self._waiting.done(self._log.synced_index)
        if done:
            self._do(lambda: self._persist(done))

    def votes_saved(self, version: int) -> None:
        """The votes of this version are on disk."""
        if self._ballot.saved(version):
            self._drain()

    def hold(self) -> None:
        """Write and apply nothing until `resume`: the log is being opened again."""
        self._holding = True

    def resume(self, log: GroupLog) -> None:
        """Go on with this log: all it has is on disk. What Raft takes to be on its way there is written again."""
        self._log = log
        self._holding = False
        if not self._ended:
            self._write_again()
        self.persisted()
        self._drain()

    def confirm(self, reads: Sequence[Callable[[bool], None]]) -> None:
        """Tell these when it is certain that nobody else led when they were asked, and all that was committed then is
        applied; False: this node leads no more."""
        if not self._leads:
            tell(reads, leads=False)
            return
        context = self._reads.begin(reads)
        self._do(lambda: self._node.read_index(context))

    def ask_to_read(self, context: bytes, read: Callable[[bool], None]) -> None:
        """On any member: tell when all is applied here that was committed when this was called.

        The leader is asked, and nobody is told if it does not answer: see `forget_read`. False: this member has ended.

        Args:
            context: longer than those of `confirm`, and never used before by any member.
            read: told once.
        """
        self._reads.ask(context, read)
        if self._ended or not self._do(lambda: self._node.read_index(context)):
            self.forget_read(context)

    def forget_read(self, context: bytes) -> None:
        """Whoever asked to read waits no more."""
        self._reads.forget(context)

    def has_taken(self, node: int, index: int, term: int) -> None:
        """This follower says that it has all up to this entry: Raft asks it, with a snapshot that has no data."""
        self._far.taken(node, index, term)

    def transfer(self, to: int) -> None:
        """Have this member lead, if it can. This one takes nothing more, and leads again if nothing comes of it."""
        if self._leads:
            self._transfer_ticks = self.settings.election_ticks + 1  # so long Raft would drop proposals
            self._step_down()
            self._do(lambda: self._node.transfer_leader(to))

    def campaign(self) -> None:
        """Ask for votes now. Raft does not look whether this is a member, and could not lead if it is none."""
        if self.may_vote and self._ballot.is_voter:
            self._do(lambda: self._node.campaign())

    def unreachable(self, node: int) -> None:
        """Something for this node was lost on the way."""
        if self.is_leader:
            self._do(lambda: self._node.report_unreachable(node))

    def stop(self) -> None:
        """Do nothing any more, and call nobody but those who wait to read."""
        self._ended = True
        self._reads.drop()

    def fail(self, error: Exception) -> None:
        """Something that it needs is broken."""
        if not self._ended:
            self.stop()
            self._ports.stopped(error)

    # --- with nothing to do: see `QuiescentMember` ------------------------------------------------------------------

    def rest_point(self, without: Collection[int]) -> RestPoint | None:
        """A leader's, once every `quiet_ticks` while nothing happens, if the others have all it has."""
        quiet, index = self._quiet_ticks, self._log.last_index
        if not self._leads or not quiet or quiet % self.settings.quiet_ticks or not self._is_at(index):
            return None
        if self._ballot.is_changing or self._reads:
            return None
        progress = self._node.status().progress
        matched = all(match == index for node, (match, *_) in progress if node not in without)
        return RestPoint(self.term, index) if matched else None

    def others(self) -> Collection[int]:
        """All but this one."""
        return self._ballot.others()

    def is_majority(self, nodes: Collection[int]) -> bool:
        """Of the voters; while these change nobody rests."""
        return self._ballot.is_majority(nodes)

    def may_rest(self, leader: int, point: RestPoint) -> bool:
        """A follower that has nothing that its leader has not."""
        follows = leader == self.leader and not self.is_leader
        return follows and point.term == self.term and self._is_at(point.last_index)

    def rest(self) -> None:
        """The next event is no tick."""
        self._rests = True
        self._ports.rests()

    def wake(self) -> None:
        """In case of doubt."""
        if self._rests:
            self._rests = False
            self._quiet_ticks = 0
            self._ports.wakes()

    def _is_at(self, index: int) -> bool:
        """Whether the log ends here, and there is nothing left to do with it."""
        idle = self.is_settled and self._ready is None and not (self._ended or self._transfer_ticks)
        return idle and self.applied == index == self._log.last_index

    # --- the Raft core reads ----------------------------------------------------------------------------------------

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """See `slipstream_raft.LogReader`."""
        read = self._log.heads if self._makes_ready else self._log.entries
        return read(low, high, max_bytes)

    def snapshot(self, request_index: int, to: int) -> Snapshot | None:
        """See `slipstream_raft.LogReader`: whoever is so far behind gets whole segments, beside Raft."""
        found = self._far.asked(to, request_index)
        return None if found is None else (*found, self.votes.members, b"")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[], object]) -> bool:
        """Something for the core, and all that follows from it; False: the group is or was stopped."""
        if self._ended or self._led_away:
            return False
        self.wake()
        try:
            if self._log.first_index != self._first_index:
                self._compact()
            work()
        except GroupStopped as error:
            self.fail(_meaning(error))
            return False
        self._drain()
        return not self._ended

    def _campaign_first(self) -> None:
        """In the place of a tick, soon after a start; every other time, because an answer takes a moment."""
        self._first_ticks = self._first_ticks - 1 if self.leader == NO_NODE else 0
        if self._first_ticks % 2 and self._role != _LEADER and self._ballot.is_voter:
            self._node.campaign()
        else:
            self._node.tick()

    def _hold(self) -> None:
        """Now and then: keep what members lack that are there. Who is away may need more than entries."""
        self._ticks_to_hold -= 1
        if self._ticks_to_hold <= 0:
            self._ticks_to_hold = self.settings.election_ticks
            progress = self._node.status().progress
            matched = [match for _, (match, _, _, is_active, _) in progress if is_active]
            self._log.hold(min(matched, default=self._log.last_index) + 1)

    def _compact(self) -> None:
        """The log begins later than it did: the core must not ask for what is gone."""
        try:
            self._node.compact(self._log.first_index - 1)
        except RaftError:
            return  # it does not know yet how far the log is on disk: with the next event
        self._first_index = self._log.first_index

    def _drain(self) -> None:
        """Everything the core wants done, until something has to be waited for."""
        if self._draining or self._ended:
            return
        self._draining = True
        try:
            while not (self._ballot.saving or self._holding or self._ended):
                if self._ready is not None:
                    ready, self._ready = self._ready, None
                    self._carry_out(ready)
                elif (new := self._next_ready()) is not None:
                    self._ready = new  # what it says of votes and roles comes first, and may have to be waited for
                    self._take_note(new)
                elif not self._look_at_lead():
                    break
        except GroupStopped as error:
            self.fail(_meaning(error))
        except StorageFault as error:
            self.fail(error)
        finally:
            self._draining = False
        while not self._ended and (node := self._far.next_behind()) is not None:
            self._ports.behind(node)

    def _next_ready(self) -> Ready | None:
        """What the core reads for it are entries that are committed: their data are read when they are applied."""
        self._makes_ready = True
        try:
            return self._node.ready()
        finally:
            self._makes_ready = False

    def _take_note(self, ready: Ready) -> None:
        """Term, vote, membership and roles that are new with this."""
        if ready.hard_state is not None:
            self._hard_state = ready.hard_state
        term, vote, commit = self._hard_state
        if ready.soft_state is not None:
            self.leader, self._role = ready.soft_state
        if term != self.term or ready.soft_state is not None:
            self._roll()
        if self._leads and (term != self.term or self._role != _LEADER):
            self._step_down()
        if term != self.term:
            self._transfer_ticks = 0
        self.term = term
        votes = self.votes
        for index, _, kind, data in ready.committed:
            if kind != NORMAL and index > votes.applied_conf:
                members = self._node.apply_conf_change(kind, data)
                votes = votes.with_members(members, index, max(votes.move, move_of(data)))
        # What is applied is synced, and its memberships are in these votes.
        new = self._ballot.begin_saving(votes, term, vote, min(commit, self.applied))
        if new is not None:
            # Elected by those that were before, with the end of that in its log: Raft would go on to lead, and panic.
            self._led_away = self._role == _LEADER and not self._ballot.is_member
            self._ports.save_votes(new)

    def _carry_out(self, ready: Ready) -> None:
        log, ports = self._log, self._ports
        if ready.snapshot is not None:
            raise StorageFault("the leader takes this member to have what it has not")
        if self._led_away:
            for to, _, message in ready.messages:
                ports.send(to, message)
            self.fail(LedAway())
            return
        if ready.entries:
            log.write(ready.entries)
        # Answers leave in their order: one that promises nothing new waits for those before it all the same.
        self._waiting.add(ready, log.last_index)
        if log.synced_index == log.last_index:
            self._persist(ready.number)
        else:
            ports.sync_log()
        for to, _, message in ready.messages:
            ports.send(to, message)
        while (node := self._far.next_told()) is not None:
            # The question may get lost, and would never be asked again: go on as if it was answered.
            self._node.report_snapshot(node, ok=True)
        if ready.committed:
            ports.committed(ready.committed)
            self.applied, self._applied_term = ready.committed[-1][:2]
            self._node.advance_apply_to(self.applied)
        self._reads.confirm(ready.read_states)
        if not self._holding:
            self._reads.let_read(self.applied)

    def _write_again(self) -> None:
        """Entries of Raft's own, such as a membership, may have been in the memory of the log that was before."""
        log = self._log
        try:
            for entries in self._waiting.entries():
                log.write(entries)
        except StorageFault as fault:
            self.fail(fault)
            return
        if log.synced_index != log.last_index:
            self._ports.sync_log()

    def _persist(self, number: int) -> None:
        """All up to this `Ready` is on disk."""
        self._node.on_persist_ready(number)
        for to, kind, message in self._waiting.take(number):
            if kind not in _VOTE_ANSWERS or self.may_vote:
                self._ports.send(to, message)

    def _look_at_lead(self) -> bool:
        """Nothing is left to do: whether a leader has everything applied, and begins."""
        begins = (
            self._role == _LEADER
            and not (self._leads or self._transfer_ticks)
            and self._applied_term == self.term
            and self.applied == self._log.last_index
        )
        if begins:
            self._leads = True
            self._ports.leads(self.term)
        return begins

    def _step_down(self) -> None:
        if self._leads:
            self._leads = False
            self._reads.drop()
            self._ports.steps_down()

    def _roll(self) -> None:
        """Dice for the next election."""
        settings = self.settings
        ticks = settings.election_ticks + self._random_below(settings.election_spread)
        self._node.set_randomized_election_timeout(ticks)


def _meaning(error: GroupStopped) -> Exception:
    """Why Raft stopped. A leader says that entries are committed only to who has acknowledged them: if they are not
    here, the end of the log was lost, and looked like the end that a crash leaves."""
    lost = _BEYOND_THE_LOG in str(error)
    return ReplicaDamaged(f"entries that were acknowledged are not in the log: {error}") if lost else error
