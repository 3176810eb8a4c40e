"""What is said about streams and groups of a cluster: `cluster` members of answers, `/jsz`, `/raftz`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from slipstream.config.durations import format_duration
from slipstream.jetstream.config.structs import PLACEMENT
from slipstream.jetstream.gojson.times import ZERO_TIME_NS, format_time
from slipstream.jetstream.ports import Ports
from slipstream.replication.ids import NO_NODE, group_name, short_id
from slipstream.replication.raft.ports import GroupFacts

if TYPE_CHECKING:
    from slipstream.replication.coordinator import ClusterPlace, Coordinator
    from slipstream.replication.meta.entries import Assignment, MoveOrigin

__all__ = ["ClusterBlocks"]


class _Member(Protocol):
    """A group, as this server takes part in it."""

    def facts(self) -> GroupFacts: ...
    def lags(self) -> Mapping[int, int]: ...


class ClusterBlocks:
    """As one server sees them."""

    def __init__(self, cluster: Coordinator, place: ClusterPlace, ports: Ports) -> None:
        """Of a cluster, of which this server is at a place."""
        self._cluster = cluster
        self._place = place
        self._ports = ports

    # --- streams ----------------------------------------------------------------------------------------------------

    def block(self, account: str, stream: str) -> dict[str, object]:
        """The `cluster` member of what is said about a stream. See `jetstream.account.server.ClusterFacts`."""
        assignment = self._cluster.state.find(account, stream)
        out: dict[str, object] = {"name": self._cluster.node.cluster}
        if assignment is None:
            return out
        out["name"] = assignment.cluster
        replica = self._cluster.hosting.kept.replica(account, stream)
        group = replica.group if replica is not None else None
        if len(assignment.hosts) == 1:
            out["leader"] = self._cluster.name_of(assignment.peers[0])
            return out
        out["raft_group"] = group_name(assignment.group, len(assignment.peers), assignment.config.storage)
        leader = group.leader if group is not None else NO_NODE
        if leader != NO_NODE:
            out["leader"] = self._cluster.name_of(leader)
            since_ns = self._cluster.hosting.kept.leader_since_ns(assignment)
            if since_ns:
                out["leader_since"] = format_time(since_ns)
        lags = group.lags() if group is not None else {}
        joins = set(assignment.peers) - set(group.votes.voters) if group is not None else ()
        out["replicas"] = [
            {**self.peer(peer, lags), "current": False} if peer in joins else self.peer(peer, lags)
            for peer in assignment.hosts
            if peer != leader
        ]
        if assignment.origin is not None:
            out["desired"] = self._desired(assignment, assignment.origin)
        return out

    def _desired(self, assignment: Assignment, origin: MoveOrigin) -> dict[str, object]:
        """Where a stream is to be, while its servers change."""
        before: dict[str, object] = {"replicas": origin.replicas}
        if origin.placement is not None:
            before["placement"] = PLACEMENT.wire(origin.placement)
        return {
            "created": format_time(origin.since_ns),
            "name": assignment.cluster,
            "replicas": [{"name": self._cluster.name_of(peer), "peer": short_id(peer)} for peer in assignment.peers],
            "origin": before,
        }

    def peer(self, peer: int, lags: Mapping[int, int]) -> dict[str, object]:
        """A server, as one of those that keep something."""
        online, lag = peer in self._cluster.online, lags.get(peer, 0)
        out: dict[str, object] = {"name": self._cluster.name_of(peer), "current": online and not lag}
        if not online:
            out["offline"] = True
        heard_ns = self._place.heard_ns(peer)
        out["active"] = max(self._ports.now_ns() - heard_ns, 0) if heard_ns else 0
        if lag:
            out["lag"] = lag
        out["peer"] = short_id(peer)
        return out

    def alternates(self, account: str, stream: str) -> list[dict[str, object]]:
        """Streams of an account that can be read in the place of one: its mirrors, and itself. None without mirrors."""
        found = self._cluster.state.account(account).streams
        mirrors = sorted(
            name
            for name, one in found.items()
            if one.config.mirror is not None and one.config.mirror.name == stream and one.config.mirror.external is None
        )
        if not mirrors or stream not in found:
            return []
        return [{"name": name, "cluster": found[name].cluster} for name in (stream, *mirrors)]

    def group(self, account: str, stream: str) -> str:
        """The name of a stream's group, or of the one it would have with several copies. See `ClusterFacts`."""
        assignment = self._cluster.state.find(account, stream)
        if assignment is None:
            return ""
        return group_name(assignment.group, len(assignment.peers), assignment.config.storage)

    # --- groups -----------------------------------------------------------------------------------------------------

    def meta_block(self) -> dict[str, object] | None:
        """The meta group as `/jsz` shows it; None before there is one."""
        meta = self._cluster.meta
        if meta is None:
            return None
        voters, leader, lags = meta.votes.voters, meta.leader, meta.lags()
        out: dict[str, object] = {"name": self._cluster.node.cluster}
        if leader != NO_NODE:
            out["leader"], out["peer"] = self._cluster.name_of(leader), short_id(leader)
        out["replicas"] = [self.peer(peer, lags) for peer in voters if peer != self._cluster.node.id]
        out["cluster_size"] = len(voters)
        out["quorum_needed"] = len(voters) // 2 + 1
        facts = meta.facts()
        # The log is its own snapshot: what could be left out of it, if all were compacted, is not known apart.
        out["snapshot"] = {
            "pending_entries": max(facts.last_index - facts.first_index + 1, 0),
            "pending_size": meta.log_bytes,
            "last_time": format_time(meta.cut_ns or ZERO_TIME_NS),
        }
        return out

    def raft_groups(self, account: str, group: str) -> dict[str, dict[str, object]]:
        """The groups of an account's streams that this server takes part in, or one of them, by account."""
        found: dict[str, dict[str, object]] = {}
        for assignment, member in self._cluster.hosting.kept.groups():
            name = group_name(assignment.group, len(assignment.peers), assignment.config.storage)
            if assignment.account == account and group in ("", name):
                since_ns = self._cluster.hosting.kept.leader_since_ns(assignment)
                found.setdefault(account, {})[name] = self._shown(member, since_ns)
        return found

    def meta_facts(self) -> dict[str, object] | None:
        """The meta group as `/raftz` shows it."""
        return None if self._cluster.meta is None else self._shown(self._cluster.meta, 0)

    def _shown(self, member: _Member, leader_since_ns: int) -> dict[str, object]:
        facts = member.facts()
        size = len(facts.voters)
        out: dict[str, object] = {
            "id": short_id(self._cluster.node.id),
            "state": facts.state,
            "size": size,
            "quorum_needed": size // 2 + 1,
            "committed": facts.applied,
            "applied": facts.applied,
        }
        if facts.leader != NO_NODE:
            out["leader"] = short_id(facts.leader)
            if leader_since_ns:
                out["leader_since"] = format_time(leader_since_ns)
        out["ever_had_leader"] = facts.leader != NO_NODE or facts.last_index > 0
        out["term"] = facts.term
        if facts.vote != NO_NODE:
            out["voted_for"] = short_id(facts.vote)
        out["pindex"] = facts.last_index
        out["system_account"] = True
        entries = max(facts.last_index - facts.first_index + 1, 0)
        out["wal"] = {"messages": entries, "first_seq": facts.first_index, "last_seq": facts.last_index}
        replicated = {peer: facts.last_index - lag for peer, lag in member.lags().items()}
        others = (peer for peer in facts.voters if peer != self._cluster.node.id)
        out["peers"] = {short_id(peer): self._other_member(peer, replicated.get(peer, 0)) for peer in others}
        return out

    def _other_member(self, peer: int, replicated_index: int) -> dict[str, object]:
        out: dict[str, object] = {"name": self._cluster.name_of(peer), "known": peer in self._cluster.online}
        if replicated_index:
            out["last_replicated_index"] = replicated_index
        heard_ns = self._place.heard_ns(peer)
        if heard_ns:
            out["last_seen"] = format_duration(max(self._ports.now_ns() - heard_ns, 0))
        return out
