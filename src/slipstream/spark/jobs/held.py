"""A hold on a stream for as long as a job reads it: limits and ages remove nothing that is about to be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from slipstream.bulk import BulkError, connect
from slipstream.spark.runtime.connection import get_connection
from slipstream.spark.runtime.repeating import repeating
from slipstream.spark.runtime.target import Reach

__all__ = ["held"]

_HOLD_SECONDS: Final = 600.0
_RENEWALS: Final = 10  # in that time
_HOLD_NOT_FOUND: Final = 30009
_BY: Final = "Spark job"


@contextmanager
def held(reach: Reach, stream: str, first: int) -> Iterator[None]:
    """Keep limits from removing what is being read, where the server can, for as long as this takes."""
    connection = get_connection(reach)
    if not connection.is_slipstream:
        yield
        return
    hold = connection.client.hold(stream, first, ttl_s=_HOLD_SECONDS, by=_BY)

    def renew() -> None:
        nonlocal hold
        # A connection of its own, since this is another thread. What fails here is tried again, and what is removed
        # because of it is missed: a plan says how many messages have to come.
        with suppress(BulkError), connect(reach) as client:
            try:
                hold = client.hold(stream, first, ttl_s=_HOLD_SECONDS, hold_id=hold)
            except BulkError as error:
                if error.err_code != _HOLD_NOT_FOUND:
                    raise
                hold = client.hold(stream, first, ttl_s=_HOLD_SECONDS, by=_BY)  # the server was restarted

    try:
        with repeating(_HOLD_SECONDS / _RENEWALS, renew, f"hold of {stream}"):
            yield
    finally:
        with suppress(BulkError):
            get_connection(reach).client.release(stream, hold)
