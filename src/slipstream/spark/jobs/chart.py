"""Pictures of the figures of `stats`: rates and latencies over time, percentiles of latencies and sizes.

One file without scripts: a page (`.html`, which also lists the busiest subjects) or a drawing (`.svg`). Other names are
refused before anything is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from slipstream.spark.jobs.report import Report
from slipstream.spark.jobs.tasks import JobError

__all__ = ["check_chart", "write_chart"]

_SUFFIXES: Final = (".html", ".htm", ".svg")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TITLE = 900, 220, 70, 24, 30
_ROW: Final = 22  # height of a bar that lies
_BARS_MAX: Final = 300
_SVG_STYLE: Final = """
svg { background: #fafafa; font: 11px system-ui, sans-serif } rect { fill: #2a7ab0 } text { fill: #555 }
line { stroke: #ccc } polyline { fill: none; stroke-width: 1.5 } .title { font-size: 14px; fill: #222 }
.p50 { stroke: #2a7ab0 } .p99 { stroke: #c0504d } circle { stroke: none } circle.p50 { fill: #2a7ab0 }
circle.p99 { fill: #c0504d } text.p50 { stroke: none; fill: #2a7ab0 } text.p99 { stroke: none; fill: #c0504d }
"""
_STYLE: Final = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: .15em .8em; text-align: right }
td:first-child { text-align: left }
"""


@dataclass(frozen=True)
class _Picture:
    title: str
    body: str  # elements of SVG
    height: int


def check_chart(path: str) -> None:
    """Check that pictures can be written there.

    Raises:
        JobError: the name ends in something else than what can be written, or there is no such directory.
    """
    place = Path(path)
    if place.suffix.lower() not in _SUFFIXES:
        hint = "; open the page in a browser to save it as an image" if place.suffix.lower() == ".png" else ""
        raise JobError(f"a chart is a page (.html) or a drawing (.svg), so {place.name!r} cannot be written{hint}")
    if not place.parent.is_dir():
        raise JobError(f"there is no directory {str(place.parent)!r} for the chart")


def write_chart(report: Report, path: str) -> None:
    """Write the pictures, in the form that the name's ending says.

    Raises:
        JobError: see `check_chart`.
    """
    check_chart(path)
    text = _drawing(report) if Path(path).suffix.lower() == ".svg" else _page(report)
    Path(path).write_text(text, encoding="utf-8")


def _page(report: Report) -> str:
    name, facts = _headline(report)
    parts = [f"<h1>{name}</h1>", f"<p>{facts}</p>"]
    for picture in _pictures(report):
        size = f'width="{_WIDTH}" height="{picture.height}"'
        parts.append(f"<h2>{escape(picture.title)}</h2>\n<svg {size}>{picture.body}</svg>")
    parts += ["<h2>Busiest subjects</h2>", _subjects(report.tables["top_subjects"])]
    head = f"<!doctype html><meta charset=utf-8><title>{name}</title><style>{_STYLE}{_SVG_STYLE}</style>"
    return head + "\n".join(parts) + "\n"


def _drawing(report: Report) -> str:
    name, facts = _headline(report)
    parts = [_text(_LEFT, 20, name, "title"), _text(_LEFT, 38, facts)]
    top = 50
    for picture in _pictures(report):
        inside = _text(_LEFT, 20, escape(picture.title), "title")
        parts.append(f'<g transform="translate(0 {top})">{inside}</g>')
        parts.append(f'<g transform="translate(0 {top + _TITLE})">{picture.body}</g>')
        top += _TITLE + picture.height + 10
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 10}" height="{top}">'
    return f"{opening}<style>{_SVG_STYLE}</style>" + "\n".join(parts) + "</svg>\n"


def _headline(report: Report) -> tuple[str, str]:
    figures = report.figures
    facts = (
        f"{figures['messages']:,} messages, {figures['bytes']:,} bytes, {figures['subjects']:,} subjects, over "
        f"{figures['seconds_covered']:,} seconds."
    )
    return f"Stream {escape(str(figures['stream']))}", facts


def _pictures(report: Report) -> list[_Picture]:
    figures, windows = report.figures, _merged(report.tables["windows"])
    clocks = [_clock(one["start_ns"]) for one in windows]
    pictures = [
        _bars("Messages a second", clocks, [one["messages_per_second"] for one in windows]),
        _bars("Bytes in a window", clocks, [one["bytes"] for one in windows]),
        _percentiles("Message sizes", figures, "size_p", "bytes"),
    ]
    if figures.get("latency_samples"):
        lines = {share: [one.get(f"latency_ms_{share}") for one in windows] for share in ("p50", "p99")}
        pictures += [
            _lines("Latency until stored, over time, in ms", clocks, lines),
            _percentiles("Latency until stored", figures, "latency_ms_p", "ms"),
        ]
    elif "latency_samples" in figures:
        pictures.append(_Picture("Latency until stored", _text(_LEFT, 14, "No message says when it was sent."), 24))
    return pictures


def _merged(windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many windows as can be drawn: neighbours become one, with their mean rate and their worst latency."""
    step = -(-len(windows) // _BARS_MAX) or 1
    merged = []
    for start in range(0, len(windows), step):
        group = windows[start : start + step]
        rate = sum(one["messages_per_second"] for one in group) / len(group)
        one = {**group[0], "messages_per_second": rate, "bytes": sum(one["bytes"] for one in group)}
        for name in ("latency_ms_p50", "latency_ms_p99"):
            known = [each[name] for each in group if each.get(name) is not None]
            one[name] = max(known, default=None)
        merged.append(one)
    return merged


def _bars(title: str, clocks: Sequence[str], values: Sequence[float]) -> _Picture:
    if not values:
        return _Picture(title, _text(_LEFT, 14, "No messages."), 24)
    highest = max(values) or 1
    step, height = (_WIDTH - _LEFT) / len(values), _HEIGHT - _BOTTOM
    bars = []
    for number, (clock, value) in enumerate(zip(clocks, values, strict=True)):
        tall = height * value / highest
        place = f'x="{_LEFT + number * step:.1f}" y="{height - tall:.1f}"'
        size = f'width="{max(step - 1, 0.5):.1f}" height="{tall:.1f}"'
        bars.append(f"<rect {place} {size}><title>{clock}: {value:,.1f}</title></rect>")
    return _Picture(title, "".join(bars) + _axes(clocks, highest), _HEIGHT)


def _lines(title: str, clocks: Sequence[str], lines: dict[str, list[float | None]]) -> _Picture:
    highest = max((value for line in lines.values() for value in line if value is not None), default=0) or 1
    step, height = (_WIDTH - _LEFT) / len(clocks), _HEIGHT - _BOTTOM
    parts = []
    for number, (share, line) in enumerate(lines.items()):
        points = [
            (_LEFT + (at + 0.5) * step, height - (height - 6) * value / highest, clocks[at], value)
            for at, value in enumerate(line)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
        parts.append(f'<polyline class="{share}" points="{path}"/>')
        for x, y, clock, value in points:
            told = f"<title>{clock} {share}: {value:,.3f}</title>"
            parts.append(f'<circle class="{share}" cx="{x:.1f}" cy="{y:.1f}" r="2">{told}</circle>')
        parts.append(_text(_LEFT + 6 + 40 * number, 12, share, share))
    return _Picture(title, "".join(parts) + _axes(clocks, highest), _HEIGHT)


def _percentiles(title: str, figures: dict[str, Any], prefix: str, unit: str) -> _Picture:
    """Bars that lie, one a percentile."""
    found = [(name.removeprefix(prefix), value) for name, value in figures.items() if name.startswith(prefix)]
    highest = max((value for _, value in found), default=0) or 1
    room = _WIDTH - _LEFT - 120  # for the numbers behind the bars
    rows = []
    for number, (share, value) in enumerate(found):
        y = number * _ROW
        long = max(room * value / highest, 1)
        rows.append(_text(_LEFT - 6, y + 15, f"{share} %", anchor="end"))
        rows.append(f'<rect x="{_LEFT}" y="{y + 3}" width="{long:.1f}" height="{_ROW - 6}"/>')
        rows.append(_text(_LEFT + long + 6, y + 15, f"{value:,} {unit}"))
    return _Picture(title, "".join(rows), len(found) * _ROW + 4)


def _axes(clocks: Sequence[str], highest: float) -> str:
    height = _HEIGHT - _BOTTOM
    return "".join(
        [
            f'<line x1="{_LEFT}" y1="{height}" x2="{_WIDTH}" y2="{height}"/>',
            _text(_LEFT - 6, 12, f"{highest:,.0f}" if highest >= 10 else f"{highest:,.3g}", anchor="end"),
            _text(_LEFT - 6, height, "0", anchor="end"),
            _text(_LEFT, _HEIGHT - 6, clocks[0]),
            _text(_WIDTH, _HEIGHT - 6, clocks[-1], anchor="end"),
        ]
    )


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{text}</text>'


def _subjects(rows: list[dict[str, Any]]) -> str:
    cells = ((escape(row["subject"]), f"{row['messages']:,}", f"{row['bytes']:,}") for row in rows)
    body = "".join(f"<tr><td>{name}</td><td>{messages}</td><td>{size}</td></tr>" for name, messages, size in cells)
    return f"<table><tr><th>subject</th><th>messages</th><th>bytes</th></tr>{body}</table>"


def _clock(time_ns: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"
