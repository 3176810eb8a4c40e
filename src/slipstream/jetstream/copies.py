"""Mirrors and sources of an account's streams: who copies what, as streams come, change and go."""

from __future__ import annotations

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.stream.copies.mirror import Mirror
from slipstream.jetstream.stream.copies.source_feed import SourceFeed
from slipstream.jetstream.stream.copies.sources import Sources
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Copies"]


class Copies:
    """Gives every stream its mirror or sources."""

    def __init__(self, account: JetStreamAccount) -> None:
        """Watch the account's streams."""
        self._account = account
        self._upstreams: dict[str, Mirror | Sources] = {}
        account.on_started.append(self._started)
        account.on_updated.append(self._updated)
        account.on_stopped.append(self._stopped)
        account.on_reconnected.append(self._reconnected)
        account.on_moved.append(self._moved)

    def _started(self, stream: Stream) -> None:
        self._attach(stream)
        for feed in self._feeds_of(stream.name):
            feed.hurry()

    def _reconnected(self) -> None:
        for upstream in self._upstreams.values():
            for feed in upstream.feeds:
                feed.reconnected()

    def _moved(self, name: str) -> None:
        for feed in self._feeds_of(name):
            feed.origin_moved()

    def _feeds_of(self, origin: str) -> list[SourceFeed]:
        """What reads a stream of this account."""
        feeds = [feed for upstream in self._upstreams.values() for feed in upstream.feeds]
        return [feed for feed in feeds if feed.origin == origin]

    def _attach(self, stream: Stream) -> None:
        account = self._account
        ports, domain = account.ports, account.facts.domain
        upstream: Mirror | Sources
        if stream.config.mirror is not None:
            upstream = Mirror(
                stream,
                stream.config.mirror,
                ports,
                account=account.name,
                domain=domain,
                on_caught_up=self._caught_up,
            )
        elif stream.config.sources:
            upstream = Sources(stream, ports, account=account.name, domain=domain)
        else:
            return
        self._upstreams[stream.name] = upstream
        stream.copy_from(upstream)
        upstream.open()

    def _updated(self, stream: Stream) -> None:
        upstream = self._upstreams.get(stream.name)
        config = stream.config
        if isinstance(upstream, Mirror) and config.mirror is not None:
            return  # it cannot have changed
        if isinstance(upstream, Sources) and config.sources:
            upstream.update()
            return
        if upstream is not None:
            upstream.stop(deleted=True)
            del self._upstreams[stream.name]
            stream.copy_from(None)
        self._attach(stream)

    def _stopped(self, stream: Stream) -> None:
        self._upstreams.pop(stream.name, None)
        for feed in self._feeds_of(stream.name):
            feed.retry()  # and be told that there is no such stream any more

    def _caught_up(self, stream: Stream) -> None:
        for hook in self._account.on_caught_up:
            hook(stream)
