"""Into how many pieces a read is cut: by size, and so that the tasks that run at once end at about the same time.

A reader does not know the session it runs for, so a session on this machine tells its processes by a variable.
"""

from __future__ import annotations

import os
import re

__all__ = ["TASKS_VARIABLE", "even_pieces", "local_tasks", "tasks_at_once"]

TASKS_VARIABLE = "SLIPSTREAM_SPARK_TASKS"
_SMALL_PART = 4  # a piece below this part of the wanted size is small
_LOCAL = re.compile(r"local(?:\[(\*|[0-9]+)(?:,\s*[0-9]+)?\])?")


def even_pieces(pieces: int, size: int, target_bytes: int, at_once: int) -> int:
    """How many pieces to make of what would be `pieces` by size: whole rounds of tasks, unless they get small by that.

    Two cores work on three pieces for two rounds, and on four smaller ones for two shorter rounds.
    """
    whole_rounds = -(-pieces // at_once) * at_once
    return max(pieces, min(whole_rounds, size // max(target_bytes // _SMALL_PART, 1)))


def tasks_at_once() -> int:
    """How many tasks the session of this process runs at a time; 1 if nobody has said so."""
    said = os.environ.get(TASKS_VARIABLE, "")
    return max(int(said), 1) if said.isdecimal() and len(said) < 7 else 1


def local_tasks(master: str) -> int | None:
    """How many tasks a master runs at a time, if that is this machine."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    number = found[1] or "1"
    return (os.cpu_count() or 1) if number == "*" else max(int(number), 1)
