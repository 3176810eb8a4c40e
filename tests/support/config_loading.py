"""Loading a text as a configuration file would be."""

from __future__ import annotations

import pytest

from slipstream.config.load import ConfigErrors, Loaded, Probes, load
from slipstream.config.options import Options
from slipstream.config.parser import parse_text


def loaded(text: str, probes: Probes | None = None, **overrides: object) -> Loaded:
    """The result of loading a text; `__` in the name of an override stands for the dot before a field."""
    fields = {name.replace("__", "."): value for name, value in overrides.items()}
    return load(parse_text(text, name="t.conf"), overrides=fields, probes=probes or Probes())


def options(text: str, **overrides: object) -> Options:
    """The options of a text without warnings."""
    result = loaded(text, None, **overrides)
    assert result.warnings == ()
    return result.options


def errors(text: str, probes: Probes | None = None, **overrides: object) -> list[str]:
    """The messages of a text that cannot be loaded, with their places."""
    with pytest.raises(ConfigErrors) as caught:
        loaded(text, probes, **overrides)
    return [str(error) for error in caught.value.errors]
