"""Servers and assignments for tests of the meta group."""

from __future__ import annotations

from typing import Any

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.replication.ids import node_id
from slipstream.replication.meta.entries import Assignment, Node

GB = 1 << 30


def node(name: str, *, cluster: str = "C1", tags: list[str] | None = None, **room: int) -> Node:
    """A server of a gigabyte."""
    room = {"max_memory": GB, "max_storage": GB, **room}
    return Node(id=node_id(name), name=name, cluster=cluster, tags=tags or [], **room)


def config(name: str, **fields: Any) -> StreamConfig:
    """A checked configuration."""
    fields.setdefault("subjects", [f"{name}.>"])
    return checked(StreamConfig(name=name, **fields), ConfigContext(find_stream=lambda _: None))


def assignment(
    name: str,
    *,
    account: str = "A",
    peers: list[int] | None = None,
    created_ns: int = 1,
    **fields: Any,
) -> Assignment:
    """A stream on some servers, the first of which should lead."""
    peers = peers or [1]
    return Assignment(
        account=account,
        config=config(name, num_replicas=len(peers), **fields),
        uid=b"u" * 16,
        group=2,
        peers=peers,
        preferred=peers[0],
        cluster="C1",
        created_ns=created_ns,
        founders=peers if len(peers) > 1 else [],
    )
