"""Reports over all servers: connections, accounts, JetStream. They need the system account."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import click

from slipstream.cli.connection import Group, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.link import Link, Reply
from slipstream.cli.render import Table, print_json
from slipstream.cli.system import ask_servers
from slipstream.cli.types import json_flag

__all__ = ["report"]

_SORTS = {
    "in-bytes": "in_bytes",
    "out-bytes": "out_bytes",
    "in-msgs": "in_msgs",
    "out-msgs": "out_msgs",
    "subs": "subscriptions",
    "cid": "cid",
    "pending": "pending_bytes",
}
_PAGE = 1024


@click.group(cls=Group)
def report() -> None:
    """Report on all servers."""


@report.command()
@click.argument("limit", type=click.IntRange(min=0), default=0)
@click.option("--account", default="", help="Only this account.")
@click.option("--sort", type=click.Choice(list(_SORTS)), default="subs", help="What comes first.")
@json_flag
@click.pass_obj
def connections(session: Session, limit: int, account: str, sort: str, as_json: bool) -> None:
    """Report on connections; with LIMIT only so many."""
    found = _connections(session.link(), account)
    found.sort(key=lambda row: row[1].get(_SORTS[sort], 0), reverse=sort != "cid")
    shown = found[:limit] if limit else found
    if as_json:
        print_json([{**connection, "server": server} for server, connection in shown])
        return
    place = ("CID", "Name", "Server", "IP", "Account", "Uptime")
    volume = ("In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs")
    table = Table(f"Connections Overview: {len(found):,} connections", *place, *volume)
    for server, connection in shown:
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
        )
    table.print()


@report.command()
@json_flag
@click.pass_obj
def accounts(session: Session, as_json: bool) -> None:
    """Report on what accounts do."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for _, connection in _connections(session.link(), ""):
        total = totals[connection.get("account", "")]
        total["connections"] += 1
        for field in ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions"):
            total[field] += connection[field]
    if as_json:
        print_json({name: dict(total) for name, total in sorted(totals.items())})
        return
    headers = ("Account", "Connections", "In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs")
    table = Table(f"{len(totals)} Accounts Overview", *headers)
    for name, total in sorted(totals.items()):
        volume = format_bytes(total["in_bytes"]), format_bytes(total["out_bytes"])
        table.add(name, total["connections"], total["in_msgs"], total["out_msgs"], *volume, total["subscriptions"])
    table.print()


@report.command(name="jetstream")
@json_flag
@click.pass_obj
def jetstream(session: Session, as_json: bool) -> None:
    """Report on JetStream."""
    answers = [answer for answer, _ in ask_servers(session.link(), "JSZ", {"accounts": True})]
    if as_json:
        print_json(answers)
        return
    headers = ("Server", "Streams", "Consumers", "Messages", "Bytes", "Memory", "File", "API Req", "API Err")
    table = Table("JetStream Summary", *headers)
    for answer in answers:
        data: dict[str, Any] = answer["data"]
        if data.get("disabled"):
            continue
        table.add(
            answer["server"]["name"],
            data.get("streams", 0),
            data.get("consumers", 0),
            data.get("messages", 0),
            format_bytes(data.get("bytes", 0)),
            format_bytes(data["memory"]),
            format_bytes(data["storage"]),
            data["api"]["total"],
            data["api"]["errors"],
        )
    table.print()


def _connections(link: Link, account: str) -> list[tuple[str, Reply]]:
    """All connections, each with the name of its server."""
    found: list[tuple[str, Reply]] = []
    offset = 0
    while True:
        options: Reply = {"auth": True, "limit": _PAGE, "offset": offset}
        if account:
            options["acc"] = account
        answers = [answer for answer, _ in ask_servers(link, "CONNZ", options)]
        for answer in answers:
            found += [(answer["server"]["name"], each) for each in answer["data"].get("connections") or []]
        offset += _PAGE
        if all(answer["data"]["total"] <= offset for answer in answers):
            return found
