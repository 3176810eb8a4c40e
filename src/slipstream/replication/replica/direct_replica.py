"""Direct gets that a server answers from its copy of a stream, while another one leads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.jetstream.api.direct import listen_to_gets
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Ports, ServerFacts
from slipstream.jetstream.store.contract import StoreReads
from slipstream.replication.replica.stream_replica import StreamReplica

__all__ = ["DirectReplica"]


class DirectReplica:
    """Of one stream. Implements `DirectReads`."""

    is_replicated: Final = True

    def __init__(self, replica: StreamReplica, config: StreamConfig, ports: Ports, facts: ServerFacts) -> None:
        """Listen from now on."""
        self._replica = replica
        self.config = config
        """The stream's, as it is assigned."""
        self._listening = listen_to_gets(self, ports, facts, config.name)

    @property
    def name(self) -> str:
        """The stream's."""
        return self.config.name

    @property
    def store(self) -> StoreReads:
        """See `DirectReads`."""
        store = self._replica.readable
        assert store is not None
        return store

    def after_received(self, callback: Callable[[], None], *, confirmed: bool = True) -> None:
        """See `DirectReads`. Nobody is answered whom nobody can tell what is true."""

        def read() -> None:
            if self._replica.readable is not None:
                callback()

        if confirmed:
            self._replica.reads.read(read)
        else:
            read()

    def close(self) -> None:
        """Listen no more; who waits is still answered."""
        for subscription in self._listening:
            subscription.close()
