"""All streams that are wanted, one after the other, again and again; one that fails does not stop the others."""

from __future__ import annotations

import fnmatch
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from slipstream.bulk import BulkClient, BulkError, ConnectOptions, connect
from slipstream.errors import SlipstreamError
from slipstream.lake.tables import OpenTable
from slipstream.lake.writing import StreamLag, StreamWriter, WriteSettings
from slipstream.spark.lake.base import LakeError

if TYPE_CHECKING:
    from slipstream.lake.typed import TypedPayloads

__all__ = ["LakeService", "TurnReport", "metrics_text", "stream_names", "write_metrics"]

_STREAMS_MAX: Final = 100_000
_EXPIRE_SECONDS: Final = 600.0  # between looks for old versions
_STREAM_NOT_FOUND: Final = 10059


@dataclass
class TurnReport:
    """What one turn over all streams has done."""

    streams: list[StreamLag] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # by stream

    @property
    def written(self) -> int:
        """Messages."""
        return sum(one.written for one in self.streams)

    def document(self) -> dict[str, Any]:
        """As JSON for programs."""
        return {"streams": [{**asdict(one), "lag": one.lag} for one in self.streams], "failures": self.failures}


class LakeService:
    """Keeps tables up to date."""

    def __init__(
        self,
        reach: ConnectOptions,
        open_table: OpenTable,
        patterns: Sequence[str],
        settings: WriteSettings,
        payloads: TypedPayloads | None = None,
        *,
        may_pause: bool = True,
    ) -> None:
        """Nothing is connected yet.

        Args:
            reach: the server.
            open_table: finds or makes the table of a stream.
            patterns: names of streams, or patterns with `*`.
            settings: how tables are kept.
            payloads: columns of payloads, if the tables have them.
            may_pause: see `BulkLink.may_pause`.
        """
        self._payloads = payloads
        self._may_pause = may_pause
        self._reach = reach
        self._open_table = open_table
        self._patterns = tuple(patterns)
        self._settings = settings
        self._client: BulkClient | None = None
        self._writers: dict[str, StreamWriter] = {}
        self._expired_at = time.monotonic()

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def turn(self) -> TurnReport:
        """Write what all streams have now.

        Raises:
            BulkError: the server cannot be reached; the next turn tries again.
            LakeError: it has no bulk calls.
        """
        report = TurnReport()
        try:
            client = self._connected()
            for name in stream_names(client, self._patterns):
                writer = self._writers.get(name)
                if writer is None:
                    writer = StreamWriter(name, self._open_table, self._settings, self._payloads)
                    self._writers[name] = writer
                try:
                    report.streams.append(writer.turn(client))
                except BulkError as error:
                    if error.retryable:
                        raise
                    if error.err_code == _STREAM_NOT_FOUND:  # deleted since it was listed
                        del self._writers[name]
                        continue
                    report.failures[name] = str(error)
                except SlipstreamError as error:
                    report.failures[name] = str(error)
                except Exception as error:  # libraries of formats and catalogues have no common root
                    report.failures[name] = f"{type(error).__name__}: {error}"
            self._expire(report)
        except BulkError:
            self._disconnect()
            raise
        return report

    def run(
        self,
        every: float,
        stop: threading.Event,
        told: Callable[[TurnReport], None],
        failed: Callable[[SlipstreamError], None],
    ) -> None:
        """Turn after turn until `stop` is set.

        Args:
            every: seconds from the beginning of one turn to that of the next.
            stop: looked at between turns.
            told: gets the report of each turn.
            failed: gets what made a turn impossible, such as a server that is restarted.
        """
        while not stop.is_set():
            begun = time.monotonic()
            try:
                told(self.turn())
            except BulkError as error:
                failed(error)
            stop.wait(max(every - (time.monotonic() - begun), 0.0))

    def close(self) -> None:
        """Release what the server keeps for us."""
        if self._client is not None:
            for writer in self._writers.values():
                writer.release(self._client)
        self._disconnect()

    def _connected(self) -> BulkClient:
        if self._client is None:
            self._client = connect(self._reach)
            self._client.link.may_pause = self._may_pause
            if not self._client.is_slipstream:
                raise LakeError("this server has no bulk calls, or does not permit them to us; tables need them")
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _expire(self, report: TurnReport) -> None:
        if time.monotonic() - self._expired_at < _EXPIRE_SECONDS:
            return
        self._expired_at = time.monotonic()
        for name, writer in self._writers.items():
            try:
                writer.expire()
            except Exception as error:  # as above
                report.failures[name] = f"old versions stay: {error}"


def stream_names(client: BulkClient, patterns: Sequence[str]) -> list[str]:
    """Streams of these names and patterns, sorted; a name without a pattern need not be there."""
    known: list[str] = []
    while len(known) < _STREAMS_MAX:
        page = client.link.request("STREAM.NAMES", {"offset": len(known)})
        names = page.get("streams") or []
        known += names
        if not names or len(known) >= int(page.get("total", 0)):
            break
    return sorted(name for name in known if any(fnmatch.fnmatchcase(name, one) for one in patterns))


def metrics_text(report: TurnReport, now: float) -> str:
    """The report in the text format of Prometheus."""
    lines = ["# TYPE slipstream_lake_lag_messages gauge"]
    lines += [f'slipstream_lake_lag_messages{{stream="{one.stream}"}} {one.lag}' for one in report.streams]
    lines.append("# TYPE slipstream_lake_last_sequence gauge")
    lines += [f'slipstream_lake_last_sequence{{stream="{one.stream}"}} {one.upto}' for one in report.streams]
    lines.append("# TYPE slipstream_lake_failed gauge")
    lines += [f'slipstream_lake_failed{{stream="{name}"}} 1' for name in report.failures]
    lines += ["# TYPE slipstream_lake_turn_time_seconds gauge", f"slipstream_lake_turn_time_seconds {now:.3f}"]
    return "\n".join(lines) + "\n"


def write_metrics(path: str, report: TurnReport) -> None:
    """Put the report where a collector of text files finds it, whole."""
    place = Path(path)
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    unfinished.write_text(metrics_text(report, time.time()))
    os.replace(unfinished, place)
