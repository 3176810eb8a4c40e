"""`slipstream top`: a server and its connections, refreshed while you watch.

The figures come from the system account, or with `--http` from the monitoring port. Rates are what changed since the
refresh before. Without a terminal the screens are printed one after the other.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from slipstream.cli.connection import EndlessCommand, Failure, Session
from slipstream.cli.human import format_bytes, format_time, visible
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.system import ask_server, one_server
from slipstream.cli.types import DURATION
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["top"]

_SORTS: Final = ("cid", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "uptime", "idle")
_HTTP_SECONDS_MAX: Final = 10.0
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?:,|$))")  # for readers, not for programs
_COLUMNS: Final = (
    *("HOST", "CID", "NAME", "SUBS", "PENDING", "MSGS_TO", "MSGS_FROM", "BYTES_TO", "BYTES_FROM", "LANG", "VERSION"),
    *("UPTIME", "LAST_ACTIVITY", "SUBSCRIPTIONS"),
)
_WORDS: Final = ("HOST", "NAME", "LANG", "VERSION", "LAST_ACTIVITY", "SUBSCRIPTIONS")
_DISPENSABLE: Final = ("LAST_ACTIVITY", "VERSION", "LANG", "PENDING", "UPTIME", "HOST", "BYTES_FROM", "BYTES_TO")


class _Wish(NamedTuple):
    """What is shown, and how."""

    subs: bool
    raw: bool
    lookup: bool


class _Picture(NamedTuple):
    """A server at one moment."""

    varz: Reply
    connections: list[Reply]
    taken_ns: int


@click.command(cls=EndlessCommand)
@click.argument("name", default="")
@click.option("--http", metavar="URL", default="", help="Ask the monitoring port, as http://127.0.0.1:8222.")
@click.option("--conns", "-n", type=click.IntRange(1, 1024), default=20, help="Connections to show.")
@click.option("--sort", type=click.Choice(_SORTS), default="cid", help="What comes first.")
@click.option("--delay", "--interval", "-d", type=DURATION, default=SECOND_NS, help="Time between two screens.")
@click.option("--count", "--max-refresh", "-r", type=int, default=0, help="Stop after this many screens.")
@click.option("--subs", is_flag=True, help="Also what each is subscribed to.")
@click.option("--raw", "-b", is_flag=True, help="Bytes as plain numbers.")
@click.option("--lookup", is_flag=True, help="Look up the names of addresses.")
@click.option("--output", "-o", type=click.Path(dir_okay=False), default="", help="Save one screen to a file, and end.")
@click.option("--delimiter", default="", help="Stands between the columns of that file, instead of blanks.")
@click.pass_obj
def top(session: Session, /, name: str, http: str, conns: int, sort: str, delay: int, count: int, **given: Any) -> None:
    """Watch the server NAME, by default the connected one."""
    count = max(count, 0)
    if delay <= 0:
        raise Failure("--delay is a time longer than nothing")
    if given["delimiter"] and not given["output"]:
        raise click.UsageError("--delimiter is for --output")
    options = {"sort": sort, "limit": conns, "auth": True, "subscriptions": given["subs"]}
    wish = _Wish(subs=given["subs"], raw=given["raw"], lookup=given["lookup"])
    look = _over_http(http, options) if http else _over_system(session.link(), name, options)
    pause = time.sleep if http else session.link().idle
    if given["output"]:
        _save(look(), wish, given["output"], given["delimiter"])
        return
    if not sys.stdout.isatty() or count == 1:
        _print_screens(look, pause, delay, count or 1, wish)
        return
    from rich.console import Console
    from rich.live import Live

    before = look()
    terminal = Console(highlight=False)
    first = _screen(before, before, terminal.width, wish)
    with Live(first, console=terminal, screen=count == 0, auto_refresh=False) as live:
        live.refresh()
        shown = 1
        while not count or shown < count:
            pause(delay / SECOND_NS)
            now = look()
            live.update(_screen(before, now, terminal.width, wish), refresh=True)
            before = now
            shown += 1


def _save(picture: _Picture, wish: _Wish, place: str, delimiter: str) -> None:
    """One screen as a file."""
    figures, rows = _figures(picture, picture, wish), [_row(each, wish) for each in picture.connections]
    columns = [heading for heading in _COLUMNS if heading != "SUBSCRIPTIONS" or wish.subs]
    lines = [columns, *([row[heading] for heading in columns] for row in rows)]
    if delimiter:
        # The figures have columns of their own: wherever two blanks or a colon stand.
        cells = [re.split(r"(?<=:)\s+|\s{2,}", line.strip()) for line in figures] + lines
        text = [delimiter.join(_THOUSANDS.sub("", cell) for cell in line) for line in cells]
    else:
        widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
        text = figures + [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]
    try:
        Path(place).write_text("\n".join(line.rstrip() for line in text) + "\n")
    except OSError as error:
        raise Failure(f"{place} cannot be written: {error.strerror}") from error


def _print_screens(
    look: Callable[[], _Picture], pause: Callable[[float], None], delay_ns: int, count: int, wish: _Wish
) -> None:
    from slipstream.cli.render import console

    screen = console()
    before = look()
    screen.print(_screen(before, before, screen.width, wish))
    for _ in range(count - 1):
        pause(delay_ns / SECOND_NS)
        now = look()
        screen.print(_screen(before, now, screen.width, wish))
        before = now


def _over_system(link: ClientLink, name: str, options: dict[str, Any]) -> Callable[[], _Picture]:
    def look() -> _Picture:
        varz = ask_server(link, server_id, "VARZ")["data"]
        connections = ask_server(link, server_id, "CONNZ", options)["data"]["connections"] or []
        return _Picture(varz, connections, time.monotonic_ns())

    server_id = one_server(link, "VARZ", name)["data"]["server_id"]
    return look


def _over_http(url: str, options: dict[str, Any]) -> Callable[[], _Picture]:
    def fetch(path: str) -> Reply:
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}{path}", timeout=_HTTP_SECONDS_MAX) as answer:
                document: Reply = json.load(answer)
        except (OSError, ValueError) as error:
            raise Failure(f"{url} does not answer as a monitoring port does: {error}") from error
        return document

    def look() -> _Picture:
        subs = int(options["subscriptions"])
        connz = fetch(f"/connz?sort={options['sort']}&limit={options['limit']}&auth=1&subs={subs}")
        return _Picture(fetch("/varz"), connz["connections"] or [], time.monotonic_ns())

    return look


def _figures(before: _Picture, now: _Picture, wish: _Wish) -> list[str]:
    """What stands above the connections."""
    seconds = max((now.taken_ns - before.taken_ns) / SECOND_NS, 1e-9)

    def rate(field: str) -> float:
        return float((now.varz[field] - before.varz[field]) / seconds) if now is not before else 0.0

    varz, size = now.varz, str if wish.raw else format_bytes
    return [
        f"NATS server version {varz['version']} (uptime: {varz['uptime']})",
        f"Server: {varz['server_name']}",
        f"  ID:   {varz['server_id']}",
        f"  Load: CPU: {varz['cpu']:.1f}%  Memory: {size(varz['mem'])}  Slow Consumers: {varz['slow_consumers']:,}",
        f"  In:   Msgs: {varz['in_msgs']:,}  Bytes: {size(varz['in_bytes'])}  "
        f"Msgs/Sec: {rate('in_msgs'):,.1f}  Bytes/Sec: {size(int(rate('in_bytes')))}",
        f"  Out:  Msgs: {varz['out_msgs']:,}  Bytes: {size(varz['out_bytes'])}  "
        f"Msgs/Sec: {rate('out_msgs'):,.1f}  Bytes/Sec: {size(int(rate('out_bytes')))}",
        "",
        f"Connections Polled: {len(now.connections):,}",
    ]


def _screen(before: _Picture, now: _Picture, width: int, wish: _Wish) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = [_row(each, wish) for each in now.connections]
    table = Table(box=None, header_style="bold reverse", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in (columns := _columns_that_fit(rows, width, wish)):
        table.add_column(heading, no_wrap=True, justify="left" if heading in _WORDS else "right")
    for row in rows:
        table.add_row(*(Text(row[heading]) for heading in columns))
    return Group(Text("\n".join(_figures(before, now, wish))), table)


@cache
def _host(ip: str) -> str:
    """The name of an address, or the address."""
    try:
        return socket.gethostbyaddr(ip)[0]
    except (OSError, UnicodeError):
        return ip


def _row(connection: Reply, wish: _Wish) -> dict[str, str]:
    size = str if wish.raw else format_bytes
    return {
        "HOST": f"{_host(connection['ip']) if wish.lookup else connection['ip']}:{connection['port']}",
        "CID": str(connection["cid"]),
        "NAME": visible(connection.get("name", "")),
        "SUBS": f"{connection['subscriptions']:,}",
        "PENDING": size(connection["pending_bytes"]),
        "MSGS_TO": f"{connection['out_msgs']:,}",
        "MSGS_FROM": f"{connection['in_msgs']:,}",
        "BYTES_TO": size(connection["out_bytes"]),
        "BYTES_FROM": size(connection["in_bytes"]),
        "LANG": visible(connection.get("lang", "")),
        "VERSION": visible(connection.get("version", "")),
        "UPTIME": connection["uptime"],
        "LAST_ACTIVITY": format_time(connection["last_activity"]),
        "SUBSCRIPTIONS": visible(", ".join(connection.get("subscriptions_list") or [])),
    }


def _columns_that_fit(rows: list[dict[str, str]], width: int, wish: _Wish) -> list[str]:
    """The columns of a screen of this width: the least interesting ones go first."""
    columns = [heading for heading in _COLUMNS if heading != "SUBSCRIPTIONS" or wish.subs]
    for dispensable in _DISPENSABLE:
        widths = [max(len(heading), *(len(row[heading]) for row in rows), 0) for heading in columns]
        if sum(widths) + 2 * len(widths) <= width:
            break
        columns.remove(dispensable)
    return columns
