"""What notebooks show of servers, streams and buckets: small tables, every text escaped.

Names, subjects and values are written by others, and a notebook trusts what it shows. A display never fails: what
cannot be asked is said in the place of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slipstream.errors import SlipstreamError

if TYPE_CHECKING:
    from slipstream.server.server import Server
    from slipstream.sync import JetStream, KeyValue, ObjectBucket, StreamHandle

__all__ = ["bucket_html", "facts", "objects_html", "server_html", "stream_html", "streams_html", "table"]

_ROWS_MAX: Final = 50  # of a display; what is there is said in its last line
_TEXT_MAX: Final = 200  # characters of a cell
_STYLE: Final = "text-align:left"

T = TypeVar("T")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None) -> str:
    """A table; at most some dozens of rows are taken."""
    shown = list(islice(rows, _ROWS_MAX))
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


def _never_fails(show: Callable[[T], str]) -> Callable[[T], str]:
    @wraps(show)
    def shown(subject: T) -> str:
        try:
            return show(subject)
        except SlipstreamError as error:
            return f"<p>{escape(repr(subject))}: {escape(str(error))}</p>"

    return shown


def server_html(server: Server) -> str:
    """A server that runs in this process."""
    jetstream = server.options.jetstream
    values: dict[str, object] = {
        "State": "running" if server.running else "not running",
        "Address": server.url if server.running else "",
        "JetStream": jetstream.store_dir or "on" if jetstream.enabled else "off",
        "Connections": len(server.hub.connections),
    }
    return facts(f"Slipstream server {server.identity.name}", values)


@_never_fails
def streams_html(jetstream: JetStream) -> str:
    """The streams of an account."""
    account = jetstream.account()
    infos = (stream.latest() for stream in jetstream.streams())
    rows = ((info["config"]["name"], _subjects(info), *_sizes(info["state"])) for info in infos)
    return table("Streams", ("Name", "Subjects", *_SIZE_COLUMNS), rows, int(account["streams"]))


@_never_fails
def stream_html(stream: StreamHandle) -> str:
    """One stream."""
    info = stream.info()
    config, state = info["config"], info["state"]
    return facts(
        f"Stream {stream.name}",
        {
            "Description": config.get("description", ""),
            "Subjects": _subjects(info),
            "Storage": config["storage"],
            "Retention": config["retention"],
            **dict(zip(_SIZE_COLUMNS, _sizes(state), strict=True)),
            "First": f"{state['first_seq']:,} at {state['first_ts']}" if state["messages"] else "",
            "Last": f"{state['last_seq']:,} at {state['last_ts']}" if state["messages"] else "",
        },
    )


@_never_fails
def bucket_html(bucket: KeyValue) -> str:
    """The keys of a bucket with their values."""
    rows = []
    for entry in bucket.newest():
        rows.append((entry.key, entry.value.decode(errors="replace"), entry.revision, entry.time))
        if len(rows) == _ROWS_MAX:
            break
    total = bucket.status()["state"].get("num_subjects", 0)
    return table(f"Bucket {bucket.bucket}", ("Key", "Value", "Revision", "Time"), rows, int(total))


@_never_fails
def objects_html(store: ObjectBucket) -> str:
    """The objects of a store."""
    found = store.list()
    rows = ((one.name, one.size, one.description) for one in found)
    return table(f"Object store {store.bucket}", ("Name", "Bytes", "Description"), rows, len(found))


_SIZE_COLUMNS: Final = ("Messages", "Bytes", "Consumers")


def _sizes(state: dict[str, Any]) -> tuple[int, int, int]:
    return state["messages"], state["bytes"], state["consumer_count"]


def _subjects(info: dict[str, Any]) -> str:
    return ", ".join(info["config"].get("subjects") or [])
