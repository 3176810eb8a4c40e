"""`bench js ordered`, `consume`, `fetch` and `get`."""

from __future__ import annotations

from typing import Any, Final

import click

from slipstream.cli.bench.flags import BenchPlan, flags
from slipstream.cli.bench.report import announce, shown_duration
from slipstream.cli.bench.run import measure, pace_of
from slipstream.cli.bench.target import (
    CONSUMER,
    STREAM,
    durable_consumer,
    ordered_name,
    purge,
    stream_info,
    wait_hint,
)
from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.types import list_option
from slipstream.client.bench.consume import Consume, Fetch, Ordered
from slipstream.client.bench.get import GetBatches, GetSync

__all__ = ["consume", "fetch", "get_batch", "get_sync", "ordered"]

_stream: Final = click.option("--stream", default=STREAM, show_default=True, help="Stream to read.")
_purge: Final = click.option("--purge", "purges", is_flag=True, help="Purge the stream first.")
_filter: Final = list_option("--filter", "filters", metavar="SUBJECTS", help="Only messages on these subjects.")
_batch: Final = click.option(
    "--batch", default=500, type=click.IntRange(1, 10**6), show_default=True, help="Messages asked for at a time."
)
_consumer: Final = click.option("--consumer", default=CONSUMER, show_default=True, help="Durable consumer.")
_acks: Final = click.option(
    "--acks",
    type=click.Choice(["explicit", "none", "all"]),
    default="explicit",
    show_default=True,
    help="How messages are acknowledged.",
)
_double: Final = click.option(
    "--doubleack/--no-doubleack", "--double-ack/--no-double-ack", "double", help="Wait until the server has each ack."
)


@click.command(cls=Command)
@flags()
@_stream
@_batch
@_filter
@_purge
def ordered(session: Session, plan: BenchPlan, /, stream: str, batch: int, filters: list[str], purges: bool) -> None:
    """Read with an ordered consumer; every client reads all --msgs messages."""
    label = "JetStream ordered ephemeral consumer"
    shown: dict[str, str | int | bool] = {"stream": stream, "sleep": shown_duration(plan.sleep_ns), "purge": purges}
    announce(label, plan, shown | ({"filter": ",".join(filters)} if filters else {}))
    _ready(session, stream, plan.msgs, purges=purges)
    courses = [
        Ordered(
            api=session.settings.api_prefix,
            stream=stream,
            consumer=ordered_name(),
            messages=plan.msgs,
            batch=batch,
            sleep_ns=plan.sleep_ns,
            filters=tuple(filters),
        )
        for _ in range(plan.clients)
    ]
    measure(session, label, plan, courses, [plan.msgs] * plan.clients, "expecting", "S")


@click.command(cls=Command)
@flags()
@_stream
@_consumer
@_batch
@_acks
@_double
@_filter
@_purge
def consume(session: Session, plan: BenchPlan, /, **given: Any) -> None:
    """Read from a durable consumer that the clients share; the next messages are asked for before the last are here."""
    _read(session, plan, "JetStream durable consumer (callback)", Consume, **given)


@click.command(cls=Command)
@flags()
@_stream
@_consumer
@_batch
@_acks
@_double
@_filter
@_purge
def fetch(session: Session, plan: BenchPlan, /, **given: Any) -> None:
    """Read from a durable consumer that the clients share, one fetch after the other."""
    _read(session, plan, "JetStream durable consumer (fetch)", Fetch, **given)


def _read(
    session: Session,
    plan: BenchPlan,
    label: str,
    kind: type[Consume | Fetch],
    *,
    stream: str,
    consumer: str,
    batch: int,
    acks: str,
    double: bool,
    filters: list[str],
    purges: bool,
) -> None:
    plan = plan.fewer_clients()
    shown: dict[str, str | int | bool] = {
        "stream": stream,
        "sleep": shown_duration(plan.sleep_ns),
        "purge": purges,
        "consumer": consumer,
        "acks": acks,
        "double-acked": double,
        "batch": batch,
    }
    announce(label, plan, shown | ({"filter": ",".join(filters)} if filters else {}))
    _ready(session, stream, plan.msgs, purges=purges)
    shares = plan.shares()
    courses = [
        kind(
            api=session.settings.api_prefix,
            stream=stream,
            consumer=consumer,
            messages=share,
            batch=batch,
            acks=acks != "none",
            double=double,
            sleep_ns=plan.sleep_ns,
        )
        for share in shares
    ]
    pending = batch * plan.clients
    with durable_consumer(session.link(), stream, consumer, acks=acks, pending=pending, filters=filters):
        measure(session, label, plan, courses, shares, "expecting", "S")


def _ready(session: Session, stream: str, wanted: int, *, purges: bool) -> None:
    link = session.link()
    if purges:
        purge(link, stream)
    wait_hint(stream_info(link, stream), wanted)


@click.command("sync", cls=Command)
@flags()
@_stream
def get_sync(session: Session, plan: BenchPlan, /, stream: str) -> None:
    """Get messages by their sequences, one after the other; every client gets all --msgs."""
    label = "JetStream synchronous getter"
    announce(label, plan, {"stream": stream, "sleep": shown_duration(plan.sleep_ns)})
    info = stream_info(session.link(), stream)
    _enough(info, plan.msgs)
    courses = [
        GetSync(
            api=session.settings.api_prefix,
            stream=stream,
            messages=plan.msgs,
            pace=pace_of(plan, number),
            first_seq=int(info["state"]["first_seq"]),
            direct=bool(info["config"].get("allow_direct")),
        )
        for number in range(plan.clients)
    ]
    measure(session, label, plan, courses, [plan.msgs] * plan.clients, "expecting", "S")


@click.command("batch", cls=Command)
@flags()
@_stream
@_batch
@click.option("--filter", "subject", default=">", show_default=True, help="Only messages on this subject.")
def get_batch(session: Session, plan: BenchPlan, /, stream: str, batch: int, subject: str) -> None:
    """Get many messages with one request; every client gets all --msgs."""
    label = "JetStream batched direct getter"
    sleep = shown_duration(plan.sleep_ns)
    announce(label, plan, {"stream": stream, "sleep": sleep, "batch": batch, "filter": subject})
    info = stream_info(session.link(), stream)
    _enough(info, plan.msgs)
    if not info["config"].get("allow_direct"):
        raise Failure(f"stream {stream} has no direct access; `slipstream stream edit {stream} --allow-direct` adds it")
    courses = [
        GetBatches(
            api=session.settings.api_prefix,
            stream=stream,
            messages=plan.msgs,
            pace=pace_of(plan, number),
            batch=batch,
            filter=subject,
        )
        for number in range(plan.clients)
    ]
    measure(session, label, plan, courses, [plan.msgs] * plan.clients, "expecting", "S")


def _enough(info: dict[str, Any], wanted: int) -> None:
    there = int(info["state"]["messages"])
    if there < wanted:
        name = info["config"]["name"]
        raise Failure(f"stream {name} holds {there:,} messages, not {wanted:,}; say how many with --msgs")
