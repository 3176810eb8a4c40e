"""Whoever changes the files of a tamper-evident stream is found, whatever he makes right again.

A hundred tampers; the campaign `tampers` has more.
"""

from __future__ import annotations

import random
from collections import Counter

from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import ChainHead
from slipstream.jetstream.store.file.chain_check import check_directory
from slipstream.jetstream.store.file.store import FileStore
from slipstream.jetstream.store.values import StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, commit, new_file_store, reopen, upkeep
from support.tampering import TAMPERS, Tamperer


def lived(rng: random.Random, *, chained: bool = True) -> tuple[SimDisk, SimDisk, ChainHead | None]:
    """The files of a closed stream in which all kinds of things happened; and the same at half its life."""
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192, chained=chained)
    half = disk
    for turn in range(40):
        for _ in range(rng.randrange(1, 30)):
            seq = store.last_seq + 1
            store.append(seq, seq * 1_000, b"s.%d" % (seq % 5), b"", rng.randbytes(rng.randrange(4, 120)))
        if turn % 3 == 0:
            for _ in range(25):
                store.delete(rng.randrange(1, store.last_seq))
        if turn % 4 == 1:
            store.erase(rng.randrange(1, store.last_seq))
        if turn == 9:
            store.purge(b"s.1")
        if turn == 15:
            store.trim_to(40)
        if turn in (12, 30):
            store.set_config(b'{"conf":%d}' % turn)
        _unit(store, turn)
        commit(store)
        if turn % 5 == 0:
            upkeep(store)
            commit(store)
        if turn == 20:
            half = disk.copy()
    upkeep(store)
    head = store.chain_head
    store.close()
    assert any(".0001.seg" in path for path in disk.paths()), "some of it must be compacted"
    return disk, half, head


def _unit(store: FileStore, turn: int) -> None:
    if turn % 6 != 2:
        return
    store.begin_atomic()
    first = store.last_seq + 1
    for seq in range(first, first + 12):
        store.append_atomic(seq, seq * 1_000, b"s.unit", b"", b"%d" % seq)
    if turn == 8:
        store.abort_atomic()
    else:
        store.end_atomic()


def found(disk: SimDisk, head: ChainHead | None) -> bool:
    """Whether a look at the files says that something is wrong; `head` is what was written down before."""
    try:
        return not check_directory(disk, DIRECTORY, wanted=head).intact
    except StorageFault:
        return True


def tamper(times: int, seed: int) -> Counter[str]:
    """So many tampers of random streams; how many of each kind were found."""
    rng = random.Random(seed)
    names, count = list(TAMPERS), Counter[str]()
    while sum(count.values()) < times:
        disk, half, head = lived(rng)
        assert not found(disk, head), "a stream that nobody touched"
        assert found(half, head), "the whole directory of earlier"
        count["old copy"] += 1
        for name in names * 3:
            assert found(TAMPERS[name](Tamperer(disk, rng)), head), (name, seed)
            count[name] += 1
    return count


def test_every_tamper_is_found() -> None:
    assert sum(tamper(100, seed=1).values()) >= 100


def test_most_are_found_without_anything_written_down() -> None:
    """A checkpoint is needed for what a chain by itself cannot know: that there was more."""
    rng = random.Random(3)
    disk, half, _ = lived(rng)
    for name in TAMPERS:
        if name != "cut_tail":
            assert found(TAMPERS[name](Tamperer(disk, rng)), None), name
    assert not found(half, None)


def unnoticed_without_chain() -> int:
    """Of twenty changes to a stream without a chain, how many are served as if they had been published."""
    rng = random.Random(4)
    disk, _, _ = lived(rng, chained=False)
    before = {m.seq: m for m in _messages(reopen(disk.copy(), segment_bytes=8192))}
    changed = 0
    for _ in range(20):
        tampered = Tamperer(disk, rng).change_byte()
        assert not check_directory(tampered, DIRECTORY).chained
        after = {m.seq: m for m in _messages(reopen(tampered, segment_bytes=8192))}
        changed += before != after
    return changed


def test_the_control_without_a_chain() -> None:
    assert unnoticed_without_chain() > 10


def _messages(store: FileStore) -> list[StoredMessage]:
    found = (store.get(seq) for seq in range(1, min(store.last_seq, 2_000) + 1))
    return [message for message in found if isinstance(message, StoredMessage)]
