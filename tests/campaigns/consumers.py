"""Campaigns about consumers: the state machine in its long form, and deaths of a server under its consumers.

A control beside each shows that it can fail: the machine on a server that does not write acks before it confirms them,
and the deaths of nats-server.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from campaigns.consumer_deaths import ConsumerDeaths
from campaigns.figures import Figures
from slipstream.jetstream.consumer.journal import ConsumerJournal
from support.consumer_machine import ConsumersMachine
from support.servers import server_binary

STEPS_A_SEQUENCE = 100
SEQUENCES_A_ROUND = 50
# What an assertion of the machine says → what was found.
KINDS = {
    "is stuck": "stuck consumers",
    "left over": "acknowledged messages left over",
    "premature removal": "premature removals",
    "pending of": "pending differs from the model",
    "forgotten": "confirmed acks forgotten",
    "counts as acknowledged": "unacknowledged messages lost",
}


def model(steps: int) -> Figures:
    """So many steps of the machine."""
    found = dict.fromkeys((*KINDS.values(), "other differences"), 0)
    tally = ConsumersMachine.tally
    tally.clear()
    broken: list[str] = []
    while tally["steps"] < steps and not broken:
        failure = _play(SEQUENCES_A_ROUND, shrink=True)
        if failure:
            found[next((name for text, name in KINDS.items() if text in failure), "other differences")] += 1
            broken.append(failure)
        click.echo(f"{tally['steps']:,} of {steps:,} steps", err=True)
    done = {name: tally[name] for name in ("steps", "restarts", "crashes", "published", "delivered", "acknowledged")}
    flush, ConsumerJournal.flush = ConsumerJournal.flush, lambda _self: None  # type: ignore[method-assign]
    try:
        noticed = _play(100, shrink=False)
    finally:
        ConsumerJournal.flush = flush  # type: ignore[method-assign]
    return Figures(
        {**done, **found},
        broken,
        "a server that confirms acks before it writes them: " + ("noticed" if noticed else "NOT noticed"),
        bool(noticed),
    )


def _play(sequences: int, *, shrink: bool) -> str:
    """Run some sequences; what went wrong, if anything did."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    chosen = settings(
        max_examples=sequences,
        stateful_step_count=STEPS_A_SEQUENCE,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(ConsumersMachine, settings=chosen)
    except Exception as error:
        return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return ""


def deaths(cycles: int) -> Figures:
    """kill -9 while consumers work."""
    with tempfile.TemporaryDirectory(prefix="consumers-") as directory:
        run = ConsumerDeaths(Path(directory), seed=cycles)
        run.run(cycles)
    with tempfile.TemporaryDirectory(prefix="consumers-") as directory:
        control = ConsumerDeaths(Path(directory), binary=server_binary("real"))
        control.run(10)
    again = sum("confirm" in text for text in control.broken)
    promises = [worker.promises for worker in run.workers]
    return Figures(
        {
            "deaths": run.cycles,
            "messages stored": sum(len(one.published) for one in promises),
            "deliveries": sum(one.delivered for one in promises),
            "double acks confirmed": sum(len(one.confirmed) for one in promises),
            "confirmed and delivered again": sum("confirm" in text for text in run.broken),
            "not acknowledged and not delivered again": sum("did not come" in text for text in run.broken),
            "terminations confirmed": sum(len(one.buried) for one in promises),
            "dead letters": run.letters,
            "dead letters missing, twice or wrong": sum("dead letter" in text for text in run.broken),
            "stuck consumers": sum("stuck" in text for text in run.broken),
            "acknowledged messages left over": sum("left over" in text for text in run.broken),
        },
        run.broken,
        f"nats-server, killed 10 times: {again} confirmed acks forgotten",
        again > 0,
    )
