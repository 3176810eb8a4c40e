"""A page of Prometheus metrics as OTLP: counters are sums that only grow, everything else is a gauge."""

from __future__ import annotations

import math
import re
from typing import Final

from slipstream.otel.values import SCOPE, Json, attributes

__all__ = ["metrics_request"]

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE: Final = re.compile(r"\\(.)")
_CUMULATIVE: Final = 2
_SAMPLES_MAX: Final = 200_000  # of one page


def metrics_request(page: str, source: str, now_ns: int) -> Json:
    """What a collector is sent.

    Args:
        page: in the text format of Prometheus.
        source: where it comes from; what monitoring tools call the instance.
        now_ns: when it was read.

    Raises:
        ValueError: a line is none of this format, or there are too many.
    """
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    points: dict[str, list[Json]] = {}
    count = 0
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("# "):
            _, word, *rest = line.split(" ", 3)
            if word in ("TYPE", "HELP") and rest:
                (kinds if word == "TYPE" else helps)[rest[0]] = rest[1] if len(rest) > 1 else ""
            continue
        if not line or line.startswith("#"):
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise ValueError(f"line {number} is no metric: {line[:80]!r}")
        count += 1
        if count > _SAMPLES_MAX:
            raise ValueError(f"more than {_SAMPLES_MAX} samples")
        value = float(sample[3])
        if math.isfinite(value):
            labels = attributes(_labels(sample[2] or "", number))
            points.setdefault(sample[1], []).append(
                {"timeUnixNano": str(now_ns), "attributes": labels, **_number(value)}
            )
    metrics = [_metric(name, kinds.get(name, ""), helps.get(name, ""), found) for name, found in points.items()]
    where = attributes({"service.name": "nats-server", "service.instance.id": source})
    return {
        "resourceMetrics": [{"resource": {"attributes": where}, "scopeMetrics": [{"scope": SCOPE, "metrics": metrics}]}]
    }


def _metric(name: str, kind: str, text: str, points: list[Json]) -> Json:
    metric: Json = {"name": name, "description": text}
    if kind == "counter":
        metric["sum"] = {"dataPoints": points, "isMonotonic": True, "aggregationTemporality": _CUMULATIVE}
    else:
        metric["gauge"] = {"dataPoints": points}
    return metric


def _number(value: float) -> Json:
    return {"asInt": str(int(value))} if value.is_integer() and abs(value) < 2**63 else {"asDouble": value}


def _labels(text: str, number: int) -> dict[str, str]:
    found, at = {}, 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None:
            raise ValueError(f"line {number} has broken labels: {text[:80]!r}")
        found[label[1]] = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], label[2])
        at = label.end()
    return found
