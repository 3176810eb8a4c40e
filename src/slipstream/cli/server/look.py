"""Servers that run: one, all, and how fast they answer.

Without the rights of the system account only the connected server can be shown, with what it says in its greeting.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from datetime import datetime
from typing import Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.graphs import draw_bars
from slipstream.cli.human import format_age, format_bytes, format_duration, format_exactly, format_time
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.render import Columns, Table, print_json
from slipstream.cli.system import ask_servers, compact_flag, one_server, shown_names
from slipstream.cli.types import json_flag
from slipstream.units import MILLISECOND_NS

__all__ = ["info", "list_", "ping"]

_SORTS: Final = {
    "conns": "connections",
    "subs": "subscriptions",
    "routes": "routes",
    "gws": "gateways",
    "mem": "mem",
    "cpu": "cpu",
    "slow": "slow_consumers",
    "uptime": "start",
}
_STRETCH_MS: Final = 25  # of the graph of answers
_GRAPH_LINES: Final = 5


@click.command(cls=Command)
@click.argument("name", default="")
@json_flag
@click.pass_obj
def info(session: Session, name: str, as_json: bool) -> None:
    """Show the server NAME, by default the connected one."""
    link = session.link()
    try:
        found = one_server(link, "VARZ", name)["data"]
    except Failure:
        if name:
            raise
        _print_greeting(link, as_json=as_json)
        return
    if as_json:
        print_json(found)
    else:
        _print_varz(found)


def _print_varz(varz: Reply) -> None:
    columns = Columns(f"Server information for {varz['server_name']}\nID {varz['server_id']}")
    columns.section("Process Details")
    columns.row("Version", varz["version"])
    columns.row("Git Commit", varz.get("git_commit", ""), when=varz.get("git_commit"))
    columns.row("Runtime", varz.get("go", ""))
    columns.row("Start Time", format_time(varz["start"]))
    columns.row("Configuration Load Time", format_time(varz["config_load_time"]))
    columns.row("Configuration Digest", varz.get("config_digest", ""), when=varz.get("config_digest"))
    columns.row("Uptime", varz["uptime"])
    columns.section("Connection Details")
    columns.row("Auth Required", varz.get("auth_required", False))
    columns.row("TLS Required", varz.get("tls_required", False))
    columns.row("Host", f"{varz['host']}:{varz['port']}")
    columns.row("Client URLs", varz.get("connect_urls", []), when=varz.get("connect_urls"))
    cluster = varz.get("cluster") or {}
    if cluster.get("name"):
        columns.section("Cluster")
        columns.row("Name", cluster["name"])
        columns.row("Host", f"{cluster['addr']}:{cluster['cluster_port']}", when=cluster.get("cluster_port"))
        columns.row("URLs", cluster.get("urls") or [], when=cluster.get("urls"))
        columns.row("Routes", varz.get("routes", 0))
    columns.section("JetStream")
    jetstream = varz.get("jetstream", {})
    columns.row("Enabled", bool(jetstream.get("config")))
    if jetstream.get("config"):
        columns.row("Storage Directory", jetstream["config"]["store_dir"])
        columns.row("Max Memory", format_bytes(jetstream["config"]["max_memory"]))
        columns.row("Max File", format_bytes(jetstream["config"]["max_storage"]))
        columns.row("API Level", jetstream["stats"]["api"].get("level", 0))
    columns.section("Limits")
    columns.row("Max Connections", varz["max_connections"])
    columns.row("Max Payload", format_bytes(varz["max_payload"]))
    columns.row("Max Pending", format_bytes(varz["max_pending"]))
    columns.row("Write Deadline", format_duration(varz["write_deadline"]))
    columns.section("Statistics")
    columns.row("CPU Cores", varz["cores"])
    columns.row("CPU Usage", f"{varz['cpu']:.2f}%")
    columns.row("Memory Usage", format_bytes(varz["mem"]))
    columns.row("Connections", varz["connections"])
    columns.row("Subscriptions", varz["subscriptions"])
    columns.row("Msgs", f"{varz['in_msgs']:,} in {varz['out_msgs']:,} out")
    columns.row("Bytes", f"{format_bytes(varz['in_bytes'])} in {format_bytes(varz['out_bytes'])} out")
    columns.row("Slow Consumers", varz["slow_consumers"])
    columns.print()


def _print_greeting(link: ClientLink, *, as_json: bool) -> None:
    greeting = link.client.info
    if as_json:
        print_json({name: getattr(greeting, name) for name in greeting.__struct_fields__})
        return
    columns = Columns(f"Server information for {greeting.server_name}\nID {greeting.server_id}")
    columns.row("Version", greeting.version)
    columns.row("Max Payload", format_bytes(greeting.max_payload))
    columns.row("JetStream", greeting.jetstream)
    columns.row("RTT", format_duration(_round_trip_ns(link)))
    columns.print()
    click.echo("\nA user of the system account sees more.")


@click.command(cls=Command)
@click.argument("expect", type=int, default=0)
@click.option("--sort", type=click.Choice(["name", "cluster", "rtt", *_SORTS]), default="rtt", help="What comes first.")
@click.option("--reverse", "-R", is_flag=True, help="What comes first comes last.")
@compact_flag
@json_flag
@click.pass_obj
def list_(session: Session, expect: int, sort: str, reverse: bool, compact: bool, as_json: bool) -> None:
    """List all servers; stop waiting after EXPECT answers."""
    answers = ask_servers(session.link(), "", expected=expect)
    if sort == "cluster":
        answers.sort(key=lambda answer: str(answer[0]["server"].get("cluster", "")))
    elif sort == "rtt":
        answers.sort(key=lambda answer: answer[1])
    elif sort in ("routes", "gws"):
        answers.sort(key=lambda answer: -len(answer[0]["statsz"].get(_SORTS[sort]) or []))
    elif sort != "name":
        answers.sort(key=lambda answer: answer[0]["statsz"][_SORTS[sort]], reverse=sort != "uptime")
    if reverse:
        answers.reverse()
    if as_json:
        print_json([answer for answer, _ in answers])
        return
    _print_servers(answers, compact=compact)
    if any(answer["server"].get("cluster") for answer, _ in answers):
        click.echo()
        _print_clusters([answer for answer, _ in answers])


def _print_servers(answers: list[tuple[Reply, int]], *, compact: bool) -> None:
    place = ("Name", "Cluster", "Host", "Version", "JS")
    load = ("Conns", "Subs", "Routes", "GWs", "Mem", "CPU %", "Cores", "Slow", "Uptime", "RTT")
    table = Table("Server Overview", *place, *load)
    now = datetime.now().astimezone()
    shown = shown_names([answer["server"]["name"] for answer, _ in answers], compact=compact)
    for answer, rtt_ns in answers:
        server, stats = answer["server"], answer["statsz"]
        table.add(
            shown[server["name"]],
            server.get("cluster", ""),
            server["host"],
            server["ver"],
            server.get("domain") or "yes" if server.get("jetstream") else "no",
            stats["connections"],
            stats["subscriptions"],
            len(stats.get("routes") or []),
            len(stats.get("gateways") or []),
            format_bytes(stats["mem"]),
            f"{stats['cpu']:.0f}",
            stats["cores"],
            stats["slow_consumers"],
            format_age(stats["start"], now),
            format_duration(rtt_ns),
        )
    servers = [answer["server"] for answer, _ in answers]
    stats = [answer["statsz"] for answer, _ in answers]
    table.total(
        "",
        len({server["cluster"] for server in servers if server.get("cluster")}),
        len(servers),
        "",
        sum(bool(server.get("jetstream")) for server in servers),
        sum(each["connections"] for each in stats),
        sum(each["subscriptions"] for each in stats),
        "",
        "",
        format_bytes(sum(each["mem"] for each in stats)),
        "",
        "",
        sum(each["slow_consumers"] for each in stats),
        "",
        "",
    )
    table.print(spare=("GWs", "Routes", "Slow", "Cores"))


def _print_clusters(answers: list[Reply]) -> None:
    clusters: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        if not answer["server"].get("cluster"):
            continue
        of_cluster, stats = clusters[answer["server"]["cluster"]], answer["statsz"]
        gateways = stats.get("gateways") or []
        of_cluster.update(nodes=1, out=len(gateways), connections=stats["connections"])
        of_cluster["in"] += sum(gateway.get("inbound_connections", 0) for gateway in gateways)
    table = Table("Cluster Overview", "Cluster", "Node Count", "Outgoing Gateways", "Incoming Gateways", "Connections")
    fields = ("nodes", "out", "in", "connections")
    for name, counts in sorted(clusters.items()):
        table.add(name, *(counts[field] for field in fields))
    table.total("", *(sum(counts[field] for counts in clusters.values()) for field in fields))
    table.print()


@click.command(cls=Command)
@click.argument("expect", type=int, default=0)
@click.option("--count", type=click.IntRange(min=1), default=1, help="Ping this many times.")
@click.option("--id", "show_id", is_flag=True, help="Show the ids of servers.")
@click.option("--graph", is_flag=True, help="Show how the answers are spread over time.")
@click.pass_obj
def ping(session: Session, expect: int, count: int, show_id: bool, graph: bool) -> None:
    """See which servers answer, and how fast; stop waiting after EXPECT answers. Needs the system account."""
    link = session.link()
    for number in range(count):
        if number:
            link.idle(1.0)
        answers = ask_servers(link, "", expected=expect)
        answers.sort(key=lambda answer: answer[1])  # as they came
        for answer, rtt_ns in answers:
            server = answer["server"]
            name = f"{server['id']} {server['name']:60}" if show_id else f"{server['name']:60}"
            click.echo(f"{name} rtt={format_exactly(rtt_ns)}")
        times = [rtt_ns / MILLISECOND_NS for _, rtt_ns in answers]
        most, least, mean = (f"{value:.2f}" for value in (max(times), min(times), sum(times) / len(times)))
        click.echo(f"\n---- ping statistics ----\n{len(times)} replies max: {most} min: {least} avg: {mean}")
        if graph:
            _print_spread(times)


def _print_spread(times: list[float]) -> None:
    """How many answers came in each stretch of time, from the first to the last of them."""
    counts = Counter(int(time_ms // _STRETCH_MS) for time_ms in times)
    spread = [float(counts[number]) for number in range(max(counts) + 1)]
    click.echo("\n" + "\n".join(draw_bars(spread, len(spread), _GRAPH_LINES)))
    click.echo(f"Responses per {_STRETCH_MS}ms")


def _round_trip_ns(link: ClientLink) -> int:
    started_ns = time.monotonic_ns()
    link.client.flush()
    return time.monotonic_ns() - started_ns
