"""Subscriptions so new that other clusters may not know of them: replies that match get an address in front."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Subscription
from slipstream.units import SECOND_NS

__all__ = ["RecentInterest"]

_RECENT_NS: Final = 2 * SECOND_NS  # as nats-server has it


class RecentInterest:
    """What was subscribed to here within the last two seconds, by account.

    Args:
        prefix: the address of this server.
        now_ns: a clock that only goes forward.
    """

    def __init__(self, prefix: bytes, now_ns: Callable[[], int]) -> None:
        self._prefix = prefix
        self._now_ns = now_ns
        self._accounts: dict[bytes, Interest] = {}
        # The oldest in front: until when, the account, and a copy of the subscription.
        self._ends: deque[tuple[int, bytes, Subscription]] = deque()

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, account: bytes, subject: bytes) -> None:
        """Somebody subscribed."""
        self._forget_old()
        copy = Subscription(subject, None, b"")
        interest = self._accounts.get(account)
        if interest is None:
            interest = self._accounts[account] = Interest(0)
        interest.insert(copy)
        self._ends.append((self._now_ns() + _RECENT_NS, account, copy))

    def addressed(self, account: bytes, reply: bytes) -> bytes:
        """A reply as it leaves for another cluster."""
        if not self._ends:
            return reply
        self._forget_old()
        interest = self._accounts.get(account)
        return self._prefix + reply if interest is not None and interest.match(reply) else reply

    def _forget_old(self) -> None:
        now_ns, ends = self._now_ns(), self._ends
        while ends and ends[0][0] <= now_ns:
            _, account, copy = ends.popleft()
            interest = self._accounts[account]
            interest.remove(copy)
            if not interest.count:
                del self._accounts[account]
