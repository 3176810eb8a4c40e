"""Options as JSON, for people who want to see what a server runs with.

Secrets never leave: passwords, tokens, keys and URLs that may hold them are shown as `[REDACTED]` when they are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slipstream.config.declared_options import DeclaredOptions
from slipstream.config.options import Options
from slipstream.config.record import Record, is_secret

__all__ = ["dump_options"]

REDACTED: Final = "[REDACTED]"


def dump_options(options: Options) -> str:
    """The options as indented JSON. Durations are nanoseconds, sizes bytes; defaults are shown, too."""
    import json

    plain = _plain(options)
    assert isinstance(plain, dict)
    del plain["positions"]
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, DeclaredOptions):
        import json

        return json.loads(value.text)
    if isinstance(value, Record):
        return {
            name: REDACTED if is_secret(value, name) and getattr(value, name) else _plain(getattr(value, name))
            for name in value.__match_args__
        }
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return value
