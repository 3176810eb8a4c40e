"""`slipstream rtt` and `slipstream latency`: how long things take."""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import urlsplit

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_duration, to_rfc3339
from slipstream.cli.link import ClientLink, without_secrets
from slipstream.cli.progress import progress
from slipstream.cli.render import Columns, note, print_json
from slipstream.cli.types import DURATION, SIZE, json_flag
from slipstream.client.load import percentile
from slipstream.client.wire import ClientError
from slipstream.units import MILLISECOND_NS, SECOND_NS

__all__ = ["latency", "rtt"]

_PERCENTILES: Final = (0.1, 0.5, 0.75, 0.9, 0.99, 0.999)
_SUBJECT_WORD: Final = "_LATENCY"


@click.command(cls=Command)
@click.argument("iterations", type=click.IntRange(min=1), default=5)
@json_flag
@click.pass_obj
def rtt(session: Session, iterations: int, as_json: bool) -> None:
    """Measure the round trip to each address of each server, ITERATIONS times."""
    from datetime import UTC, datetime

    found: list[tuple[str, list[dict[str, str | int]]]] = []
    for url in session.settings.urls:
        results: list[dict[str, str | int]] = []
        for address in _addresses(url):
            started = to_rfc3339(datetime.now(UTC))
            average_ns = _round_trip_ns(session, url, address, iterations)
            shown = without_secrets(address)
            results.append({"time": started, "address": shown, "rtt": average_ns, "url": shown if average_ns else ""})
        found.append((without_secrets(url), results))
    if as_json:
        print_json([{"url": url, "results": results} for url, results in found])
        return
    room = max(len(str(result["address"])) for _, results in found for result in results)
    for url, results in found:
        click.echo(f"{url}:\n")
        for result in results:
            took = format_duration(int(result["rtt"])) if result["rtt"] else click.style("failed", fg="red")
            click.echo(f"   {result['address']:>{room}}: {took}")
        click.echo()


def _addresses(url: str) -> list[str]:
    """The same URL with each address of its host; the URL itself if its name is not known."""
    import socket

    parts = urlsplit(url if "://" in url else f"nats://{url}")
    if not parts.hostname or parts.scheme != "nats":
        return [url]
    try:
        known = socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
    except OSError:
        return [url]
    user, mark, _ = parts.netloc.rpartition("@")
    port = f":{parts.port}" if parts.port else ""
    hosts = dict.fromkeys(str(entry[4][0]) for entry in known)
    return [f"nats://{user}{mark}{f'[{host}]' if ':' in host else host}{port}" for host in hosts]


def _round_trip_ns(session: Session, url: str, address: str, iterations: int) -> int:
    """How long it takes on average; 0 if the server does not answer, which is told."""
    from dataclasses import replace

    link, refusal = None, ""
    for server in dict.fromkeys(
        (address, url)
    ):  # certificates hold names: where an address is refused, its name may do
        try:
            link = ClientLink(replace(session.settings, server=server))
            break
        except ClientError as error:
            refusal = str(error)
    if link is None:
        note(f"Failed to compute rtt for {without_secrets(url)}: {refusal}")
        return 0
    times = [_ping_ns(link) for _ in range(iterations)]
    link.close()
    return max(sum(times) // iterations, 1)


@click.command(cls=Command)
@click.option("--server-b", default="", metavar="URL", help="Receive over this server; by default the same.")
@click.option("--duration", type=DURATION, default=5 * SECOND_NS, help="How long to measure; 5s by default.")
@click.option("--size", type=SIZE, default=8, help="Bytes of a message.")
@click.option("--rate", type=click.IntRange(min=1), default=1000, help="Messages a second.")
@json_flag
@click.pass_obj
def latency(session: Session, server_b: str, duration: int, size: int, rate: int, as_json: bool) -> None:
    """Measure how long messages take from one connection to another."""
    from dataclasses import replace

    sender = session.link()
    settings = replace(session.settings, server=server_b) if server_b else session.settings
    receiver = ClientLink(settings)
    try:
        subject = f"{_SUBJECT_WORD}.{receiver.client.new_inbox().rpartition('.')[2]}"
        receiver.client.subscribe(subject)
        receiver.client.flush()
        times = _measure(sender, receiver, subject, max(size, 0), rate, duration)
    finally:
        receiver.close()
    times.sort()
    figures = {f"p{share * 100:g}": percentile(times, share) for share in _PERCENTILES}
    if as_json:
        print_json({"messages": len(times), "min": times[0], **figures, "max": times[-1]})
        return
    columns = Columns(f"Latency of {len(times):,} messages of {size:,} bytes, at most {rate:,} a second")
    columns.row("Min", _exact(times[0]))
    for name, value in figures.items():
        columns.row(name.upper(), _exact(value))
    columns.row("Max", _exact(times[-1]))
    columns.print()


def _measure(
    sender: ClientLink, receiver: ClientLink, subject: str, size: int, rate: int, duration_ns: int
) -> list[int]:
    """Send at a steady rate, one message under way at a time; late messages are not sent in a burst."""
    payload = bytes(size)
    gap_ns = SECOND_NS // rate
    times: list[int] = []
    with progress("Measuring", max(duration_ns // MILLISECOND_NS, 1), unit="ms") as advance:
        shown = 0
        started_ns = due_ns = now_ns = time.monotonic_ns()
        while not times or now_ns - started_ns < duration_ns:
            if now_ns < due_ns:
                time.sleep((due_ns - now_ns) / SECOND_NS)
            sent_ns = time.monotonic_ns()
            sender.publish(subject, payload)
            receiver.client.next_message()
            now_ns = time.monotonic_ns()
            times.append(now_ns - sent_ns)
            due_ns = max(due_ns + gap_ns, now_ns)
            elapsed = min(now_ns - started_ns, duration_ns) // MILLISECOND_NS
            advance(elapsed - shown)
            shown = elapsed
    return times


def _exact(duration_ns: int) -> str:
    """A short time with the digits that matter: 84.3µs, 1.25ms."""
    if duration_ns < MILLISECOND_NS:
        return f"{duration_ns / 1000:.1f}µs"
    if duration_ns < SECOND_NS:
        return f"{duration_ns / MILLISECOND_NS:.2f}ms"
    return format_duration(duration_ns)


def _ping_ns(link: ClientLink) -> int:
    started_ns = time.monotonic_ns()
    link.client.flush()
    return time.monotonic_ns() - started_ns
