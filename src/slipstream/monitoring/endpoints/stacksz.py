"""/stacksz: where every thread of the process is, as text."""

from __future__ import annotations

import sys
import traceback

__all__ = ["stacksz"]


def stacksz() -> bytes:
    """The stacks of all threads."""
    parts: list[str] = []
    for thread, frame in sys._current_frames().items():
        parts.append(f"thread {thread}:\n")
        parts += traceback.format_stack(frame)
        parts.append("\n")
    return "".join(parts).encode("utf-8", "replace")
