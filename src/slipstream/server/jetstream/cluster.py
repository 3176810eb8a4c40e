"""JetStream of a server in a cluster: the node, and what follows from what servers agree on.

Imported only where there is a cluster: a single server needs no Raft.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slipstream.jetstream.advisories import Advisories
from slipstream.links.presence import LinkMember
from slipstream.replication.api.cluster import ClusterApi
from slipstream.replication.api.moves import MoveApi
from slipstream.replication.api.restore import ClusterRestoreApi
from slipstream.replication.api.template_streams import StreamMaking, TemplateStreams
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.ids import node_id
from slipstream.replication.meta.entries import Node
from slipstream.replication.meta.promise_file import INCARNATION_BYTES, PromiseFile
from slipstream.replication.origins import Whence
from slipstream.server.jetstream.cluster_node import ClusterNode
from slipstream.server.jetstream.storage import CLUSTER_DIRECTORY

if TYPE_CHECKING:
    from slipstream.jetstream.account.account import JetStreamAccount
    from slipstream.jetstream.api.dispatch import ApiDispatcher, Gate
    from slipstream.jetstream.ports import Ports, ServerFacts
    from slipstream.jetstream.store.file import FileStoreOptions
    from slipstream.jetstream.store.file.disk.disk import Disk
    from slipstream.links.routes.mesh import Mesh
    from slipstream.server.server import Server

__all__ = ["JetStreamCluster"]

_PLACING: Final = (b"$JS.API.STREAM.CREATE.", b"$JS.API.STREAM.RESTORE.")
_HAND_OVER_S: Final = 2.0  # then the others find out by themselves, as after a death
_LOOK_S: Final = 0.01


class JetStreamCluster:
    """The cluster as this server's JetStream has it.

    Args:
        server: this one.
        facts: of its JetStream.
        ports: threads, dice, time and log, in the system account if there is one.
        disk: where files are.
        directory: of JetStream.
        options: of a replica's store.
        account: an account by its name, if it may use JetStream here.
        on_removed: is told when this server was taken out of the cluster.
        on_meta_leader: is told when it begins to lead the meta group, and when it does no more.
    """

    def __init__(
        self,
        server: Server,
        facts: ServerFacts,
        ports: Ports,
        disk: Disk,
        directory: str,
        options: Callable[[], FileStoreOptions],
        account: Callable[[str], JetStreamAccount | None],
        on_removed: Callable[[], None],
        on_meta_leader: Callable[[], None],
    ) -> None:
        name = server.identity.name
        place = f"{directory}/{CLUSTER_DIRECTORY}"
        promises = PromiseFile(disk, place, ports.log)
        promise = promises.open(lambda: secrets.token_bytes(INCARNATION_BYTES))
        node = Node(
            id=node_id(name, promise.incarnation),
            name=name,
            cluster=server.options.cluster.name,
            tags=list(server.options.server_tags),
            max_memory=facts.max_memory,
            max_storage=facts.max_storage,
            incarnation=promise.incarnation,
        )
        unique_tag = server.options.jetstream.unique_tag
        system = Advisories(ports, facts) if server.hub.system_account is not None else None

        made: list[Coordinator] = []

        def coordinate(own: ClusterNode) -> Coordinator:
            replicas = f"{place}/replicas"
            told = on_removed, system, on_meta_leader
            made.append(Coordinator(own, ports, account, disk, replicas, options, unique_tag, *told))
            return made[0]

        def expected_elsewhere() -> int:
            return 0 if server.supercluster is None else server.supercluster.clusters.expected_servers()

        far = expected_elsewhere if server.options.gateway.port else None
        self.node = ClusterNode(node, promise, promises, ports, server.turns, disk, place, options, coordinate, far)
        """This server among the others."""
        self.coordinator = made[0]
        """What follows from what is agreed on."""
        StreamMaking(self.coordinator, account)

    def gate(self, account: str) -> Gate:
        """Which calls of an account's API are this server's."""
        return self.coordinator.gate(account)

    def serve(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Answer the calls that are about more than one stream, and have templates see those of all servers."""
        account.cluster_streams = TemplateStreams(account, self.coordinator)
        ClusterApi(account, api, self.coordinator)
        ClusterRestoreApi(account, api, self.coordinator)
        MoveApi(api, self.coordinator, account.ports, lambda name: name == account.name, own=account.name)

    def serve_system(self, api: ApiDispatcher, ports: Ports, is_account: Callable[[str], bool]) -> None:
        """Answer what users of the system account may ask about streams of others."""
        MoveApi(api, self.coordinator, ports, is_account)

    def whence(self, publisher: object, called: bytes, reply: bytes | None) -> Whence | None:
        """How a call came, of those that may have a stream placed."""
        if not called.startswith(_PLACING) or not isinstance(publisher, LinkMember):
            return None
        if publisher.is_route:
            return Whence(server=publisher.name)
        if publisher.is_gateway and reply is not None:
            self.coordinator.origins.heard(reply, publisher.owner.remote_cluster)
        return Whence(cluster=publisher.owner.remote_cluster)

    def opened(self, account: JetStreamAccount) -> None:
        """An account may use JetStream here."""
        self.coordinator.hosting.account_opened(account)

    def join(self, mesh: Mesh) -> None:
        """Other servers can be reached from now on."""
        self.node.join(mesh)

    async def hand_over(self) -> None:
        """This server is about to leave: another one leads what it leads, if that is a matter of a moment."""
        if not self.coordinator.hand_over():
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + _HAND_OVER_S
        while self.coordinator.leads_anything and loop.time() < end:
            await asyncio.sleep(_LOOK_S)

    def stop(self) -> None:
        """Take part no more."""
        self.node.stop()
        self.coordinator.close()
