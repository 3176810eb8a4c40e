"""The block `declared`: streams, consumers and buckets that a server makes when it starts.

What may stand in it is known by the tables of the JetStream API, which are above this layer: `Checker.check_declared`
asks them.
"""

from __future__ import annotations

import json
from typing import Final

from slipstream.config.checker import Checker, Kind, go_type, refusal
from slipstream.config.declared_options import DeclaredOptions
from slipstream.config.parser import Value
from slipstream.errors import ConfigError

__all__ = ["DECLARED"]


def _declared(checker: Checker, value: Value, _key: str) -> DeclaredOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected a map to declare streams, got {go_type(value)}")
    found = None if checker.check_declared is None else checker.check_declared(value)
    if found is not None:
        message, (file, line, column) = found
        raise ConfigError(message, file=file, line=line, column=column)
    return DeclaredOptions(json.dumps(value.plain(), default=str), value)


DECLARED: Final[Kind] = ("map", _declared)
