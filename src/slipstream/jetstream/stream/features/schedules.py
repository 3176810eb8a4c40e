"""The schedules of one stream: which message fires when.

The messages are the truth; this is a heap of times over them, made anew at every start. A message stored on a subject
replaces the schedule that was there; a schedule whose message is gone is forgotten when its time comes, at the latest.

    stored ──► waiting ──due──► fired ──`purge`──► gone
                  ▲                └──next time──┘

What this is not: publishing. The owner gives a function that stores what is due; while it cannot, what is due waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from slipstream.errors import ApiError
from slipstream.jetstream import headers
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.times import parse_time
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Damaged
from slipstream.jetstream.stream.features.schedule_rules import PURGE, Moment, fired, moment_of
from slipstream.jetstream.stream.header_scan import messages_with_headers
from slipstream.jetstream.stream.limits import SCHEDULE_INTERVAL_MIN_NS, SCHEDULE_RETRY_NS, SCHEDULE_SLICE_MSGS

__all__ = ["Fire", "Schedules"]

Fire = Callable[[bytes, bytes, bytes], ApiError | None]
"""Stores `(subject, header, payload)`; why not, if it cannot be."""

_LATEST_NS = 2**63 - 1
_PRUNE_FROM = 1024


class _Entry(NamedTuple):
    """One schedule: the sequence of its message and when it fires."""

    seq: int
    due_ns: int


class Schedules:
    """Timers over the schedule messages of a store."""

    def __init__(self, store: Store, ports: Ports, fire: Fire) -> None:
        """Start with what the store holds."""
        self._store = store
        self._ports = ports
        self._fire = fire
        self._by_subject: dict[bytes, _Entry] = {}
        self._heap: list[tuple[int, int, bytes]] = []  # due, sequence, subject; entries may be outdated
        self._timer: Cancel | None = None
        self._timer_due_ns = _LATEST_NS
        self._running = False
        self._stopped = False
        self._prune_at = _PRUNE_FROM  # number of schedules at which those whose messages are gone are looked for
        self.rebuild()

    def __len__(self) -> int:
        """Schedules that wait."""
        return len(self._by_subject)

    def stored(self, seq: int, ts_ns: int, subject: bytes, header: bytes) -> None:
        """A message joined the store: a new schedule, the end of one, or what one has published."""
        if not header or header.find(b"\r\nNats-Schedule") < 0:
            self._by_subject.pop(subject, None)
            return
        found = moment_of(header, ts_ns, self._ports.now_ns())
        if isinstance(found, Moment):
            self._wait(subject, _Entry(seq, found.due_ns))
            return
        scheduler = headers.find(header, b"Nats-Scheduler")
        if not scheduler:
            self._by_subject.pop(subject, None)
            return
        following = headers.find(header, b"Nats-Schedule-Next")
        entry = self._by_subject.get(scheduler)
        if entry is not None and following and following != PURGE:
            try:
                self._wait(scheduler, _Entry(entry.seq, parse_time(following.decode("utf-8", "replace"))))
            except JsonError:
                return

    def rebuild(self) -> None:
        """Read all schedules from the store."""
        self._by_subject.clear()
        self._heap.clear()
        for message in messages_with_headers(self._store, 1, self._store.last_seq):
            self.stored(message.seq, message.ts_ns, message.subject, message.headers)
        self._arm()

    def stop(self) -> None:
        """Fire no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer()
            self._timer = None

    # --- inside ---

    def _wait(self, subject: bytes, entry: _Entry) -> None:
        self._by_subject[subject] = entry
        if len(self._by_subject) > self._prune_at:
            self._prune()
        heapq.heappush(self._heap, (entry.due_ns, entry.seq, subject))
        if len(self._heap) > 2 * len(self._by_subject) + 64:
            self._heap = [(each.due_ns, each.seq, name) for name, each in self._by_subject.items()]
            heapq.heapify(self._heap)
        self._arm()

    def _prune(self) -> None:
        """Forget schedules whose messages are gone; most are forgotten when their time comes."""
        store = self._store
        self._by_subject = {
            subject: entry for subject, entry in self._by_subject.items() if store.assigned.has(entry.seq)
        }
        self._prune_at = max(2 * len(self._by_subject), _PRUNE_FROM)

    def _arm(self) -> None:
        """Look again when the first one is due, but not all the time."""
        if self._stopped or self._running or not self._heap:
            return
        now_ns = self._ports.now_ns()
        due_ns = max(self._heap[0][0], now_ns + SCHEDULE_INTERVAL_MIN_NS)
        if self._timer is not None:
            if due_ns >= self._timer_due_ns:
                return
            self._timer()
        self._timer_due_ns = due_ns
        self._timer = self._ports.call_later(due_ns - now_ns, self._run)

    def _run(self) -> None:
        self._timer = None
        self._timer_due_ns = _LATEST_NS
        if self._stopped:
            return
        self._running = True
        try:
            for subject, entry in self._due():
                try:
                    self._fire_one(subject, entry)
                except Exception as error:
                    # One schedule's trouble is not the others'; it is tried again.
                    self._ports.report("A scheduled message", error)
                    self._wait(subject, _Entry(entry.seq, self._ports.now_ns() + SCHEDULE_RETRY_NS))
        finally:
            self._running = False
        self._arm()

    def _due(self) -> list[tuple[bytes, _Entry]]:
        """What has to fire now, in the order of the log; a bounded number of them."""
        now_ns = self._ports.now_ns()
        due: list[tuple[bytes, _Entry]] = []
        while self._heap and self._heap[0][0] <= now_ns and len(due) < SCHEDULE_SLICE_MSGS:
            due_ns, seq, subject = heapq.heappop(self._heap)
            entry = _Entry(seq, due_ns)
            if self._by_subject.get(subject) == entry:
                due.append((subject, entry))
        return sorted(due, key=lambda item: item[1].seq)

    def _fire_one(self, subject: bytes, entry: _Entry) -> None:
        store, now_ns = self._store, self._ports.now_ns()
        message = store.get(entry.seq) if store.assigned.has(entry.seq) else None
        if message is None or isinstance(message, Damaged):
            self._by_subject.pop(subject, None)
            return
        schedule = message.headers
        moment = moment_of(schedule, entry.due_ns, now_ns) if schedule else None
        target = headers.find(schedule, b"Nats-Schedule-Target") if schedule else None
        if not isinstance(moment, Moment) or not target:
            self._by_subject.pop(subject, None)
            return
        content = message
        source = headers.find(schedule, b"Nats-Schedule-Source")
        last = store.load_last(source) if source else None
        if last is not None and not isinstance(last, Damaged):
            content = last
        block = fired(subject, schedule, content.headers, moment)
        if self._fire(target, block, content.payload) is not None:
            self._wait(subject, _Entry(entry.seq, now_ns + SCHEDULE_RETRY_NS))
        elif not moment.repeats:
            self._by_subject.pop(subject, None)
        elif self._by_subject.get(subject) == entry:
            # Nobody was interested, so nothing was stored that says when it comes again.
            self._wait(subject, _Entry(entry.seq, moment.due_ns))
