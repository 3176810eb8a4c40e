"""Publishers and subscribers in one run, for `slipstream-bench`, the small tool that NATS clients ship."""

from __future__ import annotations

from collections.abc import Sequence

import click

from slipstream.cli.bench.run import run_jobs
from slipstream.cli.render import wrapped
from slipstream.client.load import LoadJob, Tally
from slipstream.client.throughput import PublishLoad, Receiving

__all__ = ["run_pub_sub"]


def run_pub_sub(url: str, subject: str, *, publishers: int, subscribers: int, messages: int, size: int) -> None:
    """Publish and receive at the same time: every subscriber gets every message.

    Raises:
        Failure: it did not work.
    """
    jobs: list[LoadJob] = []
    if subscribers:
        jobs.append(Receiving(url=url, subjects=((subject,),) * subscribers, messages=messages))
    for count, share in _shares(messages, publishers) if publishers else ():
        jobs.append(PublishLoad(url=url, subjects=((subject,),) * count, messages=share, size=size))
    setup = f"[subject={subject}, clients={publishers + subscribers}, msgs={messages:,}, msg-size={size:,} B]"
    click.echo(wrapped(f"Starting Core NATS pub/sub benchmark {setup}", indent=2))
    tallies = run_jobs(jobs, messages * subscribers + (messages if publishers else 0))
    if subscribers:
        _print_rate("subscriber", tallies[:1])
    if publishers:
        _print_rate("publisher", tallies[bool(subscribers) :])


def _shares(messages: int, clients: int) -> list[tuple[int, int]]:
    """(number of clients, messages of each): as equal as whole messages can be, nobody with none."""
    share, rest = divmod(messages, clients)
    return [(count, each) for count, each in ((rest, share + 1), (clients - rest, share)) if count and each]


def _print_rate(kind: str, tallies: Sequence[Tally]) -> None:
    """One line over all: from the first start to the last end."""
    messages = sum(tally.messages for tally in tallies)
    payload_bytes = sum(tally.payload_bytes for tally in tallies)
    started_ns = min(tally.started_ns for tally in tallies)
    seconds = max(max(tally.ended_ns for tally in tallies) - started_ns, 1) / 1e9
    rate, megabytes = messages / seconds, payload_bytes / seconds / 1e6
    click.echo(f"NATS Core NATS {kind} stats: {rate:,.0f} msgs/sec ~ {megabytes:,.2f} MB/sec ~ {1e6 / rate:.2f}us")
