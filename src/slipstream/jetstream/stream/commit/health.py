"""What is said about a stream's store: how much it holds, that it is full, that messages cannot be read any more.

Each change is said once: to the account (sizes), to the log, and to whoever asked to be told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Lost, StoreUnavailable
from slipstream.jetstream.stream.admission.ingest_ports import Resources

__all__ = ["StoreHealth", "StoreWatch"]


class StoreWatch(NamedTuple):
    """Who is told what happens to stores, with the names of their streams."""

    full: Callable[[str], None]
    """There is no space for messages any more."""
    lost: Callable[[str, Lost], None]
    """Messages cannot be read any more."""


class StoreHealth:
    """What was said about the store of one stream."""

    __slots__ = (
        "_is_full",
        "_lost_count",
        "_name",
        "_ports",
        "_reported_bytes",
        "_resources",
        "_store",
        "_watch",
    )

    def __init__(self, name: str, store: Store, ports: Ports, resources: Resources, watch: StoreWatch) -> None:
        """Nothing was said yet."""
        self._name = name
        self._store = store
        self._ports = ports
        self._resources = resources
        self._watch = watch
        self._reported_bytes = 0  # size the account knows of
        self._lost_count = 0  # messages that could not be read when upkeep last ended
        self._is_full = False  # there was no space when the store was last looked at

    def settled(self) -> None:
        """A commit has succeeded: let the account know how much is stored, and everybody when there is no space."""
        if self._store.fault is not None:
            self.look_for_space()
        now_bytes = self._store.assigned.size_bytes
        if now_bytes != self._reported_bytes:
            self._resources.report(now_bytes - self._reported_bytes)
            self._reported_bytes = now_bytes

    def report_size(self, size_bytes: int | None = None) -> None:
        """Tell the account what this stream occupies: its size, or what is given (0 when it goes)."""
        now_bytes = self._store.assigned.size_bytes if size_bytes is None else size_bytes
        if now_bytes != self._reported_bytes:
            self._resources.report(now_bytes - self._reported_bytes)
            self._reported_bytes = now_bytes

    def look_for_losses(self) -> None:
        """Say so when more messages than before cannot be read, and when there is no space for more."""
        lost = self._store.lost()
        if len(lost.seqs) > self._lost_count:
            self._ports.log("ERR", f"Stream '{self._name}' cannot read {len(lost.seqs)} of its messages any more")
            self._watch.lost(self._name, lost)
        self._lost_count = len(lost.seqs)
        self.look_for_space()

    def look_for_space(self) -> None:
        """Say so when there is no space any more."""
        fault = self._store.fault
        is_full = isinstance(fault, StoreUnavailable) and fault.full
        if is_full and not self._is_full:
            text = f"Stream '{self._name}' is out of storage and takes no messages until there is space"
            self._ports.log("ERR", text)
            self._watch.full(self._name)
        self._is_full = is_full
