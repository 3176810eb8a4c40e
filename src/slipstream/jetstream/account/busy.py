"""Names of streams with file work under way: what else is asked of them waits its turn."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.ports import Ports

__all__ = ["BusyNames"]


class BusyNames:
    """Of one account."""

    def __init__(self, ports: Ports) -> None:
        """None is."""
        self._ports = ports
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # name → who waits

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, name: str) -> None:
        """File work on this name begins."""
        self._waiting[name] = []

    def release(self, name: str) -> None:
        """It is done: who waits may try again."""
        for again in self._waiting.pop(name):
            self._ports.call_soon(again)

    def wait(self, name: str, again: Callable[[], None]) -> bool:
        """Whether file work on this name is under way; then `again` is called when it is done."""
        waiting = self._waiting.get(name)
        if waiting is None:
            return False
        waiting.append(again)
        return True
