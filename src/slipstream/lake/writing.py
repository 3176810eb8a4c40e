"""One stream into its table: what is new, file by file, each in one commit that also says how far it goes.

Where a writer goes on is what the table says, never what the writer remembers. So a writer that is killed anywhere, or
two at once, add every message once: of two commits that follow the same position one is refused.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slipstream.bulk import BulkClient, BulkError
from slipstream.jetstream.gojson.times import parse_time
from slipstream.lake.tables import LakeTable, OpenTable
from slipstream.limits import BULK_HOLDER_MAX
from slipstream.spark.lake.base import LakeError
from slipstream.spark.lake.files import COLUMNS
from slipstream.spark.runtime.retention import read_retention
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.lake.typed import TypedPayloads

__all__ = ["StreamLag", "StreamWriter", "WriteSettings"]

_ATTEMPTS: Final = 20  # each is a commit of somebody else
_HOLD_SECONDS: Final = 600.0
_RENEWED_SECONDS: Final = 20.0  # a hold that was renewed since is taken for that of somebody who lives
_HOLD_NOT_FOUND: Final = 30009


@dataclass(frozen=True)
class WriteSettings:
    """How tables are kept."""

    file_bytes: int = 64 << 20  # of messages in a file at most, unless one message has more
    compact_files: int = 16  # so many small neighbours are put together; 0 for never
    keep_seconds: float = 7 * 86_400.0  # how long older versions can be read
    accept_gap: bool = False  # go on when messages were removed before they were written


@dataclass(frozen=True)
class StreamLag:
    """How far a table has come."""

    stream: str
    place: str
    upto: int  # position of the table
    last: int  # last sequence of the stream when the turn was done
    written: int  # messages in this turn
    commits: int
    compacted: int  # files that were put together

    @property
    def lag(self) -> int:
        """Sequences that the table has not."""
        return max(self.last - self.upto, 0)


class StreamWriter:
    """Writes one stream."""

    def __init__(
        self, stream: str, open_table: OpenTable, settings: WriteSettings, payloads: TypedPayloads | None = None
    ) -> None:
        """Nothing is opened yet; with `payloads` the table has columns of their members."""
        self._payloads = payloads
        self._stream = stream
        self._open_table = open_table
        self._settings = settings
        self._table: LakeTable | None = None
        self._identity = ""
        self._hold = ""
        self._by = ""  # who holds, for people and for the writer that comes after us

    def turn(self, client: BulkClient) -> StreamLag:
        """Write what the stream has now.

        Raises:
            LakeError: messages were removed before they were written, or the table is of another stream.
            BulkError: the server cannot be asked.
        """
        info = client.bulk_info(self._stream)
        identity, last = str(info["identity"]), int(info["last_seq"])
        table = self._opened(identity)
        self._hold = self._hold or self._left_behind(info)
        upto = table.position()
        self._check_front(client, table, upto, int(info["first_seq"]), last)
        # After `last` is known: no message up to it has a schema that this does not see.
        if self._payloads is not None and upto < last and self._payloads.follow(client, self._stream):
            self._table = None
            table = self._opened(identity)
            upto = table.position()
        written = commits = conflicts = 0
        while upto < last:
            self._keep(client, upto + 1)
            plan = client.plan(
                self._stream, upto + 1, last, max_bytes=self._settings.file_bytes, partitions=1, identity=identity
            )
            if not plan.messages:
                break  # the rest of the range has none
            reader = client.read(self._stream, plan.first, plan.last, columns=COLUMNS, identity=identity)
            with reader:
                batches = iter(reader)
                if self._payloads is not None:
                    batches = self._payloads.shaped(batches, identity)
                rows = table.append(batches, upto, plan.last)
            if rows is None:
                conflicts += 1
                if conflicts > _ATTEMPTS:
                    raise LakeError(f"{table.place} is changed all the time by somebody else")
                upto = table.position()
                continue
            upto, written, commits = plan.last, written + rows, commits + 1
        compacted = 0
        if commits and self._settings.compact_files:
            compacted = table.compact(self._settings.file_bytes, self._settings.compact_files)
        self._keep(client, upto + 1)  # what comes is kept as well, and what is written no more
        now = int(client.bulk_info(self._stream)["last_seq"])
        # A range without messages is not committed: nothing is missing there.
        return StreamLag(self._stream, table.place, max(upto, last), now, written, commits, compacted)

    def expire(self) -> int:
        """Forget old versions; how many files were removed."""
        return self._table.expire(self._settings.keep_seconds) if self._table is not None else 0

    def release(self, client: BulkClient) -> None:
        """Let the server remove what its limits say; never raises."""
        if self._hold:
            with suppress(BulkError):
                client.release(self._stream, self._hold)
            self._hold = ""

    def _opened(self, identity: str) -> LakeTable:
        if self._table is None or identity != self._identity:
            table = self._table = self._open_table(self._stream, identity)
            self._identity = identity
            self._by = f"table {table.place} ({table.table_id})"[:BULK_HOLDER_MAX]
        return self._table

    def _check_front(self, client: BulkClient, table: LakeTable, upto: int, first: int, last: int) -> None:
        """Look whether the stream still has what follows the table."""
        end = min(first - 1, last) if first else last
        if not upto or end <= upto or self._settings.accept_gap or table.is_explained(upto + 1, end):
            return
        risk = read_retention(client.stream_info(self._stream), client.link.max_payload, time.time_ns())
        if not risk.replaced(None):
            raise LakeError(
                f"messages {upto + 1} to {end} of {self._stream} were removed before they were written to "
                f"{table.place}; accept the gap to go on without them (--accept-gap)"
            )

    def _left_behind(self, info: Mapping[str, Any]) -> str:
        """The hold of a writer of this table that died: one that dies again and again would have all there may be."""
        renewed_ns = time.time_ns() + int((_HOLD_SECONDS - _RENEWED_SECONDS) * SECOND_NS)
        for one in info.get("holds") or ():
            if one.get("by") == self._by and parse_time(one["expires"]) < renewed_ns:
                return str(one["id"])
        return ""

    def _keep(self, client: BulkClient, first: int) -> None:
        """Ask the server to keep what is not written, whatever its limits say."""
        by = self._by
        try:
            self._hold = client.hold(self._stream, first, ttl_s=_HOLD_SECONDS, hold_id=self._hold or None, by=by)
        except BulkError as error:
            if error.err_code != _HOLD_NOT_FOUND:
                raise
            self._hold = client.hold(self._stream, first, ttl_s=_HOLD_SECONDS, by=by)  # the server was restarted
