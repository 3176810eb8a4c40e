"""The text format of Prometheus: metrics with their help, kind and samples, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

__all__ = ["Kind", "Labels", "Metric", "exposed", "one", "rendered"]

Kind = Literal["counter", "gauge"]
Labels = Mapping[str, str] | str  # as text they are `rendered` already


class Metric(NamedTuple):
    """One metric: samples are (labels, value)."""

    name: str
    kind: Kind
    help: str
    samples: Iterable[tuple[Labels, float]]


def one(name: str, kind: Kind, help_text: str, value: float, labels: Labels | None = None) -> Metric:
    """A metric with one sample."""
    return Metric(name, kind, help_text, [(labels or {}, value)])


def exposed(metrics: Iterable[Metric], prefix: str = "") -> list[str]:
    """The lines of metrics, each name behind the prefix."""
    lines: list[str] = []
    for metric in metrics:
        name = f"{prefix}{metric.name}"
        lines.append(f"# HELP {name} {metric.help}")
        lines.append(f"# TYPE {name} {metric.kind}")
        lines += (f"{name}{_braced(labels)} {value}" for labels, value in metric.samples)
    return lines


def rendered(labels: Mapping[str, str]) -> str:
    """Labels as they stand between the braces; what has many samples renders them once."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _braced(labels: Labels) -> str:
    text = labels if isinstance(labels, str) else rendered(labels)
    return f"{{{text}}}" if text else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
