"""What notebooks show: small tables, every text escaped.

Names, subjects and values are written by others, and a notebook trusts what it shows. A display never fails: what
cannot be asked is said in the place of the table. What is shown of a server is `server.display`, of streams and buckets
`sync.displays`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from html import escape
from itertools import islice
from typing import Final, TypeVar

from slipstream.errors import SlipstreamError

__all__ = ["ROWS_MAX", "facts", "never_fails", "table"]

ROWS_MAX: Final = 50
"""Rows of a display; what else is there is said in its last line."""
_TEXT_MAX: Final = 200  # characters of a cell
_STYLE: Final = "text-align:left"

T = TypeVar("T")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None) -> str:
    """A table; at most some dozens of rows are taken."""
    shown = list(islice(rows, ROWS_MAX))
    head = "".join(f'<th style="{_STYLE}">{_cell(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_STYLE}">{_cell(value)}</td>' for value in row) + "</tr>" for row in shown
    )
    more = f"<p>{len(shown)} of {total:,} are shown.</p>" if total is not None and total > len(shown) else ""
    return f"<table><caption>{_cell(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def facts(title: str, values: dict[str, object]) -> str:
    """Names and values, those that say something."""
    said = [(name, value) for name, value in values.items() if value not in (None, "", [])]
    body = "".join(
        f'<tr><th style="{_STYLE}">{_cell(name)}</th><td style="{_STYLE}">{_cell(value)}</td></tr>'
        for name, value in said
    )
    return f"<table><caption>{_cell(title)}</caption><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return escape(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…")


def never_fails(show: Callable[[T], str]) -> Callable[[T], str]:
    """A display that says what went wrong in the place of what it should show."""

    @wraps(show)
    def shown(subject: T) -> str:
        try:
            return show(subject)
        except SlipstreamError as error:
            return f"<p>{escape(repr(subject))}: {escape(str(error))}</p>"

    return shown
