"""A page with pictures of the figures of `stats`: rates over time, sizes, subjects, latencies. One file, no script."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from slipstream.spark.jobs.report import Report

__all__ = ["write_chart"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 220, 70, 24
_BARS_MAX = 300
_STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: .15em .8em; text-align: right }
td:first-child { text-align: left }
svg { background: #fafafa } rect { fill: #2a7ab0 } text { font-size: 11px; fill: #555 } line { stroke: #ccc }
"""


def write_chart(report: Report, path: str) -> None:
    """Write the page."""
    figures = report.figures
    windows = _merged(report.tables["windows"])
    parts = [
        f"<h1>Stream {escape(str(figures['stream']))}</h1>",
        f"<p>{figures['messages']:,} messages, {figures['bytes']:,} bytes, {figures['subjects']:,} subjects, over "
        f"{figures['seconds_covered']:,} seconds.</p>",
        "<h2>Messages a second</h2>",
        _bars([(_clock(one["start_ns"]), one["messages_per_second"]) for one in windows]),
        "<h2>Bytes in a window</h2>",
        _bars([(_clock(one["start_ns"]), one["bytes"]) for one in windows]),
        "<h2>Message sizes</h2>",
        _percentiles(figures, "size_p", "bytes"),
    ]
    if "latency_samples" in figures:
        parts += ["<h2>Latency until stored</h2>", _percentiles(figures, "latency_ms_p", "ms")]
    parts += ["<h2>Busiest subjects</h2>", _subjects(report.tables["top_subjects"])]
    page = f"<!doctype html><meta charset=utf-8><title>{escape(str(figures['stream']))}</title><style>{_STYLE}</style>"
    Path(path).write_text(page + "\n".join(parts) + "\n", encoding="utf-8")


def _merged(windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many windows as can be drawn: neighbours become one."""
    step = -(-len(windows) // _BARS_MAX) or 1
    merged = []
    for start in range(0, len(windows), step):
        group = windows[start : start + step]
        rate = sum(one["messages_per_second"] for one in group) / len(group)
        merged.append({**group[0], "messages_per_second": rate, "bytes": sum(one["bytes"] for one in group)})
    return merged


def _bars(values: list[tuple[str, float]]) -> str:
    if not values:
        return "<p>No messages.</p>"
    highest = max(value for _, value in values) or 1
    room, height = _WIDTH - _LEFT, _HEIGHT - _BOTTOM
    step = room / len(values)
    bars = []
    for number, (label, value) in enumerate(values):
        tall = height * value / highest
        place = f'x="{_LEFT + number * step:.1f}" y="{height - tall:.1f}"'
        size = f'width="{max(step - 1, 0.5):.1f}" height="{tall:.1f}"'
        bars.append(f"<rect {place} {size}><title>{label}: {value:,.1f}</title></rect>")
    axis = [
        f'<line x1="{_LEFT}" y1="{height}" x2="{_WIDTH}" y2="{height}"/>',
        f'<text x="{_LEFT - 6}" y="12" text-anchor="end">{highest:,.0f}</text>',
        f'<text x="{_LEFT - 6}" y="{height}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{values[0][0]}</text>',
        f'<text x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">{values[-1][0]}</text>',
    ]
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}">{"".join(bars)}{"".join(axis)}</svg>'


def _percentiles(figures: dict[str, Any], prefix: str, unit: str) -> str:
    rows = "".join(
        f"<tr><td>{name.removeprefix(prefix)} %</td><td>{value:,} {unit}</td></tr>"
        for name, value in figures.items()
        if name.startswith(prefix)
    )
    return f"<table>{rows}</table>"


def _subjects(rows: list[dict[str, Any]]) -> str:
    cells = ((escape(row["subject"]), f"{row['messages']:,}", f"{row['bytes']:,}") for row in rows)
    body = "".join(f"<tr><td>{name}</td><td>{messages}</td><td>{size}</td></tr>" for name, messages, size in cells)
    return f"<table><tr><th>subject</th><th>messages</th><th>bytes</th></tr>{body}</table>"


def _clock(time_ns: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"
