"""`stream ls`, `report` and `subjects`: many streams, or the many subjects of one."""

from __future__ import annotations

from typing import Any

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_age, format_bytes, format_duration, format_number, format_time
from slipstream.cli.jetstream import all_streams, api_level, choose_stream, is_internal, now_of, replicas_of
from slipstream.cli.leaders import leaders_flag, print_leaders
from slipstream.cli.link import Reply
from slipstream.cli.render import Table, counted, print_json, print_names, say
from slipstream.cli.types import json_flag, names_flag

__all__ = ["ls", "print_streams", "report", "subjects"]


@click.command(cls=Command)
@click.option("--subject", metavar="SUBJECT", default="", help="Only streams that store a subject.")
@click.option("--all", "-a", "show_all", is_flag=True, help="Include the streams of buckets and object stores.")
@names_flag
@json_flag
@click.pass_obj
def ls(session: Session, subject: str, show_all: bool, names: bool, as_json: bool) -> None:
    """List streams."""
    show_all = show_all or session.show_all
    if names:
        body = {"subject": subject} if subject else None
        found = session.link().api_pages("STREAM.NAMES", "streams", body)
        visible = sorted(name for name in found if show_all or not is_internal(name))
        (print_json if as_json else print_names)(visible)
        return
    streams = all_streams(session.link(), subject=subject, internal=show_all)
    title = f"Streams matching {subject}" if subject else "Streams"
    print_streams(streams, title, as_json=as_json)


def print_streams(streams: list[Reply], title: str, *, as_json: bool) -> None:
    """A line for each stream, the smallest first."""
    if as_json:
        print_json(streams)
        return
    if not streams:
        click.echo("No Streams defined" if title == "Streams" else "No matching Streams")
        return
    table = Table(title, "Name", "Description", "Created", "Messages", "Size", "Last Message")
    for info in sorted(streams, key=lambda each: int(each["state"]["bytes"])):
        config, state = info["config"], info["state"]
        table.add(
            config["name"],
            config.get("description", ""),
            format_time(info["created"]),
            state["messages"],
            format_bytes(state["bytes"]),
            format_age(state.get("last_ts", ""), now_of(info)),
        )
    table.print(spare=("Description", "Created"))


_ORDERS: dict[str, Any] = {
    "consumers": lambda info: info["state"]["consumer_count"],
    "messages": lambda info: info["state"]["messages"],
    "name": lambda info: info["config"]["name"],
    "storage": lambda info: info["config"]["storage"],
    "bytes": lambda info: info["state"]["bytes"],
}


@click.command(cls=Command)
@click.option("--subject", metavar="SUBJECT", default="", help="Only streams that store a subject.")
@click.option("--consumers", "-o", "order", flag_value="consumers", help="Sort by consumers.")
@click.option("--messages", "-m", "order", flag_value="messages", help="Sort by messages.")
@click.option("--name", "-n", "order", flag_value="name", help="Sort by name.")
@click.option("--storage", "-t", "order", flag_value="storage", help="Sort by storage.")
@click.option("--raw", "-r", is_flag=True, help="Plain numbers.")
@leaders_flag
@json_flag
@click.pass_obj
def report(session: Session, subject: str, order: str | None, raw: bool, leaders: bool, as_json: bool) -> None:
    """Compare all streams."""
    found = all_streams(session.link(), subject=subject)
    streams = sorted(found, key=_ORDERS[order or "bytes"])
    if as_json:
        print_json(streams)
        return
    if not streams:
        click.echo("No Streams defined")
        return
    headers = ("Stream", "Storage", "Placement", "Consumers", "Messages", "Bytes", "Lost", "Deleted", "API Level")
    table = Table("Stream Report", *headers, "Replicas")
    for info in streams:
        config, state = info["config"], info["state"]
        lost = state.get("lost") or {}
        lost_words = f"{format_number(len(lost['msgs']))} ({format_bytes(lost['bytes'])})" if lost.get("msgs") else "0"
        numbers: list[Any] = [state["consumer_count"], state["messages"], state["bytes"]]
        table.add(
            config["name"],
            str(config["storage"]).title(),
            _placement(config),
            *([str(number) for number in numbers] if raw else [*numbers[:2], format_bytes(state["bytes"])]),
            lost_words,
            state.get("num_deleted", 0),
            api_level(config),
            replicas_of(info),
        )
    table.print(spare=("API Level", "Lost"))
    _print_replication(streams)
    if leaders:
        click.echo()
        print_leaders("Streams", streams)


def _placement(config: Reply) -> str:
    placement = config.get("placement") or {}
    words = [f"cluster: {placement['cluster']}"] if placement.get("cluster") else []
    words += [f"tags: {', '.join(placement['tags'])}"] if placement.get("tags") else []
    return " ".join(words)


def _print_replication(streams: list[Reply]) -> None:
    copies = [(info, "Mirror", info["mirror"]) for info in streams if info.get("mirror")]
    copies += [(info, "Source", source) for info in streams for source in info.get("sources") or []]
    if not copies:
        return
    table = Table("Replication Report", "Stream", "Kind", "Source Stream", "Active", "Lag", "Error")
    for info, kind, source in copies:
        active_ns = source.get("active", -1)
        seen = format_duration(active_ns) if 0 < active_ns < 2**63 - 1 else "never"
        error = (source.get("error") or {}).get("description", "")
        table.add(info["config"]["name"], kind, source["name"], seen, source.get("lag", 0), error)
    table.print()


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("filter_subject", metavar="[FILTER]", default=">")
@click.option(
    "--sort",
    type=click.Choice(["name", "subjects", "messages", "count"]),
    default="messages",
    show_default=True,
    help="Order of the list.",
)
@click.option("--reverse", "-R", is_flag=True, help="The other way round.")
@click.option("--names", is_flag=True, help="Print only the subjects.")
@json_flag
@click.pass_obj
def subjects(
    session: Session, name: str | None, filter_subject: str, sort: str, reverse: bool, names: bool, as_json: bool
) -> None:
    """List the subjects in STREAM and how many messages each has."""
    name = choose_stream(session, name, internal=session.show_all)
    counts = _subject_counts(session, name, filter_subject)
    by_name = sort in ("name", "subjects")
    order = sorted(counts, key=lambda subject: (subject if by_name else counts[subject], subject), reverse=reverse)
    if as_json:
        print_json({subject: counts[subject] for subject in order})
    elif names:
        print_names(order)
    elif not order:
        say(f"No subjects found matching {filter_subject}")
    else:
        _print_subjects(name, order, counts)


def _subject_counts(session: Session, name: str, pattern: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    link = session.link()
    while True:
        page = link.api(f"STREAM.INFO.{name}", {"subjects_filter": pattern, "offset": len(counts)})
        found = page["state"].get("subjects") or {}
        counts.update(found)
        if not found or len(counts) >= page.get("total", 0):
            return counts


def _print_subjects(name: str, order: list[str], counts: dict[str, int]) -> None:
    longest = max(map(len, order))
    pairs = min(3 if longest < 20 else 2 if longest < 30 else 1, len(order))
    table = Table(f"{counted(len(order), 'Subject')} in stream {name}", *("Subject", "Count") * pairs)
    for begin in range(0, len(order), pairs):
        cells: list[object] = []
        for subject in order[begin : begin + pairs]:
            cells += [subject, counts[subject]]
        table.add(*cells, *("",) * (2 * pairs - len(cells)))
    table.print()
