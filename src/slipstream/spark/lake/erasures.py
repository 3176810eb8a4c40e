"""Which messages of the stream were erased on purpose: beside the table, so that nobody takes them for lost.

An archive stops when the stream begins behind the place where the table ends, because something was removed before it
could be archived. What an erasure removed there is no loss. Sequences are noted before they are deleted; a note says
nothing else, and costs nothing if its messages are archived after all.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from slipstream.spark.lake.places import place_at

__all__ = ["RECORDS", "covers", "is_erased", "merged", "note_erased"]

RECORDS: Final = "_erasures"
_ENDING: Final = ".sequences.json"


def note_erased(location: str, ranges: Sequence[Sequence[int]]) -> None:
    """Note that sequences of the stream are about to be erased; both ends of a range are inside."""
    name = f"{RECORDS}/{uuid.uuid4().hex}{_ENDING}"
    place_at(location).create(name, json.dumps([list(one) for one in ranges]).encode())


def is_erased(location: str, first: int, last: int) -> bool:
    """Whether all sequences from `first` to `last` were erased."""
    ranges: list[list[int]] = []
    place = place_at(location)
    for entry in place.list(RECORDS):
        if entry.name.endswith(_ENDING) and not entry.name.startswith("."):
            with suppress(FileNotFoundError, ValueError):
                ranges += json.loads(place.read(f"{RECORDS}/{entry.name}"))
    return covers(ranges, first, last)


def covers(ranges: Iterable[Sequence[int]], first: int, last: int) -> bool:
    """Whether ranges, both ends inside, leave nothing out from `first` to `last`."""
    for low, high in sorted((one[0], one[1]) for one in ranges):
        if low > first:
            break
        first = max(first, high + 1)
    return first > last


def merged(ranges: Iterable[Sequence[int]], after: int) -> list[list[int]]:
    """What ranges say of sequences behind `after`, in as few ranges as can be, in their order."""
    found: list[list[int]] = []
    for low, high in sorted((one[0], one[1]) for one in ranges):
        if high <= after:
            continue
        if found and low <= found[-1][1] + 1:
            found[-1][1] = max(found[-1][1], high)
        else:
            found.append([max(low, after + 1), high])
    return found
