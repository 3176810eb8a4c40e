"""Who gets the next messages, decided for many at once."""

from __future__ import annotations

from slipstream.jetstream.consumer.requests import PullRequest

__all__ = ["NO_BYTES_LIMIT", "DeliveryPlan"]

NO_BYTES_LIMIT = 1 << 62


class DeliveryPlan:
    """A sink's answer; what was really handed out it is told afterwards, by `took`.

    Attributes:
        targets: where all of them go, or each of them.
        messages: how many at most.
        max_bytes: end behind the message that exceeds this.
        turns: the requests that are served, one for each message, or one for all.
    """

    __slots__ = ("max_bytes", "messages", "targets", "turns")

    def __init__(
        self,
        targets: bytes | list[bytes],
        messages: int,
        max_bytes: int = NO_BYTES_LIMIT,
        turns: tuple[PullRequest, ...] = (),
    ) -> None:
        self.targets = targets
        self.messages = messages
        self.max_bytes = max_bytes
        self.turns = turns
