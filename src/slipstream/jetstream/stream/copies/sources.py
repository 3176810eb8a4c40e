"""The sources of a stream: several others whose messages are merged into it under its own sequences.

Each source is read by a feed of its own, in order; among each other they come as they come. A message says in its
header where it is from, which is also how the place in the source is found again (`source_positions`).

What this is not: how messages arrive (`source_feed`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig, StreamSource
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.stream.commit.point import AfterCommit
from slipstream.jetstream.stream.copies.origin_request import FeedKind, Start
from slipstream.jetstream.stream.copies.source_feed import SourceFeed, clean_header
from slipstream.jetstream.stream.copies.source_info import source_fields
from slipstream.jetstream.stream.copies.source_names import (
    SOURCE_HEADER,
    consumer_name,
    index_name,
    source_words,
    stable_id,
)
from slipstream.jetstream.stream.copies.source_positions import SourcePositions, messages_go_by_themselves
from slipstream.jetstream.stream.copies.transforms import Transforms

if TYPE_CHECKING:
    from slipstream.jetstream.stream.stream import Stream

__all__ = ["Source", "Sources"]

_ONLY_SOURCE = b"NATS/1.0\r\n%b: %%b\r\n\r\n" % SOURCE_HEADER
_KIND = FeedKind("S", "_nats.src", table.SOURCE_CONSUMER_SETUP_FAILED, table.SOURCE_CONSUMER_REQUIRES_ACK_FC)


class Source:
    """One source of a stream. Implements `FeedOwner`."""

    def __init__(
        self,
        stream: Stream,
        source: StreamSource,
        index: str,
        positions: SourcePositions,
        ports: Ports,
        *,
        name: str,
        reader: tuple[str, str, str],
    ) -> None:
        """Nothing happens before the feed is opened; `name` and `reader` as in `SourceFeed`."""
        self._stream = stream
        self._positions = positions
        self._transforms = Transforms(source.subject_transforms, ports)
        self.config = source
        self.index = index
        self._line = source_words(self.index)
        self.feed = SourceFeed(_KIND, source, self, ports, name=name, reader=reader)

    def start(self) -> Start:
        """See `FeedOwner.start`."""
        position = self._positions.get(self.index)
        if position:
            return Start(position + 1)
        config, store = self.config, self._stream.store
        if config.opt_start_seq:
            return Start(config.opt_start_seq)
        last_ns = self._stream.appends.last_ts_ns
        if config.opt_start_time_ns is not None:
            return Start(time_ns=max(config.opt_start_time_ns, last_ns))
        # A stream that has lost its beginning has perhaps lost what this source sent, too, unless it is known to have
        # had none. As nats-server does, take what is newer than everything that was ever here.
        if not self._positions.is_complete and store.first_seq > 1 and last_ns:
            return Start(time_ns=last_ns)
        return Start()

    def began(self, delivered_seq: int) -> int:
        """See `FeedOwner.began`."""
        return max(self._positions.get(self.index), delivered_seq)

    def take(self, subject: bytes, header: bytes, payload: bytes, seq: int, ts_ns: int) -> ApiError | None:
        """See `FeedOwner.take`."""
        line = b"%b %d %b %b" % (self._line[0], seq, self._line[1], subject)
        if self._transforms.any:
            subject = self._transforms.apply(subject)
        self._positions.moving()
        copy_in = self._stream.copy_in
        if header:
            # A message that was copied before says where from only once.
            header = clean_header(headers.remove(header, SOURCE_HEADER))
            refusal = copy_in.store(subject, headers.append(header, SOURCE_HEADER, line), payload)
        else:
            refusal = copy_in.store_plain(subject, _ONLY_SOURCE % line, payload)
        if refusal is None:
            self._positions.moved(self.index, seq)
        return refusal

    def caught_up(self) -> None:
        """See `FeedOwner.caught_up`: nothing depends on it."""

    def after_commit(self, callback: AfterCommit) -> None:
        """See `FeedOwner.after_commit`."""
        self._stream.after_commit(callback)


class Sources:
    """All sources of one stream. Implements `Upstream`."""

    def __init__(self, stream: Stream, ports: Ports, *, account: str, domain: str) -> None:
        """Find out how far each source was read; nothing is read before `open`."""
        self._stream = stream
        self._ports = ports
        self._reader = (stream.name, account, domain)
        self._base = stable_id(stream.name, account, domain)
        self._positions = SourcePositions(stream.store, ports)
        self._sources: dict[str, Source] = {}
        self._set(stream.config)
        self._positions.recover(self._wanted())
        self._positions.write()

    @property
    def feeds(self) -> list[SourceFeed]:
        """One for each source."""
        return [source.feed for source in self._sources.values()]

    def fields(self) -> dict[str, object]:
        """See `Upstream.fields`."""
        return {"sources": self.shown()}

    def shown(self) -> list[dict[str, object]]:
        """A StreamSourceInfo for each source."""
        now_ns = self._ports.now_ns()
        return [source_fields(source.config, source.feed, now_ns) for source in self._sources.values()]

    def on_removing(self) -> None:
        """See `Upstream.on_removing`."""
        self._positions.write()

    def on_fault(self) -> None:
        """See `Upstream.on_fault`."""
        self._positions.recover(self._wanted())
        for feed in self.feeds:
            feed.retry()

    def open(self) -> None:
        """Begin to read."""
        for feed in self.feeds:
            feed.open()

    def stop(self, *, deleted: bool) -> None:
        """See `Upstream.stop`."""
        for feed in self.feeds:
            if deleted:
                feed.remove_consumer()
            feed.close()
        if not deleted:
            self._positions.write()
        self._positions.close()

    def update(self) -> None:
        """The stream's configuration has changed: read what is new in it, and no more what is gone."""
        before = dict(self._sources)
        self._set(self._stream.config)
        for index, source in before.items():
            if self._sources.get(index) is not source:
                source.feed.remove_consumer()
                source.feed.close()
            if index not in self._sources:
                self._positions.forget(index)
        for index, source in self._sources.items():
            if before.get(index) is not source:
                self._positions.find(index, source.config.name)
                source.feed.open()
        self._positions.write()

    def _set(self, config: StreamConfig) -> None:
        """Keep sources that stay as they are, in the order of the configuration."""
        before, self._sources = self._sources, {}
        # A server that takes over a replicated stream looks for them while others wait for it.
        self._positions.at_once = self._stream.is_replicated or messages_go_by_themselves(config)
        namesakes = Counter(source.name for source in config.sources if source is not None)
        for wanted in config.sources:
            assert wanted is not None
            index = index_name(wanted)
            present = before.get(index)
            name = consumer_name(index, self._base, alone=namesakes[wanted.name] == 1)
            if present is None or present.config != wanted:
                present = Source(
                    self._stream, wanted, index, self._positions, self._ports, name=name, reader=self._reader
                )
            self._sources[index] = present

    def _wanted(self) -> dict[str, str]:
        return {index: source.config.name for index, source in self._sources.items()}
