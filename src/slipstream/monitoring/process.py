"""What the operating system says about this process: memory, processor time, cores, command line.

An edge file: it reads `/proc` where there is one and falls back to `getrusage` elsewhere. No credential leaves here:
`command_line` hides what is one, whatever way it was given.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Sequence
from time import process_time_ns
from typing import NamedTuple

from slipstream.units import SECOND_NS

__all__ = ["ProcessUsage", "Usage", "command_line", "cores", "redacted", "resident_bytes"]

_SECRET_FLAG = re.compile(r"--?(user|pass|auth)(=.*)?", re.DOTALL)
_USER_INFO = re.compile(r"//[^/@,]*@")
_REDACTED = "[REDACTED]"


def resident_bytes() -> int:
    """Memory of the process that is in RAM now."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        # The most it ever was, which is all that is known without /proc; KiB on Linux, bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def cores() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def command_line() -> list[str]:
    """How the server was started, without secrets."""
    return redacted(sys.argv)


def redacted(arguments: Sequence[str]) -> list[str]:
    """Command line arguments with user names, passwords, tokens and the user part of URLs hidden."""
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        flag = _SECRET_FLAG.fullmatch(argument)
        if hide_next:
            shown.append(_REDACTED)
            hide_next = False
        elif flag is not None:
            shown.append(argument if flag[2] is None else f"{argument.partition('=')[0]}={_REDACTED}")
            hide_next = flag[2] is None
        else:
            shown.append(_USER_INFO.sub(f"//{_REDACTED}@", argument))
    return shown


class ProcessUsage(NamedTuple):
    """One reading."""

    resident_bytes: int
    cores: int
    cpu_percent: float


class Usage:
    """Readings of this process. Processor use is in percent of one core, between readings at least a second apart."""

    def __init__(self, since_ns: int, used_ns: int) -> None:
        """Start with the average since the server was made.

        Args:
            since_ns: about when that was, on a clock that never goes back.
            used_ns: processor time that the process had taken by then; much, if it is a program with a server inside.
        """
        self._at_ns = since_ns
        self._used_ns = used_ns
        self._percent = 0.0

    def read(self, now_ns: int) -> ProcessUsage:
        """Look now."""
        elapsed_ns = now_ns - self._at_ns
        if elapsed_ns >= SECOND_NS:
            used_ns = process_time_ns()
            self._percent = round(100 * (used_ns - self._used_ns) / elapsed_ns, 1)
            self._at_ns, self._used_ns = now_ns, used_ns
        return ProcessUsage(resident_bytes(), cores(), self._percent)
