"""Core NATS: `bench pub`, `sub` and `reply`."""

from __future__ import annotations

from urllib.parse import quote

import click

from slipstream.cli.bench.flags import BenchPlan, Publication, flags, publication_flags
from slipstream.cli.bench.report import announce, print_results, shown_duration
from slipstream.cli.bench.run import measure, pace_of, run_jobs
from slipstream.cli.connection import Command, Failure, Session
from slipstream.client.bench.core import Publish, Receive
from slipstream.client.bench.course import Body, Subjects
from slipstream.client.bench.job import BenchTally
from slipstream.client.roundtrip import Replying
from slipstream.client.throughput import Receiving

__all__ = ["pub", "reply", "sub"]

_PUBLISHER = "Core NATS publisher"
_SUBSCRIBER = "Core NATS subscriber"
_RESPONDER = "Core NATS responder"


@click.command(cls=Command)
@click.argument("subject")
@flags(pace=True)
@publication_flags
def pub(session: Session, plan: BenchPlan, /, subject: str, publication: Publication) -> None:
    """Publish to SUBJECT as fast as the server takes it."""
    plan = plan.fewer_clients()
    announce(
        _PUBLISHER,
        plan,
        {
            "subject": publication.subjects(subject).pattern,
            "multi-subject": publication.multi,
            "multi-subject-max": publication.multi_max,
            "multi-subject-randomize": publication.multi_random,
            "sleep": shown_duration(plan.sleep_ns),
        },
    )
    shares = plan.shares()
    body = Body(payload=publication.payload(plan.size), headers=publication.headers)
    courses = [
        Publish(
            subjects=publication.subjects(subject, offset=sum(shares[:number])),
            body=body,
            messages=share,
            pace=pace_of(plan, number),
        )
        for number, share in enumerate(shares)
    ]
    measure(session, _PUBLISHER, plan, courses, shares, "publishing", "P")


@click.command(cls=Command, short_help="Receive messages.")
@click.argument("subject")
@flags(sleep=False)
@click.option("--multisubject", "multi", is_flag=True, help="Receive what is published with --multisubject.")
@click.option("--queue", default="", help="Queue group that shares the messages.")
def sub(session: Session, plan: BenchPlan, /, subject: str, multi: bool, queue: str) -> None:
    """Receive on SUBJECT until every client has got --msgs messages, or a queue group has got them together."""
    subject = Subjects(subject=subject, multi=multi).pattern
    announce(_SUBSCRIBER, plan, {"subject": subject, "multi-subject": multi})
    if queue:
        clients = ((subject,),) * plan.clients
        job = Receiving(
            url=_url(session), subjects=clients, messages=plan.msgs, queue=queue, timeout_ns=plan.timeout_ns
        )
        tally = run_jobs([job], plan.msgs, shown=plan.shown)[0]
        print_results(_SUBSCRIBER, BenchTally.over([tally]), plan, letter="S")
        return
    courses = [Receive(subject=subject, messages=plan.msgs)] * plan.clients
    measure(session, _SUBSCRIBER, plan, courses, [plan.msgs] * plan.clients, "expecting", "S")


@click.command(cls=Command)
@click.argument("subject")
@flags(sleep=False)
@click.option("--queue", default="bench-reply", show_default=True, help="Queue group of the responders.")
def reply(session: Session, plan: BenchPlan, /, subject: str, queue: str) -> None:
    """Answer requests on SUBJECT until there were --msgs of them."""
    announce(_RESPONDER, plan, {"subject": subject})
    job = Replying(
        url=_url(session),
        subject=subject,
        messages=plan.msgs,
        size=plan.size,
        queue=queue,
        connections=plan.clients,
        timeout_ns=plan.timeout_ns,
    )
    tally = run_jobs([job], plan.msgs, shown=plan.shown)[0]
    print_results(_RESPONDER, BenchTally.over([tally]), plan, letter="S")


def _url(session: Session) -> str:
    """The first server of the settings, with user and password: these two count over plain connections."""
    settings = session.settings
    if settings.creds or settings.nkey or settings.tlscert or settings.tlsca:
        raise Failure("this connects with a user name, a password or a token, and without TLS")
    endpoint = settings.urls[0] if "://" in settings.urls[0] else f"nats://{settings.urls[0]}"
    secret = settings.token or ":".join(filter(None, (settings.user, settings.password)))
    return endpoint.replace("://", f"://{quote(secret, safe=':')}@", 1) if secret and "@" not in endpoint else endpoint
