"""Advisories about leaders: in the account of a stream, and in the system account with the name of that account.

A consumer's leader is its stream's, so another leader of a stream is one of all its consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.consumer.stored import stored_consumers
from slipstream.replication.ids import short_id
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.replica.stream_replica import StreamReplica

if TYPE_CHECKING:
    from slipstream.replication.cluster_blocks import ClusterBlocks
    from slipstream.replication.coordinator import Coordinator

__all__ = ["Announcements"]


class Announcements:
    """Those of one server."""

    def __init__(
        self,
        cluster: Coordinator,
        blocks: ClusterBlocks,
        account: Callable[[str], JetStreamAccount | None],
        system: Advisories | None,
        log: Callable[[str, str], None],
    ) -> None:
        """Nobody was told anything.

        Args:
            cluster: this server's.
            blocks: what is said about servers.
            account: an account by its name, if it may use JetStream here.
            system: advisories of the system account, if there is one.
            log: takes a level and a line.
        """
        self._log = log
        self._cluster = cluster
        self._blocks = blocks
        self._account = account
        self._system = system
        self._told: dict[int, int] = {}  # groups → the term of the leader that was announced

    def elected(self, assignment: Assignment, replica: StreamReplica) -> None:
        """This server leads a stream: told once a term."""
        group, stream = replica.group, replica.stream
        if group is None or stream is None or self._told.get(assignment.group) == group.term:
            return
        self._told[assignment.group] = group.term
        fields = self._fields(assignment, leads=True)
        self._tell(assignment, f"STREAM.LEADER_ELECTED.{assignment.name}", "stream_leader_elected", fields)
        if isinstance(stream.interest, Consumers):
            self._consumers_elected(assignment, stream.interest.visible, fields)

    def consumer_elected(self, account: str, stream: str, consumer: str) -> None:
        """A consumer of a stream was made that this server leads."""
        assignment = self._cluster.state.find(account, stream)
        if assignment is not None and assignment.is_replicated:
            self._consumers_elected(assignment, [consumer], self._fields(assignment, leads=True))

    def leaderless(self, assignment: Assignment) -> None:
        """Nobody has led a stream for a while. If most of its servers cannot be reached, that is why."""
        there = sum(peer in self._cluster.online for peer in assignment.hosts)
        if there > len(assignment.hosts) // 2:
            return
        fields = self._fields(assignment, leads=False)
        name, what = assignment.name, f"{assignment.account} > {assignment.name}"
        self._log("WRN", f"JetStream cluster stream '{what}' has NO quorum, stalled")
        self._tell(assignment, f"STREAM.QUORUM_LOST.{name}", "stream_quorum_lost", fields)
        for consumer in self._kept_consumers(assignment):
            self._log("WRN", f"JetStream cluster consumer '{what} > {consumer}' has NO quorum, stalled.")
            self._tell_of_consumer(assignment, consumer, "QUORUM_LOST", fields)

    def _kept_consumers(self, assignment: Assignment) -> list[str]:
        """Consumers of a stream that nobody leads, as the copy here knows them."""
        found = self._cluster.hosting.kept.followed(assignment.account)
        store = next((store for one, store in found if one.group == assignment.group), None)
        consumers = {} if store is None else stored_consumers(store)
        return sorted(name for name, state in consumers.items() if not state.config.direct)

    def meta_elected(self) -> None:
        """This server leads the meta group."""
        meta = self._cluster.meta
        if meta is None or self._system is None:
            return
        fields = {
            "leader": short_id(self._cluster.node.id),
            "replicas": self._servers(meta.votes.voters, meta.lags()),
            "cluster": self._cluster.node.cluster,
        }
        self._system.publish("DOMAIN.LEADER_ELECTED", "domain_leader_elected", fields)

    def _consumers_elected(self, assignment: Assignment, names: Iterable[str], fields: dict[str, object]) -> None:
        for name in names:
            self._tell_of_consumer(assignment, name, "LEADER_ELECTED", fields)

    def _tell_of_consumer(self, assignment: Assignment, name: str, event: str, fields: dict[str, object]) -> None:
        """The same that is told of its stream."""
        told = {"stream": assignment.name, "consumer": name, **fields}
        self._tell(assignment, f"CONSUMER.{event}.{assignment.name}.{name}", f"consumer_{event.lower()}", told)

    def _fields(self, assignment: Assignment, *, leads: bool) -> dict[str, object]:
        replica = self._cluster.hosting.kept.replica(assignment.account, assignment.name)
        group = replica.group if replica is not None else None
        fields: dict[str, object] = {"stream": assignment.name}
        if leads:
            fields["leader"] = self._cluster.node.name
        fields["replicas"] = self._servers(assignment.hosts, group.lags() if group is not None else {})
        return fields

    def _servers(self, nodes: Iterable[int], lags: dict[int, int]) -> list[dict[str, object]]:
        return [self._blocks.peer(node, lags) for node in nodes]

    def _tell(self, assignment: Assignment, subject: str, event: str, fields: dict[str, object]) -> None:
        host = self._account(assignment.account)
        if host is not None:
            host.advisories.publish(subject, event, fields)
        if self._system is not None:
            self._system.publish(subject, event, {"account": assignment.account, **fields})
