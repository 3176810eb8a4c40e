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

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.link import Link, Reply
from slipstream.cli.system import ask_server, one_server
from slipstream.cli.types import DURATION
from slipstream.limits import SECOND_NS

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["top"]

_SORTS: Final = ("cid", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "uptime", "idle")
_HTTP_SECONDS_MAX: Final = 10.0


class _Picture(NamedTuple):
    """A server at one moment."""

    varz: Reply
    connections: list[Reply]
    taken_ns: int


@click.command(cls=Command)
@click.argument("name", default="")
@click.option("--http", metavar="URL", default="", help="Ask the monitoring port, as http://127.0.0.1:8222.")
@click.option("--conns", "-n", type=click.IntRange(1, 1024), default=20, help="Show so many connections.")
@click.option("--sort", type=click.Choice(_SORTS), default="cid", help="What comes first.")
@click.option("--delay", "--interval", "-d", type=DURATION, default=SECOND_NS, help="Refresh so often.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after so many screens.")
@click.pass_obj
def top(session: Session, name: str, http: str, conns: int, sort: str, delay: int, count: int) -> None:
    """Watch the server NAME, by default the connected one."""
    if delay <= 0:
        raise Failure("--delay is a time longer than nothing")
    options = {"sort": sort, "limit": conns, "auth": True}
    look = _over_http(http, options) if http else _over_system(session.link(), name, options)
    pause = time.sleep if http else session.link().idle
    if not sys.stdout.isatty():
        _print_screens(look, pause, delay, count or 1)
        return
    from rich.console import Console
    from rich.live import Live

    before = look()
    with Live(_screen(before, before), console=Console(), screen=count == 0, auto_refresh=False) as live:
        shown = 1
        while not count or shown < count:
            pause(delay / SECOND_NS)
            now = look()
            live.update(_screen(before, now), refresh=True)
            before = now
            shown += 1


def _print_screens(look: Callable[[], _Picture], pause: Callable[[float], None], delay_ns: int, count: int) -> None:
    from slipstream.cli.render import console

    before = look()
    console().print(_screen(before, before))
    for _ in range(count - 1):
        pause(delay_ns / SECOND_NS)
        now = look()
        console().print(_screen(before, now))
        before = now


def _over_system(link: Link, name: str, options: dict[str, Any]) -> Callable[[], _Picture]:
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


def _screen(before: _Picture, now: _Picture) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    seconds = max((now.taken_ns - before.taken_ns) / SECOND_NS, 1e-9)

    def rate(field: str) -> float:
        return float((now.varz[field] - before.varz[field]) / seconds) if now is not before else 0.0

    varz = now.varz
    figures = [
        f"NATS server version {varz['version']} (uptime: {varz['uptime']})  {varz['server_name']}",
        f"  Load: CPU: {varz['cpu']:.1f}%  Memory: {format_bytes(varz['mem'])}  "
        f"Slow Consumers: {varz['slow_consumers']:,}",
        f"  In:   Msgs: {varz['in_msgs']:,}  Bytes: {format_bytes(varz['in_bytes'])}  "
        f"Msgs/Sec: {rate('in_msgs'):,.1f}  Bytes/Sec: {format_bytes(int(rate('in_bytes')))}",
        f"  Out:  Msgs: {varz['out_msgs']:,}  Bytes: {format_bytes(varz['out_bytes'])}  "
        f"Msgs/Sec: {rate('out_msgs'):,.1f}  Bytes/Sec: {format_bytes(int(rate('out_bytes')))}",
        "",
        f"Connections: {varz['connections']:,}",
    ]
    table = Table(box=None, header_style="bold reverse", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("HOST", "CID", "NAME", "SUBS", "PENDING", "MSGS_TO", "MSGS_FROM", "BYTES_TO", "BYTES_FROM"):
        table.add_column(heading, no_wrap=True, justify="left" if heading in ("HOST", "NAME") else "right")
    table.add_column("LANG")
    table.add_column("UPTIME", justify="right")
    for each in now.connections:
        table.add_row(
            f"{each['ip']}:{each['port']}",
            str(each["cid"]),
            Text(each.get("name", "")),
            f"{each['subscriptions']:,}",
            format_bytes(each["pending_bytes"]),
            f"{each['out_msgs']:,}",
            f"{each['in_msgs']:,}",
            format_bytes(each["out_bytes"]),
            format_bytes(each["in_bytes"]),
            each.get("lang", ""),
            each["uptime"],
        )
    return Group(Text("\n".join(figures)), table)
