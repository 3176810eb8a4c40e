"""Reports on JetStream of all servers: what each holds, who leads, what an older server would not know.

They need the system account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.jetstream import api_level
from slipstream.cli.leaders import print_leaders
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, print_json, say
from slipstream.cli.system import answers_of, ask_servers, compact_flag, server_flags, shown_names
from slipstream.cli.types import json_flag

__all__ = ["downgrade", "jetstream"]

_JETSTREAM_SORTS: Final = {
    "streams": "streams",
    "consumers": "consumers",
    "msgs": "messages",
    "mbytes": "bytes",
    "mem": "memory",
    "file": "storage",
}
_NOTHING: Final = {"memory": 0, "storage": 0, "api": {"total": 0, "errors": 0}}


@click.command(cls=Command)
@click.option("--account", default="", help="Only what this account has.")
@click.option(
    "--sort",
    type=click.Choice(["name", "cluster", "api", "err", *_JETSTREAM_SORTS]),
    default="cluster",
    help="What is first; figures rise.",
)
@click.option("--reverse", "-R", is_flag=True, help="What comes first comes last.")
@compact_flag
@click.option("--leaders", "-l", is_flag=True, help="Also who leads how many streams and consumers.")
@server_flags
@json_flag
@click.pass_obj
def jetstream(
    session: Session, /, account: str, sort: str, reverse: bool, compact: bool, leaders: bool, **given: Any
) -> None:
    """Report on JetStream, on at most LIMIT servers."""
    detail: Reply = {"account": account, "streams": True} if account else {}
    if leaders:
        detail |= {"streams": True, "consumer": True}
    answers = answers_of(session.link(), "JSZ", {"accounts": True, **detail}, given)
    if given["as_json"]:
        print_json(answers)
        return
    shown = shown_names([answer["server"]["name"] for answer in answers], compact=compact)
    metas = [answer["data"].get("meta_cluster") or {} for answer in answers]
    meta_leaders = {meta.get("leader", "") for meta in metas}
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
        place = (f"{shown[name]}{'*' if name in meta_leaders else ''}", server.get("cluster", ""))
        table.add(*place, *([server.get("domain", "")] if domain else []), *_jetstream_cells(figures))
    table.total("", "", *[""] * len(domain), *_jetstream_cells(totals))
    table.print(spare=("Pending", "Memory", "Cluster"))
    click.echo()
    _print_meta_group(answers, compact=compact)
    if leaders:
        _print_leaders(answers)


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


def _print_meta_group(answers: list[Reply], *, compact: bool) -> None:
    """The servers that agree on streams, as their leader sees them: others list themselves nowhere."""
    metas = [found for answer in answers if (found := answer["data"].get("meta_cluster"))]
    for answer in answers:
        meta = answer["data"].get("meta_cluster")
        if meta and meta.get("leader") == answer["server"]["name"]:
            from slipstream.cli.server.cluster import print_meta

            print_meta(meta, compact=compact)
            return
    expected = max((meta.get("cluster_size", 0) for meta in metas), default=0)
    if expected:
        click.echo()
        say(
            f"WARNING: No cluster meta leader found. The cluster expects {expected} nodes but only {len(metas)} "
            f"responded. JetStream operation requires at least {expected // 2 + 1} up nodes."
        )


def _streams(answers: list[Reply]) -> Iterator[tuple[str, Reply]]:
    """Every stream once, with the name of its account and all its consumers: a server tells of those that it has."""
    found: dict[tuple[str, str], tuple[Reply, dict[str, Reply]]] = {}
    for answer in answers:
        for account in answer["data"].get("account_details") or []:
            for stream in account.get("stream_detail") or []:
                _, consumers = found.setdefault((account["name"], stream["name"]), (stream, {}))
                for consumer in stream.get("consumer_detail") or []:
                    # Who leads knows best; of the others one may not have heard yet who does.
                    if consumer["name"] not in consumers or _leader(consumer) == answer["server"]["name"]:
                        consumers[consumer["name"]] = consumer
    for (account_name, _), (stream, consumers) in sorted(found.items(), key=lambda one: one[0]):
        yield account_name, {**stream, "consumer_detail": [consumers[name] for name in sorted(consumers)]}


def _print_leaders(answers: list[Reply]) -> None:
    """Servers that lead nothing at all are not listed, as with `nats`."""
    streams = [stream for _, stream in _streams(answers)]
    consumers = [consumer for stream in streams for consumer in stream.get("consumer_detail") or []]
    led = {(one["cluster"]["leader"], one["cluster"].get("name", "")) for one in (*streams, *consumers) if _leader(one)}
    for heading, kind in (("Stream Leaders", streams), ("Consumer Leaders", consumers)):
        click.echo()
        print_leaders(heading, kind, also=led)


def _leader(info: Reply) -> str:
    return str((info.get("cluster") or {}).get("leader", ""))


@click.command(cls=Command)
@click.argument("api", type=click.IntRange(min=0))
@click.option("--all", "with_theirs", is_flag=True, help="Also consumers of streams that need a higher level.")
@json_flag
@click.pass_obj
def downgrade(session: Session, api: int, with_theirs: bool, as_json: bool) -> None:
    """List streams and consumers that need a higher API level than API: a server of that level cannot serve them."""
    asked = {"accounts": True, "streams": True, "consumer": True, "config": True}
    answers = [answer for answer, _ in ask_servers(session.link(), "JSZ", asked)]
    streams: list[Reply] = []
    consumers: list[Reply] = []
    for account, stream in _streams(answers):
        needed = int(api_level(stream.get("config") or {}))
        if needed > api:
            streams.append({"account": account, "name": stream["name"], "api_level": needed})
        for consumer in stream.get("consumer_detail") or []:
            own = int(api_level(consumer.get("config") or {}))
            if own > api or (with_theirs and needed > api):
                # A star says that the stream alone would not do.
                told = f"{stream['name']}*" if needed > api else stream["name"]
                consumers.append({"account": account, "name": consumer["name"], "stream": told, "api_level": own})
    if as_json:
        print_json({name: found for name, found in (("streams", streams), ("consumers", consumers)) if found})
        return
    if not streams and not consumers:
        say("All assets are compatible with the specified API level.")
    if streams:
        table = Table("Assets: Streams", "Account", "Stream", "Required API level")
        for one in streams:
            table.add(one["account"], one["name"], one["api_level"])
        table.print()
    if streams and consumers:
        click.echo()
    if consumers:
        table = Table("Assets: Consumers", "Account", "Stream", "Consumer", "Required API level")
        for one in consumers:
            table.add(one["account"], one["stream"], one["name"], one["api_level"])
        table.print()
