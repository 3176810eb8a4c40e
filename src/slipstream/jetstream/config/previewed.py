"""Streams for clients of JetStream's technical preview: asked for by the metadata `slipstream.preview`."""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import invalid_config

__all__ = ["PREVIEW_KEY", "check_preview", "check_still_preview", "is_preview"]

PREVIEW_KEY: Final = "slipstream.preview"
_ON: Final = "true"


def is_preview(config: StreamConfig) -> bool:
    """Whether a stream speaks with clients of the preview."""
    return config.metadata.get(PREVIEW_KEY) == _ON


def check_preview(config: StreamConfig) -> None:
    """Whether it is asked for in the one way there is.

    Raises:
        TableError: 10052.
    """
    if config.metadata.get(PREVIEW_KEY, _ON) != _ON:
        raise invalid_config(f"{PREVIEW_KEY} must be {_ON}")


def check_still_preview(old: StreamConfig, new: StreamConfig) -> None:
    """Publishers must know which ack to expect.

    Raises:
        TableError: 10052, an update begins or ends it.
    """
    if is_preview(old) != is_preview(new):
        raise invalid_config(f"stream configuration update can not change {PREVIEW_KEY}")
