"""`stream graph` and `stream gaps`: how a stream changes, and which sequences it no longer has."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from slipstream.cli.connection import Command, EndlessCommand, Session
from slipstream.cli.graphs import show_graphs
from slipstream.cli.jetstream import choose_stream
from slipstream.cli.render import Table, counted, print_json, say
from slipstream.cli.types import DURATION, json_flag
from slipstream.units import SECOND_NS

__all__ = ["gaps", "graph", "ranges_of"]


@click.command(cls=EndlessCommand)
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--interval", type=DURATION, default=SECOND_NS, help="Time between two looks.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many screens.")
@click.pass_obj
def graph(session: Session, name: str | None, interval: int, count: int) -> None:
    """Watch how many messages STREAM has, gets and gives up."""
    name = choose_stream(session, name, internal=session.show_all)
    link = session.link()

    def look() -> tuple[int, int, int]:
        state = link.api(f"STREAM.INFO.{name}")["state"]
        return state["messages"], state["last_seq"], time.monotonic_ns()

    before = look()

    def sample() -> dict[str, float]:
        nonlocal before
        now = look()
        seconds = max(now[2] - before[2], 1) / SECOND_NS
        published = now[1] - before[1]
        removed = before[0] + published - now[0]
        before = now
        return {
            "Messages Stored": now[0],
            "Messages Published / second": published / seconds,
            "Messages Removed / second": max(removed, 0) / seconds,
        }

    show_graphs(f"Stream {name}", sample, link.idle, interval_ns=interval, count=count)


@click.command(cls=Command)
@click.argument("name", metavar="[STREAM]", required=False)
@json_flag
@click.pass_obj
def gaps(session: Session, name: str | None, as_json: bool) -> None:
    """Show which sequences between the first and the last of STREAM are gone."""
    name = choose_stream(session, name, internal=session.show_all)
    state = session.link().api(f"STREAM.INFO.{name}", {"deleted_details": True})["state"]
    found = list(ranges_of(state.get("deleted") or []))
    if as_json:
        print_json({"stream": name, "deleted": state.get("num_deleted", 0), "gaps": found})
        return
    if not found:
        say(f"No deleted messages in {name}")
        return
    deleted = counted(state.get("num_deleted", 0), "deleted message")
    table = Table(f"{deleted} in stream {name}", "First Message", "Last Message", "Messages")
    for first, last in found:
        table.add(first, last, last - first + 1)
    table.print()


def ranges_of(sequences: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Rising numbers as ranges, first and last."""
    first = last = None
    for sequence in sequences:
        if last is not None and sequence == last + 1:
            last = sequence
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = sequence
    if first is not None and last is not None:
        yield first, last
