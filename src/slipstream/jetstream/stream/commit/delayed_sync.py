"""Where an ack does not wait for the device: what was only written is synced after a while."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.ports import Cancel, Ports
from slipstream.units import SECOND_NS

__all__ = ["DelayedSync"]


class DelayedSync:
    """A timer that runs from the first commit that was not synced."""

    __slots__ = ("_interval_ns", "_ports", "_sync", "_timer")

    def __init__(self, ports: Ports, interval_ns: int, sync: Callable[[], bool]) -> None:
        """`sync` is called when it is time; False: it could not begin now."""
        self._ports = ports
        self._interval_ns = interval_ns
        self._sync = sync
        self._timer: Cancel | None = None

    def written(self) -> None:
        """Something was written and not synced."""
        if self._timer is None:
            self._timer = self._ports.call_later(self._interval_ns, self._due)

    def stop(self) -> None:
        """No more."""
        if self._timer is not None:
            self._timer()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        if not self._sync():
            self._timer = self._ports.call_later(SECOND_NS, self._due)  # a commit is in flight
