"""`stats`: rates, sizes, subjects and latencies of a stream, aggregated where it is read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slipstream.spark.jobs.ranges import ReadRange, again, plan_stream, read_batches, stream_facts
from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.sketch import Sketch, buckets_of
from slipstream.spark.jobs.tasks import JobError, Result, at_once, run_tasks, waves
from slipstream.spark.runtime.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["stats"]

_SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_SUBJECTS_A_TASK: Final = 10_000  # a worker forgets rarer ones
_WINDOWS_MAX: Final = 100_000
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_UNITS_NS: Final = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}  # digits of a time since 1970 in each unit, until 2286
_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)


@dataclass(frozen=True)
class _Measure:
    piece: ReadRange
    window_ns: int
    latency_header: str


def stats(
    spark: SparkSession,
    stream: str,
    *,
    reach: Reach | None = None,
    subjects: Sequence[str] = (),
    start_ns: int | None = None,
    end_ns: int | None = None,
    window_ns: int = 60_000_000_000,
    top: int = 10,
    latency_header: str = "",
    say: Say = quiet,
) -> Report:
    """Measure a stream.

    Args:
        spark: the session.
        stream: its name.
        reach: the server.
        subjects: filters; all by default.
        start_ns: only messages stored at or after this time.
        end_ns: only messages stored before this time.
        window_ns: rates are counted in windows of this length.
        top: so many subjects are named.
        latency_header: header with the time a message was sent, in RFC 3339 or as seconds, milliseconds, microseconds
            or nanoseconds since 1970; the time until it was stored is its latency. Values that are no time are counted
            as odd and otherwise left out.
        say: gets a line now and then.

    Raises:
        JobError: the stream cannot be read, or windows are too small for it.
    """
    report = Report("stats")
    reach = reach or Reach()
    if window_ns <= 0:
        raise JobError("a window is longer than nothing")
    facts = stream_facts(reach, stream)
    window: dict[str, Any] = {"subjects": subjects, "start_ns": start_ns, "end_ns": end_ns}
    pieces = plan_stream(reach, facts, facts.first, facts.last, target_bytes=64 << 20, at_once=at_once(spark), **window)
    total = _Total()
    for wave in waves(spark, pieces):
        for result in run_tasks(spark, [_Measure(piece, window_ns, latency_header) for piece in wave], _measure):
            total.add(result)
        say(f"{stream}: {counted(total.messages, 'message')} measured")
    _describe(report, stream, total, window_ns, top, latency_header)
    return report.finish()


class _Total:
    """What all workers measured."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        self.first_ns, self.last_ns = 2**63 - 1, 0
        self.windows: Counter[int] = Counter()
        self.window_bytes: Counter[int] = Counter()
        self.subjects: Counter[str] = Counter()
        self.subject_bytes: Counter[str] = Counter()
        self.sizes = Sketch()
        self.latencies = Sketch()
        self.window_latencies: defaultdict[int, Sketch] = defaultdict(Sketch)
        self.odd_times = 0
        self.rarer = False

    def add(self, result: Result) -> None:
        self.messages += result["messages"]
        self.bytes += result["bytes"]
        if result["messages"]:
            self.first_ns = min(self.first_ns, result["first_ns"])
            self.last_ns = max(self.last_ns, result["last_ns"])
        for window, count, size in result["windows"]:
            self.windows[window] += count
            self.window_bytes[window] += size
        if len(self.windows) > _WINDOWS_MAX:
            raise JobError(f"there are more than {_WINDOWS_MAX:,} windows: choose longer ones")
        for subject, count, size in result["subjects"]:
            self.subjects[subject] += count
            self.subject_bytes[subject] += size
        self.rarer |= result["rarer"]
        self.sizes.merge(result["sizes"])
        self.latencies.merge(result["latencies"])
        for window, bucket, count in result["window_latencies"]:
            self.window_latencies[window].counts[bucket] += count
        self.odd_times += result["odd_times"]


def _describe(report: Report, stream: str, total: _Total, window_ns: int, top: int, latency_header: str) -> None:
    seconds = max((total.last_ns - total.first_ns) / 1e9, 1e-9) if total.messages else 0.0
    report.figures = {
        "stream": stream,
        "messages": total.messages,
        "bytes": total.bytes,
        "subjects": len(total.subjects),
        "seconds_covered": round(seconds, 3),
        "messages_per_second": round(total.messages / seconds, 1) if seconds else 0.0,
        "bytes_per_second": round(total.bytes / seconds, 1) if seconds else 0.0,
        **{f"size_p{share * 100:g}": round(value) for share, value in _each(total.sizes)},
    }
    if latency_header:
        report.figures |= {f"latency_ms_p{share * 100:g}": round(v / 1e6, 3) for share, v in _each(total.latencies)}
        report.figures["latency_samples"] = sum(total.latencies.counts.values())
        report.figures["latency_odd"] = total.odd_times
    if total.rarer:
        report.figures["subjects_note"] = "rare subjects of large ranges are not counted"
    report.tables["top_subjects"] = [
        {"subject": subject, "messages": count, "bytes": total.subject_bytes[subject]}
        for subject, count in total.subjects.most_common(top)
    ]
    report.tables["windows"] = [
        {
            "start_ns": window * window_ns,
            "messages": total.windows[window],
            "bytes": total.window_bytes[window],
            "messages_per_second": round(total.windows[window] * 1e9 / window_ns, 3),
            **_latencies_of(total, window, bool(latency_header)),
        }
        for window in sorted(total.windows)
    ]


def _latencies_of(total: _Total, window: int, measured: bool) -> dict[str, float | None]:
    """Of one window; None where no message said when it was sent."""
    if not measured:
        return {}
    found = total.window_latencies.get(window)
    half, most = found.percentiles((0.5, 0.99)) if found is not None else (None, None)
    return {
        "latency_ms_p50": None if half is None else round(half / 1e6, 3),
        "latency_ms_p99": None if most is None else round(most / 1e6, 3),
    }


def _each(sketch: Sketch) -> list[tuple[float, float]]:
    return list(zip(_SHARES, sketch.percentiles(_SHARES), strict=True))


def _measure(item: _Measure) -> Result:
    """In a worker: the figures of one range."""
    columns = ("ts_ns", "subject", "size", *(("headers",) if item.latency_header else ()))

    def measure() -> Result:
        import pyarrow as pa

        batches = list(read_batches(item.piece, columns))
        return _figures(pa.Table.from_batches(batches), item) if batches else _NOTHING

    return again(item.piece.reach, measure)


_NOTHING: Final[Result] = {
    "messages": 0,
    "bytes": 0,
    "windows": [],
    "subjects": [],
    "rarer": False,
    "sizes": {},
    "latencies": {},
    "window_latencies": [],
    "odd_times": 0,
}


def _figures(table: pa.Table, item: _Measure) -> Result:
    import pyarrow.compute as pc

    times = table.column("ts_ns")
    table = table.append_column("window", pc.divide(times, item.window_ns))
    windows = table.group_by("window").aggregate([("size", "count"), ("size", "sum")])
    subjects = table.group_by("subject").aggregate([("size", "count"), ("size", "sum")])
    rarer = subjects.num_rows > _SUBJECTS_A_TASK
    if rarer:
        subjects = subjects.sort_by([("size_count", "descending")]).slice(0, _SUBJECTS_A_TASK)
    sizes, latencies, by_window, odd = Sketch(), Sketch(), [], 0
    sizes.add(table.column("size").combine_chunks())
    if item.latency_header:
        passed, odd = _latencies(table, item.latency_header)
        latencies.add(passed.drop_null())
        by_window = _counts_by_window(table.column("window"), passed)
    bounds = pc.min_max(times).as_py()
    return {
        "messages": table.num_rows,
        "bytes": pc.sum(table.column("size")).as_py(),
        "first_ns": bounds["min"],
        "last_ns": bounds["max"],
        "windows": _triples(windows, "window"),
        "subjects": _triples(subjects, "subject"),
        "rarer": rarer,
        "sizes": dict(sizes.counts),
        "latencies": dict(latencies.counts),
        "window_latencies": by_window,
        "odd_times": odd,
    }


def _triples(table: pa.Table, key: str) -> list[list[Any]]:
    columns = [table.column(name).to_pylist() for name in (key, "size_count", "size_sum")]
    return [list(row) for row in zip(*columns, strict=True)]


def _counts_by_window(windows: pa.ChunkedArray, passed: pa.Array) -> list[list[Any]]:
    """Window, bucket of the latency, messages."""
    import pyarrow as pa

    pairs = pa.table({"window": windows, "bucket": buckets_of(passed)}).drop_null()
    counts = pairs.group_by(["window", "bucket"]).aggregate([([], "count_all")])
    columns = [counts.column(name).to_pylist() for name in ("window", "bucket", "count_all")]
    return [list(row) for row in zip(*columns, strict=True)]


def _latencies(table: pa.Table, header: str) -> tuple[pa.Array, int]:
    """Nanoseconds from the time in a header to the time of storing, or null; and how many headers hold no time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.map_lookup(table.column("headers").combine_chunks(), header, "first").to_pylist()
    times = [_time_ns(values[0]) if values else None for values in texts]
    sent = pa.array(times, pa.int64())
    passed = pc.subtract(table.column("ts_ns").combine_chunks(), sent)
    odd = sum(1 for values, found in zip(texts, times, strict=True) if values and found is None)
    return pc.max_element_wise(passed, 0, skip_nulls=False), odd


def _time_ns(text: str | None) -> int | None:
    """A time in whatever form senders write it; None if it is none, or not between 1970 and 2262."""
    from datetime import UTC, datetime

    if text is None:
        return None
    text = text.strip()
    if _DIGITS.fullmatch(text):
        unit = _UNITS_NS.get(len(text))
        found = None if unit is None else int(text) * unit
    else:
        parts = _RFC3339.fullmatch(text)
        if parts is None:
            return None
        try:
            moment = datetime.fromisoformat(parts[1] + (parts[3] or "+00:00").upper().replace("Z", "+00:00"))
        except ValueError:
            return None
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        found = (since.days * 86_400 + since.seconds) * 10**9 + int((parts[2] or "").ljust(9, "0")[:9])
    return found if found is not None and 0 <= found < 2**63 else None
