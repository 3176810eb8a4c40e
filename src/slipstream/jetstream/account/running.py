"""The streams of one account that run: made of a store, started, found by name, stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.resources import AccountBudget, StreamShare
from slipstream.jetstream.account.server import JetStreamServer
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.guard import call, each
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.commit.health import StoreWatch
from slipstream.jetstream.stream.stream import Stream

__all__ = ["RunningStreams", "StreamHook"]

StreamHook = Callable[[Stream], None]


class RunningStreams:
    """By name; a stream is here exactly while it listens."""

    def __init__(
        self,
        ports: Ports,
        server: JetStreamServer,
        holdings: Holdings,
        budgets: Mapping[StorageType, AccountBudget],
        advisories: Advisories,
    ) -> None:
        """None runs yet."""
        self._ports = ports
        self._server = server
        self._holdings = holdings
        self._budgets = budgets
        self._advisories = advisories
        self.by_name: dict[str, Stream] = {}
        self.on_started: list[StreamHook] = []  # called when a stream begins to listen, before it is announced
        self.on_stopped: list[StreamHook] = []  # called when a stream has stopped listening
        self._names: list[str] | None = None  # sorted; None when they have changed

    def config_of(self, name: str) -> StreamConfig | None:
        """The configuration of a stream; None: it does not run here."""
        stream = self.by_name.get(name)
        return stream.config if stream is not None else None

    def matching(self, subject: str) -> Sequence[str]:
        """Names of the streams that collect some of a subject's messages (all streams if it is empty), sorted."""
        if subject:
            return sorted(name for name in self._holdings.touching(subject) if name in self.by_name)
        if self._names is None:
            self._names = sorted(self.by_name)
        return self._names

    def make(
        self, config: StreamConfig, store: Store, created_ns: int, replication: Replication | None = None
    ) -> Stream:
        """A stream that does not listen yet."""
        share = StreamShare(self._budgets[config.storage], store)
        watch = StoreWatch(self._server.on_full, self._advisories.stream_damaged)
        return Stream(config, store, created_ns, self._ports, self._server.facts, share, watch, replication)

    def start(self, stream: Stream, *, recovered: bool) -> None:
        """Let a stream listen. One that is `recovered` holds its subjects from now on, a new one did before."""
        self.by_name[stream.name] = stream
        self._names = None
        if recovered:
            self._holdings.take(stream.config)
        for hook in self.on_started:
            hook(stream)
        stream.start()

    def forget(self, name: str) -> Stream | None:
        """Take one out, which is to be stopped; None: there is none of this name."""
        self._names = None
        return self.by_name.pop(name, None)

    def stop(self, stream: Stream, *, deleted: bool, elsewhere: bool = False) -> None:
        """End one that was taken out; see `Stream.stop`."""
        stream.stop(deleted=deleted, elsewhere=elsewhere)
        call(self._ports, f"The end of stream '{stream.name}'", stream.health.report_size, 0)
        each(self._ports, f"The end of stream '{stream.name}'", self.on_stopped, stream)
        stream.appends.resources.release()

    def close_all(self, account: str) -> None:
        """Stop all and close their stores. Blocks."""
        for stream in self.by_name.values():
            stream.stop(deleted=False)
            call(self._ports, f"Closing stream '{account} > {stream.name}'", stream.store.close)
        self.by_name.clear()
        self._names = None
