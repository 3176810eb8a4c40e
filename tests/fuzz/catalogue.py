"""All targets, and those with a fault that was planted: a fuzzer that does not find it finds nothing."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from fuzz import archives, rows, stored, texts, wires
from fuzz.target import Target

CORPUS = Path(__file__).parents[1] / "fixtures" / "fuzz"
TARGETS = {
    target.name: target
    for group in (wires.TARGETS, stored.TARGETS, rows.TARGETS, archives.TARGETS, texts.TARGETS)
    for target in group
}


def corpus(name: str) -> list[bytes]:
    """What the fuzzing of a target has found worth keeping: inputs that broke a promise once, or got far."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def known(target: Target) -> list[bytes]:
    """All inputs to begin with."""
    return [*target.seeds(), *corpus(target.name)]


# --- planted faults -------------------------------------------------------------------------------------------------


def _wrong_answer(data: bytes) -> None:
    """A frame of 126 bytes or more is read wrong, if it is not the first."""
    wires.frames(data)
    assert data.count(b"\x82\xfe") < 2, "planted"


def _one_byte_too_far(data: bytes) -> None:
    """Reads the byte behind the buffer of a frame that says it is long, as a kernel with `<=` in place of `<` would."""
    wires.frames(data)
    if data.count(b"\x82\xfe"):
        whole = bytes(bytearray(data))
        ctypes.string_at(id(whole) + sys.getsizeof(whole), 1)


PLANTED = {
    "planted-answer": Target("planted-answer", _wrong_answer, wires.frame_seeds, (b"\x82\xfe",)),
    "planted-read": Target("planted-read", _one_byte_too_far, wires.frame_seeds, (b"\x82\xfe",)),
}
