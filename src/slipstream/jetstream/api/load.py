"""How many API calls of an account are not answered yet, and what happens when they are too many.

Most calls are answered in the turn they arrive in. Others wait: for a commit, for file work, for the same name. A call
that finds too many waiting is dropped without an answer, as nats-server does, and an advisory says how many were.
Calls that only look (INFO, NAMES, LIST) are counted apart, so that many of them do not keep a stream from being made.
Each account has its own count (nats-server has one for all): calls that wait for one tenant's stream are not another's.

Invariant: a call is counted from when its handler returns without an answer until it is answered, or nothing is left
that could answer it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.limits import API_REQUEST_QUEUE_LIMIT

__all__ = ["INFO_PATTERNS", "ApiLoad"]

INFO_PATTERNS: Final = frozenset(
    (
        *("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.*"),
        *("CONSUMER.NAMES.*", "CONSUMER.LIST.*", "CONSUMER.INFO.*.*", "CONSUMER.WHY.*.*"),
    )
)
"""Calls that only look."""


class ApiLoad:
    """Calls of one account that wait for their answers."""

    def __init__(
        self,
        *,
        request_limit: int = API_REQUEST_QUEUE_LIMIT,
        info_limit: int = API_REQUEST_QUEUE_LIMIT,
        on_dropped: Callable[[bool], None] | None = None,
    ) -> None:
        """Allow so many calls that change something and so many that only look.

        `on_dropped` is called for each call that was dropped, with whether it only looks.
        """
        self._limits = (request_limit, info_limit)
        self._waiting = [0, 0]
        self._on_dropped = on_dropped

    @property
    def waiting(self) -> int:
        """Calls that are not answered yet."""
        return sum(self._waiting)

    def waiting_of(self, *, looks: bool) -> int:
        """Calls of one kind that are not answered yet."""
        return self._waiting[looks]

    def admits(self, *, looks: bool) -> bool:
        """Whether one more call may be taken; if not, it is reported."""
        if self._waiting[looks] < self._limits[looks]:
            return True
        if self._on_dropped is not None:
            self._on_dropped(looks)
        return False

    def wait(self, *, looks: bool) -> None:
        """A call was taken and not answered."""
        self._waiting[looks] += 1

    def answered(self, *, looks: bool) -> None:
        """A call that waited has its answer."""
        self._waiting[looks] -= 1
