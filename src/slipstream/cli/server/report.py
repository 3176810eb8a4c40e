"""Reports over all servers: connections, accounts, JetStream, health, load. They need the system account.

Those on connections between servers are in `report_links`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.connections import all_connections, connection_flags, report_connections
from slipstream.cli.human import format_bytes
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, counted, print_json, say
from slipstream.cli.system import ask_servers
from slipstream.cli.types import json_flag

__all__ = ["accounts", "connections", "cpu", "health", "jetstream", "mem", "report"]

_HERE: Final = "slipstream.cli.server.report"
_LINKS: Final = "slipstream.cli.server.report_links"
REPORTS: Final = {
    "connections": Verb(f"{_HERE}:connections", "Report on connections.", ("conn", "connz", "conns")),
    "accounts": Verb(f"{_HERE}:accounts", "Report on what accounts do.", ("acct",)),
    "jetstream": Verb(f"{_HERE}:jetstream", "Report on JetStream.", ("js", "jsz")),
    "health": Verb(f"{_HERE}:health", "Report on the health of servers.", ()),
    "cpu": Verb(f"{_HERE}:cpu", "Report on the use of processors.", ()),
    "mem": Verb(f"{_HERE}:mem", "Report on the use of memory.", ()),
    "routes": Verb(f"{_LINKS}:routes", "Report on routes within clusters.", ("route",)),
    "gateways": Verb(f"{_LINKS}:gateways", "Report on gateways between clusters.", ("super", "gateway")),
    "leafnodes": Verb(f"{_LINKS}:leafnodes", "Report on leaf nodes.", ("leaf", "leafz")),
}
_ACCOUNT_SORTS: Final = {
    "subs": "subscriptions",
    "conns": "connections",
    "in-msgs": "in_msgs",
    "out-msgs": "out_msgs",
    "in-bytes": "in_bytes",
    "out-bytes": "out_bytes",
}


@click.group(cls=LazyGroup, entries=REPORTS)
def report() -> None:
    """Report on all servers."""


@click.command(cls=Command)
@click.argument("limit", type=click.IntRange(min=0), default=0)
@click.option("--account", default="", help="Only this account.")
@connection_flags
@click.pass_obj
def connections(session: Session, /, limit: int, account: str, **given: Any) -> None:
    """Report on connections, at most LIMIT of them."""
    report_connections(session.link(), given, account=account, limit=limit)


@click.command(cls=Command)
@click.argument("account", default="")
@click.option("--sort", type=click.Choice(list(_ACCOUNT_SORTS)), default="subs", help="What comes first.")
@click.option("--top", type=click.IntRange(min=0), default=0, help="Only this many.")
@json_flag
@click.pass_obj
def accounts(session: Session, account: str, sort: str, top: int, as_json: bool) -> None:
    """Report on what accounts do, or ACCOUNT alone."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for _, connection in all_connections(session.link(), {"acc": account} if account else {}):
        total = totals[connection.get("account", "")]
        total["connections"] += 1
        for field in ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions"):
            total[field] += connection[field]
    rows = sorted(totals.items(), key=lambda row: (-row[1][_ACCOUNT_SORTS[sort]], row[0]))
    rows = rows[:top] if top else rows
    if as_json:
        print_json({name: dict(total) for name, total in rows})
        return
    if not rows:
        say(f"No connections of account {account}" if account else "No connections")
        return
    headers = ("Account", "Connections", "In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs")
    table = Table(f"Overview of {counted(len(totals), 'account')}", *headers)
    for name, total in rows:
        volume = format_bytes(total["in_bytes"]), format_bytes(total["out_bytes"])
        table.add(name, total["connections"], total["in_msgs"], total["out_msgs"], *volume, total["subscriptions"])
    table.print()


@click.command(cls=Command)
@click.option("--account", default="", help="Only what this account has.")
@json_flag
@click.pass_obj
def jetstream(session: Session, account: str, as_json: bool) -> None:
    """Report on JetStream."""
    detail = {"account": account, "streams": True} if account else {}
    answers = _answers(session, "JSZ", {"accounts": True, **detail})
    if as_json:
        print_json(answers)
        return
    leaders = {(answer["data"].get("meta_cluster") or {}).get("leader", "") for answer in answers}
    headers = ("Server", "Cluster", "Streams", "Consumers", "Messages", "Bytes", "Memory", "File", "API Req", "API Err")
    table = Table("JetStream Summary" + (f" for account {account}" if account else ""), *headers)
    for answer in answers:
        data: dict[str, Any] = answer["data"]
        if data.get("disabled"):
            continue
        held = _of_account(data, account) if account else data
        name = answer["server"]["name"]
        table.add(
            f"{name}*" if name in leaders else name,
            answer["server"].get("cluster", ""),
            held.get("streams", 0),
            held.get("consumers", 0),
            held.get("messages", 0),
            format_bytes(held.get("bytes", 0)),
            format_bytes(held["memory"]),
            format_bytes(held["storage"]),
            held["api"]["total"],
            held["api"]["errors"],
        )
    table.print(drop_empty=True)
    metas = [
        found
        for answer in answers
        if (found := answer["data"].get("meta_cluster")) and found.get("leader") == answer["server"]["name"]
    ]
    if metas:  # as its leader sees it: others list themselves nowhere
        from slipstream.cli.server.cluster import print_meta

        click.echo()
        print_meta(metas[0])


def _of_account(data: Reply, account: str) -> Reply:
    """What one account has: servers name its streams and leave the counting to us."""
    for detail in data.get("account_details") or []:
        if account in (detail.get("name"), detail.get("id")):
            states = [stream["state"] for stream in detail.get("stream_detail") or []]
            counts = {
                "streams": len(states),
                "consumers": sum(state["consumer_count"] for state in states),
                "messages": sum(state["messages"] for state in states),
                "bytes": sum(state["bytes"] for state in states),
            }
            return {**detail, **counts}
    return {"memory": 0, "storage": 0, "api": {"total": 0, "errors": 0}}


@click.command(cls=Command)
@click.option("--js-enabled", "-J", is_flag=True, help="JetStream has to be enabled.")
@click.option("--server-only", "-S", is_flag=True, help="Do not look at streams and consumers.")
@json_flag
@click.pass_obj
def health(session: Session, js_enabled: bool, server_only: bool, as_json: bool) -> None:
    """Report on the health of servers; the status is 1 if one is not well."""
    answers = _answers(session, "HEALTHZ", {"js-enabled-only": js_enabled, "js-server-only": server_only})
    if as_json:
        print_json(answers)
    else:
        table = Table("Health Report", "Server", "Cluster", "Status", "Error")
        for answer in answers:
            server, data = answer["server"], answer["data"]
            table.add(server["name"], server.get("cluster", ""), data["status"], data.get("error", ""))
        table.print()
    if any(answer["data"]["status"] != "ok" for answer in answers):
        click.get_current_context().exit(1)


@click.command(cls=Command)
@json_flag
@click.pass_obj
def cpu(session: Session, as_json: bool) -> None:
    """Report on the use of processors."""
    _report_gauge(session, "CPU Usage", "cpu", lambda value: f"{value:.1f}%", as_json=as_json)


@click.command(cls=Command)
@json_flag
@click.pass_obj
def mem(session: Session, as_json: bool) -> None:
    """Report on the use of memory."""
    _report_gauge(session, "Memory Usage", "mem", lambda value: format_bytes(int(value)), as_json=as_json)


def _report_gauge(session: Session, title: str, field: str, shown: Callable[[float], str], *, as_json: bool) -> None:
    answers = _answers(session, "", {})
    values = sorted(
        ((answer["server"]["name"], answer["statsz"][field]) for answer in answers), key=lambda row: -row[1]
    )
    if as_json:
        print_json(dict(values))
        return
    table = Table(title, "Server", "Now")
    for name, value in values:
        table.add(name, shown(value))
    table.print()


def _answers(session: Session, what: str, options: Reply) -> list[Reply]:
    return [answer for answer, _ in ask_servers(session.link(), what, options)]
