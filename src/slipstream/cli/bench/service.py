"""`bench service serve` and `request`: a micro service whose instances share the requests."""

from __future__ import annotations

import click

from slipstream.cli.bench.flags import BenchPlan, Publication, body_flags, flags
from slipstream.cli.bench.groups import BenchGroup
from slipstream.cli.bench.report import announce, shown_duration
from slipstream.cli.bench.run import measure, pace_of
from slipstream.cli.bench.run import serve as run_until_stopped
from slipstream.cli.connection import Command, EndlessCommand, Session
from slipstream.cli.lazy import Verb
from slipstream.cli.render import note
from slipstream.client.bench.core import RequestLoad, Serve
from slipstream.client.bench.course import Body

__all__ = ["request", "serve", "service"]

_REQUESTER = "Core NATS service requester"
_SERVER = "Core NATS service server"
_HERE = "slipstream.cli.bench.service"


@click.group(
    cls=BenchGroup,
    entries={
        "request": Verb(f"{_HERE}:request", "Send requests, one after the other."),
        "serve": Verb(f"{_HERE}:serve", "Answer requests until stopped."),
    },
)
def service() -> None:
    """Ask and serve as a micro service."""


@click.command(cls=Command)
@click.argument("subject")
@flags(pace=True)
@body_flags
def request(session: Session, plan: BenchPlan, /, subject: str, publication: Publication) -> None:
    """Send requests to SUBJECT, each client one after the other."""
    plan = plan.fewer_clients()
    announce(_REQUESTER, plan, {"subject": subject, "sleep": shown_duration(plan.sleep_ns)})
    shares = plan.shares()
    body = Body(payload=publication.payload(plan.size), headers=publication.headers)
    courses = [
        RequestLoad(subject=subject, body=body, messages=share, pace=pace_of(plan, number))
        for number, share in enumerate(shares)
    ]
    measure(session, _REQUESTER, plan, courses, shares, "requesting", "P")


@click.command(cls=EndlessCommand)
@click.argument("subject")
@flags()
def serve(session: Session, plan: BenchPlan, /, subject: str) -> None:
    """Answer requests on SUBJECT until stopped; --sleep is what handling one takes."""
    announce(_SERVER, plan, {"subject": subject, "sleep": shown_duration(plan.sleep_ns)})
    for number in range(plan.clients):
        note(f"[{number + 1}] Starting {_SERVER}, hit control-c to stop")
    try:
        run_until_stopped(session, plan, [Serve(subject=subject, sleep_ns=plan.sleep_ns)] * plan.clients)
    except KeyboardInterrupt:
        click.echo(err=True)
