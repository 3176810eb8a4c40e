"""Keeps the server from removing what a running query has not committed.

A hold says "nothing from this sequence on"; limits and ages then leave it alone. It ends by itself when it is not
renewed, so that a query that died does not fill a disk; after a restart within that time the open batch is still there,
whole. A server that was restarted has forgotten holds; they are taken again with the next connection.

What this is not: a promise against `purge` or `delete`, which are somebody's wish. Those show as data loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.bulk import BulkError
from slipstream.spark.runtime.connection import Connection
from slipstream.spark.source.offsets import StreamPosition

__all__ = ["SourceHolds"]

_HOLD_NOT_FOUND = 30009
_STREAM_NOT_FOUND = 10059
_BY = "Spark query"
_RENEW_SHARE = 3  # renewed when this part of its time is over


@dataclass
class _Hold:
    hold_id: str
    at: StreamPosition
    since_ns: int
    connection: Connection


class SourceHolds:
    """The holds of one query, at most one a stream."""

    def __init__(self, timeout_ns: int) -> None:
        """Hold for so long without renewal."""
        self._timeout_ns = timeout_ns
        self._holds: dict[str, _Hold] = {}

    def keep(self, connection: Connection, positions: Mapping[str, StreamPosition], now_ns: int) -> None:
        """Hold everything from these places on; what was held before them is let go.

        Raises:
            BulkError: the server cannot be reached, or refuses.
        """
        for name, at in positions.items():
            held = self._holds.get(name)
            if held is None or held.at != at:
                self._take(connection, name, at, now_ns)

    def keep_new(self, connection: Connection, positions: Mapping[str, StreamPosition], now_ns: int) -> None:
        """The same for streams that are not held yet: those of a batch that was left open, and those that joined."""
        self.keep(connection, {name: at for name, at in positions.items() if name not in self._holds}, now_ns)

    def renew(self, connection: Connection, now_ns: int) -> None:
        """Keep holding what is held, also when the connection, and perhaps the server, is a new one."""
        for name, held in list(self._holds.items()):
            if now_ns - held.since_ns >= self._timeout_ns // _RENEW_SHARE or held.connection is not connection:
                self._take(connection, name, held.at, now_ns)

    def _take(self, connection: Connection, name: str, at: StreamPosition, now_ns: int) -> None:
        before = self._holds.get(name)
        seconds = self._timeout_ns / 1e9
        try:
            old = before.hold_id if before else None
            hold_id = connection.client.hold(name, at.seq, ttl_s=seconds, hold_id=old, by=_BY)
        except BulkError as error:
            if error.err_code == _STREAM_NOT_FOUND:
                return  # whoever looks at the stream next says what that means
            if error.err_code != _HOLD_NOT_FOUND:
                raise
            hold_id = connection.client.hold(name, at.seq, ttl_s=seconds, by=_BY)
        self._holds[name] = _Hold(hold_id, at, now_ns, connection)
