"""What a health check found: remarks, figures and a status, as monitoring systems read it.

0 is OK, 1 a warning, 2 critical, 3 unknown. `--format` says for whom: a line for Nagios and its relatives, metrics for
Prometheus, JSON, or tables for a person.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click

from slipstream.cli.connection import Failure, Session
from slipstream.cli.link import ClientLink
from slipstream.cli.render import Table, json_text
from slipstream.errors import SlipstreamError
from slipstream.units import SECOND_NS

__all__ = ["CHECK_FLAGS", "Verdict", "judged", "judged_alone"]

_KEY: Final = "slipstream.check."


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Remember a flag for when the check has ended; one behind the name of the check counts more."""
    if value is not None:
        context.meta[_KEY + str(parameter.name)] = value


CHECK_FLAGS: Final[list[click.Parameter]] = [
    click.Option(
        ["--format", "shape"],
        type=click.Choice(["nagios", "json", "prometheus", "text"]),
        help="For whom the result is written; nagios unless it is said.",
        expose_value=False,
        callback=_keep,
    ),
    click.Option(
        ["--namespace"],
        help="How names of metrics for Prometheus begin; nats_server_check unless it is said.",
        expose_value=False,
        callback=_keep,
    ),
    click.Option(["--outfile"], help="Write the result to this file.", expose_value=False, callback=_keep),
]
"""Taken by every check, behind its name or before."""
_WORDS: Final = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_MARKS: Final = ("OK", "Warn", "Crit")


class Figure(NamedTuple):
    """Something that was measured, with the limits it is held against."""

    name: str
    value: float
    unit: str = ""
    warn: float = 0
    critical: float = 0

    def shown(self) -> str:
        """As monitoring plugins print it."""
        limits = [self._number(limit) if limit else "" for limit in (self.warn, self.critical)]
        return f"{self.name}={self._number(self.value)}{self.unit};{';'.join(limits)}".rstrip(";")

    def _number(self, value: float) -> str:
        """Times have four digits behind the point, all else has as many as it needs."""
        return f"{value:.4f}" if self.unit == "s" else f"{value:.15g}"


class Verdict:
    """What a check found so far."""

    def __init__(self, suite: str, name: str) -> None:
        """Nothing yet."""
        self._suite = suite
        self.name = name
        self._said: list[list[str]] = [[], [], []]
        self._figures: list[Figure] = []

    def say(self, status: int, text: str) -> None:
        """Add a remark: 0 if all is well, 1 for a warning, 2 if it is critical."""
        self._said[status].append(text)

    def figure(self, name: str, value: float, unit: str = "", *, warn: float = 0, critical: float = 0) -> None:
        """Add a figure, with the limits it is held against."""
        self._figures.append(Figure(name, value, unit, warn, critical))

    def judge(
        self,
        name: str,
        value: float,
        limits: tuple[float, float],
        *,
        unit: str = "",
        says: str = "",
        inverts: bool = False,
    ) -> None:
        """Add a figure, and say what it means if it has limits.

        Args:
            name: of the figure.
            value: what was measured.
            limits: where it is worth a warning, and where it is critical; one that is not positive is none.
            unit: of the value.
            says: the remark; by default the name and the value.
            inverts: small values are bad where the critical limit is the smaller one.
        """
        warn, critical = (max(limit, 0) for limit in limits)
        self.figure(name, value, unit, warn=warn, critical=critical)
        if not warn and not critical:
            return
        if inverts and critical < warn:
            status = 2 if value <= limits[1] else 1 if value <= warn else 0
        elif critical and critical < warn:
            self.say(2, f"{name}: invalid thresholds")
            return
        else:
            status = 2 if 0 < critical <= value else 1 if 0 < warn <= value else 0
        self.say(status, says or f"{name} {value:g}{unit}")

    def above(self, name: str, value: float, warn: float, critical: float, unit: str = "") -> None:
        """Complain when a value is too high; a limit that is not positive is none."""
        self.figure(name, value, unit, warn=max(warn, 0), critical=max(critical, 0))
        if 0 < critical <= value:
            self.say(2, f"{name} {value:g}{unit}")
        elif 0 < warn <= value:
            self.say(1, f"{name} {value:g}{unit}")

    def above_ns(self, name: str, value_ns: int, warn_ns: int, critical_ns: int) -> None:
        """The same for durations, which are shown in seconds."""
        self.above(name, value_ns / SECOND_NS, warn_ns / SECOND_NS, critical_ns / SECOND_NS, "s")

    def below(self, name: str, value: float, warn: float, critical: float, unit: str = "", says: str = "") -> None:
        """Complain when a value is too low; a limit that is not positive is none."""
        self.figure(name, value, unit, warn=max(warn, 0), critical=max(critical, 0))
        status = 2 if value < critical else 1 if value < warn else 0
        if status or says:
            self.say(status, says or f"{name} {value:g}{unit}")

    @property
    def status(self) -> int:
        """The worst of what was said."""
        return 2 if self._said[2] else 1 if self._said[1] else 0

    def line(self) -> str:
        """As Nagios reads it."""
        said = [f"{mark}:{text}" for mark, texts in zip(_MARKS[::-1], self._said[::-1], strict=True) for text in texts]
        figures = ["|", *(figure.shown() for figure in self._figures)] if self._figures else []
        return " ".join([_WORDS[self.status], self.name, *said, *figures])

    def json(self) -> str:
        """As the `nats` command line writes it."""
        said = {name: texts for name, texts in zip(("ok", "warning", "critical"), self._said, strict=True) if texts}
        figures = [
            {"name": name, "value": value, "warning": warn, "critical": critical, **({"unit": unit} if unit else {})}
            for name, value, unit, warn, critical in self._figures
        ]
        head = {"status": _WORDS[self.status], "check_suite": self._suite, "check_name": self.name}
        return json_text({**head, **said, **({"perf_data": figures} if figures else {})})

    def prometheus(self, namespace: str) -> str:
        """As Prometheus reads it from a file."""
        item = self.name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        samples = [(figure.name.replace("-", "_"), f'item="{item}"', figure.value) for figure in self._figures]
        samples.append(("status_code", f'item="{item}",status="{_WORDS[self.status]}"', self.status))
        lines: list[str] = []
        for name, labels, value in samples:
            metric = f"{namespace}_{self._suite}_{name}"
            lines += [f"# TYPE {metric} gauge", f"{metric}{{{labels}}} {value:g}"]
        return "\n".join(lines)

    def print_tables(self) -> None:
        """For a person."""
        click.echo(f"{self.name}: {_WORDS[self.status]}\n")
        told = Table("Status Detail", "Status", "Message")
        for status in (2, 1, 0):
            for text in self._said[status]:
                told.add(_WORDS[status], text)
        if any(self._said):
            told.print()
            click.echo()
        if not self._figures:
            return
        measured = Table("Check Metrics", "Metric", "Value", "Unit", "Critical Threshold", "Warning Threshold")
        for name, value, unit, warn, critical in self._figures:
            number = f"{value:.3f}" if isinstance(value, float) else value
            measured.add(name, number, unit, f"{critical:g}" if critical else "", f"{warn:g}" if warn else "")
        measured.print()


def judged(session: Session, suite: str, name: str, examine: Callable[[ClientLink, Verdict], None]) -> None:
    """Run a check and end the program; a server that does not answer or refuses is critical."""

    def connect_and_examine(verdict: Verdict) -> None:
        try:
            link = session.link()
        except SlipstreamError as error:
            raise Failure(f"connection failed: {error}") from error
        except Failure as error:
            raise Failure(f"connection failed: {error.message}") from error
        examine(link, verdict)

    judged_alone(suite, name, connect_and_examine)


def judged_alone(suite: str, name: str, examine: Callable[[Verdict], None]) -> None:
    """The same where no server is asked."""
    verdict = Verdict(suite, name)
    try:
        examine(verdict)
    except SlipstreamError as error:
        verdict.say(2, str(error))
    except Failure as error:
        verdict.say(2, error.message)
    _print(verdict)
    sys.exit(verdict.status)


def _print(verdict: Verdict) -> None:
    given = click.get_current_context().meta
    shape, outfile = given.get(f"{_KEY}shape", "nagios"), given.get(f"{_KEY}outfile")
    if shape == "text":
        if outfile:
            raise click.UsageError("tables are shown, not written: --outfile needs another --format")
        verdict.print_tables()
        return
    if shape == "prometheus":
        text = verdict.prometheus(given.get(f"{_KEY}namespace", "nats_server_check"))
    else:
        text = verdict.json() if shape == "json" else verdict.line()
    if not outfile:
        click.echo(text)
        return
    try:
        Path(outfile).write_text(text + "\n")
    except OSError as error:
        raise Failure(f"{outfile} cannot be written: {error.strerror}") from error
