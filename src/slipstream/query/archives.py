"""What a stream has no more, read from the files of its archive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slipstream.bulk import BulkClient
from slipstream.bulk.narrowing import Pushed
from slipstream.query.errors import QueryError
from slipstream.spark.lake import Wish, is_erased, open_lake
from slipstream.spark.lake.files import read_file
from slipstream.spark.runtime.retention import read_retention

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.query.streams import QueriedStream

__all__ = ["ArchivedMessages", "open_archived"]

_ATTEMPTS: Final = 10  # each is a compaction that replaced the files we were reading


class ArchivedMessages:
    """The archive of one stream, below the stream's first message."""

    def __init__(self, location: str, first: int) -> None:
        """Use `open_archived`."""
        self.first = first
        """The oldest sequence it has."""
        self._location = location

    def read(self, first: int, last: int, pushed: Pushed, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Messages in the order of their sequences.

        Raises:
            QueryError: the files are replaced faster than they are read.
        """
        wish = Wish(first, last, pushed.start_time_ns, pushed.end_time_ns, pushed.subjects or ())
        for _ in range(_ATTEMPTS):
            lake = open_lake(self._location)
            try:
                for file in lake.select(wish):
                    yield from read_file(lake.path_of(file), columns, wish)
                    wish = replace(wish, first_seq=file.last_seq + 1)
                return
            except FileNotFoundError:  # before the first row of that file: others have the same rows now
                continue
        raise QueryError(f"the files at {self._location} are replaced all the time; try again later")


def open_archived(client: BulkClient, location: str, stream: QueriedStream) -> ArchivedMessages:
    """The archive of a stream; asked for after the stream, so that what that has no more is archived by now.

    Raises:
        QueryError: it is of another stream, or messages are neither in it nor in the stream.
        LakeError: there is none.
    """
    lake = open_lake(location)
    facts = lake.facts
    if facts.identity != stream.identity:
        raise QueryError(f"the archive at {location} is of another stream: {facts.stream} {facts.identity}")
    missing, end = facts.archived_upto + 1, stream.first - 1
    if missing <= end and not is_erased(location, missing, end):
        risk = read_retention(client.stream_info(stream.name), client.link.max_payload, time.time_ns())
        if not risk.replaced(None):
            raise QueryError(f"messages {missing} to {end} of {stream.name} are neither archived nor in the stream")
    return ArchivedMessages(location, min((file.first_seq for file in lake.files()), default=stream.first))
