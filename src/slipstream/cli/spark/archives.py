"""Jobs on archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import parse_timestamp
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.spark.running import again_flag, job_flags, run_job
from slipstream.cli.types import SIZE, force_flag, list_option

if TYPE_CHECKING:
    from slipstream.spark.lake import Wish

__all__ = ["archive", "audit", "compact", "erase", "replay"]

_CODEC = click.Choice(["zstd", "snappy", "none"])


@click.command(cls=Command)
@click.argument("stream")
@click.argument("table")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["delta", "parquet"]),
    default="delta",
    help="Format of a new table; delta by default.",
)
@click.option("--codec", type=_CODEC, default="zstd", help="Compression of files; zstd by default.")
@click.option("--upto", type=click.IntRange(min=1), default=None, help="Last sequence to archive.")
@click.option("--file-size", type=SIZE, default=128 << 20, help="Messages in a file, about; 128 MiB by default.")
@click.option("--drop", is_flag=True, help="Let the server remove what is archived.")
@click.option("--keep", type=click.IntRange(min=0), default=0, help="With --drop: messages to leave there.")
@click.option("--accept-gap", is_flag=True, help="Go on when messages were removed before they were archived.")
@job_flags
@click.pass_obj
def archive(
    session: Session,
    stream: str,
    table: str,
    kind: str,
    codec: str,
    upto: int | None,
    file_size: int,
    drop: bool,
    keep: int,
    accept_gap: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Append to TABLE, a directory, what STREAM has and the table has not; exactly once, however often it is run."""
    run_job(
        session,
        "archive",
        master,
        as_json,
        stream,
        table,
        format=kind,
        codec=codec,
        upto=upto,
        target_bytes=file_size,
        drop=drop,
        keep=keep,
        accept_gap=accept_gap,
    )


@click.command(cls=Command)
@click.argument("table")
@click.argument("stream")
@click.option("--first", type=click.IntRange(min=1), default=None, help="First sequence.")
@click.option("--last", type=click.IntRange(min=1), default=None, help="Last sequence.")
@click.option("--since", default="", metavar="TIME", help="Only messages stored at or after this time.")
@click.option("--until", default="", metavar="TIME", help="Only messages stored before this time.")
@list_option("--subjects", "subjects", help="Only these subjects; wildcards are allowed.")
@click.option("--version", type=click.IntRange(min=0), default=None, help="Of the table; the newest by default.")
@click.option("--mark", is_flag=True, help="Add headers that say where messages were.")
@again_flag
@click.option("--name", default="", help="Another name makes the same replay a new one.")
@job_flags
@click.pass_obj
def replay(
    session: Session,
    table: str,
    stream: str,
    first: int | None,
    last: int | None,
    since: str,
    until: str,
    subjects: list[str],
    version: int | None,
    mark: bool,
    again: bool,
    name: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Publish messages of the archive TABLE into STREAM, in their order, exactly once; run again, what is new."""
    wish = _wish(first, last, since, until, subjects)
    how = {"version": version, "mark": mark, "again": again, "name": name}
    run_job(session, "replay", master, as_json, table, stream, wish=wish, **how)


@click.command(cls=Command)
@click.argument("table")
@click.option("--file-size", type=SIZE, default=256 << 20, help="Size of new files, about; 256 MiB by default.")
@click.option("--codec", type=_CODEC, default="zstd", help="Compression of files; zstd by default.")
@click.option("--vacuum", is_flag=True, help="Remove files that older versions needed.")
@job_flags
@click.pass_obj
def compact(
    session: Session, table: str, file_size: int, codec: str, vacuum: bool, master: str | None, as_json: bool
) -> None:
    """Put small files of the archive TABLE together."""
    run_job(session, "compact", master, as_json, table, target_bytes=file_size, codec=codec, vacuum=vacuum)


@click.command(cls=Command)
@click.argument("subjects", nargs=-1, required=True)
@click.option("--stream", default=None, metavar="STREAM", help="Erase in this stream.")
@click.option("--table", default=None, metavar="TABLE", help="Erase in this archive.")
@click.option("--reason", default="", help="Kept in the record of the erasure.")
@click.option(
    "--record", default=None, metavar="DIR", help="Keep the record there; by default in TABLE/_erasures, or ./erasures."
)
@force_flag
@job_flags
@click.pass_obj
def erase(
    session: Session,
    subjects: tuple[str, ...],
    stream: str | None,
    table: str | None,
    reason: str,
    record: str | None,
    force: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Erase all messages on SUBJECTS, for good: bytes are overwritten, files written anew, and a record is kept."""
    if stream is None and table is None:
        raise Failure("name --stream, --table, or both")
    confirm_or_stop(f"Erase all messages on {', '.join(subjects)}", force=force)
    run_job(session, "erase", master, as_json, subjects, stream=stream, location=table, reason=reason, record=record)


@click.command(cls=Command)
@click.argument("stream", required=False)
@click.option("--table", default=None, metavar="TABLE", help="Check this archive; with STREAM compare the two.")
@click.option("--first", type=click.IntRange(min=1), default=None, help="First sequence.")
@click.option("--last", type=click.IntRange(min=1), default=None, help="Last sequence.")
@job_flags
@click.pass_obj
def audit(
    session: Session,
    stream: str | None,
    table: str | None,
    first: int | None,
    last: int | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Count messages and gaps, verify checksums, make digests; status 1 if an archive differs from its stream."""
    run_job(session, "audit", master, as_json, stream, location=table, first=first, last=last)


def _wish(first: int | None, last: int | None, since: str, until: str, subjects: list[str]) -> Wish:
    from slipstream.spark.lake import Wish

    return Wish(first, last, time_ns(since), time_ns(until), tuple(subjects))


def time_ns(text: str) -> int | None:
    """A time of the command line in nanoseconds.

    Raises:
        Failure: it is no time.
    """
    if not text:
        return None
    try:
        return int(parse_timestamp(text).timestamp() * 1_000_000) * 1000
    except ValueError as error:
        raise Failure(f"{text!r} is no time such as 2026-01-31T12:00:00Z") from error
