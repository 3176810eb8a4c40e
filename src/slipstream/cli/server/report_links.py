"""Reports on connections between servers: routes, gateways, leaf nodes. They need the system account."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, print_json
from slipstream.cli.system import ask_servers, choice_flags, chosen_servers, watch_flag
from slipstream.cli.types import json_flag

__all__ = ["gateways", "leafnodes", "routes"]

_F = TypeVar("_F", bound=Callable[..., Any])
_Row = tuple[Reply, Reply]  # the server, and one of its links
_VOLUME: Final = {"subs": "subscriptions", "in-bytes": "in_bytes", "out-bytes": "out_bytes"}
_ROUTE_SORTS: Final = {"name": "remote_name", "account": "account", **_VOLUME}
_LEAF_SORTS: Final = {"name": "name", "account": "account", **_VOLUME, "in-msgs": "in_msgs", "out-msgs": "out_msgs"}


def _report_flags(command: _F) -> _F:
    """What all of them take."""
    limit = click.argument("limit", type=click.IntRange(min=0), default=0)
    reverse = click.option("--reverse", "-R", is_flag=True, help="What comes first comes last.")
    return limit(reverse(choice_flags(watch_flag(json_flag(command)))))


@click.command(cls=Command)
@click.option(
    "--sort", type=click.Choice(["server", "cluster", *_ROUTE_SORTS]), default="server", help="What is first."
)
@_report_flags
@click.pass_obj
def routes(session: Session, /, sort: str, **given: Any) -> None:
    """Report on routes within clusters, of at most LIMIT servers."""
    answers = _answers(session, "ROUTEZ", {}, given)
    rows = _sorted(_links(answers, "routes"), sort, _ROUTE_SORTS, given)
    if given["as_json"]:
        print_json(answers)
        return
    volume = ("Uptime", "RTT", "Subs", "Bytes In", "Bytes Out")
    table = Table("Cluster Report", "Server", "Cluster", "Name", "Account", "Address", "ID", *volume)
    above: tuple[str, ...] = ()
    for server, route in rows:
        place = (server["name"], server.get("cluster", ""), route.get("remote_name", ""), route.get("account", ""))
        table.add(
            *_unlike(place, above),
            f"{route['ip']}:{route['port']}",
            f"rid:{route['rid']}",
            route.get("uptime", ""),
            route.get("rtt", ""),
            route["subscriptions"],
            format_bytes(route["in_bytes"]),
            format_bytes(route["out_bytes"]),
        )
        above = place
    table.total(
        len({server["name"] for server, _ in rows}),
        len({server.get("cluster", "") for server, _ in rows}),
        "",
        "",
        len(rows),
        "",
        "",
        "",
        sum(route["subscriptions"] for _, route in rows),
        format_bytes(sum(route["in_bytes"] for _, route in rows)),
        format_bytes(sum(route["out_bytes"] for _, route in rows)),
    )
    table.print(spare=("Uptime", "Address", "Cluster"))


def _unlike(place: tuple[str, ...], above: tuple[str, ...]) -> tuple[str, ...]:
    """Where a row belongs, without what the row above says already."""
    same = next((index for index, pair in enumerate(zip(place, above, strict=False)) if pair[0] != pair[1]), len(above))
    return ("",) * same + place[same:]


@click.command(cls=Command)
@click.option("--filter-name", default="", help="Only gateways to this cluster.")
@click.option("--sort", type=click.Choice(["server", "cluster"]), default="cluster", help="What is first.")
@_report_flags
@click.pass_obj
def gateways(session: Session, /, filter_name: str, sort: str, **given: Any) -> None:
    """Report on gateways between clusters, of at most LIMIT servers."""
    options: Reply = {"accounts": True, **({"name": filter_name} if filter_name else {})}
    answers = _answers(session, "GATEWAYZ", options, given)
    if given["as_json"]:
        print_json(answers)
        return
    answers.sort(
        key=lambda answer: (str(answer["server"].get("cluster", "")) if sort == "cluster" else "", _name(answer)),
        reverse=given["reverse"],
    )
    table = Table(
        "Super Cluster Report",
        "Server",
        "Name",
        "Port",
        "Kind",
        "Connection",
        "ID",
        "Uptime",
        "RTT",
        "Bytes",
        "Accounts",
    )
    count = volume = 0
    for answer in answers:
        data = answer["data"]
        table.add(_name(answer), data.get("name", ""), str(data.get("port", 0)), *[""] * 7)
        above = ""
        for kind, cluster, gateway in _gateway_links(data):
            link = gateway["connection"]
            table.add(
                *[""] * 3,
                "" if kind == above else kind,
                f"{cluster} {link['ip']}:{link['port']}",
                f"gid:{link['cid']}",
                link.get("uptime", ""),
                link.get("rtt", ""),
                format_bytes(link["in_bytes"] + link["out_bytes"]),
                len(gateway.get("accounts") or []),
            )
            above = kind
            count += 1
            volume += link["in_bytes"] + link["out_bytes"]
    clusters = len({answer["data"].get("name", "") for answer in answers})
    table.total(len(answers), clusters, "", "", count, "", "", "", format_bytes(volume), "")
    table.print(spare=("Uptime", "Port"))


def _gateway_links(data: Reply) -> Iterable[tuple[str, str, Reply]]:
    for cluster, inbound in sorted((data.get("inbound_gateways") or {}).items()):
        for gateway in sorted(inbound, key=lambda one: int(one["connection"]["cid"])):
            yield "Inbound", cluster, gateway
    for cluster, gateway in sorted((data.get("outbound_gateways") or {}).items()):
        yield "Outbound", cluster, gateway


@click.command(cls=Command)
@click.option("--account", default="", help="Only those of this account.")
@click.option("--sort", type=click.Choice(["server", *_LEAF_SORTS]), default="server", help="What is first.")
@_report_flags
@click.pass_obj
def leafnodes(session: Session, /, account: str, sort: str, **given: Any) -> None:
    """Report on leaf nodes, of at most LIMIT servers."""
    answers = _answers(session, "LEAFZ", {"account": account} if account else {}, given)
    rows = _sorted(_links(answers, "leafs"), sort, _LEAF_SORTS, given)
    if given["as_json"]:
        print_json(answers)
        return
    volume = ("RTT", "Msgs In", "Msgs Out", "Bytes In", "Bytes Out", "Subs", "Compressed", "Spoke")
    table = Table("Leafnode Report", "Server", "Name", "Account", "Address", *volume)
    for server, leaf in rows:
        table.add(
            server["name"],
            leaf.get("name", ""),
            leaf.get("account", ""),
            f"{leaf['ip']}:{leaf['port']}",
            leaf.get("rtt", ""),
            leaf["in_msgs"],
            leaf["out_msgs"],
            format_bytes(leaf["in_bytes"]),
            format_bytes(leaf["out_bytes"]),
            leaf["subscriptions"],
            leaf.get("compression") or "off",
            bool(leaf.get("is_spoke")),
        )
    table.print(spare=("Compressed", "Spoke", "Address"))


def _answers(session: Session, what: str, options: Reply, given: dict[str, Any]) -> list[Reply]:
    found = ask_servers(session.link(), what, options | chosen_servers(given), expected=given["limit"])
    return [answer for answer, _ in found]


def _name(answer: Reply) -> str:
    return str(answer["server"]["name"])


def _links(answers: Iterable[Reply], field: str) -> list[_Row]:
    return [(answer["server"], link) for answer in answers for link in answer["data"].get(field) or []]


def _sorted(rows: list[_Row], sort: str, fields: dict[str, str], given: dict[str, Any]) -> list[_Row]:
    """By server, then by name; figures the largest first."""

    def key(row: _Row) -> tuple[Any, ...]:
        server, link = row
        name = (str(server["name"]), str(link.get("remote_name") or link.get("name") or ""))
        if sort == "cluster":
            return (str(server.get("cluster", "")), *name)
        value = link.get(fields.get(sort, ""), "")
        return (-value if isinstance(value, int) else str(value), *name)

    return sorted(rows, key=key, reverse=given["reverse"])
