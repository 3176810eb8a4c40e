"""Plain facts about an account and its streams, for /jsz and /healthz."""

from __future__ import annotations

from dataclasses import field

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.stream.stream import Stream

__all__ = ["AccountFacts", "StreamFacts", "facts_of"]


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stream, for /jsz."""

    name: str
    created_ns: int
    config: StreamConfig
    messages: int
    size_bytes: int
    first_seq: int
    last_seq: int
    consumers: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """One account, for /jsz and /healthz."""

    name: str
    memory_bytes: int
    storage_bytes: int
    reserved_memory_bytes: int
    reserved_storage_bytes: int
    streams: list[StreamFacts] = field(default_factory=list)
    offline: dict[str, str] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Whether every stream is there and takes messages."""
        return not self.offline and not self.quarantined and not any(stream.fault for stream in self.streams)


def facts_of(stream: Stream) -> StreamFacts:
    """What is to be told about a stream."""
    store = stream.store
    return StreamFacts(
        name=stream.name,
        created_ns=stream.created_ns,
        config=stream.config,
        messages=store.messages,
        size_bytes=store.size_bytes,
        first_seq=store.first_seq,
        last_seq=store.committed_seq,
        consumers=stream.interest.consumer_count,
        fault=str(store.fault) if store.fault is not None else "",
    )
