"""`bench js pub sync`, `async`, `atomic` and `fast`."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from slipstream.cli.bench.flags import BenchPlan, Publication, flags, publication_flags
from slipstream.cli.bench.report import announce, shown_duration
from slipstream.cli.bench.run import measure, pace_of
from slipstream.cli.bench.target import STREAM, create_stream, purge, stream_info
from slipstream.cli.connection import Command, Session
from slipstream.cli.human import format_bytes
from slipstream.cli.link import Reply
from slipstream.cli.render import note
from slipstream.cli.types import DURATION, SIZE
from slipstream.client.bench.course import Body, ClientPace, Course, Subjects
from slipstream.client.bench.publish import AtomicBatchLoad, FastBatchLoad, PublishAsync, PublishSync
from slipstream.limits import LOADGEN_BATCH_BYTES_MAX

__all__ = ["async_", "atomic", "fast", "sync"]

_Wrapped = Callable[..., Any]
_FLOW_MAX: Final = 2**16 - 1  # what a fast batch can ask for


@dataclass(frozen=True, kw_only=True)
class _Target:
    """The stream to publish to, and how it is made."""

    stream: str
    create: bool
    purge: bool
    storage: str
    replicas: int
    max_bytes: int
    dedup: bool
    dedup_window_ns: int
    persist_async: bool

    def prepare(self, session: Session, pattern: str, *, atomic: bool) -> None:
        """Create and purge it if asked to; it must be there."""
        link = session.link()
        if self.create:
            create_stream(link, self._config(pattern, atomic=atomic))
        stream_info(link, self.stream)
        note(f"Using stream: {self.stream}")
        if self.purge:
            purge(link, self.stream)

    def _config(self, pattern: str, *, atomic: bool) -> Reply:
        late = self.persist_async and self.replicas == 1 and not atomic
        config: Reply = {
            "name": self.stream,
            "subjects": [pattern],
            "retention": "limits",
            "discard": "new",
            "storage": self.storage,
            "num_replicas": self.replicas,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_msgs_per_subject": -1,
            "max_bytes": self.max_bytes,
            "max_msg_size": -1,
            "duplicate_window": self.dedup_window_ns,
            "allow_direct": True,
            "allow_atomic": not late,
            "allow_batched": True,
        }
        return {**config, "persist_mode": "async"} if late else config

    def fields(self) -> dict[str, str | int | bool]:
        """What the first line says of it."""
        shown: dict[str, str | int | bool] = {"stream": self.stream, "purge": self.purge}
        if self.create:
            shown |= {
                "storage": self.storage,
                "max-bytes": self.max_bytes,
                "replicas": self.replicas,
                "deduplication": self.dedup,
                "dedup-window": shown_duration(self.dedup_window_ns),
            }
        return shown


_TARGET_FLAGS: Final = (
    click.option("--stream", default=STREAM, show_default=True, help="Stream to publish to."),
    click.option("--create", is_flag=True, help="Create the stream first."),
    click.option("--purge", is_flag=True, help="Purge the stream first."),
    click.option(
        "--storage", type=click.Choice(["file", "memory"]), default="file", show_default=True, help="For --create."
    ),
    click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True, help="For --create."),
    click.option("--maxbytes", "max_bytes", type=SIZE, default="1GB", show_default=True, help="For --create."),
    click.option("--dedup", is_flag=True, help="Give each message an id."),
    click.option(
        "--dedupwindow", "dedup_window_ns", type=DURATION, default="2m", show_default=True, help="For --create."
    ),
    click.option("--persistasync", "persist_async", is_flag=True, help="For --create: acks before the disk has it."),
)


def _target_flags(command: _Wrapped) -> _Wrapped:
    """Flags of the stream; the command takes it as `target`."""

    @functools.wraps(command)
    def targeted(*args: Any, **given: Any) -> Any:
        fields = {name: given.pop(name) for name in _Target.__dataclass_fields__}
        return command(*args, target=_Target(**fields), **given)

    wrapped: _Wrapped = targeted
    for option in reversed(_TARGET_FLAGS):
        wrapped = option(wrapped)
    return wrapped


def _command(name: str) -> Callable[[_Wrapped], click.Command]:
    def decorate(command: _Wrapped) -> click.Command:
        wrapped = publication_flags(_target_flags(command))
        return click.command(name, cls=Command)(click.argument("subject")(flags(pace=True)(wrapped)))

    return decorate


def _batch(text: str) -> Callable[[_Wrapped], _Wrapped]:
    return click.option("--batch", default=500, type=click.IntRange(1, 10**6), show_default=True, help=text)


@_command("sync")
def sync(session: Session, plan: BenchPlan, /, subject: str, publication: Publication, target: _Target) -> None:
    """Publish to SUBJECT, one message after the other, each when the one before has its ack."""

    def course(common: _Common) -> Course:
        return PublishSync(**vars(common))

    _publish(session, plan, "JetStream synchronous publisher", subject, publication, target, 0, course)


@_command("async")
@_batch("Messages published before their acks are waited for.")
def async_(
    session: Session, plan: BenchPlan, /, subject: str, publication: Publication, target: _Target, batch: int
) -> None:
    """Publish to SUBJECT, many messages at a time."""

    def course(common: _Common) -> Course:
        return PublishAsync(batch=batch, **vars(common))

    _publish(session, plan, "JetStream asynchronous publisher", subject, publication, target, batch, course)


@_command("atomic")
@_batch("Messages of a batch.")
def atomic(
    session: Session, plan: BenchPlan, /, subject: str, publication: Publication, target: _Target, batch: int
) -> None:
    """Publish to SUBJECT in batches that are stored as a whole."""
    if target.persist_async:
        raise click.UsageError("--persistasync is not for atomic batches.")

    def course(common: _Common) -> Course:
        return AtomicBatchLoad(batch=batch, batch_id=secrets.token_hex(11), **vars(common))

    _publish(
        session, plan, "JetStream atomic batch publisher", subject, publication, target, batch, course, atomic=True
    )


@_command("fast")
@_batch("Messages that one ack may speak for.")
@click.option(
    "--max-outstanding-acks",
    "outstanding",
    default=1,
    type=click.IntRange(1, _FLOW_MAX),
    show_default=True,
    help="Acks that may be outstanding.",
)
def fast(
    session: Session,
    plan: BenchPlan,
    /,
    subject: str,
    publication: Publication,
    target: _Target,
    batch: int,
    outstanding: int,
) -> None:
    """Publish to SUBJECT in one batch whose messages are stored as they come."""

    def course(common: _Common) -> Course:
        flow = min(batch, _FLOW_MAX)
        return FastBatchLoad(flow=flow, outstanding=outstanding, batch_id=secrets.token_hex(11), **vars(common))

    _publish(session, plan, "JetStream fast batch publisher", subject, publication, target, batch, course)


@dataclass(frozen=True, kw_only=True)
class _Common:
    """What all kinds of publishers need."""

    subjects: Subjects
    body: Body
    messages: int
    pace: ClientPace


def _publish(
    session: Session,
    plan: BenchPlan,
    label: str,
    subject: str,
    publication: Publication,
    target: _Target,
    batch: int,
    course: Callable[[_Common], Course],
    *,
    atomic: bool = False,
) -> None:
    plan = plan.fewer_clients()
    if batch * plan.size > LOADGEN_BATCH_BYTES_MAX:
        raise click.UsageError(f"A batch is more than {format_bytes(LOADGEN_BATCH_BYTES_MAX)}.")
    pattern = publication.subjects(subject).pattern
    announce(
        label,
        plan,
        {
            "subject": pattern,
            "multi-subject": publication.multi,
            "multi-subject-max": publication.multi_max,
            "multi-subject-randomize": publication.multi_random,
            "batch": batch,
            "sleep": shown_duration(plan.sleep_ns),
            **target.fields(),
        },
    )
    target.prepare(session, pattern, atomic=atomic)
    shares = plan.shares()
    commons = _commons(subject, publication, plan, shares, secrets.token_hex(4) if target.dedup else "")
    measure(session, label, plan, [course(common) for common in commons], shares, "publishing", "P")


def _commons(
    subject: str, publication: Publication, plan: BenchPlan, shares: Sequence[int], run_id: str
) -> list[_Common]:
    payload = publication.payload(plan.size)
    return [
        _Common(
            subjects=publication.subjects(subject, offset=sum(shares[:number])),
            body=Body(payload=payload, headers=publication.headers, id_prefix=f"{run_id}-{number}" if run_id else ""),
            messages=share,
            pace=pace_of(plan, number),
        )
        for number, share in enumerate(shares)
    ]
