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
from campaigns.figures import Figures, added
from campaigns.searching import Searched
from slipstream.jetstream.consumer.journal import ConsumerJournal
from slipstream.jetstream.store.sealed.keys import AtRestCipher
from support.consumer_machine import ConsumersMachine
from support.sealing import sealed_stores, watched_disks
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


def model_encrypted(steps: int) -> Figures:
    """The same on encrypted files, which are searched at each restart."""
    search = Searched((b"subjects", b"durable_name", b"ack_policy"))
    with sealed_stores(AtRestCipher.CHACHA), watched_disks(search):
        figures = model(steps)
    return search.added_to(figures, lambda: _play(5, shrink=False))


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


DEATHS_OF_A_DIRECTORY = 25
"""Then another one is begun: what is left of all is read at the end."""


def deaths(cycles: int) -> Figures:
    """kill -9 while consumers work."""
    with tempfile.TemporaryDirectory(prefix="consumers-") as directory:
        run = ConsumerDeaths(Path(directory), seed=cycles)
        run.run(cycles)
    control = _control_of_deaths()
    return Figures(_counts(run), run.broken, control.control, control.control_found)


def deaths_encrypted(numbers: range) -> Figures:
    """The same with encryption at rest."""
    found = Figures({})
    for first in numbers[::DEATHS_OF_A_DIRECTORY]:
        count = min(DEATHS_OF_A_DIRECTORY, numbers[-1] + 1 - first)
        with tempfile.TemporaryDirectory(prefix="consumers-") as directory:
            run = ConsumerDeaths(Path(directory), seed=first + 1, encrypted=True)
            run.run(count)
        counts = {**_counts(run), "places where a message, a name or a key can be read": len(run.readable)}
        found = added(found, Figures(counts, run.broken))
    return found


def _control_of_deaths() -> Figures:
    with tempfile.TemporaryDirectory(prefix="consumers-") as directory:
        control = ConsumerDeaths(Path(directory), binary=server_binary("real"))
        control.run(10)
    again = sum("confirm" in text for text in control.broken)
    return Figures(
        {}, control=f"nats-server, killed 10 times: {again} confirmed acks forgotten", control_found=again > 0
    )


def control_of_deaths_encrypted() -> Figures:
    """The same, and what the search finds where nothing is encrypted."""
    figures = _control_of_deaths()
    with tempfile.TemporaryDirectory(prefix="consumers-") as directory:
        plain = ConsumerDeaths(Path(directory))
        plain.run(1)
        found = plain.search()
    figures.control += f"; without a key the search finds {len(found)} places"
    figures.control_found = figures.control_found and bool(found)
    return figures


def _counts(run: ConsumerDeaths) -> dict[str, int | float | str]:
    promises = [worker.promises for worker in run.workers]
    return {
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
    }
