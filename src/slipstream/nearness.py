"""Which names might be meant by one that is not known: those a slip or two of the fingers away, else longer forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["near"]

_PREFIX_MIN: Final = 3  # letters of which a longer name may be meant
_LETTERS_A_SLIP: Final = 4  # so many letters of a name excuse a slip
_SLIPS_MAX: Final = 2
_NAMES_MAX: Final = 3


def near(wrong: str, names: Iterable[str]) -> list[str]:
    """The names that might be meant, the nearest first; none if that would be a guess."""
    word = wrong.lstrip("-")
    excused = min(max(len(word) // _LETTERS_A_SLIP, 1), _SLIPS_MAX)
    bare = {name: name.lstrip("-") for name in names}
    slips = {name: _slips(word, known) for name, known in bare.items()}
    found = [name for name, known in bare.items() if slips[name] <= min(excused, max(len(word), len(known)) - 2)]
    if not found and len(word) >= _PREFIX_MIN:
        found = [name for name, known in bare.items() if known.startswith(word)]
    return sorted(found, key=lambda name: (slips[name], name))[:_NAMES_MAX]


def _slips(one: str, other: str) -> int:
    """How many letters were added, left out, exchanged or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one):
        before, last, row = row, before, [i + 1]
        for j, wanted in enumerate(other):
            cost = min(row[j] + 1, before[j + 1] + 1, before[j] + (letter != wanted))
            if i and j and letter == other[j - 1] and one[i - 1] == wanted:
                cost = min(cost, last[j - 1] + 1)
            row.append(cost)
    return row[-1]
