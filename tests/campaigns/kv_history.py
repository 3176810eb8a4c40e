"""What clients did to a key-value bucket, and whether one order of events explains all of it.

Every write gets a revision, and revisions are the order in which writes happened; so the search for an order that a
linearizability checker makes is not needed. What is left is to compare that order with the clients' clocks: nothing
may be read before it was written, or missing after it was, and no reader may go back behind what another has seen.

A write that was not answered (the server died) may have happened or not; reads tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

PUT, DELETE, READ, KEYS = "put", "delete", "read", "keys"


@dataclass(slots=True)
class Event:
    """One operation of one client."""

    kind: str
    key: str
    began_ns: int
    ended_ns: int = 0
    """0: never answered."""
    revision: int = 0
    """Of the write, or of what was read; 0: not known, or nothing was found."""
    value: str = ""
    """Written or read; empty for a deletion, or what was deleted or not there."""
    expected: int = -1
    """A write that asked for this revision before it; -1: it did not ask."""
    found: frozenset[str] = frozenset()
    """The keys that were listed."""


@dataclass
class History:
    """All events."""

    events: list[Event] = field(default_factory=list)

    def check(self) -> list[str]:
        """Everything that no order of events explains."""
        by_key: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind != KEYS:
                by_key[event.key].append(event)
        broken = [problem for key, events in by_key.items() for problem in _check_key(key, events)]
        return broken + _check_listings(
            [event for event in self.events if event.kind == KEYS and event.ended_ns], by_key
        )


def _check_key(key: str, events: list[Event]) -> Iterable[str]:
    writes = [event for event in events if event.kind in (PUT, DELETE)]
    written = {event.value: event for event in writes if event.value}
    known = [event for event in events if event.ended_ns and (event.revision or event.kind == READ)]
    for read in (event for event in known if event.kind == READ and event.value):
        write = written.get(read.value)
        if write is None:
            yield f"{key}: read {read.value!r}, which nobody wrote"
        elif write.began_ns > read.ended_ns:
            yield f"{key}: read {read.value!r} before it was written"
        elif write.revision not in (0, read.revision):
            yield f"{key}: {read.value!r} was written as {write.revision} and read as {read.revision}"
    yield from _check_clocks(key, known)
    revisions = sorted({event.revision for event in known if event.revision})
    for write in writes:
        between = [seen for seen in revisions if write.expected < seen < write.revision]
        if write.revision and write.expected > 0 and between:
            yield f"{key}: {write.revision} replaced {write.expected}, but {between[-1]} came between"


def _check_clocks(key: str, known: list[Event]) -> Iterable[str]:
    """What ended before something else began has no higher revision; a write that began later has a higher one."""
    ended = sorted(known, key=lambda event: event.ended_ns)
    at, newest = 0, None
    for event in sorted(known, key=lambda event: event.began_ns):
        while at < len(ended) and ended[at].ended_ns < event.began_ns:
            if newest is None or ended[at].revision > newest.revision:
                newest = ended[at]
            at += 1
        if newest is None:
            continue
        if event.revision < newest.revision:
            found = f"revision {event.revision}" if event.revision else "nothing"
            yield f"{key}: a {event.kind} found {found} after a {newest.kind} of {newest.revision} had ended"
        elif event.kind in (PUT, DELETE) and event.revision == newest.revision:
            yield f"{key}: {event.revision} was given to a second write"


def _check_listings(listings: list[Event], by_key: dict[str, list[Event]]) -> list[str]:
    """A key is listed if it was there all the time that a listing took, and not if it never was."""
    broken = []
    for listing in listings:
        for key, events in by_key.items():
            writes = [event for event in events if event.kind in (PUT, DELETE)]
            before = [event for event in writes if event.ended_ns and event.ended_ns < listing.began_ns]
            last = max(before, key=lambda event: event.began_ns, default=None)
            settled = last is not None and not [
                event
                for event in writes
                if event is not last
                and event.began_ns < listing.ended_ns
                and not (event.ended_ns and event.ended_ns < last.began_ns)
                and event.kind != last.kind
            ]
            if last is None or not settled:
                continue  # it may have been there or not
            if last.kind == PUT and key not in listing.found:
                broken.append(f"{key} is missing from the keys {sorted(listing.found)}")
            elif last.kind == DELETE and key in listing.found:
                broken.append(f"{key} is among the keys after it was deleted")
    return broken
