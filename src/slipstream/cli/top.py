"""`slipstream top`: a server and its connections, refreshed while you watch.

The figures come from the system account, or with `--http` from the monitoring port. Rates are what changed since the
refresh before. Without a terminal the screens are printed one after the other.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable
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
_COLUMNS: Final = (
    *("HOST", "CID", "NAME", "SUBS", "PENDING", "MSGS_TO", "MSGS_FROM", "BYTES_TO", "BYTES_FROM", "LANG", "VERSION"),
    *("UPTIME", "LAST_ACTIVITY"),
)
_WORDS: Final = ("HOST", "NAME", "LANG", "VERSION", "LAST_ACTIVITY")
_DISPENSABLE: Final = ("LAST_ACTIVITY", "VERSION", "LANG", "PENDING", "UPTIME", "HOST", "BYTES_FROM", "BYTES_TO")


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
@click.pass_obj
def top(session: Session, name: str, http: str, conns: int, sort: str, delay: int, count: int) -> None:
    """Watch the server NAME, by default the connected one."""
    count = max(count, 0)
    if delay <= 0:
        raise Failure("--delay is a time longer than nothing")
    options = {"sort": sort, "limit": conns, "auth": True}
    look = _over_http(http, options) if http else _over_system(session.link(), name, options)
    pause = time.sleep if http else session.link().idle
    if not sys.stdout.isatty() or count == 1:
        _print_screens(look, pause, delay, count or 1)
        return
    from rich.console import Console
    from rich.live import Live

    before = look()
    terminal = Console(highlight=False)
    with Live(_screen(before, before, terminal.width), console=terminal, screen=count == 0, auto_refresh=False) as live:
        live.refresh()
        shown = 1
        while not count or shown < count:
            pause(delay / SECOND_NS)
            now = look()
            live.update(_screen(before, now, terminal.width), refresh=True)
            before = now
            shown += 1


def _print_screens(look: Callable[[], _Picture], pause: Callable[[float], None], delay_ns: int, count: int) -> None:
    from slipstream.cli.render import console

    screen = console()
    before = look()
    screen.print(_screen(before, before, screen.width))
    for _ in range(count - 1):
        pause(delay_ns / SECOND_NS)
        now = look()
        screen.print(_screen(before, now, screen.width))
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
        connz = fetch(f"/connz?sort={options['sort']}&limit={options['limit']}&auth=1")
        return _Picture(fetch("/varz"), connz["connections"] or [], time.monotonic_ns())

    return look


def _screen(before: _Picture, now: _Picture, width: int) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    seconds = max((now.taken_ns - before.taken_ns) / SECOND_NS, 1e-9)

    def rate(field: str) -> float:
        return float((now.varz[field] - before.varz[field]) / seconds) if now is not before else 0.0

    varz = now.varz
    figures = [
        f"NATS server version {varz['version']} (uptime: {varz['uptime']})",
        f"Server: {varz['server_name']}",
        f"  ID:   {varz['server_id']}",
        f"  Load: CPU: {varz['cpu']:.1f}%  Memory: {format_bytes(varz['mem'])}  "
        f"Slow Consumers: {varz['slow_consumers']:,}",
        f"  In:   Msgs: {varz['in_msgs']:,}  Bytes: {format_bytes(varz['in_bytes'])}  "
        f"Msgs/Sec: {rate('in_msgs'):,.1f}  Bytes/Sec: {format_bytes(int(rate('in_bytes')))}",
        f"  Out:  Msgs: {varz['out_msgs']:,}  Bytes: {format_bytes(varz['out_bytes'])}  "
        f"Msgs/Sec: {rate('out_msgs'):,.1f}  Bytes/Sec: {format_bytes(int(rate('out_bytes')))}",
        "",
        f"Connections Polled: {len(now.connections):,}",
    ]
    rows = [_row(each) for each in now.connections]
    table = Table(box=None, header_style="bold reverse", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in (columns := _columns_that_fit(rows, width)):
        table.add_column(heading, no_wrap=True, justify="left" if heading in _WORDS else "right")
    for row in rows:
        table.add_row(*(Text(row[heading]) for heading in columns))
    return Group(Text("\n".join(figures)), table)


def _row(connection: Reply) -> dict[str, str]:
    return {
        "HOST": f"{connection['ip']}:{connection['port']}",
        "CID": str(connection["cid"]),
        "NAME": visible(connection.get("name", "")),
        "SUBS": f"{connection['subscriptions']:,}",
        "PENDING": format_bytes(connection["pending_bytes"]),
        "MSGS_TO": f"{connection['out_msgs']:,}",
        "MSGS_FROM": f"{connection['in_msgs']:,}",
        "BYTES_TO": format_bytes(connection["out_bytes"]),
        "BYTES_FROM": format_bytes(connection["in_bytes"]),
        "LANG": visible(connection.get("lang", "")),
        "VERSION": visible(connection.get("version", "")),
        "UPTIME": connection["uptime"],
        "LAST_ACTIVITY": format_time(connection["last_activity"]),
    }


def _columns_that_fit(rows: list[dict[str, str]], width: int) -> list[str]:
    """The columns of a screen of this width: the least interesting ones go first."""
    columns = list(_COLUMNS)
    for dispensable in _DISPENSABLE:
        widths = [max(len(heading), *(len(row[heading]) for row in rows), 0) for heading in columns]
        if sum(widths) + 2 * len(widths) <= width:
            break
        columns.remove(dispensable)
    return columns
