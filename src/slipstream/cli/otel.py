"""`slipstream otel`: metrics and message traces of servers to an OpenTelemetry collector."""

from __future__ import annotations

import time
import urllib.request
from typing import Final

import click
import msgspec

from slipstream.cli.connection import EndlessCommand, Failure, Session
from slipstream.cli.link import ClientLink
from slipstream.cli.listening import connect_again
from slipstream.cli.render import note
from slipstream.cli.types import DURATION, list_option
from slipstream.client.wire import ClientTimeout, ConnectionLost, Message
from slipstream.errors import UNREADABLE
from slipstream.otel.collector import Collector, CollectorRefused
from slipstream.otel.metrics import metrics_request
from slipstream.otel.spans import spans_of, trace_request
from slipstream.otel.values import Json
from slipstream.units import MIB, SECOND_NS

__all__ = ["otel"]

_PAGE_SECONDS_MAX: Final = 10.0
_PAGE_BYTES_MAX: Final = 64 * MIB
_BATCH_MAX: Final = 512  # trace events that one request carries


@click.command(cls=EndlessCommand)
@click.option(
    "--endpoint",
    default="http://127.0.0.1:4318",
    show_default=True,
    envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
    help="The collector: OTLP over HTTP.",
)
@list_option("--header", "headers", metavar="NAME=VALUE", help="Sent with every request, such as an API key.")
@click.option("--traces", metavar="SUBJECT", default="", help="Where message traces are published.")
@click.option("--metrics", metavar="URL", default="", help="A page of metrics, as http://127.0.0.1:8222/metrics.")
@click.option("--interval", type=DURATION, default=15 * SECOND_NS, help="Time between two readings of the metrics.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many requests to the collector.")
@click.pass_obj
def otel(
    session: Session, endpoint: str, headers: list[str], traces: str, metrics: str, interval: int, count: int
) -> None:
    """Send metrics and message traces to an OpenTelemetry collector.

    Messages are traced if they ask for it (Nats-Trace-Dest), or, with a sampled traceparent, if their account has
    msg_trace in the configuration. What the collector does not take is dropped, and said.
    """
    if not traces and not metrics:
        raise click.UsageError("Nothing to send: give --traces, --metrics or both.")
    if interval <= 0:
        raise click.UsageError("--interval is a time longer than nothing.")
    exporter = _Exporter(Collector(endpoint, dict(_header(text) for text in headers)), count)
    reading = _MetricsPage(metrics, interval) if metrics else None
    if not traces:
        assert reading is not None
        while not exporter.is_done:
            exporter.send("v1/metrics", reading.request())
            if not exporter.is_done:
                time.sleep(reading.wait_ns() / SECOND_NS)
        return

    def prepare(link: ClientLink) -> None:
        link.client.subscribe(traces)

    link = session.link()
    prepare(link)
    link.client.flush()
    note(f"Listening on {traces}")
    while not exporter.is_done:
        wait_ns = SECOND_NS
        if reading is not None:
            if reading.is_due():
                exporter.send("v1/metrics", reading.request())
                continue
            wait_ns = min(wait_ns, reading.wait_ns())
        try:
            messages = link.client.next_messages(max(wait_ns, 1))
        except ClientTimeout:
            continue
        except ConnectionLost as error:
            note(f"Disconnected: {error}")
            link = connect_again(session, prepare)
            continue
        for at in range(0, len(messages), _BATCH_MAX):
            exporter.send("v1/traces", _spans(messages[at : at + _BATCH_MAX]))


class _Exporter:
    """Sends, and counts what it sent."""

    def __init__(self, collector: Collector, count: int) -> None:
        self._collector = collector
        self._count = count
        self._sent = 0

    @property
    def is_done(self) -> bool:
        """Whether as many requests were made as were asked for."""
        return 0 < self._count <= self._sent

    def send(self, path: str, body: Json | None) -> None:
        """Send, if there is something."""
        if body is None:
            return
        self._sent += 1
        try:
            self._collector.send(path, body)
        except CollectorRefused as error:
            if self.is_done:
                raise
            note(f"Dropped: {error}")


class _MetricsPage:
    """A page of metrics, read again and again."""

    def __init__(self, url: str, interval_ns: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise Failure(f"a page of metrics is at http:// or https://, not {url!r}")
        self._url = url
        self._interval_ns = interval_ns
        self._next_ns = time.monotonic_ns()

    def is_due(self) -> bool:
        """Whether it is time to read it."""
        return time.monotonic_ns() >= self._next_ns

    def wait_ns(self) -> int:
        """How long until then."""
        return max(self._next_ns - time.monotonic_ns(), 0)

    def request(self) -> Json | None:
        """What the collector gets; None, said why, if the page cannot be read."""
        self._next_ns = time.monotonic_ns() + self._interval_ns
        try:
            with urllib.request.urlopen(self._url, timeout=_PAGE_SECONDS_MAX) as answer:
                page = answer.read(_PAGE_BYTES_MAX).decode()
            return metrics_request(page, self._url, time.time_ns())
        except (OSError, ValueError) as error:
            note(f"No metrics from {self._url}: {error}")
            return None


def _spans(messages: list[Message]) -> Json | None:
    found = []
    for message in messages:
        try:
            found.append(spans_of(msgspec.json.decode(message.payload)))
        except (*UNREADABLE, ValueError) as error:
            note(f"Passed over on {message.subject}: {error}")
    return trace_request(found) if found else None


def _header(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name.strip():
        raise click.UsageError(f"--header is NAME=VALUE, not {text!r}.")
    return name.strip(), value.strip()
