"""What monitoring shows of the tables that streams are written to (`lake { … }`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slipstream.monitoring.endpoints.exposition import Metric
from slipstream.monitoring.limits import MONITOR_METRICS_STREAMS_MAX

__all__ = ["LakeState", "TableState", "lake_metrics"]


class TableState(NamedTuple):
    """One stream's table after a turn."""

    stream: str
    lag: int
    """Sequences that the table has not."""
    upto: int
    failed: bool


class LakeState(NamedTuple):
    """One block: its process, and what that has told."""

    location: str
    running: bool
    """Whether the process is there and its last turn was possible."""
    restarts: int
    tables: Sequence[TableState]


def lake_metrics(states: Sequence[LakeState]) -> list[Metric]:
    """Metrics of all blocks; none without a block."""
    if not states:
        return []
    blocks = [({"location": state.location}, state) for state in states]
    tables = [
        ({"location": state.location, "stream": table.stream}, table) for state in states for table in state.tables
    ][:MONITOR_METRICS_STREAMS_MAX]
    return [
        Metric(
            "lake_running",
            "gauge",
            "Whether the writer of tables is at work.",
            [(labels, int(state.running)) for labels, state in blocks],
        ),
        Metric(
            "lake_restarts_total",
            "counter",
            "Writers of tables that ended by themselves.",
            [(labels, state.restarts) for labels, state in blocks],
        ),
        Metric(
            "lake_lag_messages",
            "gauge",
            "Sequences of a stream that its table has not.",
            [(labels, table.lag) for labels, table in tables],
        ),
        Metric(
            "lake_last_sequence",
            "gauge",
            "Last sequence that a table has.",
            [(labels, table.upto) for labels, table in tables],
        ),
        Metric(
            "lake_failed",
            "gauge",
            "Whether a stream could not be written.",
            [(labels, int(table.failed)) for labels, table in tables],
        ),
    ]
