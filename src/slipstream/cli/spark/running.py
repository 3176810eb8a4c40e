"""What all jobs share: flags, a session, progress, and a summary for people or programs."""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_bytes, format_duration
from slipstream.cli.reaching import reach_of
from slipstream.cli.render import Columns, Table, note, print_json
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream.spark.jobs import Report

__all__ = ["again_flag", "job_flags", "run_job"]

_F = TypeVar("_F", bound=Callable[..., Any])
_EXCEPTION = re.compile(r"^(?:(?:[\w$]+\.)+[\w$]+: )+")  # `org.apache.spark.SparkException: `
_STOPPED = "stopped SparkContext"  # all that is said of a master that cannot be reached
_ROWS_SHOWN_MAX = 50
_HIDDEN_TABLES = frozenset(("windows",))
_LABELS_OF_TIMES = {"seconds": "Took", "seconds_covered": "Time covered"}  # figures in seconds
_LABELS = {
    **_LABELS_OF_TIMES,
    "archived_upto": "Archived up to",
    "bytes_per_second": "Volume per second",
    "copied_before": "Copied before, up to",
    "copied_upto": "Copied now, up to",
    "first_seq": "First sequence",
    "last_seq": "Last sequence",
    "latency_odd": "Headers without a time",
    "sha256": "SHA-256",
    "target_first_seq": "First sequence there",
    "target_last_seq": "Last sequence there",
    "verified": "Read back and compared",
}
_TITLES = {"dlq": "Count of dead letters", "stats": "Statistics"}
# These mean nothing where there were none.
_OF_MESSAGES = frozenset(("first_seq", "last_seq", "target_first_seq", "target_last_seq"))


def job_flags(command: _F) -> _F:
    """Add `--master` and `--json`; a command takes them as `master` and `as_json`."""
    for decorate in (
        click.option("--json", "-j", "as_json", is_flag=True, help="Print the summary as JSON."),
        click.option("--master", default=None, metavar="URL", help="Spark master, or sc://HOST; local[*] by default."),
    ):
        command = decorate(command)
    return command


def again_flag(command: _F) -> _F:
    """Add `--again` to a job that copies only what it has not copied yet; the command takes it as `again`."""
    return click.option("--again", is_flag=True, help="Copy once more what was copied before.")(command)


def run_job(session: Session, job: str, master: str | None, as_json: bool, *args: Any, **options: Any) -> Report:
    """Start Spark, run a job, print what it says; a job that found something wrong ends the program with status 1.

    With `--trace` Spark's own log of errors is shown as well.

    Raises:
        Failure: Spark cannot be started, or fails.
    """
    from slipstream.spark.jobs.report import quiet

    if "reach" not in options and job != "compact":
        options["reach"] = reach_of(session.settings)
    say = quiet if as_json else note
    with _told_in_a_line(master):
        report = _run(job, master, *args, **options, say=say, log="ERROR" if session.settings.trace else "FATAL")
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    if not report.ok:
        sys.exit(1)
    return report


def _run(job: str, master: str | None, *args: Any, log: str, **options: Any) -> Report:
    from slipstream.spark import jobs
    from slipstream.spark import session as spark_session
    from slipstream.spark.runtime.remote import remote_url

    shared = _active_session()
    if shared is None and not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())  # py4j logs Ctrl-C with its traceback
    if shared is None:
        options["say"]("starting Spark")
    # What goes wrong in a task comes to the driver, which tells it: Spark's log would tell it a second time.
    config = {} if remote_url(master) else {"spark.log.level": log}  # a client of Spark Connect has no log of Java's
    spark = shared or spark_session("batch", master=master, app_name=f"slipstream {job}", config=config)
    if shared is None:
        # pyspark's handler sends Java a command while another one is under way, which fails. Spark is stopped below.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report: Report = getattr(jobs, job)(spark, *args, **options)
    finally:
        if shared is None:
            spark.stop()
    return report


@contextmanager
def _told_in_a_line(master: str | None = None) -> Iterator[None]:
    """Spark's errors without the calls of two languages that led to them."""
    from slipstream.spark.runtime.session import check_spark

    check_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(getattr(error, "java_exception", error))
        if master and _STOPPED in text:
            raise Failure(f"Spark: {master} does not answer, or took no job; --trace shows Spark's log") from error
        raise Failure(f"Spark: {_reason(text)}") from error


def _reason(text: str) -> str:
    """The first line of a Java exception, without names of classes and the number of a task."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "it failed without a word")
    return _EXCEPTION.sub("", first.rpartition("executor driver): ")[2] or first)


def _active_session() -> SparkSession | None:
    """The session of the program that calls this, if it is not the command line itself."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _print(report: Report) -> None:
    title = _TITLES.get(report.job, report.job.capitalize())
    wrong = "left messages out" if report.figures.get("left_out") else "found differences"
    columns = Columns(f"{title} {'done' if report.ok else wrong}")
    for name, value in report.figures.items():
        columns.row(_label(name), _shown(name, value), when=name not in _OF_MESSAGES or report.figures.get("messages"))
    columns.print()
    for name, rows in report.tables.items():
        if rows and name not in _HIDDEN_TABLES:
            click.echo()
            table = Table(_label(name), *(_label(column) for column in rows[0]))
            for row in rows[:_ROWS_SHOWN_MAX]:
                table.add(*(_shown(column, value) for column, value in row.items()))
            table.print(drop_empty=True)


def _label(name: str) -> str:
    return _LABELS.get(name) or name.replace("_", " ").capitalize()


def _shown(name: str, value: Any) -> Any:
    """A figure with its unit, which its name tells."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (name.endswith("bytes") or name.startswith(("size_p", "bytes_per_"))):
        return format_bytes(int(value))
    if is_number and name in _LABELS_OF_TIMES:
        return format_duration(int(value * SECOND_NS))
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
