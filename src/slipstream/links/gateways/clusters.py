"""Which other clusters there are: those that are configured, and those that somebody told of.

Who hears of a cluster that it does not know dials it: from a server that dialled (its own cluster), from one that was
dialled (the clusters that it knows), and from servers of the own cluster. So each server of each cluster has its own
way to each other cluster, and a message goes there directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from slipstream.links.gateways.remotes import RemoteCluster

if TYPE_CHECKING:
    from slipstream.config.listener_options import RemoteGatewayOptions

__all__ = ["KnownClusters"]

_REMOTES_MAX = 1_024  # clusters that may be heard of


class KnownClusters:
    """The other clusters that one server knows.

    Args:
        own: the name of its cluster.
        configured: entries of the configuration; the own cluster may be among them.
        dial: connects to a cluster that is new.
    """

    def __init__(
        self, own: str, configured: Iterable[RemoteGatewayOptions], dial: Callable[[RemoteCluster], None]
    ) -> None:
        self._own = own
        self._dial = dial
        self.remotes = {entry.name: RemoteCluster(entry.name, entry) for entry in configured if entry.name != own}
        """By name."""

    def hosts(self) -> Iterator[str]:
        """Hosts of all servers that are configured."""
        return (address.host for remote in self.remotes.values() for address in remote.configured)

    def expected_servers(self) -> int:
        """How many servers are configured, of clusters that take part in JetStream."""
        return sum(len(remote.configured) for remote in self.remotes.values() if remote.has_streams)

    def knows(self, remote: RemoteCluster) -> bool:
        """Whether a cluster is still one of them."""
        return self.remotes.get(remote.name) is remote

    def heard_of(self, name: str, urls: list[str] | None) -> None:
        """There is a cluster: dial it, unless that is done."""
        if name == self._own or not name:
            return
        remote = self.remotes.get(name)
        if remote is not None:
            remote.add(urls)
            return
        remote = RemoteCluster(name)
        remote.add(urls)
        if not remote.urls() or len(self.remotes) >= _REMOTES_MAX:
            return
        self.remotes[name] = remote
        self._dial(remote)

    def forget(self, remote: RemoteCluster) -> None:
        """A cluster cannot be reached."""
        if self.knows(remote):
            del self.remotes[remote.name]
