"""Who gets the next messages, decided for many at once."""

from __future__ import annotations

from typing import NamedTuple

from slipstream.jetstream.consumer.requests import PullRequest

__all__ = ["NO_BYTES_LIMIT", "Plan"]

NO_BYTES_LIMIT = 1 << 62


class Plan(NamedTuple):
    """A sink's answer; what was really handed out it is told afterwards, by `took`."""

    targets: bytes | list[bytes]
    """Where all of them go, or each of them."""
    messages: int
    """How many at most."""
    max_bytes: int = NO_BYTES_LIMIT
    """End behind the message that exceeds this."""
    turns: tuple[PullRequest, ...] = ()
    """The requests that are served, one for each message, or one for all."""
