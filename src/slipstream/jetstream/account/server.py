"""What the JetStream accounts of a server share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from slipstream.errors import ApiError
from slipstream.jetstream.account.resources import ServerBudget
from slipstream.jetstream.account.scrub import Scrubber
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import ServerFacts

__all__ = ["ClusterFacts", "ClusterStreams", "JetStreamServer"]


class ClusterFacts(Protocol):
    """What is said about the cluster of this server."""

    def block(self, account: str, stream: str) -> Mapping[str, object]:
        """The `cluster` member of what is said about a stream."""
        ...

    def group(self, account: str, stream: str) -> str:
        """The name of the Raft group of a stream."""
        ...

    def alternates(self, account: str, stream: str) -> Sequence[Mapping[str, object]]:
        """The member `alternates`: what can be read in the place of a stream, and itself; none without mirrors."""
        ...

    def consumer_elected(self, account: str, stream: str, consumer: str) -> None:
        """A consumer was made of a stream that this server leads."""
        ...


class ClusterStreams(Protocol):
    """The streams of an account, whichever servers of the cluster keep them."""

    def collects(self, subject: bytes) -> bool:
        """Whether some stream stores a subject."""
        ...

    def configs(self) -> Iterable[StreamConfig]:
        """Those of all streams."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is a stream of this name."""
        ...

    def create(self, config: StreamConfig, done: Callable[[ApiError | None], None]) -> None:
        """Have a stream made that this server keeps, and leads at first; `done` when that is agreed on, or refused."""
        ...


class JetStreamServer:
    """What all accounts of a server share."""

    def __init__(
        self,
        facts: ServerFacts,
        on_full: Callable[[str], None],
        cluster: ClusterFacts | None = None,
    ) -> None:
        """Share the server's memory and disk.

        Args:
            facts: of the server.
            on_full: is told of streams that find no space on the disk.
            cluster: that streams are spread over; None: this server is alone.
        """
        self.facts = facts
        self.on_full = on_full
        self.cluster = cluster
        self.budgets = {
            StorageType.MEMORY: ServerBudget(facts.max_memory, facts.max_held_bytes // 2),
            StorageType.FILE: ServerBudget(facts.max_storage, facts.max_held_bytes // 2),
        }
        self.scrubber = Scrubber()

    def set_limits(self, *, max_memory: int, max_storage: int) -> None:
        """Allow more from now on."""
        self.facts.max_memory, self.facts.max_storage = max_memory, max_storage
        self.budgets[StorageType.MEMORY].set_limit(max_memory)
        self.budgets[StorageType.FILE].set_limit(max_storage)
