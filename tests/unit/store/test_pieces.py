"""A purge in pieces removes what a purge at once does, whatever the size of a piece."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from slipstream.jetstream.store import pieces
from support.stores import MAKERS, commit


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("subject", [b"", b"s.1", b"s.*", b"*.2", b"none"])
def test_pieces_make_the_whole(kind: str, subject: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PURGE_SLICE_SEQS", 17)
    rng = random.Random(1)
    made = [MAKERS[kind](str(tmp_path / name)) for name in ("whole", "pieces")]
    for seq in range(1, 200):
        name = b"s.%d" % rng.randint(0, 3)
        for store in made:
            store.append(seq, seq, name, b"", b"x" * 40)
    for seq in rng.sample(range(1, 200), 40):
        for store in made:
            store.delete(seq)
    for store in made:
        commit(store)
    for up_to in (50, 51, 120, 199):
        whole = made[0].purge(subject, up_to_seq=up_to + 1)
        removed = at = 0
        for _ in range(400):
            count, at = made[1].purge_some(subject, from_seq=at, up_to_seq=up_to, limit=5)
            assert count <= 5
            removed += count
            if not at:
                break
        assert removed == whole and at == 0
        for store in made:
            commit(store)
        first, second = ([store.get(seq) is not None for seq in range(1, 200)] for store in made)
        assert first == second
    for store in made:
        store.close()
