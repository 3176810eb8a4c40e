"""This server as a node of its cluster: the founding, the meta group, and one clock for all groups.

    join(links) ──► founding ──all have promised──► the meta group's log is opened ──► the meta group

Files are in a directory that no account can have::

    <store_dir>/jetstream/+cluster/PROMISE, PROMISE.2
                                               which cluster this server belongs to, once and for ever, twice
    <store_dir>/jetstream/+cluster/VOTE, log/  the meta group

What this is not: what is agreed on, and what follows from it (`MetaListener`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.compaction import write_whole_file
from slipstream.jetstream.store.file.disk import make_dirs
from slipstream.kernels.log.record import crc32c
from slipstream.replication.groups import TICK_NS, Groups
from slipstream.replication.ids import META_GROUP
from slipstream.replication.meta.entries import Node
from slipstream.replication.meta.founding import Charter, Founding, Promise, decode_promise, encode_promise
from slipstream.replication.meta.group import MetaGroup, MetaListener
from slipstream.replication.meta.log import OpenedLog, open_log
from slipstream.server.replica_transport import ReplicaTransport

if TYPE_CHECKING:
    import asyncio

    from slipstream.jetstream.ports import Ports
    from slipstream.jetstream.store.file import FileStoreOptions
    from slipstream.jetstream.store.file.disk import Disk
    from slipstream.links.routes.mesh import Mesh
    from slipstream.server.turns import Turns

__all__ = ["CLUSTER_DIRECTORY", "ClusterNode"]

CLUSTER_DIRECTORY: Final = "+cluster"
"""Beside the directories of accounts, whose names have no such character."""
_PROMISES: Final = ("PROMISE", "PROMISE.2")  # damage to one of them costs nothing
_CHECKSUM: Final = struct.Struct("<I")  # stands before a promise
_FOUNDING: Final = 0  # number of the group that stands for the founding: no group has it
_FOUNDING_MESSAGE: Final = 1
_FOUNDING_TICKS: Final = 5  # so often what was said of the founding is said again


class ClusterNode:
    """Takes part from `join` on.

    Args:
        node: who this server is.
        ports: threads, dice, time and log.
        turns: the loop.
        disk: where files are.
        directory: of JetStream.
        options: of the log's store, replicated.
        listener: makes what acts on what the meta group agrees on.
    """

    def __init__(
        self,
        node: Node,
        ports: Ports,
        turns: Turns,
        disk: Disk,
        directory: str,
        options: Callable[[], FileStoreOptions],
        listener: Callable[[ClusterNode], MetaListener],
    ) -> None:
        self.node = node
        self._ports = ports
        self._turns = turns
        self._disk = disk
        self.directory = os.path.join(directory, CLUSTER_DIRECTORY)
        self._above = directory
        self._options = options
        self.groups: Groups = Groups(self, ports.call_soon)
        """All groups of this server."""
        self.meta: MetaGroup | None = None
        """The meta group, once there is one."""
        self._mesh: Mesh | None = None
        self._transport: ReplicaTransport | None = None
        self._founding: Founding | None = None
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._listener = listener(self)

    # --- life ---------------------------------------------------------------------------------------------------------

    def join(self, mesh: Mesh) -> None:
        """Other servers can be reached from now on. If what was promised cannot be read, nothing is: it stays out."""
        assert mesh.replicas is not None
        self._mesh = mesh
        self._timer = self._turns.call_later(TICK_NS, self._on_tick)
        try:
            make_dirs(self._disk, self.directory, below=self._above)
            promise = self._promise()
        except (OSError, StorageFault, ValueError) as error:
            self.trouble(str(error))
            return
        self._founding = Founding(self.node, self._size(), promise, _FoundingEdge(self))
        self.groups.add(_FOUNDING, _NoRaft(), self._on_founding)
        self._transport = ReplicaTransport(mesh.replicas, self.groups.received, self._reached, self._lost)
        self._founding.start()

    def stop(self) -> None:
        """Take part no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self.meta is not None:
            self.meta.close()

    @property
    def reachable(self) -> dict[int, Node]:
        """Other servers that were heard of and can be reached, by their numbers."""
        return {} if self._founding is None else dict(self._founding.near)

    @property
    def charter(self) -> Charter | None:
        """Which cluster this is, once that holds."""
        founding = self._founding
        return founding.charter if founding is not None and founding.holds else None

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
            if self._founding is not None and not self._founding.holds and self._ticks % _FOUNDING_TICKS == 0:
                self._founding.expect(self._size())
                self._founding.tick(self._ports.now_ns())
        except Exception as error:
            self._ports.report("A tick of the cluster", error)

    # --- the founding -------------------------------------------------------------------------------------------------

    def _size(self) -> int:
        """How many servers are configured: a route to this one counts as this one."""
        assert self._mesh is not None
        return len(self._mesh.configured_peers()) + 1

    def _promise(self) -> Promise | None:
        """What was promised, None if nothing ever was.

        Raises:
            StorageFault: something was, and cannot be read any more.
        """
        there = [name for name in _PROMISES if name in self._disk.list_dir(self.directory)]
        found: list[Promise] = []
        for name in there:
            data = self._disk.read(f"{self.directory}/{name}", 0, 1 << 20)
            if data[: _CHECKSUM.size] == _CHECKSUM.pack(crc32c(data[_CHECKSUM.size :])):
                found.append(decode_promise(data[_CHECKSUM.size :]))
            else:
                self._ports.log("WRN", f"{self.directory}/{name} is damaged")
        if there and not found:
            raise StorageFault("the promise of this server cannot be read: it must not take part", path=self.directory)
        return max(found, key=lambda promise: promise.holds, default=None)

    def _reached(self, node: int, _name: str) -> None:
        self.groups.peer_up(node)
        if self._founding is not None:
            self._founding.peer_up(node)

    def _lost(self, node: int) -> None:
        self.groups.peer_down(node)
        if self._founding is not None:
            self._founding.peer_down(node)

    def _on_founding(self, sender: int, kind: int, body: memoryview) -> None:
        if kind == _FOUNDING_MESSAGE and self._founding is not None:
            self._founding.receive(sender, bytes(body))

    def send_founding(self, to: int, message: bytes) -> None:
        """Tell another server, if it can be reached."""
        self.groups.send(_FOUNDING, to, message, kind=_FOUNDING_MESSAGE)

    def save_promise(self, promise: Promise, saved: Callable[[], None]) -> None:
        """Keep a promise in the place of the one before."""
        body = encode_promise(promise)
        data = _CHECKSUM.pack(crc32c(body)) + body
        failed: list[Exception] = []

        def save() -> None:
            try:
                for name in _PROMISES:
                    write_whole_file(self._disk, f"{self.directory}/{name}", data)
                    self._disk.sync_dir(self.directory)
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
        """The cluster is founded: open the log of its meta group."""
        found: list[OpenedLog | Exception] = []

        def open_() -> None:
            try:
                found.append(open_log(self._disk, self.directory, charter, self._options()))
            except Exception as error:
                found.append(error)

        def opened() -> None:
            (log,) = found
            if isinstance(log, Exception):
                self._listener.stopped(log)
            elif not self._stopped:
                self._ports.log("INF", f"JetStream cluster of {', '.join(charter.members)}")
                self.meta = MetaGroup(self.node.id, log, self._ports, self.groups, self._listener)
                self.groups.add(META_GROUP, self.meta)
                self.meta.start()

        self._ports.run_blocking(open_, opened)

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
        self.save = cluster.save_promise
        self.founded = cluster.open_meta
        self.trouble = cluster.trouble
