"""Holds: while one lasts, a stream's retention removes nothing from a sequence on.

A bulk reader that has to be able to read the same messages again takes one. Retention means limits, age, life times,
and acknowledgements under interest and work-queue retention; what a user purges, deletes or rolls up goes all the same.
A stream that outgrows its limits too far drops its holds, lowest first.

Holds are kept in memory: they end with the server. A reader learns of that by counting what it reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.guard import each
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import StoreWrites
from slipstream.jetstream.store.values import SEQ_MAX
from slipstream.jetstream.stream.limits import EXPIRE_INTERVAL_MIN_NS
from slipstream.limits import BULK_HOLD_OVERSHOOT

__all__ = ["Hold", "Holds"]

_NO_FLOOR = SEQ_MAX


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps everything from `first_seq` on, until a time."""

    id: str
    first_seq: int
    expires_ns: int
    by: str = ""  # who took it, as told


class Holds:
    """The holds on one stream."""

    __slots__ = ("_holds", "_ports", "_timer", "floor", "released")

    def __init__(self, ports: Ports) -> None:
        """Nothing is held."""
        self._ports = ports
        self._holds: dict[str, Hold] = {}
        self._timer: Cancel | None = None
        self.released: list[Callable[[], None]] = []  # called when less is held than before, in order
        self.floor = _NO_FLOOR  # lowest sequence held; above every sequence when there is no hold

    def __len__(self) -> int:
        """Holds now in force."""
        return len(self._holds)

    def find(self, id_: str) -> Hold | None:
        """The hold with this id."""
        return self._holds.get(id_)

    def __iter__(self) -> Iterator[Hold]:
        """Those now in force."""
        return iter(self._holds.values())

    def put(self, hold: Hold) -> None:
        """Add a hold, or renew or move one."""
        self._holds[hold.id] = hold
        self._changed()

    def remove(self, id_: str) -> bool:
        """End a hold; False when there is none."""
        found = self._holds.pop(id_, None) is not None
        self._changed()
        return found

    def give_way(self, config: StreamConfig, store: StoreWrites) -> bool:
        """Drop the lowest hold of a stream that has outgrown its limits too far; False: it has not."""
        if not self._holds or not _outgrown(config, store):
            return False
        lowest = min(self._holds.values(), key=lambda hold: hold.first_seq)
        del self._holds[lowest.id]
        self._measure()
        text = f"Stream '{config.name}' outgrew its limits: the hold on {lowest.first_seq} is dropped"
        self._ports.log("WRN", text)
        return True

    def stop(self) -> None:
        """Keep no more time."""
        if self._timer is not None:
            self._timer()
            self._timer = None

    def _changed(self) -> None:
        before = self.floor
        self._measure()
        self._arm()
        if self.floor > before:
            each(self._ports, "What follows from the end of a hold", self.released)

    def _measure(self) -> None:
        self.floor = min((hold.first_seq for hold in self._holds.values()), default=_NO_FLOOR)

    def _arm(self) -> None:
        self.stop()
        if self._holds:
            due_ns = min(hold.expires_ns for hold in self._holds.values())
            delay_ns = max(due_ns - self._ports.now_ns(), EXPIRE_INTERVAL_MIN_NS)
            self._timer = self._ports.call_later(delay_ns, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ns = self._ports.now_ns()
        self._holds = {id_: hold for id_, hold in self._holds.items() if hold.expires_ns > now_ns}
        self._changed()


def _outgrown(config: StreamConfig, store: StoreWrites) -> bool:
    return (0 < config.max_msgs * BULK_HOLD_OVERSHOOT < store.assigned.messages) or (
        0 < config.max_bytes * BULK_HOLD_OVERSHOOT < store.assigned.size_bytes
    )
