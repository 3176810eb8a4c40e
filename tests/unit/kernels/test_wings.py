"""The wings of the kernels: each uses only those below it. The linter of imports does not read Cython."""

from __future__ import annotations

import re
from pathlib import Path

import slipstream.kernels

# From top to bottom; wings of one floor do not know each other.
FLOORS = (("client", "backup", "bulk"), ("fastpath", "links"), ("log", "wire"), ("index",), ("subjects",))
_USE = re.compile(r"^\s*(?:from slipstream\.kernels\.(\w+)[\w.]* c?import|c?import slipstream\.kernels\.(\w+))", re.M)


def uses() -> set[tuple[str, str]]:
    """Who uses whom, between wings."""
    root = Path(slipstream.kernels.__file__).parent
    wings = {wing for floor in FLOORS for wing in floor}
    sources = [path for suffix in ("pyx", "pxd", "pyi", "py") for path in root.glob(f"*/*.{suffix}")]
    assert {path.parent.name for path in sources} == wings
    return {
        (path.parent.name, used)
        for path in sources
        for pair in _USE.findall(path.read_text())
        for used in pair
        if used in wings - {path.parent.name}
    }


def test_a_wing_uses_only_those_below() -> None:
    floor_of = {wing: number for number, floor in enumerate(FLOORS) for wing in floor}
    found = uses()
    assert ("fastpath", "wire") in found  # else nothing was read
    assert {(user, used) for user, used in found if floor_of[used] <= floor_of[user]} == set()
