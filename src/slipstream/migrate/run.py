"""A whole migration into a store directory: every stream copied and compared, then all put in place, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from slipstream.errors import SlipstreamError
from slipstream.migrate.copying import Advance, copy_stream
from slipstream.migrate.errors import MigrationError, WrongKey
from slipstream.migrate.source import SourceStream
from slipstream.migrate.staging import Done, MigrationStage

__all__ = ["Failed", "Outcome", "ShowProgress", "migrate", "read_only"]

ShowProgress = Callable[[str, int], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True)
class Failed:
    """A stream that could not be had."""

    account: str
    stream: str
    reason: str


@dataclass(slots=True)
class Outcome:
    """What became of it."""

    done: list[Done] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    kept: int = 0  # streams that an earlier run had completed
    placed: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether everything of the source is there."""
        return not self.failed and not any(done.damage for done in self.done)


def migrate(
    streams: Sequence[SourceStream], staging: MigrationStage, show: ShowProgress, *, accept_damage: bool = False
) -> Outcome:
    """Copy streams into a store directory.

    What is damaged is not put in place unless it is accepted; then everything that can be read is.

    Raises:
        MigrationError: nothing was put in place; what is complete stays for the next run.
    """
    staging.refuse_existing(sorted({stream.account for stream in streams}))
    staging.begin()
    outcome = Outcome()
    for stream in streams:
        known = staging.done.get((stream.account, stream.name))
        if known is not None:
            if known.fingerprint == stream.fingerprint():
                outcome.kept += 1
                outcome.done.append(known)
                continue
            staging.forget(stream.account, stream.name)
        with show(f"{stream.account} > {stream.name}", stream.size_bytes) as advance:
            try:
                done = copy_stream(stream, staging, advance)
            except WrongKey:
                raise
            except MigrationError as error:
                outcome.failed.append(Failed(stream.account, stream.name, str(error)))
                continue
            finally:
                stream.close()
        staging.complete(done)
        outcome.done.append(done)
    if accept_damage or outcome.is_whole:
        staging.publish(outcome.done)
        outcome.placed = True
    return outcome


def read_only(streams: Sequence[SourceStream], show: ShowProgress) -> Outcome:
    """Read and check everything without writing anything."""
    outcome = Outcome()
    for stream in streams:
        messages, size, first, last = 0, 0, 0, 0
        with show(f"{stream.account} > {stream.name}", stream.size_bytes) as advance:
            try:
                stream.config.name  # noqa: B018 (read now)
                for records, read in stream.messages():
                    advance(read)
                    messages += len(records)
                    size += sum(len(subject) + len(head) + len(body) for _, _, subject, head, body in records)
                    first = first or (records[0][0] if records else 0)
                    last = records[-1][0] if records else last
                consumers = [consumer.name for consumer in stream.consumers()]
            except WrongKey:
                raise
            except SlipstreamError as error:
                outcome.failed.append(Failed(stream.account, stream.name, str(error)))
                continue
            finally:
                stream.close()
        found = stream.findings
        outcome.done.append(
            Done(
                account=stream.account,
                stream=stream.name,
                directory="",
                fingerprint="",
                messages=messages,
                size_bytes=size,
                first_seq=first or stream.last_seq + 1,
                last_seq=max(last, stream.last_seq),
                digest="",
                consumers=consumers,
                notes=found.notes,
                damage=found.damage,
            )
        )
    return outcome
