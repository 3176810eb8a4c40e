"""Reports over all servers: connections, accounts, health, load. They need the system account.

Those on connections between servers are in `report_links`, those on streams in `report_jetstream`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.connections import all_connections, connection_flags, report_connections
from slipstream.cli.graphs import level_bars
from slipstream.cli.human import format_bytes
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, print_json
from slipstream.cli.system import answers_of, chosen_servers, server_flags
from slipstream.cli.types import json_flag

__all__ = ["accounts", "connections", "cpu", "health", "mem", "report"]

_HERE: Final = "slipstream.cli.server.report"
_LINKS: Final = "slipstream.cli.server.report_links"
_JETSTREAM: Final = "slipstream.cli.server.report_jetstream"
REPORTS: Final = {
    "connections": Verb(f"{_HERE}:connections", "Report on connections.", ("conn", "connz", "conns")),
    "accounts": Verb(f"{_HERE}:accounts", "Report on what accounts do.", ("acct",)),
    "jetstream": Verb(f"{_JETSTREAM}:jetstream", "Report on JetStream.", ("js", "jsz")),
    "health": Verb(f"{_HERE}:health", "Report on the health of servers.", ()),
    "cpu": Verb(f"{_HERE}:cpu", "Report on the use of processors.", ()),
    "mem": Verb(f"{_HERE}:mem", "Report on the use of memory.", ()),
    "routes": Verb(f"{_LINKS}:routes", "Report on routes within clusters.", ("route",)),
    "gateways": Verb(f"{_LINKS}:gateways", "Report on gateways between clusters.", ("super", "gateway")),
    "leafnodes": Verb(f"{_LINKS}:leafnodes", "Report on leaf nodes.", ("leaf", "leafz")),
    "downgrade": Verb(f"{_JETSTREAM}:downgrade", "List what a lower API level does not know.", ()),
}
_ACCOUNT_SORTS: Final = {
    "subs": "subscriptions",
    "conns": "connections",
    "in-msgs": "in_msgs",
    "out-msgs": "out_msgs",
    "in-bytes": "in_bytes",
    "out-bytes": "out_bytes",
}
_VOLUME: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions")


@click.group(cls=LazyGroup, entries=REPORTS)
def report() -> None:
    """Report on all servers."""


@click.command(cls=Command)
@click.option("--account", default="", help="Only this account.")
@click.option("--filter", "wanted", metavar="EXPRESSION", default="", help="Only those like `conn.in_msgs > 10`.")
@server_flags
@connection_flags
@click.pass_obj
def connections(session: Session, /, limit: int, account: str, **given: Any) -> None:
    """Report on connections, of at most LIMIT servers."""
    report_connections(session.link(), given, account=account, asked=chosen_servers(given), expected=limit)


@click.command(cls=Command)
@click.argument("account", default="")
@click.option("--sort", type=click.Choice(list(_ACCOUNT_SORTS)), default="subs", help="What the last has most of.")
@click.option("--reverse", "-R", is_flag=True, help="The largest first.")
@click.option("--top", type=click.IntRange(min=0), default=1000, help="Only this many, the largest; 0 for all.")
@server_flags
@json_flag
@click.pass_obj
def accounts(
    session: Session, /, account: str, sort: str, reverse: bool, top: int, as_json: bool, **given: Any
) -> None:
    """Report on what accounts do, of at most LIMIT servers, or on the connections of ACCOUNT."""
    link, asked, expected = session.link(), chosen_servers(given), given["limit"]
    if account and not as_json:
        wanted = {"subject": "", "username": "", "closed_reason": "", "state": "open", "as_json": False}
        by = {"sort": sort if sort != "conns" else "subs", "reverse": reverse, "top": top}
        report_connections(link, wanted | by, account=account, asked=asked, expected=expected)
        return
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    found: dict[str, list[Reply]] = defaultdict(list)
    for server, connection in all_connections(link, {**asked, **({"acc": account} if account else {})}, expected):
        name = connection.get("account", "")
        found[name].append({**connection, "server": server})
        totals[name].update(connections=1, **{field: connection[field] for field in _VOLUME})
    if not totals:
        raise Failure("did not get results from any servers")
    rows = sorted(totals.items(), key=lambda row: (row[1][_ACCOUNT_SORTS[sort]], row[0]))[-top:]
    if reverse:
        rows.reverse()
    if as_json:
        print_json([_account_json(name, total, found[name]) for name, total in rows])
        return
    headers = ("Account", "Connections", "In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs")
    table = Table(f"{len(rows):,} Accounts Overview", *headers)
    for name, total in rows:
        volume = format_bytes(total["in_bytes"]), format_bytes(total["out_bytes"])
        table.add(name, total["connections"], total["in_msgs"], total["out_msgs"], *volume, total["subscriptions"])
    table.print()


def _account_json(name: str, total: Counter[str], found: list[Reply]) -> Reply:
    servers = {connection["server"]["id"]: connection["server"] for connection in found}
    sums = {field: total[field] for field in _VOLUME}
    head = {"account": name, "connections": total["connections"], "connection_info": found}
    return {**head, **sums, "server": list(servers.values())}


@click.command(cls=Command)
@click.option("--js-enabled", "-J", is_flag=True, help="JetStream has to be enabled.")
@click.option("--server-only", "-S", is_flag=True, help="Do not look at streams and consumers.")
@click.option("--account", default="", help="Only this account.")
@click.option("--stream", default="", help="Only this stream.")
@click.option("--consumer", default="", help="Only this consumer.")
@click.option("--reverse", "-R", is_flag=True, help="The last name first.")
@server_flags
@json_flag
@click.pass_obj
def health(
    session: Session, /, js_enabled: bool, server_only: bool, reverse: bool, as_json: bool, **given: Any
) -> None:
    """Report on the health of at most LIMIT servers; `server check` ends with a status."""
    options: Reply = {"js-enabled-only": js_enabled, "js-server-only": server_only, "details": True}
    options |= {name: given[name] for name in ("account", "stream", "consumer") if given[name]}
    answers = answers_of(session.link(), "HEALTHZ", options, given)
    if reverse:
        answers.reverse()
    if as_json:
        print_json(answers)
        return
    table = Table("Health Report", "Server", "Cluster", "Domain", "Status", "Type", "Error")
    good = errors = 0
    for answer in answers:
        server, data = answer["server"], answer["data"]
        status = f"{data['status']} ({data.get('status_code', 200)})"
        table.add(server["name"], server.get("cluster", ""), server.get("domain", ""), status, "", "")
        told = data.get("errors") or ([{"error": data["error"]}] if data.get("error") else [])
        for one in told:
            table.add("", "", "", "", one.get("type", ""), one["error"])
        good += data["status"] == "ok"
        errors += len(told)
    clusters = len({answer["server"].get("cluster", "") for answer in answers})
    table.total(len(answers), clusters, "", f"ok: {good} / err: {len(answers) - good}", "", errors)
    table.print(spare=("Domain", "Cluster"))


@click.command(cls=Command)
@click.option("--reverse", "-R", is_flag=True, help="The largest first.")
@server_flags
@json_flag
@click.pass_obj
def cpu(session: Session, /, **given: Any) -> None:
    """Report on the use of processors, of at most LIMIT servers."""
    _report_gauge(session, "CPU Usage", "cpu", lambda value: f"{value:g}", given)


@click.command(cls=Command)
@click.option("--reverse", "-R", is_flag=True, help="The largest first.")
@server_flags
@json_flag
@click.pass_obj
def mem(session: Session, /, **given: Any) -> None:
    """Report on the use of memory, of at most LIMIT servers."""
    _report_gauge(session, "Memory Usage", "mem", lambda value: format_bytes(int(value)), given)


def _report_gauge(
    session: Session, title: str, field: str, shown: Callable[[float], str], given: dict[str, Any]
) -> None:
    values = {answer["server"]["name"]: answer["statsz"][field] for answer in answers_of(session.link(), "", {}, given)}
    if given["as_json"]:
        print_json(values)
        return
    click.echo(f"{title}\n")
    rows = sorted(values.items(), key=lambda row: row[1], reverse=given["reverse"])
    for line in level_bars(rows, shown):
        click.echo(f"  {line}")
