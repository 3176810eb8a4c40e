"""Health checks in the form that monitoring systems read: one line, figures behind `|`, and a status.

0 is OK, 1 a warning, 2 critical, 3 unknown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from slipstream.cli.connection import Command, Group, Session
from slipstream.cli.human import parse_timestamp
from slipstream.cli.link import Link, Reply
from slipstream.cli.types import DURATION
from slipstream.errors import SlipstreamError
from slipstream.limits import MILLISECOND_NS, SECOND_NS

__all__ = ["check"]

_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


class _Result:
    """What a check found so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said: list[list[str]] = [[], [], []]
        self._figures: list[str] = []

    def say(self, status: int, text: str) -> None:
        self._said[status].append(text)

    def figure(self, name: str, value: float, unit: str = "", *, warn: float = 0, critical: float = 0) -> None:
        limits = f";{warn:g};{critical:g}" if warn or critical else ""
        number = f"{value:.4f}" if isinstance(value, float) else str(value)
        self._figures.append(f"{name}={number}{unit}{limits}")

    def above(self, name: str, value: float, warn: float, critical: float, unit: str = "") -> None:
        """Complain when a value is too high; a limit that is not positive is none."""
        self.figure(name, value, unit, warn=max(warn, 0), critical=max(critical, 0))
        if 0 < critical <= value:
            self.say(2, f"{name} {value:g}{unit}")
        elif 0 < warn <= value:
            self.say(1, f"{name} {value:g}{unit}")

    def finish(self) -> None:
        """Print the line and end the program."""
        status = 2 if self._said[2] else 1 if self._said[1] else 0
        complaints = (("Crit", self._said[2]), ("Warn", self._said[1]))
        texts = [f"{word}: {', '.join(said)}" for word, said in complaints if said] or [", ".join(self._said[0])]
        figures = f" | {' '.join(self._figures)}" if self._figures else ""
        click.echo(f"{self._name} {_WORDS[status]} {' '.join(texts)}{figures}".rstrip())
        sys.exit(status)


def _checked(session: Session, name: str, examine: Callable[[Link, _Result], None]) -> None:
    result = _Result(name)
    try:
        examine(session.link(), result)
    except SlipstreamError as error:
        result.say(2, str(error))
    result.finish()


@click.group(cls=Group)
def check() -> None:
    """Check health, for monitoring systems."""


@check.command(cls=Command)
@click.option("--connect-warn", type=DURATION, default=500 * MILLISECOND_NS, help="Connecting takes long.")
@click.option("--connect-critical", type=DURATION, default=SECOND_NS, help="Connecting takes too long.")
@click.option("--rtt-warn", type=DURATION, default=500 * MILLISECOND_NS, help="A ping takes long.")
@click.option("--rtt-critical", type=DURATION, default=SECOND_NS, help="A ping takes too long.")
@click.pass_obj
def connection(session: Session, connect_warn: int, connect_critical: int, rtt_warn: int, rtt_critical: int) -> None:
    """Check that a server can be reached."""

    def examine(link: Link, result: _Result) -> None:
        connected_ns = time.monotonic_ns() - started_ns
        began_ns = time.monotonic_ns()
        link.client.flush()
        rtt_ns = time.monotonic_ns() - began_ns
        _above_ns(result, "connect_time", connected_ns, connect_warn, connect_critical)
        _above_ns(result, "rtt", rtt_ns, rtt_warn, rtt_critical)
        result.say(0, f"connected to {link.client.info.server_name or link.client.info.server_id}")

    started_ns = time.monotonic_ns()
    _checked(session, "Connection", examine)


def _above_ns(result: _Result, name: str, value_ns: int, warn_ns: int, critical_ns: int) -> None:
    result.above(name, value_ns / SECOND_NS, warn_ns / SECOND_NS, critical_ns / SECOND_NS, "s")


@check.command(cls=Command)
@click.option("--mem-warn", type=int, default=75, help="Percent of the memory limit.")
@click.option("--mem-critical", type=int, default=90, help="Percent of the memory limit.")
@click.option("--store-warn", type=int, default=75, help="Percent of the storage limit.")
@click.option("--store-critical", type=int, default=90, help="Percent of the storage limit.")
@click.option("--streams-warn", type=int, default=-1, help="Percent of the limit of streams.")
@click.option("--streams-critical", type=int, default=-1, help="Percent of the limit of streams.")
@click.option("--consumers-warn", type=int, default=-1, help="Percent of the limit of consumers.")
@click.option("--consumers-critical", type=int, default=-1, help="Percent of the limit of consumers.")
@click.pass_obj
def jetstream(session: Session, /, **limits: int) -> None:
    """Check the account's use of JetStream."""

    def examine(link: Link, result: _Result) -> None:
        account = link.api("INFO")
        allowed: dict[str, Any] = account["limits"]
        for name, used, field in (
            ("mem", account["memory"], "max_memory"),
            ("store", account["storage"], "max_storage"),
            ("streams", account["streams"], "max_streams"),
            ("consumers", account["consumers"], "max_consumers"),
        ):
            result.figure(name, used)
            if allowed.get(field, -1) > 0:
                percent = round(100 * used / allowed[field])
                result.above(f"{name}_pct", percent, limits[f"{name}_warn"], limits[f"{name}_critical"], "%")
        result.say(0, f"{account['streams']} streams, {account['consumers']} consumers")

    _checked(session, "JetStream", examine)


@check.command(cls=Command)
@click.option("--stream", "name", required=True, help="The stream.")
@click.option("--msgs-warn", type=int, default=0, help="Fewer messages than this.")
@click.option("--msgs-critical", type=int, default=0, help="Fewer messages than this.")
@click.option("--subjects-warn", type=int, default=0, help="More subjects than this.")
@click.option("--subjects-critical", type=int, default=0, help="More subjects than this.")
@click.option("--lag-critical", type=int, default=0, help="A source or mirror that is so many messages behind.")
@click.option("--seen-critical", type=DURATION, default=0, help="A source or mirror that was silent for so long.")
@click.option("--min-sources", type=int, default=0, help="At least so many sources.")
@click.pass_obj
def stream(session: Session, /, name: str, **limits: int) -> None:
    """Check a stream: its messages, its sources, and whether anything was lost."""

    def examine(link: Link, result: _Result) -> None:
        info = link.api(f"STREAM.INFO.{name}")
        state = info["state"]
        messages = state["messages"]
        result.figure("messages", messages)
        if messages < limits["msgs_critical"]:
            result.say(2, f"{messages} messages")
        elif messages < limits["msgs_warn"]:
            result.say(1, f"{messages} messages")
        result.above("subjects", state.get("num_subjects", 0), limits["subjects_warn"], limits["subjects_critical"])
        if state.get("lost"):
            result.say(2, f"{len(state['lost'].get('msgs') or [])} messages are lost")
        _check_sources(info, result, limits)
        result.say(0, f"{messages} messages")

    _checked(session, name, examine)


def _check_sources(info: Reply, result: _Result, limits: dict[str, int]) -> None:
    sources = info.get("sources") or []
    if len(sources) < limits["min_sources"]:
        result.say(2, f"{len(sources)} sources of expected {limits['min_sources']}")
    for source in [*sources, *([info["mirror"]] if info.get("mirror") else [])]:
        result.above(f"{source['name']}_lag", source["lag"], 0, limits["lag_critical"])
        silent_ns = source["active"]
        if limits["seen_critical"] and not 0 <= silent_ns < limits["seen_critical"]:
            result.say(2, f"{source['name']} was not seen for long")


@check.command(cls=Command)
@click.option("--stream", "stream_name", required=True, help="The stream.")
@click.option("--consumer", "name", required=True, help="The consumer.")
@click.option("--outstanding-ack-critical", type=int, default=-1, help="Messages that wait for an acknowledgement.")
@click.option("--waiting-critical", type=int, default=-1, help="Waiting pull requests.")
@click.option("--unprocessed-critical", type=int, default=-1, help="Messages that were not delivered yet.")
@click.option("--redelivery-critical", type=int, default=-1, help="Messages that were delivered again.")
@click.option("--last-delivery-critical", type=DURATION, default=0, help="No delivery for so long.")
@click.option("--last-ack-critical", type=DURATION, default=0, help="No acknowledgement for so long.")
@click.pass_obj
def consumer(session: Session, /, stream_name: str, name: str, **limits: int) -> None:
    """Check a consumer."""

    def examine(link: Link, result: _Result) -> None:
        info = link.api(f"CONSUMER.INFO.{stream_name}.{name}")
        result.above("ack_pending", info["num_ack_pending"], 0, limits["outstanding_ack_critical"])
        result.above("pull_waiting", info["num_waiting"], 0, limits["waiting_critical"])
        result.above("pending", info["num_pending"], 0, limits["unprocessed_critical"])
        result.above("redelivered", info["num_redelivered"], 0, limits["redelivery_critical"])
        for field, label in (("delivered", "last_delivery"), ("ack_floor", "last_ack")):
            limit_ns = limits[f"{label}_critical"]
            moment = info[field].get("last_active")
            age = (datetime.now(UTC) - parse_timestamp(moment)).total_seconds() if moment else None
            if limit_ns and (age is None or age * SECOND_NS >= limit_ns):
                result.say(2, f"no {label.removeprefix('last_')} " + ("yet" if age is None else f"for {age:.0f}s"))
        result.say(0, f"{info['num_pending']} pending")

    _checked(session, f"{stream_name}_{name}", examine)
