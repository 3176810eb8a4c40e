"""A figure beside its bar, for measurements of their own that are no comparison of two servers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Figure", "NotHere"]


class NotHere(Exception):
    """Something that a measurement needs is missing; the text says what."""


@dataclass(frozen=True)
class Figure:
    """One figure and its bar."""

    name: str
    value: float
    bar: float
    unit: str
    more_is_better: bool = False

    @property
    def holds(self) -> bool:
        """Whether the bar is met."""
        return self.value >= self.bar if self.more_is_better else self.value <= self.bar

    def __str__(self) -> str:
        """A line for people."""
        sign = ">=" if self.more_is_better else "<="
        verdict = "holds" if self.holds else "MISSED"
        digits = 0 if float(self.bar).is_integer() else 2
        value, bar = f"{self.value:,.{max(digits, 1)}f}", f"{self.bar:,.{digits}f}"
        return f"{self.name}: {value} {self.unit} (bar {sign} {bar} {self.unit}): {verdict}"
