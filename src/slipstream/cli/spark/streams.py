"""Jobs on streams and buckets."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.reaching import reach_of
from slipstream.cli.render import note, say
from slipstream.cli.spark.archives import time_ns
from slipstream.cli.spark.running import again_flag, job_flags, run_job
from slipstream.cli.types import DURATION, list_option
from slipstream.units import MINUTE_NS

__all__ = ["dlq", "materialize", "mirror", "prepare", "stats"]


@click.command(cls=Command)
@click.argument("stream")
@list_option("--subjects", "subjects", help="Only these subjects; wildcards are allowed.")
@click.option("--since", default="", metavar="TIME", help="Only messages stored at or after this time.")
@click.option("--until", default="", metavar="TIME", help="Only messages stored before this time.")
@click.option(
    "--window", type=DURATION, default=MINUTE_NS, help="Length of the windows that rates are counted in; 1m by default."
)
@click.option("--top", type=click.IntRange(min=0), default=10, help="Busiest subjects to name; 10 by default.")
@click.option("--latency-header", default="", help="Header with the time a message was sent.")
@click.option("--chart", default="", metavar="FILE", help="Draw rates and latencies: FILE.html or FILE.svg.")
@job_flags
@click.pass_obj
def stats(
    session: Session,
    stream: str,
    subjects: list[str],
    since: str,
    until: str,
    window: int,
    top: int,
    latency_header: str,
    chart: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Measure STREAM: rates, sizes, busiest subjects, latencies."""
    if chart:
        from slipstream.spark.jobs.chart import check_chart
        from slipstream.spark.jobs.tasks import JobError

        try:
            check_chart(chart)
        except JobError as error:
            raise Failure(str(error)) from error
    report = run_job(
        session,
        "stats",
        master,
        as_json,
        stream,
        subjects=subjects,
        start_ns=time_ns(since),
        end_ns=time_ns(until),
        window_ns=window,
        top=top,
        latency_header=latency_header,
    )
    if chart:
        from slipstream.spark.jobs.chart import write_chart

        write_chart(report, chart)


@click.command(cls=Command)
@click.argument("bucket")
@click.argument("table")
@click.option(
    "--mode", type=click.Choice(["newest", "history"]), default="newest", help="One row a key (newest), or all."
)
@job_flags
@click.pass_obj
def materialize(session: Session, bucket: str, table: str, mode: str, master: str | None, as_json: bool) -> None:
    """Write BUCKET as the Delta table TABLE."""
    run_job(session, "materialize", master, as_json, bucket, table, mode=mode)


@click.command(cls=Command)
@click.argument("stream")
@click.option("--redrive", default=None, metavar="STREAM", help="Publish the dead letters of this stream again, once.")
@click.option("--delete", is_flag=True, help="Remove what was published again.")
@again_flag
@click.option("--name", default="", help="Another name makes the same redrive a new one.")
@job_flags
@click.pass_obj
def dlq(
    session: Session,
    stream: str,
    redrive: str | None,
    delete: bool,
    again: bool,
    name: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Count the dead letters in STREAM by cause; publish them again on their subjects."""
    run_job(session, "dlq", master, as_json, stream, redrive=redrive, delete=delete, again=again, name=name)


@click.command(cls=Command)
@click.argument("stream")
@click.argument("target")
@click.option("--target-server", default="", metavar="URL", help="Server of TARGET; the same by default.")
@click.option("--first", type=click.IntRange(min=1), default=1, help="First sequence.")
@click.option("--last", type=click.IntRange(min=1), default=None, help="Last sequence.")
@click.option("--verify/--no-verify", default=True, help="Read back what was copied, and compare.")
@again_flag
@click.option("--name", default="", help="Another name makes the same copy a new one.")
@job_flags
@click.pass_obj
def mirror(
    session: Session,
    stream: str,
    target: str,
    target_server: str,
    first: int,
    last: int | None,
    verify: bool,
    again: bool,
    name: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Copy messages of STREAM into the stream TARGET, in their order, exactly once; run again, what is new."""
    from dataclasses import replace

    reach = reach_of(session.settings)
    goal = replace(reach, servers=target_server) if target_server else reach
    run_job(
        session,
        "mirror",
        master,
        as_json,
        stream,
        target,
        reach=reach,
        target_reach=goal,
        first=first,
        last=last,
        verify=verify,
        again=again,
        name=name,
    )


@click.command(cls=Command)
@click.pass_obj
def prepare(session: Session) -> None:
    """Make the archive of classes that lets sessions start in half the time; takes half a minute, once."""
    del session
    from slipstream.spark import prepare as make

    note("making the archive of classes; this takes half a minute")
    say(f"Made {make()}")
