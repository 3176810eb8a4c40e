"""What a health check found: one line, figures behind `|`, and a status, as monitoring systems read it.

0 is OK, 1 a warning, 2 critical, 3 unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import click

from slipstream.cli.connection import Failure, Session
from slipstream.cli.link import Link
from slipstream.errors import SlipstreamError
from slipstream.units import SECOND_NS

__all__ = ["Verdict", "judged"]

_WORDS: Final = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


class Verdict:
    """What a check found so far."""

    def __init__(self, name: str) -> None:
        """Nothing yet."""
        self._name = name
        self._said: list[list[str]] = [[], [], []]
        self._figures: list[str] = []

    def say(self, status: int, text: str) -> None:
        """Add a remark: 0 if all is well, 1 for a warning, 2 if it is critical."""
        self._said[status].append(text)

    def figure(self, name: str, value: float, unit: str = "", *, warn: float = 0, critical: float = 0) -> None:
        """Add a figure, with the limits it is held against."""
        limits = f";{warn:g};{critical:g}" if warn or critical else ""
        number = f"{value:.4f}" if isinstance(value, float) else str(value)
        self._figures.append(f"{name}={number}{unit}{limits}")

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

    def below(self, name: str, value: float, warn: float, critical: float, unit: str = "") -> None:
        """Complain when a value is too low; a limit that is not positive is none."""
        self.figure(name, value, unit, warn=max(warn, 0), critical=max(critical, 0))
        if value < critical:
            self.say(2, f"{name} {value:g}{unit}")
        elif value < warn:
            self.say(1, f"{name} {value:g}{unit}")

    def finish(self) -> None:
        """Print the line and end the program."""
        status = 2 if self._said[2] else 1 if self._said[1] else 0
        complaints = (("Crit", self._said[2]), ("Warn", self._said[1]))
        texts = [f"{word}: {', '.join(said)}" for word, said in complaints if said] or [", ".join(self._said[0])]
        figures = f" | {' '.join(self._figures)}" if self._figures else ""
        click.echo(f"{self._name} {_WORDS[status]} {' '.join(texts)}{figures}".rstrip())
        sys.exit(status)


def judged(session: Session, name: str, examine: Callable[[Link, Verdict], None]) -> None:
    """Run a check; a server that does not answer or refuses is critical."""
    verdict = Verdict(name)
    try:
        examine(session.link(), verdict)
    except SlipstreamError as error:
        verdict.say(2, str(error))
    except Failure as error:
        verdict.say(2, error.message)
    verdict.finish()
