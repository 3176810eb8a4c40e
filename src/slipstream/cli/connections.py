"""Reports on connections: of all servers for the system account, of the own account for everybody else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.human import format_bytes
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.render import Table, counted, print_json
from slipstream.cli.system import ask_servers
from slipstream.cli.types import json_flag

__all__ = ["all_connections", "connection_flags", "report_connections"]

_F = TypeVar("_F", bound=Callable[..., Any])
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
_RISING: Final = frozenset(("cid", "uptime"))  # the smallest first: the oldest connection has the earliest start
_STATES: Final = {"open": 0, "closed": 1, "all": 2}
_PAGE: Final = 1024
_FLAGS: Final = (
    click.option("--sort", type=click.Choice(list(_SORTS)), default="subs", help="What comes first."),
    click.option("--reverse", "-R", is_flag=True, help="What comes first comes last."),
    click.option("--top", type=click.IntRange(min=0), default=0, help="Only this many."),
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


def report_connections(link: ClientLink, given: dict[str, Any], *, account: str = "", limit: int = 0) -> None:
    """Print the report that the flags ask for."""
    options: Reply = {"state": _STATES[given["state"]]}
    for flag, field in (("subject", "filter_subject"), ("username", "user")):
        if given[flag]:
            options[field] = given[flag]
    if account:
        options["acc"] = account
    try:
        reason = re.compile(given["closed_reason"], re.IGNORECASE)
    except re.error as error:
        raise click.UsageError(f"{given['closed_reason']!r} is no regular expression: {error}") from error
    found = [row for row in all_connections(link, options) if reason.search(row[1].get("reason", ""))]
    sort = given["sort"]
    found.sort(
        key=lambda row: row[1].get(_SORTS[sort], 0) if sort != "uptime" else row[1]["start"],
        reverse=(sort in _RISING) == given["reverse"],
    )
    most = limit or given["top"]
    shown = found[:most] if most else found
    if given["as_json"]:
        print_json([{**connection, "server": server} for server, connection in shown])
    elif not shown:
        click.echo("No connections match")
    else:
        _print_table(shown, counted(len(found), "connection"))
        if len({server for server, _ in found}) > 1:
            click.echo()
            _print_per_server(found)


def _print_per_server(rows: list[tuple[str, Reply]]) -> None:
    table = Table("Connections per server", "Server", "Connections")
    for server, count in sorted(Counter(server for server, _ in rows).items()):
        table.add(server, count)
    table.print()


def _print_table(rows: list[tuple[str, Reply]], amount: str) -> None:
    place = ("CID", "Name", "Server", "IP", "Account", "Uptime")
    volume = ("In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs", "Reason")
    table = Table(f"Connections Overview: {amount}", *place, *volume)
    for server, connection in rows:
        table.add(
            str(connection["cid"]),
            connection.get("name", ""),
            server,
            f"{connection['ip']}:{connection['port']}",
            connection.get("account", ""),
            connection["uptime"],
            connection["in_msgs"],
            connection["out_msgs"],
            format_bytes(connection["in_bytes"]),
            format_bytes(connection["out_bytes"]),
            connection["subscriptions"],
            connection.get("reason", ""),
        )
    table.print(drop_empty=True, spare=("Account", "Server", "Out Msgs", "In Msgs"))


def all_connections(link: ClientLink, options: Reply) -> list[tuple[str, Reply]]:
    """All connections, each with the name of its server."""
    found: list[tuple[str, Reply]] = []
    offset = 0
    while True:
        page = {"auth": True, **options, "limit": _PAGE, "offset": offset}
        answers = [
            answer["data"] | {"name": answer["server"]["name"]} for answer, _ in ask_servers(link, "CONNZ", page)
        ]
        for answer in answers:
            found += [(answer["name"], each) for each in answer.get("connections") or []]
        offset += _PAGE
        if all(answer["total"] <= offset for answer in answers):
            return found
