"""Targets with a fault that was planted: a fuzzer that does not find it finds nothing."""

from __future__ import annotations

import ctypes
import sys

from fuzz import wires
from fuzz.target import Target


def _wrong_answer(data: bytes) -> None:
    """A frame of 126 bytes or more is read wrong, if it is not the first."""
    wires.frames(data)
    assert data.count(b"\x82\xfe") < 2, "planted"


def _one_byte_too_far(data: bytes) -> None:
    """Reads behind the buffer of a frame that says it is long, as a kernel would that does not look where it ends."""
    wires.frames(data)
    if data.count(b"\x82\xfe"):
        whole = bytes(bytearray(data))
        ctypes.string_at(id(whole) + sys.getsizeof(whole) - 1, 2)


TARGETS = (
    Target("planted-answer", _wrong_answer, wires.frame_seeds, (b"\x82\xfe",)),
    Target("planted-read", _one_byte_too_far, wires.frame_seeds, (b"\x82\xfe",)),
)
