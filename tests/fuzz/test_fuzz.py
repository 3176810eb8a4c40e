"""The short form of the fuzzing: what is known is tried again, and some inputs that are almost the same.

`make campaign-fuzz` is the long one: guided by coverage, with sanitizers in the kernels.
"""

from __future__ import annotations

import pytest

from fuzz import planted
from fuzz.catalogue import TARGETS, corpus, known
from fuzz.mutate import mutated

MUTATED = 60  # of each target
MUTATED_SLOW = 15
CORPUS_BYTES_MAX = 32 * 1024


@pytest.mark.parametrize("name", TARGETS)
def test_a_target(name: str) -> None:
    target = TARGETS[name]
    begin = known(target)
    for data in begin:
        target.run(data)
    target.run(b"")
    for data in mutated(begin, target.words, MUTATED if target.cost == 1 else MUTATED_SLOW, seed=1):
        target.run(data)


def test_a_planted_fault_is_found() -> None:
    target = planted.TARGETS[0]
    with pytest.raises(AssertionError, match="planted"):
        for data in mutated(known(target), target.words, 5000, seed=1):
            target.run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_small(name: str) -> None:
    assert sum(map(len, corpus(name))) <= CORPUS_BYTES_MAX
