"""Reports over all servers: connections, accounts, JetStream, health, load. They need the system account.

Those on connections between servers are in `report_links`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.connections import all_connections, connection_flags, report_connections
from slipstream.cli.graphs import level_bars
from slipstream.cli.human import format_bytes
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, print_json, say
from slipstream.cli.system import ask_servers, choice_flags, chosen_servers, watch_flag
from slipstream.cli.types import json_flag

__all__ = ["accounts", "connections", "cpu", "health", "jetstream", "mem", "report"]

_F = TypeVar("_F", bound=Callable[..., Any])
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
_VOLUME: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions")
_JETSTREAM_SORTS: Final = {
    "streams": "streams",
    "consumers": "consumers",
    "msgs": "messages",
    "mbytes": "bytes",
    "mem": "memory",
    "file": "storage",
}
_NOTHING: Final = {"memory": 0, "storage": 0, "api": {"total": 0, "errors": 0}}


@click.group(cls=LazyGroup, entries=REPORTS)
def report() -> None:
    """Report on all servers."""


def _server_flags(command: _F) -> _F:
    """Which servers are asked, how many answers are waited for, and how often."""
    return click.argument("limit", type=click.IntRange(min=0), default=0)(choice_flags(watch_flag(command)))


@click.command(cls=Command)
@click.option("--account", default="", help="Only this account.")
@_server_flags
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
@_server_flags
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
@click.option("--account", default="", help="Only what this account has.")
@click.option(
    "--sort",
    type=click.Choice(["name", "cluster", "api", "err", *_JETSTREAM_SORTS]),
    default="cluster",
    help="What is first; figures rise.",
)
@click.option("--reverse", "-R", is_flag=True, help="What comes first comes last.")
@_server_flags
@json_flag
@click.pass_obj
def jetstream(session: Session, /, account: str, sort: str, reverse: bool, as_json: bool, **given: Any) -> None:
    """Report on JetStream, on at most LIMIT servers."""
    detail = {"account": account, "streams": True} if account else {}
    answers = _answers(session, "JSZ", {"accounts": True, **detail}, given)
    if as_json:
        print_json(answers)
        return
    metas = [answer["data"].get("meta_cluster") or {} for answer in answers]
    leaders = {meta.get("leader", "") for meta in metas}
    rows = [(answer["server"], _held(answer["data"], account)) for answer in answers]
    rows.sort(key=lambda row: _jetstream_key(row[0], row[1], sort), reverse=reverse)
    domain = ("Domain",) if any(server.get("domain") for server, _ in rows) else ()
    volume = ("Streams", "Consumers", "Messages", "Bytes", "Memory", "File", "API Req", "Pending")
    table = Table(
        "JetStream Summary" + (f" for Account {account}" if account else ""), "Server", "Cluster", *domain, *volume
    )
    totals: Counter[str] = Counter()
    for server, held in rows:
        figures = _jetstream_figures(held)
        totals.update(figures)
        name = server["name"]
        place = (f"{name}*" if name in leaders else name, server.get("cluster", ""))
        table.add(*place, *([server.get("domain", "")] if domain else []), *_jetstream_cells(figures))
    table.total("", "", *[""] * len(domain), *_jetstream_cells(totals))
    table.print(spare=("Pending", "Memory", "Cluster"))
    click.echo()
    _print_meta_group(answers)


def _held(data: Reply, account: str) -> Reply:
    """What a server has, or one account there: servers name its streams and leave the counting to us."""
    if data.get("disabled"):
        return _NOTHING
    if not account:
        return data
    for detail in data.get("account_details") or []:
        if account in (detail.get("name"), detail.get("id")):
            states = [stream["state"] for stream in detail.get("stream_detail") or []]
            counts = {
                "streams": len(states),
                "consumers": sum(state["consumer_count"] for state in states),
                "messages": sum(state["messages"] for state in states),
                "bytes": sum(state["bytes"] for state in states),
                "meta_cluster": data.get("meta_cluster"),
            }
            return {**detail, **counts}
    return _NOTHING


def _jetstream_figures(held: Reply) -> dict[str, int]:
    counts = {field: held.get(field, 0) for field in _JETSTREAM_SORTS.values()}
    return {**counts, "api": held["api"]["total"], "pending": (held.get("meta_cluster") or {}).get("pending", 0)}


def _jetstream_cells(figures: dict[str, int]) -> tuple[int | str, ...]:
    sizes = (format_bytes(figures[field]) for field in ("bytes", "memory", "storage"))
    counts = (figures[field] for field in ("streams", "consumers", "messages"))
    return (*counts, *sizes, figures["api"], figures["pending"])


def _jetstream_key(server: Reply, held: Reply, sort: str) -> tuple[int, str, str]:
    """Figures, then clusters, then names."""
    place = ("" if sort == "name" else str(server.get("cluster", "")), str(server["name"]))
    if sort in ("api", "err"):
        return (held["api"]["total" if sort == "api" else "errors"], *place)
    return (held.get(_JETSTREAM_SORTS.get(sort, ""), 0), *place)


def _print_meta_group(answers: list[Reply]) -> None:
    """The servers that agree on streams, as their leader sees them: others list themselves nowhere."""
    metas = [found for answer in answers if (found := answer["data"].get("meta_cluster"))]
    for answer in answers:
        meta = answer["data"].get("meta_cluster")
        if meta and meta.get("leader") == answer["server"]["name"]:
            from slipstream.cli.server.cluster import print_meta

            print_meta(meta)
            return
    expected = max((meta.get("cluster_size", 0) for meta in metas), default=0)
    if expected:
        click.echo()
        say(
            f"WARNING: No cluster meta leader found. The cluster expects {expected} nodes but only {len(metas)} "
            f"responded. JetStream operation requires at least {expected // 2 + 1} up nodes."
        )


@click.command(cls=Command)
@click.option("--js-enabled", "-J", is_flag=True, help="JetStream has to be enabled.")
@click.option("--server-only", "-S", is_flag=True, help="Do not look at streams and consumers.")
@click.option("--account", default="", help="Only this account.")
@click.option("--stream", default="", help="Only this stream.")
@click.option("--consumer", default="", help="Only this consumer.")
@_server_flags
@json_flag
@click.pass_obj
def health(session: Session, /, js_enabled: bool, server_only: bool, as_json: bool, **given: Any) -> None:
    """Report on the health of at most LIMIT servers; `server check` ends with a status."""
    options: Reply = {"js-enabled-only": js_enabled, "js-server-only": server_only, "details": True}
    options |= {name: given[name] for name in ("account", "stream", "consumer") if given[name]}
    answers = _answers(session, "HEALTHZ", options, given)
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
@_server_flags
@json_flag
@click.pass_obj
def cpu(session: Session, /, **given: Any) -> None:
    """Report on the use of processors, of at most LIMIT servers."""
    _report_gauge(session, "CPU Usage", "cpu", lambda value: f"{value:g}", given)


@click.command(cls=Command)
@_server_flags
@json_flag
@click.pass_obj
def mem(session: Session, /, **given: Any) -> None:
    """Report on the use of memory, of at most LIMIT servers."""
    _report_gauge(session, "Memory Usage", "mem", lambda value: format_bytes(int(value)), given)


def _report_gauge(
    session: Session, title: str, field: str, shown: Callable[[float], str], given: dict[str, Any]
) -> None:
    values = {answer["server"]["name"]: answer["statsz"][field] for answer in _answers(session, "", {}, given)}
    if given["as_json"]:
        print_json(values)
        return
    click.echo(f"{title}\n")
    for line in level_bars(sorted(values.items(), key=lambda row: row[1]), shown):
        click.echo(f"  {line}")


def _answers(session: Session, what: str, options: Reply, given: dict[str, Any]) -> list[Reply]:
    asked = options | chosen_servers(given)
    return [answer for answer, _ in ask_servers(session.link(), what, asked, expected=given["limit"])]
