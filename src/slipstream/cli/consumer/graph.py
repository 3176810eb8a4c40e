"""`consumer graph`: how fast a consumer works."""

from __future__ import annotations

import time

import click

from slipstream.cli.connection import EndlessCommand, Session
from slipstream.cli.graphs import show_graphs
from slipstream.cli.jetstream import choose_consumer, choose_stream
from slipstream.cli.types import DURATION
from slipstream.units import SECOND_NS

__all__ = ["graph"]


@click.command(cls=EndlessCommand)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--interval", type=DURATION, default=SECOND_NS, help="Time between two looks.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many screens.")
@click.pass_obj
def graph(session: Session, stream: str | None, name: str | None, interval: int, count: int) -> None:
    """Watch how many messages a consumer delivers and gets acknowledged, and how many wait."""
    stream = choose_stream(session, stream, internal=session.show_all)
    name = choose_consumer(session, stream, name)
    link = session.link()

    def look() -> tuple[int, int, int, int, int]:
        info = link.api(f"CONSUMER.INFO.{stream}.{name}")
        delivered, acknowledged = info["delivered"]["consumer_seq"], info["ack_floor"]["consumer_seq"]
        return delivered, acknowledged, info["num_pending"], info["num_ack_pending"], time.monotonic_ns()

    before = look()

    def sample() -> dict[str, float]:
        nonlocal before
        now = look()
        seconds = max(now[4] - before[4], 1) / SECOND_NS
        old, before = before, now
        return {
            "Messages Delivered / second": max(now[0] - old[0], 0) / seconds,
            "Messages Acknowledged / second": max(now[1] - old[1], 0) / seconds,
            "Messages Pending": now[2],
            "Messages Waiting for Ack": now[3],
        }

    show_graphs(f"Consumer {stream} > {name}", sample, link.idle, interval_ns=interval, count=count)
