"""A mirror: a stream that holds what another one holds, under the same sequences and times.

Its place in the origin is its own last sequence, so a crash needs no repair: what is stored is there, and reading goes
on behind it. What the origin no longer has, or a filter leaves out, is a gap here.

What this is not: how messages arrive (`source_feed`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import StreamSource
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.stream.commit.point import AfterCommit
from slipstream.jetstream.stream.copies.origin_request import FeedKind, Start
from slipstream.jetstream.stream.copies.source_feed import SourceFeed, clean_header
from slipstream.jetstream.stream.copies.source_info import source_fields
from slipstream.jetstream.stream.copies.source_names import stable_id
from slipstream.jetstream.stream.copies.transforms import Transforms

if TYPE_CHECKING:
    from slipstream.jetstream.stream.stream import Stream

__all__ = ["Mirror"]

_KIND = FeedKind("M", "_nats.mirror", table.MIRROR_CONSUMER_SETUP_FAILED, table.MIRROR_CONSUMER_REQUIRES_ACK_FC)


class Mirror:
    """Fills one stream from its origin. Implements `Upstream` and `FeedOwner`."""

    def __init__(
        self,
        stream: Stream,
        source: StreamSource,
        ports: Ports,
        *,
        account: str,
        domain: str,
        on_caught_up: Callable[[Stream], None],
    ) -> None:
        """Nothing happens before `open`.

        Args:
            stream: the mirror.
            source: what it mirrors.
            ports: of its account.
            account: its account.
            domain: of the server, or empty.
            on_caught_up: called when the mirror is fresh enough to answer for its origin.
        """
        self._stream = stream
        self._source = source
        self._ports = ports
        self._transforms = Transforms(source.subject_transforms, ports)
        self._on_caught_up = on_caught_up
        self._is_fresh = False  # whether `on_caught_up` was called
        name = f"JS_MIRROR_{stable_id(stream.name, account, domain)}"
        self.feed = SourceFeed(_KIND, source, self, ports, name=name, reader=(stream.name, account, domain))

    # --- the stream ---

    def fields(self) -> dict[str, object]:
        """See `Upstream.fields`."""
        return {"mirror": self.shown()}

    def shown(self) -> dict[str, object]:
        """The members of a StreamSourceInfo."""
        return source_fields(self._source, self.feed, self._ports.now_ns(), filtered=self.feed.was_asked)

    def on_removing(self) -> None:
        """See `Upstream.on_removing`: the last sequence outlives its message."""

    def on_fault(self) -> None:
        """See `Upstream.on_fault`."""
        self.feed.retry()

    @property
    def feeds(self) -> list[SourceFeed]:
        """The one that reads the origin."""
        return [self.feed]

    def open(self) -> None:
        """Begin to read."""
        self.feed.open()

    def stop(self, *, deleted: bool) -> None:
        """See `Upstream.stop`."""
        if deleted:
            self.feed.remove_consumer()
        self.feed.close()

    # --- the feed ---

    def start(self) -> Start:
        """See `FeedOwner.start`: what the configuration says counts only for a stream that never had anything."""
        store = self._stream.store
        if store.last_seq == 0 and store.assigned.messages == 0 and self._stream.removals.is_untouched:
            return Start(self._source.opt_start_seq, self._source.opt_start_time_ns)
        return Start(store.last_seq + 1)

    def began(self, delivered_seq: int) -> int:
        """See `FeedOwner.began`: what lies before is not to be had any more."""
        store = self._stream.store
        if store.last_seq < delivered_seq:
            try:
                self._skip_to(delivered_seq)
            except StorageFault:
                self._ports.call_soon(self.feed.retry)
        return max(delivered_seq, store.last_seq)

    def _skip_to(self, seq: int) -> None:
        stream = self._stream
        if stream.store.assigned.messages == 0:
            stream.removals.purge(below_seq=seq + 1)
        else:
            stream.store.skip_to(seq)
            stream.appends.take_over(stream.appends.intake.last_id)
            stream.committer.wake()

    def take(self, subject: bytes, header: bytes, payload: bytes, seq: int, ts_ns: int) -> ApiError | None:
        """See `FeedOwner.take`."""
        if self._transforms.any:
            subject = self._transforms.apply(subject)
        copy_in = self._stream.copy_in
        if not header:
            return copy_in.store_plain(subject, b"", payload, seq, ts_ns)
        return copy_in.store(subject, clean_header(header), payload, seq=seq, ts_ns=ts_ns)

    def caught_up(self) -> None:
        """See `FeedOwner.caught_up`."""
        if not self._is_fresh:
            self._is_fresh = True
            self._on_caught_up(self._stream)

    def after_commit(self, callback: AfterCommit) -> None:
        """See `FeedOwner.after_commit`."""
        self._stream.after_commit(callback)
