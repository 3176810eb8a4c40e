"""`slipstream bench`: load on a server from the command line, in the manner of `nats bench`.

    slipstream bench pub SUBJECT --msgs 1000000 --size 128 --clients 4
    slipstream bench sub SUBJECT --msgs 1000000
    slipstream bench request SUBJECT --msgs 10000
    slipstream bench reply SUBJECT --msgs 10000

Publishers share `--msgs` between them; each subscriber waits for all of them, unless a queue group shares them. The
work is done by `slipstream.client`; here are only the flags and the words.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import click

from slipstream import limits
from slipstream.cli.connection import Failure, Group, Session
from slipstream.cli.progress import progress, shows_progress
from slipstream.cli.render import wrapped
from slipstream.client.load import Job, Tally, percentile
from slipstream.client.options import ClientError
from slipstream.client.roundtrip import Replying, Requesting
from slipstream.client.throughput import Publishing, Receiving
from slipstream.client.workers import run_together

__all__ = ["bench", "run_pub_sub"]

_Command = TypeVar("_Command", bound=Callable[..., object])
_UNITS = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1024**2, "mb": 1024**2, "mib": 1024**2}
_SIZE = re.compile(r"(\d{1,12})\s*([a-z]*)", re.IGNORECASE)


def _read_size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise click.BadParameter(f"{value!r} is not a size such as 128, 16KB or 1MB", ctx, param)
    size = int(found[1]) * unit
    if size > limits.LOADGEN_FRAME_BYTES_MAX:
        raise click.BadParameter(f"{value!r} is more than {limits.LOADGEN_FRAME_BYTES_MAX} bytes", ctx, param)
    return size


def _flags(command: _Command) -> _Command:
    """The flags that all kinds of load share."""
    for decorate in (
        click.argument("subject"),
        click.option("--msgs", default=100_000, type=click.IntRange(min=1), show_default=True, help="Messages."),
        click.option("--clients", default=1, show_default=True, type=click.IntRange(1, 1000), help="Connections."),
        click.option("--timeout", default=60.0, metavar="SECONDS", type=click.FloatRange(0.001, 86_400), help=_TIMEOUT),
        click.option("--progress/--no-progress", "shown", default=True, help="Show a progress bar."),
    ):
        command = decorate(command)
    return click.pass_obj(command)  # type: ignore[return-value]  # the same command, called without its first argument


_TIMEOUT = "Give up after this time without any progress; 60 by default."
_size = click.option("--size", default="128", callback=_read_size, show_default=True, help="Payload: 128, 16KB, 1MB.")
_queue = click.option("--queue", default="", help="Queue group of the subscriptions.")


@click.group(cls=Group)
def bench() -> None:
    """Measure how many messages a server takes, delivers and answers."""


@bench.command()
@_flags
@_size
def pub(session: Session, subject: str, msgs: int, clients: int, timeout: float, shown: bool, size: int) -> None:
    """Publish as fast as the server takes it."""
    _announce("publisher", subject, clients, msgs, size)
    url = _url(session)
    jobs = [
        Publishing(url=url, subjects=((subject,),) * count, messages=share, size=size, timeout_ns=_ns(timeout))
        for count, share in _shares(msgs, clients)
    ]
    _print_rate("publisher", _run(jobs, msgs, shown=shown))


@bench.command(short_help="Receive messages.")
@_flags
@_queue
def sub(session: Session, subject: str, msgs: int, clients: int, timeout: float, shown: bool, queue: str) -> None:
    """Receive until every client has got --msgs messages, or a queue group has got them together."""
    _announce("subscriber", subject, clients, msgs)
    job = Receiving(
        url=_url(session), subjects=((subject,),) * clients, messages=msgs, queue=queue, timeout_ns=_ns(timeout)
    )
    _print_rate("subscriber", _run([job], msgs if queue else msgs * clients, shown=shown))


@bench.command()
@_flags
@_size
def request(session: Session, subject: str, msgs: int, clients: int, timeout: float, shown: bool, size: int) -> None:
    """Send requests, each client one after the other."""
    if clients > limits.LOAD_PROCESSES_MAX:
        raise click.BadParameter(
            f"at most {limits.LOAD_PROCESSES_MAX}: every requester is a process", param_hint="--clients"
        )
    _announce("requester", subject, clients, msgs, size)
    shares = [share for count, share in _shares(msgs, clients) for _ in range(count)]
    jobs = [
        Requesting(
            url=_url(session),
            subject=subject,
            inbox=f"_INBOX.{secrets.token_hex(11)}",
            messages=share,
            size=size,
            timeout_ns=_ns(timeout),
        )
        for share in shares
    ]
    tallies = _run(jobs, msgs, shown=shown)
    _print_rate("requester", tallies)
    _print_latencies(sorted(latency for tally in tallies for latency in tally.latencies_ns))


@bench.command()
@_flags
@_size
@click.option("--queue", default="bench-reply", show_default=True, help="Queue group of the responders.")
def reply(
    session: Session, subject: str, msgs: int, clients: int, timeout: float, shown: bool, size: int, queue: str
) -> None:
    """Answer requests until there were --msgs of them."""
    _announce("responder", subject, clients, msgs, size)
    job = Replying(
        url=_url(session),
        subject=subject,
        messages=msgs,
        size=size,
        queue=queue,
        connections=clients,
        timeout_ns=_ns(timeout),
    )
    _print_rate("responder", _run([job], msgs, shown=shown))


def run_pub_sub(url: str, subject: str, *, publishers: int, subscribers: int, messages: int, size: int) -> None:
    """Publish and receive at the same time: every subscriber gets every message.

    Raises:
        Failure: it did not work.
    """
    jobs: list[Job] = []
    if subscribers:
        jobs.append(Receiving(url=url, subjects=((subject,),) * subscribers, messages=messages))
    for count, share in _shares(messages, publishers) if publishers else ():
        jobs.append(Publishing(url=url, subjects=((subject,),) * count, messages=share, size=size))
    _announce("pub/sub", subject, publishers + subscribers, messages, size)
    tallies = _run(jobs, messages * subscribers + (messages if publishers else 0))
    if subscribers:
        _print_rate("subscriber", tallies[:1])
    if publishers:
        _print_rate("publisher", tallies[bool(subscribers) :])


def _url(session: Session) -> str:
    """The first server of the settings, with user and password: load is generated over plain connections."""
    settings = session.settings
    if settings.creds or settings.nkey or settings.tlscert or settings.tlsca:
        raise Failure("bench connects with a user name, a password or a token, and without TLS")
    endpoint = settings.urls[0] if "://" in settings.urls[0] else f"nats://{settings.urls[0]}"
    secret = settings.token or ":".join(filter(None, (settings.user, settings.password)))
    return endpoint.replace("://", f"://{quote(secret, safe=':')}@", 1) if secret and "@" not in endpoint else endpoint


def _run(jobs: Sequence[Job], messages: int, *, shown: bool = True) -> list[Tally]:
    """Run the jobs, with a bar if it is to be `shown`; `messages` is what they do all together."""
    counted = 0
    try:
        with progress("Measuring", messages, shown=shown) as advance:

            def reached(done: int) -> None:
                nonlocal counted
                advance(max(min(done, messages) - counted, 0))
                counted = max(min(done, messages), counted)

            # That it goes on is watched by the jobs.
            watch = reached if shown and shows_progress() else None
            tallies = run_together(jobs, timeout_ns=24 * limits.HOUR_NS, on_progress=watch)
            reached(messages)
            return tallies
    except (ClientError, ValueError) as error:
        raise Failure(str(error)) from error


def _shares(messages: int, clients: int) -> list[tuple[int, int]]:
    """(number of clients, messages of each): as equal as whole messages can be, nobody with none."""
    share, rest = divmod(messages, clients)
    return [(count, each) for count, each in ((rest, share + 1), (clients - rest, share)) if count and each]


def _ns(seconds: float) -> int:
    return int(seconds * limits.SECOND_NS)


def _announce(kind: str, subject: str, clients: int, messages: int, size: int | None = None) -> None:
    payload = "" if size is None else f", msg-size={size:,} B"
    setup = f"[subject={subject}, clients={clients}, msgs={messages:,}{payload}]"
    click.echo(wrapped(f"Starting Core NATS {kind} benchmark {setup}", indent=2))


def _print_rate(kind: str, tallies: Sequence[Tally]) -> None:
    """One line over all: from the first start to the last end."""
    messages = sum(tally.messages for tally in tallies)
    payload_bytes = sum(tally.payload_bytes for tally in tallies)
    started_ns = min(tally.started_ns for tally in tallies)
    seconds = max(max(tally.ended_ns for tally in tallies) - started_ns, 1) / 1e9
    rate, megabytes = messages / seconds, payload_bytes / seconds / 1e6
    click.echo(f"NATS Core NATS {kind} stats: {rate:,.0f} msgs/sec ~ {megabytes:,.2f} MB/sec ~ {1e6 / rate:.2f}us")


def _print_latencies(latencies_ns: Sequence[int]) -> None:
    words = []
    for name, fraction in (("min", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
        words.append(f"{name} {percentile(latencies_ns, fraction) / 1e3:,.1f}us")
    click.echo(f"Latency {' | '.join(words)}")
