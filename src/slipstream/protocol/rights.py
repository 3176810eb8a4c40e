"""What the user of one connection may do, and what of that was asked already.

What this is not: the rules. They are `auth.permissions`, shared by all connections of a user; here is what differs
between these: the answers a connection may still give, and how the replies that it names begin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.auth.permissions import ResponsePermits
from slipstream.kernels.subjects.subject import is_literal
from slipstream.subjects.outside import outside_only

if TYPE_CHECKING:
    from slipstream.auth.permissions import Permissions

__all__ = ["Rights"]


class Rights:
    """Of a connection that may not do everything."""

    __slots__ = ("_now_ns", "_permits", "answer_mark", "answer_prefix", "answered_anywhere", "permissions")

    def __init__(self, permissions: Permissions, now_ns: Callable[[], int]) -> None:
        self.permissions = permissions
        self._now_ns = now_ns
        self._permits = None if permissions.responses is None else ResponsePermits(permissions.responses)
        # For the delivery kernel.
        self.answered_anywhere = not permissions.restricts_publishing  # what it names as reply it may publish to
        self.answer_prefix = b""  # replies that begin like this were asked about last
        self.answer_mark: bytes | None = None  # what all of them get in front; None: that depends on the reply

    @property
    def may_respond(self) -> bool:
        """Whether a request allows an answer."""
        return self._permits is not None

    def may_publish(self, subject: bytes) -> bool | None:
        """The verdict for a subject: True and False hold until permissions change, None allows this once."""
        if self.permissions.may_publish(subject):
            return True
        return None if self._permits is not None and self._permits.use(subject, self._now_ns()) else False

    def request_came(self, reply: bytes) -> bool:
        """A message with a reply subject was delivered: True if that allows an answer that was not allowed before."""
        if self._permits is None or self.permissions.may_publish(reply):
            return False
        self._permits.grant(reply, self._now_ns())
        return True

    def forget_requests(self) -> None:
        """The connection ended: no answer will come."""
        self._permits = None

    def remember_answers(self, reply: bytes) -> None:
        """Decide for all replies that begin like this one, by a token or two: inboxes are used once, and all alike."""
        if self.answer_prefix and reply.startswith(self.answer_prefix):
            return
        end = -1
        for _ in range(2):
            end = reply.find(b".", end + 1)
            if end <= 0 or not is_literal(reply[:end]):
                return
            granted = self.permissions.may_publish_below(reply[:end])
            self.answer_prefix = reply[: end + 1]
            self.answer_mark = None if granted is None else b"" if granted else outside_only(b"")
            if granted is not None:
                return
