"""Requests of other clusters that a client may answer: the reply it was told, and the address behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.units import SECOND_NS

__all__ = ["AnswerAddresses"]

# As nats-server has it: by then the other cluster has told that it wants the reply, and nothing else is needed.
_KNOWN_NS: Final = 2 * SECOND_NS


class AnswerAddresses:
    """Of one client.

    Args:
        now_ns: the clock.
    """

    __slots__ = ("_addresses", "_now_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._addresses: dict[bytes, tuple[int, bytes]] = {}  # the oldest in front: until when, and where to

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, reply: bytes, address: bytes) -> None:
        """A request came."""
        self._forget_old()
        self._addresses.pop(reply, None)
        self._addresses[reply] = (self._now_ns() + _KNOWN_NS, address)

    def find(self, reply: bytes) -> bytes | None:
        """Where an answer goes; None: where it says."""
        self._forget_old()
        known = self._addresses.get(reply)
        return None if known is None else known[1]

    def _forget_old(self) -> None:
        now_ns, addresses = self._now_ns(), self._addresses
        while addresses:
            reply = next(iter(addresses))
            if addresses[reply][0] > now_ns:
                return
            del addresses[reply]
