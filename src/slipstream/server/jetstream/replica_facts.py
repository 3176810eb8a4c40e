"""A stream that another server leads, as `/jsz` of a server that keeps a copy shows it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from slipstream.jetstream.api.info import config_fields, stored_state_fields
from slipstream.jetstream.consumer.info import stored_consumer_fields
from slipstream.jetstream.consumer.stored import stored_consumers
from slipstream.jetstream.gojson.times import format_time

if TYPE_CHECKING:
    from slipstream.jetstream.account.account import JetStreamAccount
    from slipstream.jetstream.consumer.state import ConsumerState
    from slipstream.jetstream.store.file import FileStore
    from slipstream.replication.meta.entries import Assignment

__all__ = ["ReplicaFacts"]


class ReplicaFacts:
    """Of one copy, as far as it is committed here. Implements `monitoring.jetstream_facts.StreamView`."""

    is_led: Final = False

    def __init__(self, account: JetStreamAccount, assignment: Assignment, store: FileStore) -> None:
        """Show what `store` has of a stream of `account`."""
        self._account = account
        self._assignment = assignment
        self._store = store
        self.name = assignment.name
        self.created = format_time(assignment.created_ns)

    def config(self) -> Mapping[str, object]:
        return config_fields(self._assignment.config, None)

    def state(self) -> Mapping[str, object]:
        visible = sum(not state.config.direct for state in self._consumers.values())
        return stored_state_fields(self._store, visible)

    def cluster(self) -> Mapping[str, object]:
        return self._account.cluster_block(self.name) or {}

    def raft_group(self) -> str:
        return self._account.raft_group(self.name)

    def mirror(self) -> Mapping[str, object] | None:
        """Only who leads knows how far it is."""
        return None

    def sources(self) -> list[Mapping[str, object]]:
        return []

    def readers(self) -> Mapping[str, int]:
        """Bulk readers ask who leads."""
        return {}

    def has_consumer(self, name: str) -> bool:
        """Whether there is one of that name, whoever it was made for."""
        return name in self._consumers

    def consumers(self, *, direct: bool) -> list[Mapping[str, object]]:
        now_ns, cluster = self._account.ports.now_ns(), self.cluster()
        return [
            stored_consumer_fields(self.name, name, state, now_ns, cluster)
            for name, state in sorted(self._consumers.items())
            if state.config.direct is direct
        ]

    @cached_property
    def _consumers(self) -> dict[str, ConsumerState]:
        return stored_consumers(self._store)
