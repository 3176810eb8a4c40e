"""Whether a place in a stream is still good: what a query has yet to read, against what the stream holds now.

Gaps are normal: deleted messages, purged subjects and per-subject limits leave them, and a reader skips them. A loss is
another matter: the place where a query stands is gone from the front or from the end, or the stream is a new one. Where
newer messages replace older ones the front moves by itself; `retention` knows whether that is all.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.spark.runtime.errors import DataLoss
from slipstream.spark.runtime.retention import RetentionRisk
from slipstream.spark.runtime.stream_state import StreamState
from slipstream.spark.source.offsets import StreamPosition

__all__ = ["checked", "range_start"]

_ACCEPT = "set failOnDataLoss=false to go on with what is there"


def checked(
    name: str,
    position: StreamPosition,
    state: StreamState | None,
    *,
    fail: bool,
    retention: Callable[[], RetentionRisk] = RetentionRisk,
    quiet_ns: int | None = None,
) -> StreamPosition | None:
    """The place to read on from; the same one unless something was lost and that is accepted.

    Args:
        name: of the stream.
        position: where the query stands.
        state: the stream now; None if it is gone.
        fail: whether a loss is an error.
        retention: asks why messages are gone; only called if some are.
        quiet_ns: so long ago the stream ended at `position`; None if that is not known.

    Returns:
        None when the stream is gone.

    Raises:
        DataLoss: something is gone that was not read.
    """
    if state is None:
        if fail:
            raise DataLoss(f"stream {name!r} is gone; {_ACCEPT}")
        return None
    if position.identity != state.identity:
        if fail:
            raise DataLoss(
                f"stream {name!r} is not the one this query has read so far: it was deleted and created again "
                f"({position.identity} became {state.identity}); {_ACCEPT}, from its first message"
            )
        return StreamPosition(state.first, state.identity)
    if position.seq < state.first:
        if fail:
            if retention().replaced(position.oldest_ns, quiet_ns):
                return position
            raise DataLoss(
                f"stream {name!r} no longer holds messages {position.seq} to {state.first - 1}: its limits, a purge or "
                f"acknowledgements removed them before they were read; {_ACCEPT}"
            )
        return StreamPosition(state.first, state.identity)
    if position.seq > state.last + 1 and not position.waits:
        if fail:
            raise DataLoss(
                f"stream {name!r} ends at {state.last}, but this query has read up to {position.seq - 1}: the server "
                f"has lost messages or was restored from a backup; {_ACCEPT}"
            )
        return StreamPosition(state.last + 1, state.identity)
    return position


def range_start(
    name: str, wanted: int, state: StreamState, *, adjust: bool, retention: Callable[[], RetentionRisk] = RetentionRisk
) -> int:
    """First sequence of a new query that asks for one.

    Raises:
        DataLoss: it is older than what is kept, and that is not to be adjusted.
    """
    if wanted >= state.first or retention().replaced(oldest_ns=0):
        return wanted
    if not adjust:
        raise DataLoss(
            f"startingSequence {wanted} of stream {name!r} is older than what it keeps (from {state.first}); "
            "set outOfRange=adjust to begin there"
        )
    return state.first
