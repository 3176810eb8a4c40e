"""What links carried that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.links.end import LinkEnd

__all__ = ["PastTraffic"]


class PastTraffic:
    """Messages and bytes of the links of one kind that ended."""

    __slots__ = ("in_bytes", "in_msgs", "out_bytes", "out_msgs")

    def __init__(self) -> None:
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = 0

    def add(self, end: LinkEnd) -> None:
        """A link ended."""
        self.in_msgs += end.parser.msgs
        self.in_bytes += end.parser.msg_bytes
        self.out_msgs += end.outbox.msgs
        self.out_bytes += end.outbox.msg_bytes
