"""Reports on connections: of all servers for the system account, of the own account for everybody else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.expressions import Expression
from slipstream.cli.human import format_bytes
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.render import Table, print_json
from slipstream.cli.system import ask_servers
from slipstream.cli.types import json_flag

__all__ = ["all_connections", "connection_flags", "report_connections"]

_F = TypeVar("_F", bound=Callable[..., Any])
_Row = tuple[Reply, Reply]  # the server, and one of its connections
_SORTS: Final = {
    "in-bytes": "in_bytes",
    "out-bytes": "out_bytes",
    "in-msgs": "in_msgs",
    "out-msgs": "out_msgs",
    "subs": "subscriptions",
    "cid": "cid",
    "uptime": "start",
    "pending": "pending_bytes",
}
_VOLUME: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions")
_STATES: Final = {"open": 0, "closed": 1, "all": 2}
_PAGE: Final = 1024
_FLAGS: Final = (
    click.option(
        "--sort", type=click.Choice(list(_SORTS)), default="subs", help="What the largest, shown last, has most of."
    ),
    click.option("--reverse", "-R", is_flag=True, help="The largest first."),
    click.option("--top", type=click.IntRange(min=0), default=1000, help="Only this many, the largest; 0 for all."),
    click.option("--subject", default="", help="Only those with a subscription that gets this subject."),
    click.option("--username", default="", help="Only those of a user; needs the system account."),
    click.option("--state", type=click.Choice(list(_STATES)), default="open", help="Open, closed or all."),
    click.option("--closed-reason", metavar="REGEX", default="", help="Only those closed for such a reason."),
    json_flag,
)


def connection_flags(command: _F) -> _F:
    """The flags of a report."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def report_connections(
    link: ClientLink, given: dict[str, Any], *, account: str = "", asked: Reply | None = None, expected: int = 0
) -> None:
    """Print the report that the flags ask for.

    Args:
        link: the connection.
        given: the flags.
        account: only connections of this account.
        asked: which servers are asked.
        expected: stop after the answers of so many servers; 0 waits for all.

    Raises:
        Failure: no connection is like that.
    """
    options: Reply = {"state": _STATES[given["state"]], **(asked or {})}
    for flag, field in (("subject", "filter_subject"), ("username", "user")):
        if given[flag]:
            options[field] = given[flag]
    if account:
        options["acc"] = account
    try:
        reason = re.compile(given["closed_reason"], re.IGNORECASE)
    except re.error as error:
        raise click.UsageError(f"{given['closed_reason']!r} is no regular expression: {error}") from error
    wanted = Expression(given["wanted"]) if given.get("wanted") else None
    found = [row for row in all_connections(link, options, expected) if reason.search(row[1].get("reason", ""))]
    if wanted is not None:
        found = [row for row in found if wanted.holds({"server": row[0], "conn": row[1]})]
    if not found:
        raise Failure("did not get results from any servers")
    sort = given["sort"]
    # The largest stand last, next to where people type; the youngest connection started last.
    found.sort(key=lambda row: row[1].get(_SORTS[sort], 0), reverse=sort == "uptime")
    shown = found[-given["top"] :]
    if given["reverse"]:
        shown.reverse()
    if given["as_json"]:
        print_json([{**connection, "server": server} for server, connection in shown])
        return
    _print_table(shown, found, sort, with_reason=given["state"] != "open")
    click.echo()
    _print_per_server(found)


def _print_per_server(rows: list[_Row]) -> None:
    table = Table("Connections per server", "Server", "Cluster", "Connections")
    counts = Counter((str(server["name"]), str(server.get("cluster", ""))) for server, _ in rows)
    for (server, cluster), count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        table.add(server, cluster, count)
    table.print()


def _print_table(rows: list[_Row], found: list[_Row], sort: str, *, with_reason: bool) -> None:
    place = ("CID", "Name", "Server", "Cluster", "IP", "Account", "Uptime")
    reason = ("Reason",) if with_reason else ()
    headers = (*place, "In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs", *reason)
    table = Table(f"Top {len(rows):,} Connections out of {len(found):,} by {sort}", *headers)
    for server, connection in rows:
        table.add(
            f"{'L' if connection.get('kind') == 'Leafnode' else ''}{connection['cid']}",
            connection.get("name", ""),
            server["name"],
            server.get("cluster", ""),
            f"{connection['ip']}:{connection['port']}",
            connection.get("account", ""),
            connection["uptime"],
            *_volume(connection),
            *([connection.get("reason", "")] if with_reason else []),
        )
    if len(found) > 1:
        sums = {field: sum(connection[field] for _, connection in found) for field in _VOLUME}
        table.total("", f"Totals for {len(found):,} connections", *[""] * 5, *_volume(sums), *[""] * len(reason))
    table.print(spare=("Cluster", "Account", "Server", "Out Msgs", "In Msgs"))


def _volume(counts: Reply) -> tuple[int | str, ...]:
    in_msgs, out_msgs, in_bytes, out_bytes, subs = (counts[field] for field in _VOLUME)
    return in_msgs, out_msgs, format_bytes(in_bytes), format_bytes(out_bytes), subs


def all_connections(link: ClientLink, options: Reply, expected: int = 0) -> list[_Row]:
    """All connections, each with its server."""
    found: list[_Row] = []
    offset = 0
    while True:
        page = {"auth": True, **options, "limit": _PAGE, "offset": offset}
        answers = [answer for answer, _ in ask_servers(link, "CONNZ", page, expected=expected)]
        for answer in answers:
            found += [(answer["server"], each) for each in answer["data"].get("connections") or []]
        offset += _PAGE
        if all(answer["data"]["total"] <= offset for answer in answers):
            return found
