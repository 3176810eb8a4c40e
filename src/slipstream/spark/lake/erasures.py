"""Which messages of the stream were erased on purpose: beside the table, so that nobody takes them for lost.

An archive stops when the stream begins behind the place where the table ends, because something was removed before it
could be archived. What an erasure removed there is no loss. Sequences are noted before they are deleted; a note says
nothing else, and costs nothing if its messages are archived after all.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from slipstream.spark.lake.syncing import sync_directory

__all__ = ["RECORDS", "is_erased", "note_erased"]

RECORDS: Final = "_erasures"
_ENDING: Final = ".sequences.json"


def note_erased(location: str, ranges: Sequence[Sequence[int]]) -> None:
    """Note that sequences of the stream are about to be erased; both ends of a range are inside."""
    directory = Path(location) / RECORDS
    directory.mkdir(exist_ok=True)
    name = f"{uuid.uuid4().hex}{_ENDING}"
    unfinished = directory / f".{name}"
    with open(unfinished, "w") as file:
        json.dump([list(one) for one in ranges], file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(unfinished, directory / name)
    sync_directory(directory)


def is_erased(location: str, first: int, last: int) -> bool:
    """Whether all sequences from `first` to `last` were erased."""
    ranges: list[list[int]] = []
    for path in (Path(location) / RECORDS).glob(f"[!.]*{_ENDING}"):
        with suppress(FileNotFoundError, ValueError):
            ranges += json.loads(path.read_text())
    for low, high in sorted(ranges):
        if low > first:
            break
        first = max(first, high + 1)
    return first > last
