"""Values as OTLP's JSON has them: numbers of 64 bits are texts, attributes are lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream.version import PRODUCT_VERSION

__all__ = ["SCOPE", "Json", "attributes"]

Json = dict[str, Any]

SCOPE: Json = {"name": "slipstream", "version": PRODUCT_VERSION}


def attributes(values: Mapping[str, object]) -> list[Json]:
    """Attributes; what is empty is left out."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value not in (None, "")]


def _value(value: object) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}
