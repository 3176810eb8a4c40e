"""The words of a bench run, those of `nats bench`: what starts, what each client did, and all together.

Where operations were timed one by one there are percentiles; elsewhere the time that one message took on average.
"""

from __future__ import annotations

import csv
import secrets
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean

import click

from slipstream.cli.bench.flags import BenchPlan
from slipstream.cli.human import format_bytes, format_duration
from slipstream.cli.render import note, say, tied
from slipstream.client.bench.job import BenchTally
from slipstream.client.load import Tally, percentile

__all__ = ["announce", "print_results", "shown_duration", "yes_or_no"]

_COLUMNS = ("#RunID", "ClientID", "MsgCount", "MsgBytes", "MsgsPerSec", "BytesPerSec", "DurationSecs")
_LATENCY_COLUMNS = ("Min", "Avg", "Max", "P50", "P90", "P99", "P99.9", "StdDev")


def announce(label: str, plan: BenchPlan, fields: Mapping[str, str | int | bool]) -> None:
    """The line before everything, with what was asked for."""
    every: dict[str, str | int | bool] = {
        **fields,
        "msgs": plan.msgs,
        "msg-size": format_bytes(plan.size),
        "clients": plan.clients,
    }
    if plan.throughput:
        every["throughput"] = plan.throughput
        if plan.duration_ns:
            every["duration"] = shown_duration(plan.duration_ns)
    words = ", ".join(f"{name}={_written(value)}" for name, value in sorted(every.items()))
    note(f"Starting {label} benchmark [{words}]")


def shown_duration(duration_ns: int) -> str:
    """A duration, also a very short one."""
    return f"{duration_ns}ns" if 0 < duration_ns < 1000 else format_duration(duration_ns)


def yes_or_no(value: bool) -> str:
    """A switch in words."""
    return "true" if value else "false"


def print_results(label: str, tally: BenchTally, plan: BenchPlan, *, letter: str) -> None:
    """Each client and all together; one client alone is all together. A file gets the numbers, if one is named.

    Args:
        label: what was measured.
        tally: what was measured.
        plan: says where the file is.
        letter: `P` for those who publish, `S` for those who receive; the clients' names in the file.
    """
    clients = tally.clients
    if len(clients) == 1:
        say(f"NATS {label} stats: {_sample(clients[0])}", indent=2)
    else:
        for number, client in enumerate(clients, 1):
            say(f"  [{number}] {_sample(client)} ({client.messages:,} msgs)", indent=4)
        click.echo()
        say(f" NATS {label} aggregated stats: {_rates(tally)}", indent=3)
        say(f" message rates {_spread([float(int(client.rate)) for client in clients], '', 0)} msgs", indent=3)
        _say_latencies(clients)
    if plan.csv:
        _save(clients, plan.csv, letter)
        say(f"Saved metric data in csv file {plan.csv}")


def _say_latencies(clients: Sequence[Tally]) -> None:
    latencies_ns = sorted(latency for client in clients for latency in client.latencies_ns)
    if not latencies_ns:
        means = [1e6 / client.rate for client in clients]
        say(f" avg latencies {_spread(means, 'us', 2)}", indent=3)
        return
    parts = " | ".join(tied(f"{name} {_us(value)}") for name, value in _percentiles(latencies_ns)[3:])
    micros = [latency / 1e3 for latency in latencies_ns]
    say(f" latencies per operation {_spread(micros, 'us', 2)} | {parts}", indent=3)


def _sample(tally: Tally) -> str:
    """One client in a line."""
    if not tally.latencies_ns:
        return f"{_rates(tally)} ~ {_us(1e6 / tally.rate)}"
    named = (tied(f"{name}: {_us(value)}") for name, value in _percentiles(sorted(tally.latencies_ns)))
    return f"{_rates(tally)} ~ {' ~ '.join(named)}"


def _rates(tally: Tally) -> str:
    return f"{int(tally.rate):,} msgs/sec ~ {format_bytes(int(tally.payload_bytes / tally.seconds))}/sec"


def _percentiles(sorted_ns: Sequence[int]) -> list[tuple[str, float]]:
    """Names and microseconds."""
    found = [("min", sorted_ns[0] / 1e3), ("avg", fmean(sorted_ns) / 1e3), ("max", sorted_ns[-1] / 1e3)]
    return found + [(f"P{each:g}", percentile(sorted_ns, each / 100) / 1e3) for each in (50, 90, 99, 99.9)]


def _spread(values: Sequence[float], unit: str, digits: int) -> str:
    rows = (("min", min(values)), ("avg", fmean(values)), ("max", max(values)), ("stddev", _deviation(values)))
    return " | ".join(tied(f"{name} {value:,.{digits}f}{unit}") for name, value in rows)


def _deviation(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sqrt(fmean((value - mean) ** 2 for value in values))


def _us(micros: float) -> str:
    return f"{micros:,.2f}us"


def _written(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return yes_or_no(value)
    return f"{value:,}" if isinstance(value, int) else value


def _save(clients: Sequence[Tally], place: str, letter: str) -> None:
    """The numbers of each client as `nats bench` writes them."""
    timed = any(client.latencies_ns for client in clients)
    run_id = secrets.token_hex(11).upper()
    with Path(place).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*_COLUMNS, *(f"{name}LatencyMicroSecs" for name in _LATENCY_COLUMNS if timed)))
        for number, client in enumerate(clients):
            row: list[str | int] = [run_id, f"{letter}{number}", client.messages, client.payload_bytes]
            row += [int(client.rate), f"{client.payload_bytes / client.seconds:f}", f"{client.seconds:f}"]
            if timed:
                micros = [latency / 1e3 for latency in client.latencies_ns]
                values = [value for _, value in _percentiles(sorted(client.latencies_ns))]
                row += [f"{value:f}" for value in (*values, _deviation(micros))]
            writer.writerow(row)
