"""Streams for clients of JetStream's technical preview: asked for by the metadata `slipstream.preview`."""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.config.metadata_switch import MetadataSwitch
from slipstream.jetstream.config.structs import StreamConfig

__all__ = ["PREVIEW_KEY", "check_preview", "check_still_preview", "is_preview"]

_PREVIEW: Final = MetadataSwitch("slipstream.preview", "true")
PREVIEW_KEY: Final = _PREVIEW.key


def is_preview(config: StreamConfig) -> bool:
    """Whether a stream speaks with clients of the preview."""
    return _PREVIEW.is_on(config)


def check_preview(config: StreamConfig) -> None:
    """Whether it is asked for in the one way there is.

    Raises:
        TableError: 10052.
    """
    _PREVIEW.is_asked(config)


def check_still_preview(old: StreamConfig, new: StreamConfig) -> None:
    """Publishers must know which ack to expect.

    Raises:
        TableError: 10052, an update begins or ends it.
    """
    _PREVIEW.check_unchanged(old, new)
