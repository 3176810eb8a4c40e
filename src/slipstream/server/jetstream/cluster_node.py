"""This server as a node of its cluster: the founding, the meta group, and one clock for all groups.

    join(links) ──► founding ──all have promised──► the meta group's log is opened ──► the meta group

Files are in a directory that no account can have::

    <store_dir>/jetstream/+cluster/PROMISE, PROMISE.2
                                               who this server is, and which cluster it belongs to, twice
    <store_dir>/jetstream/+cluster/VOTE, log/  the meta group, a replica (`replication.replica.files`)

What this is not: what is agreed on, and what follows from it (`MetaListener`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from slipstream.replication.ids import link_number
from slipstream.replication.meta.entries import Node
from slipstream.replication.meta.founding import Charter, Founding, Promise
from slipstream.replication.meta.group import MetaGroup, MetaListener
from slipstream.replication.meta.log import make_log, meta_files
from slipstream.replication.meta.promise_file import PromiseFile
from slipstream.replication.raft.groups import TICK_NS, Batch, Groups
from slipstream.replication.replica.stream_replica import RETRY_NS
from slipstream.server.jetstream.replica_transport import ReplicaTransport

if TYPE_CHECKING:
    import asyncio

    from slipstream.jetstream.ports import Ports
    from slipstream.jetstream.store.file import FileStoreOptions
    from slipstream.jetstream.store.file.disk.disk import Disk
    from slipstream.links.routes.mesh import Mesh
    from slipstream.server.turns import Turns

__all__ = ["ClusterNode"]

_FOUNDING: Final = 0  # number of the group that stands for the founding: no group has it
_FOUNDING_MESSAGE: Final = 1
_FOUNDING_TICKS: Final = 5  # so often what was said of the founding is said again


class ClusterNode:
    """Takes part from `join` on.

    Args:
        node: who this server is.
        promise: what it has promised.
        promises: where that is kept.
        ports: threads, dice, time and log.
        turns: the loop.
        disk: where files are.
        directory: of the meta group and of replicas.
        options: of the log's store, replicated.
        listener: makes what acts on what the meta group agrees on.
        far: how many servers of other clusters are expected; None: there are no other clusters.
    """

    def __init__(
        self,
        node: Node,
        promise: Promise,
        promises: PromiseFile,
        ports: Ports,
        turns: Turns,
        disk: Disk,
        directory: str,
        options: Callable[[], FileStoreOptions],
        listener: Callable[[ClusterNode], MetaListener],
        far: Callable[[], int] | None = None,
    ) -> None:
        self.node = node
        self._ports = ports
        self._turns = turns
        self._disk = disk
        self.directory = directory
        self._promises = promises
        self._promise = promise
        self._options = options
        self.groups: Groups = Groups(self, ports.call_soon)
        """All groups of this server."""
        self.meta: MetaGroup | None = None
        """The meta group, once there is one."""
        self._mesh: Mesh | None = None
        self._transport: ReplicaTransport | None = None
        self._founding: Founding | None = None
        self._ticks = 0
        self._heard_ns: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._far = far
        self._listener = listener(self)

    # --- life ---------------------------------------------------------------------------------------------------------

    def join(self, mesh: Mesh) -> None:
        """Other servers can be reached from now on."""
        assert mesh.replicas is not None
        self._mesh = mesh
        self._timer = self._turns.call_later(TICK_NS, self._on_tick)
        if self._promise.removed:
            self.trouble(f"this server was removed from the cluster. To have it join again, empty {self.directory}")
            return
        self._founding = Founding(
            self.node, self._size(), self._promise, _FoundingEdge(self), spans_clusters=self._far is not None
        )
        self.groups.add(_FOUNDING, _NoRaft(), self._on_founding)
        self._transport = ReplicaTransport(mesh.replicas, self._received, self._reached, self._lost)
        self._founding.start()

    def stop(self) -> None:
        """Take part no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self.meta is not None:
            self.meta.close()

    def heard_ns(self, node: int) -> int:
        """When something came from another server last; 0: never."""
        return self._heard_ns.get(node, 0)

    def _received(self, sender: int, batch: Batch) -> None:
        self._heard_ns[sender] = self._ports.now_ns()
        self.groups.received(sender, batch)

    @property
    def reachable(self) -> dict[int, Node]:
        """Other servers that were heard of and can be reached, by their numbers."""
        return {} if self._founding is None else self._founding.near

    @property
    def charter(self) -> Charter | None:
        """Which cluster this is, once that holds."""
        founding = self._founding
        return founding.charter if founding is not None and founding.holds else None

    @property
    def is_removed(self) -> bool:
        """Whether this server was taken out of the cluster."""
        return self._promise.removed

    def leave(self) -> None:
        """This server was taken out of the cluster: it takes part no more, after a restart either."""
        self.save_promise(replace(self._promise, removed=True), lambda: None)
        if self.meta is not None:
            self.meta.close()

    def send(self, to: int, batch: Sequence[tuple[int, bytes]]) -> bool:
        """Hand messages of groups over; see `Transport`."""
        return self._transport is not None and self._transport.send(to, batch)

    def _on_tick(self) -> None:
        if self._stopped:
            return
        self._timer = self._turns.call_later(TICK_NS, self._on_tick)
        try:
            self.groups.tick()
            self._ticks += 1
            if self._founding is not None and self._ticks % _FOUNDING_TICKS == 0:
                self._founding.expect(self._size())
                self._founding.tick(self._ports.now_ns())
        except Exception as error:
            self._ports.report("A tick of the cluster", error)

    # --- the founding -------------------------------------------------------------------------------------------------

    def _size(self) -> int:
        """How many servers are configured: a route to this one counts as this one."""
        assert self._mesh is not None
        return len(self._mesh.dials.configured_peers()) + 1 + (0 if self._far is None else self._far())

    def _reached(self, name: str) -> None:
        if self._founding is not None:
            self._founding.peer_up(name)

    def _lost(self, name: str, member: int | None) -> None:
        if member is not None:
            self.groups.peer_down(member)
        if self._founding is not None:
            self._founding.peer_down(name)

    def _on_founding(self, sender: int, kind: int, body: memoryview) -> None:
        name = self._transport.name_of(sender) if self._transport is not None else None
        if kind == _FOUNDING_MESSAGE and self._founding is not None and name is not None:
            self._founding.receive(name, bytes(body))

    def send_founding(self, to: str, message: bytes) -> None:
        """Tell another server, if it can be reached."""
        self.groups.send(_FOUNDING, link_number(to), message, kind=_FOUNDING_MESSAGE)

    def met(self, node: Node) -> None:
        """A server has told which member it is."""
        if self._transport is not None:
            self._transport.knows(node.name, node.id)
            self.groups.peer_up(node.id)

    def save_promise(self, promise: Promise, saved: Callable[[], None]) -> None:
        """Keep a promise in the place of the one before."""
        failed: list[Exception] = []
        self._promise = promise

        def save() -> None:
            try:
                self._promises.save(promise)
            except Exception as error:
                failed.append(error)

        def done() -> None:
            if failed:
                self._ports.log("ERR", f"The founding of the cluster could not be kept: {failed[0]}")
            elif not self._stopped:
                saved()

        self._ports.run_blocking(save, done)

    # --- the meta group -----------------------------------------------------------------------------------------------

    def open_meta(self, charter: Charter) -> None:
        """The cluster is founded: make the log of its meta group, if it is not there, and take part."""
        failed: list[Exception] = []
        files, was_made = meta_files(self._disk, self.directory, self._options), self._promise.has_votes

        def make() -> None:
            try:
                make_log(files, charter, was_made=was_made)
            except Exception as error:
                failed.append(error)

        def made() -> None:
            if self._stopped:
                return
            if failed:
                self.trouble(f"the log of the meta group cannot be made: {failed[0]}")
                self._turns.call_later(RETRY_NS, lambda: self.open_meta(charter))
            elif was_made:
                begin()
            else:
                self.save_promise(replace(self._promise, has_votes=True), begin)

        def begin() -> None:
            if not self._stopped:
                self._ports.log("INF", f"JetStream cluster of {', '.join(charter.members)}")
                self.meta = MetaGroup(
                    self.node.id, files, self._ports, self.groups, self._listener, lambda: list(self.reachable)
                )
                self.meta.start()

        self._ports.run_blocking(make, made)

    def trouble(self, text: str) -> None:
        """This server cannot take part."""
        self._ports.log("ERR", f"JetStream cluster: {text}")


class _NoRaft:
    """In the place of a member, where only founding messages come."""

    def tick(self) -> None:
        """There is nothing that waits."""

    def receive(self, message: bytes) -> bool:
        """No message of Raft is for this."""
        del message
        return False

    def unreachable(self, node: int) -> None:
        """What is lost is said again."""


class _FoundingEdge:
    """The surroundings of a founding. Implements `FoundingPorts`."""

    def __init__(self, cluster: ClusterNode) -> None:
        self.send = cluster.send_founding
        self.met = cluster.met
        self.save = cluster.save_promise
        self.founded = cluster.open_meta
        self.trouble = cluster.trouble
