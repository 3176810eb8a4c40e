"""Runs bench clients in a few processes, or one alone in this one, with a bar and an end that says what is wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import click

from slipstream.cli.bench.flags import BenchPlan
from slipstream.cli.bench.report import print_results
from slipstream.cli.connection import Failure, Session
from slipstream.cli.link import ClientLink
from slipstream.cli.progress import progress, shows_progress
from slipstream.cli.render import note
from slipstream.cli.settings import Settings
from slipstream.client.bench.course import ClientPace, Course
from slipstream.client.bench.job import Bench, BenchTally
from slipstream.client.load import LoadJob, Tally
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_here, run_together
from slipstream.units import HOUR_NS

__all__ = ["connect", "measure", "pace_of", "run_jobs", "serve"]

_PROCESSES_MAX = 8  # more than the cores of most machines would measure the scheduler
_NO_END_NS = 365 * 24 * HOUR_NS


def connect(settings: Settings) -> WireClient:
    """A connection, in whatever process."""
    return ClientLink(settings).client


def pace_of(plan: BenchPlan, number: int) -> ClientPace:
    """How fast the client with a number goes; those who pause begin at different times."""
    return ClientPace(
        sleep_ns=plan.sleep_ns,
        rate=plan.throughput / plan.clients,
        first_pause_ns=random.randrange(plan.sleep_ns) if plan.sleep_ns and number else 0,
    )


def measure(
    session: Session,
    label: str,
    plan: BenchPlan,
    courses: Sequence[Course],
    counts: Sequence[int],
    doing: str,
    letter: str,
) -> None:
    """Run a client for each course and print what came of it.

    Args:
        session: says where to connect.
        label: what is measured.
        plan: flags.
        courses: one for each client.
        counts: messages of each client.
        doing: what a client does with its messages.
        letter: `P` or `S`, see `print_results`.

    Raises:
        Failure: it did not work.
    """
    for number, count in enumerate(counts, 1):
        note(f"[{number}] Starting {label}, {doing} {count:,} messages")
    tallies = run_jobs(_jobs(session, plan, courses, counts), sum(counts), shown=plan.shown)
    clients = [client for tally in tallies if isinstance(tally, BenchTally) for client in tally.clients]
    click.echo()
    print_results(label, BenchTally.over(clients), plan, letter=letter)


def serve(session: Session, plan: BenchPlan, courses: Sequence[Course]) -> None:
    """Run clients that have no end, until somebody stops them."""
    endless = BenchPlan(**{**vars(plan), "timeout_ns": _NO_END_NS})
    run_jobs(_jobs(session, endless, courses, [0] * len(courses)), 0, shown=False, timeout_ns=_NO_END_NS)


def _jobs(session: Session, plan: BenchPlan, courses: Sequence[Course], counts: Sequence[int]) -> list[Bench]:
    """The clients in order, over as many processes as there are cores."""
    processes = min(len(courses), os.cpu_count() or 1, _PROCESSES_MAX)
    bounds = [len(courses) * number // processes for number in range(processes + 1)]
    return [
        Bench(
            connect=partial(connect, session.settings),
            courses=tuple(courses[begin:end]),
            wanted=sum(counts[begin:end]),
            timeout_ns=plan.timeout_ns,
        )
        for begin, end in pairwise(bounds)
    ]


def run_jobs(
    jobs: Sequence[LoadJob], messages: int, *, shown: bool = True, timeout_ns: int = 24 * HOUR_NS
) -> list[Tally]:
    """Run the jobs, with a bar if it is to be `shown`; `messages` is what they do all together.

    Raises:
        Failure: it did not work.
    """
    counted = 0
    try:
        with progress("Measuring", messages, shown=shown) as advance:
            advanced: Callable[[int], None] = advance

            def reached(done: int) -> None:
                nonlocal counted
                advanced(max(min(done, messages) - counted, 0))
                counted = max(min(done, messages), counted)

            # That it goes on is watched by the jobs.
            watch = reached if shown and shows_progress() else None
            if len(jobs) == 1 and watch is None:
                return [run_here(jobs[0])]
            tallies = run_together(jobs, timeout_ns=timeout_ns, on_progress=watch)
            reached(messages)
            return tallies
    except (ClientError, ValueError) as error:
        raise Failure(str(error).removeprefix("bench: ")) from error  # the kind of job; there is but one
