"""Figures of a stream without Spark: times in headers, latencies by window, and their pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from slipstream.spark.jobs.chart import check_chart, write_chart
from slipstream.spark.jobs.report import Report
from slipstream.spark.jobs.stats import _describe, _figures, _Measure, _time_ns, _Total
from slipstream.spark.jobs.tasks import JobError

NOON_NS = 1_706_702_400 * 10**9  # 2024-01-31T12:00:00Z
SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1706702400", NOON_NS),
        ("1706702400123", NOON_NS + 123_000_000),
        ("1706702400123456", NOON_NS + 123_456_000),
        ("1706702400123456789", NOON_NS + 123_456_789),
        ("2024-01-31T12:00:00Z", NOON_NS),
        (" 2024-01-31 13:00:00.5+01:00", NOON_NS + 500_000_000),
        ("2024-01-31T12:00:00.1234567891Z", NOON_NS + 123_456_789),
        ("2024-01-31t12:00:00.000000001z", NOON_NS + 1),
        ("2024-01-31T12:00:00", NOON_NS),
    ],
)
def test_times_as_senders_write_them(text: str, time_ns: int) -> None:
    assert _time_ns(text) == time_ns


ODD = [
    *("99999999999999999999", "9999999999999999999", "²", "١٢٣٤٥٦٧٨٩٠", "garbage", "", "-5", "5", "1e18", "12:00"),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+02:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-02:00"),
    *("2024-01-31T12:00:00.5+01:00Z", "2024-13-31T12:00:00Z", "2024-01-31T12:00:00.Z", "2024-01-31T12:00:00+99:99"),
]


@pytest.mark.parametrize("text", ODD)
def test_what_is_no_time(text: str) -> None:
    assert _time_ns(text) is None


def measured(rows: list[tuple[int, str | None]], window_ns: int = SECOND_NS) -> Report:
    """A report of messages stored at these nanoseconds after noon, with these headers."""
    table = pa.table(
        {
            "ts_ns": pa.array([NOON_NS + after for after, _ in rows], pa.int64()),
            "subject": pa.array(["a<b>"] * len(rows)),
            "size": pa.array([100] * len(rows), pa.int32()),
            "headers": pa.array(
                [None if text is None else [("Sent", [text])] for _, text in rows],
                pa.map_(pa.string(), pa.list_(pa.string())),
            ),
        }
    )
    item: Any = _Measure(None, window_ns, "Sent")  # type: ignore[arg-type]
    total = _Total()
    for half in (table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)):
        total.add(_figures(half, item))
    report = Report("stats")
    _describe(report, "A&B", total, window_ns, 10, "Sent")
    return report


def test_odd_values_are_counted_and_left_out() -> None:
    sent = str(NOON_NS)
    report = measured([(1_000_000, sent), (2_000_000, None), *((3_000_000, text) for text in ODD), (4_000_000, sent)])
    assert (report["messages"], report["latency_samples"], report["latency_odd"]) == (3 + len(ODD), 2, len(ODD))
    assert report["latency_ms_p99"] == pytest.approx(4, rel=0.02)


def test_latencies_by_window() -> None:
    sent = str(NOON_NS)
    early = [(5_000_000, sent)] * 98 + [(900_000_000, sent)] * 3
    report = measured([*early, (1_500_000_000, None), (2_500_000_000, sent), (2_600_000_000, str(NOON_NS * 2))])
    windows = [(one["messages"], one["latency_ms_p50"], one["latency_ms_p99"]) for one in report["windows"]]
    assert windows == [
        (101, pytest.approx(5, rel=0.02), pytest.approx(900, rel=0.02)),
        (1, None, None),
        (2, 0.0, pytest.approx(2_500, rel=0.02)),
    ]


def test_a_drawing_shows_rates_and_latencies(tmp_path: Path) -> None:
    report = measured([(number * SECOND_NS // 2, str(NOON_NS)) for number in range(20)])
    path = tmp_path / "chart.svg"
    write_chart(report, str(path))
    root = ElementTree.fromstring(path.read_text())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Stream A&B" in texts and "Messages a second" in texts and "Latency until stored" in texts
    assert f"{report['latency_ms_p99']:,} ms" in texts
    bars = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    assert len(bars) == 10 + 10 + 4 + 4  # two pictures of ten windows, four percentiles of sizes and of latencies
    lines = {line.get("class"): line.get("points", "") for line in root.iter("{http://www.w3.org/2000/svg}polyline")}
    assert {name: len(points.split()) for name, points in lines.items()} == {"p50": 10, "p99": 10}
    heights = [float(point.split(",")[1]) for point in lines["p99"].split()]
    assert heights == sorted(heights, reverse=True), "latencies grow"


def test_a_page_holds_the_same_pictures(tmp_path: Path) -> None:
    report = measured([(number * SECOND_NS, str(NOON_NS)) for number in range(1000)])
    path = tmp_path / "chart.HTML"
    write_chart(report, str(path))
    page = path.read_text()
    assert page.startswith("<!doctype html>") and "<b>" not in page and "Stream A&amp;B" in page
    pictures = re.findall(r"<svg[^>]*>.*?</svg>", page)
    assert len(pictures) == 5
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert pictures[0].count("<rect") == 250, "four windows a bar"
    assert pictures[3].count("<polyline") == 2


def test_pictures_of_nothing(tmp_path: Path) -> None:
    report = Report("stats")
    _describe(report, "EMPTY", _Total(), SECOND_NS, 10, "Sent")
    write_chart(report, str(tmp_path / "empty.svg"))
    text = (tmp_path / "empty.svg").read_text()
    ElementTree.fromstring(text)
    assert "No messages." in text and "No message says when it was sent." in text


@pytest.mark.parametrize(
    ("name", "words"), [("c.png", "browser"), ("c", "cannot be written"), ("no/c.svg", "no directory")]
)
def test_other_charts_are_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(JobError, match=words):
        check_chart(str(tmp_path / name))
    with pytest.raises(JobError):
        write_chart(Report("stats"), str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
