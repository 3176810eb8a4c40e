"""What follows from what the cluster agrees on: the streams that this server keeps, the calls that are its own.

    MetaGroup ──► changed ──► Hosting: streams and replicas of this server
              └─► leads ──► every server that is heard of becomes known to all
    gate(account) ──► which calls of the API are answered here
    questions of other servers ──► Descriptions

What this is not: the meta group itself, the founding, or connections (`server.cluster_node`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import Gate
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.file import FileStoreOptions
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.replication.announcements import Announcements
from slipstream.replication.cluster_blocks import ClusterBlocks
from slipstream.replication.descriptions import Descriptions
from slipstream.replication.hosting import Hosting
from slipstream.replication.ids import NO_NODE
from slipstream.replication.meta.entries import Assignment, Node, stream_key
from slipstream.replication.meta.founding import Charter
from slipstream.replication.meta.group import MetaGroup
from slipstream.replication.meta.moves import Left, Settled, noted
from slipstream.replication.meta.placement import Surroundings
from slipstream.replication.meta.responsibility import Responsibility, StreamRole, who_answers
from slipstream.replication.meta.state import MetaState
from slipstream.replication.origins import ORIGIN, Origins
from slipstream.replication.peer_calls import Answer, PeerCalls
from slipstream.replication.raft.groups import Groups
from slipstream.replication.restores import Restores
from slipstream.replication.servers import REMOVED, ClusterServers
from slipstream.replication.stepdown import next_leader

__all__ = ["CALLS_GROUP", "ClusterPlace", "Coordinator"]

CALLS_GROUP: Final = 1 << 63
"""In the place of a group's number: servers among themselves."""
_QUESTION, _ANSWER = 1, 2  # kinds of messages of it
_NOTE: Final = "note"  # what is said of a stream that moved
_SAID: Final = msgspec.msgpack.Decoder(Settled | Left)
_LEADERLESS_TICKS: Final = 30


class ClusterPlace(Protocol):
    """This server among the others. `server.cluster_node.ClusterNode` is one."""

    node: Node
    """This server."""
    groups: Groups
    """Those of this server."""

    @property
    def charter(self) -> Charter | None:
        """Which cluster this is, once that holds."""
        ...

    @property
    def is_removed(self) -> bool:
        """Whether this server was taken out of the cluster."""
        ...

    def leave(self) -> None:
        """This server was taken out of the cluster: it takes part no more, after a restart either."""
        ...

    @property
    def meta(self) -> MetaGroup | None:
        """The meta group, once there is one."""
        ...

    @property
    def reachable(self) -> Mapping[int, Node]:
        """Other servers that were heard of and can be reached, by their numbers."""
        ...

    def heard_ns(self, node: int) -> int:
        """When something came from another server last; 0: never."""
        ...


class Coordinator:
    """Of one server. Implements `MetaListener`, `ClusterView` and `ClusterFacts`."""

    def __init__(
        self,
        place: ClusterPlace,
        ports: Ports,
        account: Callable[[str], JetStreamAccount | None],
        disk: Disk,
        directory: str,
        options: Callable[[], FileStoreOptions],
        unique_tag: str = "",
        on_removed: Callable[[], None] = lambda: None,
        system: Advisories | None = None,
        on_meta_leader: Callable[[], None] = lambda: None,
    ) -> None:
        """No stream is known before the meta group tells.

        Args:
            place: this server among the others.
            ports: threads, time and the log.
            account: an account by its name, if it may use JetStream here.
            disk: where files are.
            directory: of replicas, one directory each.
            options: how a replica is stored.
            unique_tag: prefix of tags that servers of one stream must differ in.
            on_removed: is told when this server was taken out of the cluster.
            system: advisories of the system account, if there is one.
            on_meta_leader: is told when this server begins to lead the meta group, and when it does no more.
        """
        self._on_removed = on_removed
        self._on_meta_leader = on_meta_leader
        self._place = place
        self._ports = ports
        self._account = account
        self._unique_tag = unique_tag
        self._ticks = 0
        groups = place.groups
        self.hosting = Hosting(
            place.node.id,
            disk,
            directory,
            options,
            groups,
            ports,
            account,
            self._stream_changed,
            self._stream_released,
            self._stream_leaderless,
            self._say,
        )
        """The streams that are kept here."""
        self._descriptions = Descriptions(account, self.hosting, lambda: place.meta)
        self.calls = PeerCalls(
            place.node.id,
            lambda to, data: groups.send(CALLS_GROUP, to, data, kind=_QUESTION),
            lambda to, data: groups.send(CALLS_GROUP, to, data, kind=_ANSWER),
            ports.call_soon,
            self._answer,
        )
        """Questions to other servers."""
        self.origins = Origins(place.node.cluster, self.calls, lambda: place.reachable, ports.call_later)
        """Where calls come from."""
        self.handlers: dict[str, Callable[[bytes, Answer], None]] = {}
        """What else servers ask each other, by its name."""
        self.restores = Restores(account, self.hosting, lambda: place.meta, self._tell_all)
        """Backups that come in."""
        self.servers = ClusterServers(place, self.calls, self.name_of, lambda: self.around)
        """Those of the cluster."""
        self.blocks = ClusterBlocks(self, place, ports)
        """What is said about streams and groups."""
        self.announcements = Announcements(self, self.blocks, account, system, ports.log)
        """What those hear who listen for changes."""
        groups.add(CALLS_GROUP, self, self._hear)

    def close(self) -> None:
        """End; everything stays on disk."""
        self.hosting.close()

    # --- as a member of no group, where servers talk among themselves -------------------------------------------------

    def tick(self) -> None:
        """A tick has passed."""
        self._ticks += 1
        if self.meta is not None:
            self.meta.tick()
        self.hosting.tick()
        self.servers.tick()
        self._descriptions.tick()
        self.restores.tick()
        meta, own = self.meta, self.state.nodes.get(self.node.id)
        is_removed = meta is not None and own is not None and own.removed
        if meta is not None and is_removed and self.node.id not in (*meta.votes.voters, *meta.votes.learners):
            self._leave()

    def receive(self, message: bytes) -> bool:
        """There is no Raft here."""
        del message
        return False

    def unreachable(self, node: int) -> None:
        """Whoever asks has a time limit."""

    def _hear(self, sender: int, kind: int, body: memoryview) -> None:
        if kind == _QUESTION:
            self.calls.asked(sender, bytes(body))
        elif kind == _ANSWER:
            self.calls.answered(sender, bytes(body))

    def _answer(self, method: str, body: bytes, answer: Answer) -> None:
        if method == REMOVED:
            self._leave()
        elif method == _NOTE:
            self._note(body)
        elif method == ORIGIN:
            self.origins.answer(body, answer)
        elif method in self.handlers:
            self.handlers[method](body, answer)
        elif not self.restores.handle(method, body, answer):
            self._descriptions.handle(method, body, answer)

    def _tell_all(self, method: str, body: bytes) -> None:
        """Say something to all servers that nobody answers."""
        self.calls.ask(self.online, method, body, lambda *_: None)()

    def _say(self, said: Settled | Left) -> None:
        """A stream that is led here is where it should be, or one that was here is gone: the meta leader notes it."""
        if self.meta is not None and self.meta.leader != NO_NODE:
            body = msgspec.msgpack.encode(said)
            self.calls.ask([self.meta.leader], _NOTE, body, lambda _node, _body: None)()

    def _note(self, body: bytes) -> None:
        """Another server says so. What makes no sense is dropped."""
        with suppress(msgspec.DecodeError, UnicodeError):
            said = _SAID.decode(body)
            if self.meta is not None and self.meta.draft is not None:
                changed = noted(self.meta.draft.find(said.account, said.stream), said)
                if changed is not None:
                    self.meta.propose([changed], lambda _: None)

    # --- what the meta group tells (`MetaListener`) -------------------------------------------------------------------

    def changed(self, old: Node | Assignment | None, new: Node | Assignment | None) -> None:
        """See `MetaListener`."""
        if not isinstance(old, Node) and not isinstance(new, Node):
            self.hosting.assigned(old, new)
            self.restores.assigned(old, new)
            self._descriptions.look()

    def leads(self) -> None:
        """See `MetaListener`."""
        self._ports.log("INF", "Self is new JetStream cluster metadata leader")
        self.servers.tick()
        self.announcements.meta_elected()
        self._on_meta_leader()

    def steps_down(self) -> None:
        """See `MetaListener`."""
        self._ports.log("INF", "JetStream cluster metadata leader stepped down")
        self._on_meta_leader()

    def _leave(self) -> None:
        """This server was taken out of the cluster."""
        if not self._place.is_removed:
            self._ports.log("ERR", "JetStream being DISABLED, our server was removed from the cluster")
            self._place.leave()
            self.hosting.leave()
            self._on_removed()

    # --- facts ------------------------------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """This server."""
        return self._place.node

    @property
    def meta(self) -> MetaGroup | None:
        """The meta group, once there is one."""
        return self._place.meta

    @property
    def online(self) -> set[int]:
        """Servers that can be reached, this one among them."""
        return {self.node.id, *self._place.reachable}

    @property
    def around(self) -> Surroundings:
        """What placement has to know of servers."""
        return Surroundings(self.online, unique_tag=self._unique_tag, now_ns=self._ports.now_ns())

    @property
    def state(self) -> MetaState:
        """What is agreed on."""
        return self.meta.state if self.meta is not None else MetaState()

    @property
    def is_meta_leader(self) -> bool:
        """See `ClusterView`."""
        return self.meta is not None and self.meta.is_leader

    @property
    def is_leaderless(self) -> bool:
        """See `ClusterView`."""
        return self._ticks >= _LEADERLESS_TICKS if self.meta is None else self.meta.is_leaderless

    @property
    def meta_leader(self) -> str:
        """The name of who leads the meta group, empty if nobody is known to."""
        return self.name_of(self.meta.leader) if self.meta is not None else ""

    def name_of(self, node: int) -> str:
        """The name of a server."""
        if node == self.node.id:
            return self.node.name
        known, charter = self._place.reachable.get(node) or self.state.nodes.get(node), self._place.charter
        if known is not None:
            return known.name
        founders = dict(zip(charter.voters, charter.members, strict=True)) if charter is not None else {}
        return founders.get(node, "")

    def leader_of(self, assignment: Assignment) -> int:
        """Who leads a stream, as far as it is known here."""
        replica = self.hosting.kept.replica(assignment.account, assignment.name)
        group = replica.group if replica is not None else None
        return group.leader if group is not None else NO_NODE

    def stream(self, account: str, name: str) -> StreamRole:
        """See `ClusterView`."""
        assignment = self.state.find(account, name)
        if assignment is None or assignment.restoring:
            return StreamRole.MISSING
        here = self.hosting.kept.view(account, name)
        if here is not None:
            return here
        keep = assignment.moving_from or assignment.peers
        there = sum(peer in self.online for peer in keep)
        return StreamRole.ELSEWHERE if there > len(keep) // 2 else StreamRole.LEADERLESS

    def step_down(self, body: bytes) -> Callable[[], None]:
        """The leader of the meta group is to be another: what has it be so.

        Raises:
            ApiError: there is nobody.
        """
        meta = self.meta
        if meta is None or meta.draft is None:
            raise TableError(table.CLUSTER_NOT_LEADER)
        target = next_leader(bodies.decode_text(bodies.LEADER_STEPDOWN, body), self, meta.votes.voters, meta.lags())
        return lambda: meta.transfer(target)

    def purge(self, account: str) -> None:
        """On the leader of the meta group: have all streams of an account removed."""
        meta = self.meta
        assert meta is not None and meta.draft is not None
        keys = [stream_key(account, name) for name in meta.draft.account(account).streams]
        if keys:
            meta.propose(keys, lambda _: None)

    def hand_over(self) -> bool:
        """This server is about to leave: let others lead what it leads. Where nobody can, it goes on.

        Whether there is anything that others are about to lead.
        """
        handed = False
        for _, group in self.hosting.kept.leading():
            with suppress(ApiError):
                group.transfer(next_leader(bodies.LeaderStepdownRequest(), self, group.votes.voters, group.lags()))
                handed = True
        if self.is_meta_leader:
            with suppress(ApiError):
                self.step_down(b"")()
                handed = True
        return handed

    def move_leaders(self, account: str, but: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Let others lead the streams of an account that are led here, but for some; gives those that leave."""
        left: set[tuple[str, str]] = set()
        for assignment, group in self.hosting.kept.leading():
            name = assignment.account, assignment.name
            if assignment.account == account and name not in but:
                with suppress(ApiError):
                    group.transfer(next_leader(bodies.LeaderStepdownRequest(), self, group.votes.voters, group.lags()))
                    left.add(name)
        return left

    @property
    def leads_anything(self) -> bool:
        """Whether somebody would miss a leader if this server ended now."""
        return bool(self.hosting.kept.leading()) or self.is_meta_leader

    def block(self, account: str, stream: str) -> dict[str, object]:
        """See `jetstream.account.server.ClusterFacts`."""
        return self.blocks.block(account, stream)

    def group(self, account: str, stream: str) -> str:
        """See `ClusterFacts`."""
        return self.blocks.group(account, stream)

    def alternates(self, account: str, stream: str) -> list[dict[str, object]]:
        """See `jetstream.account.server.ClusterFacts`."""
        return self.blocks.alternates(account, stream)

    def consumer_elected(self, account: str, stream: str, consumer: str) -> None:
        """See `jetstream.account.server.ClusterFacts`."""
        self.announcements.consumer_elected(account, stream, consumer)

    def gate(self, account: str) -> Gate:
        """Which calls of an account's API are this server's."""

        def judge(call: str) -> bool | ApiError:
            if self._place.is_removed:
                return False
            verdict = who_answers(call, account, self)
            if verdict is Responsibility.HANDLE:
                return True
            if verdict is Responsibility.NOT_FOUND:
                # As a cluster of nats-server has it, where lists of consumers are not asked of the stream.
                if call.startswith("CONSUMER.LIST."):
                    return True
                return TableError(table.STREAM_NOT_FOUND)
            return TableError(table.CLUSTER_NOT_AVAIL) if verdict is Responsibility.UNAVAILABLE else False

        return judge

    def _stream_changed(self, assignment: Assignment) -> None:
        """A stream is led by another server, or by this one."""
        self._descriptions.look()
        self.restores.look()
        replica = self.hosting.kept.replica(assignment.account, assignment.name)
        if replica is not None and replica.stream is not None:
            self.announcements.elected(assignment, replica)

    def _stream_leaderless(self, assignment: Assignment) -> None:
        self.announcements.leaderless(assignment)

    def _stream_released(self, assignment: Assignment) -> None:
        self.restores.released(assignment)
