"""How far a streaming query is behind: messages that streams hold and the query has not read.

lag(query.lastProgress)                       # {"ORDERS": 1200}
spark.streams.addListener(lag_listener(print))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from slipstream.spark.source.offsets import Offset, OffsetError

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

__all__ = ["lag", "lag_listener"]


def lag(progress: Any) -> dict[str, int]:
    """Sequences between the end of the last batch and the end of each stream.

    Args:
        progress: `query.lastProgress`, or the `progress` of a listener's event; None gives nothing.

    Returns:
        By stream. A filtered query counts all messages of its streams, wanted or not.
    """
    behind: dict[str, int] = {}
    for source in _sources(progress):
        try:
            end, latest = _offset(source["endOffset"]), _offset(source["latestOffset"])
        except (OffsetError, KeyError, ValueError):
            continue  # another kind of source, or nothing was read yet
        for name, at in latest.positions.items():
            done = end.positions.get(name)
            behind[name] = max(at.seq - done.seq, 0) if done is not None else at.seq - 1
    return behind


def lag_listener(report: Callable[[str, dict[str, int]], None]) -> StreamingQueryListener:
    """A listener that reports the lag of every query after every batch: name (or id) of the query, lag by stream."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class _LagListener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            behind = lag(event.progress)
            if behind:
                report(event.progress.name or str(event.progress.id), behind)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return _LagListener()


def _sources(progress: Any) -> list[Mapping[str, Any]]:
    if progress is None:
        return []
    text = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    return list(text.get("sources", []))


def _offset(value: Any) -> Offset:
    """Offsets come parsed or as texts, depending on where progress comes from."""
    return Offset.from_json(json.loads(value) if isinstance(value, str) else value)
