"""What a job says: progress while it runs, then a summary for people, or one JSON document for programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Report", "Say", "counted", "quiet"]

Say = Callable[[str], None]


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quiet(text: str) -> None:
    """Say nothing."""
    del text


@dataclass
class Report:
    """The outcome of a job: figures with names, in order."""

    job: str
    figures: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ok: bool = True
    _started: float = field(default_factory=time.monotonic, repr=False)

    def __getitem__(self, name: str) -> Any:
        """A figure, or a table."""
        return self.figures[name] if name in self.figures else self.tables[name]

    def finish(self) -> Report:
        """Note how long it took."""
        self.figures["seconds"] = round(time.monotonic() - self._started, 3)
        return self

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {"job": self.job, "ok": self.ok, **self.figures, **self.tables}
