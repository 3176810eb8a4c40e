"""What all jobs share: flags, a session, progress, and a summary for people or programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_bytes, format_duration
from slipstream.cli.render import Columns, Table, note, print_json
from slipstream.limits import SECOND_NS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream.cli.settings import Settings
    from slipstream.spark.jobs import Report
    from slipstream.spark.target import Reach

__all__ = ["job_flags", "reach_of", "run_job"]

_F = TypeVar("_F", bound=Callable[..., Any])
_ROWS_SHOWN_MAX = 50
_HIDDEN_TABLES = frozenset(("windows",))
_LABELS_OF_TIMES = {"seconds": "Took", "seconds_covered": "Time covered"}  # figures in seconds
_LABELS = {**_LABELS_OF_TIMES, "archived_upto": "Archived up to", "bytes_per_second": "Volume per second"}


def job_flags(command: _F) -> _F:
    """Add `--master` and `--json`; a command takes them as `master` and `as_json`."""
    for decorate in (
        click.option("--json", "-j", "as_json", is_flag=True, help="Print the summary as JSON."),
        click.option("--master", default=None, metavar="URL", help="Spark master; local[*] by default."),
    ):
        command = decorate(command)
    return command


def reach_of(settings: Settings) -> Reach:
    """How Spark's workers reach the server: by names of files, and secrets by variables of the environment.

    Raises:
        Failure: a secret was given that workers could only get in clear.
    """
    from slipstream.spark.target import Reach

    if settings.token or settings.jwt:
        raise Failure("Spark jobs take credentials from files (--creds, --nkey), or a password from NATS_PASSWORD")
    password_env = None
    if settings.password:
        import os

        password_env = "NATS_PASSWORD"
        os.environ[password_env] = settings.password  # workers inherit it; it is in no plan and no command line
    return Reach(
        servers=settings.server,
        creds_file=settings.creds or None,
        nkey_file=settings.nkey or None,
        user=settings.user or None,
        password_env=password_env,
        tls_ca=settings.tlsca or None,
        tls_cert=settings.tlscert or None,
        tls_key=settings.tlskey or None,
        domain=settings.js_domain or None,
        api_prefix=settings.js_api_prefix or None,
    )


def run_job(session: Session, job: str, master: str | None, as_json: bool, *args: Any, **options: Any) -> Report:
    """Start Spark, run a job, print what it says; a job that found something wrong ends the program with status 1."""
    from slipstream.spark import jobs
    from slipstream.spark import session as spark_session
    from slipstream.spark.jobs.report import quiet

    if "reach" not in options and job != "compact":
        options["reach"] = reach_of(session.settings)
    say = quiet if as_json else note
    shared = _active_session()
    spark = shared or spark_session(
        "batch", master=master, app_name=f"slipstream {job}", config={"spark.log.level": "ERROR"}
    )
    try:
        report: Report = getattr(jobs, job)(spark, *args, **options, say=say)
    finally:
        if shared is None:
            spark.stop()
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    if not report.ok:
        sys.exit(1)
    return report


def _active_session() -> SparkSession | None:
    """The session of the program that calls this, if it is not the command line itself."""
    from slipstream.spark.session import check_spark

    check_spark()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _print(report: Report) -> None:
    columns = Columns(f"{report.job.capitalize()} {'done' if report.ok else 'found differences'}")
    for name, value in report.figures.items():
        columns.row(_label(name), _shown(name, value))
    columns.print()
    for name, rows in report.tables.items():
        if rows and name not in _HIDDEN_TABLES:
            click.echo()
            table = Table(_label(name), *(_label(column) for column in rows[0]))
            for row in rows[:_ROWS_SHOWN_MAX]:
                table.add(*(_shown(column, value) for column, value in row.items()))
            table.print()


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
