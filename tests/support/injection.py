"""Raises at the n-th call of a function of JetStream, wherever that is: what becomes of everything else?

`sys.setprofile` sees every call of a Python function. The points that count are the calls into `slipstream.jetstream`,
in the order they happen, which is the same in every run of a scenario: time, random numbers and the disk are simulated.
Left out is what exists to take exceptions: the guard itself, and finalizers, whose exceptions Python drops.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import slipstream.jetstream

_ROOT = os.path.dirname(slipstream.jetstream.__file__) + os.sep
_LEFT_OUT = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "__del__")


class Injected(Exception):
    """What nobody expects."""


class Injector:
    """Counts calls, and raises at one of them."""

    def __init__(self, at: int = -1) -> None:
        """Raise at the call with this number; -1 only counts."""
        self.at = at
        self.calls: list[CodeType] = []
        self.raised: str = ""
        self._wanted: dict[CodeType, bool] = {}

    def run(self, work: Callable[[], None]) -> None:
        """Do the work, in which one call raises."""
        sys.setprofile(self._on_event)
        try:
            work()
        except Injected:
            pass  # it reached whoever called: a client of the account would have seen nothing of it
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        wanted = self._wanted.get(code)
        if wanted is None:
            file = code.co_filename
            wanted = file.startswith(_ROOT) and not file.endswith("guard.py") and code.co_name not in _LEFT_OUT
            self._wanted[code] = wanted
        if not wanted:
            return
        self.calls.append(code)
        if len(self.calls) - 1 == self.at:
            caller = frame.f_back
            whence = f" called in {os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}" if caller else ""
            self.raised = f"{code.co_filename.removeprefix(_ROOT)}:{code.co_qualname}{whence}"
            raise Injected(self.raised)


def points(calls: list[CodeType], of_each: int) -> list[int]:
    """Some calls of each function: the first, the last, and others evenly between them."""
    numbers: dict[CodeType, list[int]] = {}
    for number, code in enumerate(calls):
        numbers.setdefault(code, []).append(number)
    chosen: set[int] = set()
    for found in numbers.values():
        steps = min(of_each, len(found))
        chosen |= {found[(len(found) - 1) * step // max(steps - 1, 1)] for step in range(steps)}
    return sorted(chosen)
