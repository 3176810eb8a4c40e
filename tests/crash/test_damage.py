"""Damage at rest: flipped bits, zeroed pages, cut and missing files.

What must hold whatever is hit: the store opens, no wrong bytes come out, everything that was hit is reported, and
nothing that was not hit is lost.
"""

from __future__ import annotations

import random

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms, is_sealed
from support.store_history import Driver
from support.stores import commit, reopen

at_rest = both_forms()

SEGMENT = 8192
FRAME_MESSAGES = 80  # in one segment, and so in one frame


def prepared(*, closed: bool = True, segment_bytes: int = SEGMENT) -> tuple[SimDisk, Driver]:
    """A stream over several segments with removals, consumer states and a second configuration, at rest."""
    disk = SimDisk()
    driver = Driver(disk, segment_bytes=segment_bytes)
    driver.append(120)
    driver.journal(lambda store: store.journal.put(b"c1", b"state of one"))
    driver.commit()
    for seq in range(1, 40, 2):
        driver.delete(seq)
    driver.journal(lambda store: store.journal.put(b"c2", b"state of two"))
    driver.commit()
    driver.upkeep()
    driver.set_config(b"second")
    driver.append(60)
    driver.commit()
    driver.append(10)
    driver.commit()
    driver.upkeep()
    if closed:
        driver.store.close()
    return disk, driver


def read_all(store: FileStore) -> tuple[dict[int, StoredMessage], set[int]]:
    """Messages, and sequences marked as damaged."""
    good, bad = {}, set()
    for read in store.read_batch(ALL, 0, max_msgs=1 << 20, max_bytes=1 << 40, up_to_seq=store.last_seq):
        if isinstance(read, StoredMessage):
            good[read.seq] = read
        else:
            bad.add(read.seq)
    return good, bad


def check_damage(disk: SimDisk, driver: Driver, *, lost_max: int | None, segment_bytes: int = SEGMENT) -> int:
    """Open a damaged disk; how many messages were lost."""
    store = reopen(disk, segment_bytes=segment_bytes)
    good, bad = read_all(store)
    for seq, message in good.items():
        content = (message.ts_ns, message.subject, message.headers, message.payload, message.expires_ns)
        assert content in driver.appended[seq], f"wrong bytes under {seq}"
    missing = set(driver.must) - set(good)
    reported = set(store.lost().seqs)
    assert missing <= bad, f"silent: {sorted(missing - bad)}"
    assert bad <= reported, "what a reader meets is in the report"
    assert missing <= reported
    assert not set(good) & driver.gone, "removed messages came back"
    assert store.last_seq >= driver.committed_last, "sequence went back"
    if lost_max is not None:
        assert len(missing) <= lost_max, f"lost {sorted(missing)}, report {store.report}"
    # Life goes on, and the loss is not forgotten.
    seq = store.last_seq + 1
    store.append(seq, 1 << 40, b"after", b"", b"x")
    assert commit(store).fault is None
    for _ in range(30):
        job = store.begin_upkeep()
        if job is None:
            break
        job.run()
        store.finish_upkeep(job)
    again = reopen(disk, segment_bytes=segment_bytes)
    good_again, bad_again = read_all(again)
    assert seq in good_again
    assert set(good) <= set(good_again)
    assert not set(good_again) & driver.gone, "removed messages came back later"
    assert missing <= set(again.lost().seqs) and missing <= bad_again
    return len(missing)


def costs(messages: int) -> int:
    """What damage may cost that hits so many messages: those in the same frame go with them where it is sealed."""
    return FRAME_MESSAGES if is_sealed() else messages


def flip(disk: SimDisk, path: str, bit: int) -> None:
    disk.content(path)[bit // 8] ^= 1 << (bit % 8)


def flips(count: int, seed: int) -> None:
    disk, driver = prepared()
    rng = random.Random(seed)
    paths = disk.paths()
    for _ in range(count):
        victim = disk.copy()
        path = rng.choice(paths)
        flip(victim, path, rng.randrange(disk.size(path) * 8))
        check_damage(victim, driver, lost_max=costs(1))


def test_single_bit_flips() -> None:
    flips(150, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_single_bit_flips_long(seed: int) -> None:
    flips(1_000, seed)


def test_a_flip_in_every_byte_of_one_frame() -> None:
    """No byte of headers, heads, lengths, subjects or payloads is unprotected."""
    disk = SimDisk()
    driver = Driver(disk, segment_bytes=SEGMENT)
    driver.append(6)
    driver.commit()
    driver.store.close()
    path = next(path for path in disk.paths() if path.endswith(".seg"))
    used = len(bytes(disk.content(path)).rstrip(b"\0"))
    lost = 0
    for at in [*range(0, 300, 3), *range(4096, used)]:
        victim = disk.copy()
        victim.content(path)[at] ^= 0x10
        lost += check_damage(victim, driver, lost_max=costs(1))
    assert lost > 100, "most of these bytes belong to a message"


def test_damage_after_kill_costs_one_record() -> None:
    """No clean shutdown: all but the last commit is vouched for by the frames after it."""
    disk, driver = prepared(closed=False)
    store = driver.store
    path = store.log.segments[0].path
    rng = random.Random(4)
    for _ in range(30):
        victim = disk.copy()
        flip(victim, path, rng.randrange(4096 * 8, disk.size(path) * 8))
        check_damage(victim, driver, lost_max=costs(1))


@pytest.mark.parametrize("seed", range(6))
def test_zeroed_pages(seed: int) -> None:
    disk, driver = prepared()
    rng = random.Random(seed)
    for path in disk.paths():
        victim = disk.copy()
        start = rng.randrange(0, max(disk.size(path) - 512, 1)) // 512 * 512
        page = victim.content(path)
        page[start : start + 512] = bytes(len(page[start : start + 512]))
        check_damage(victim, driver, lost_max=costs(8))


@pytest.mark.parametrize("segment_bytes", [SEGMENT, 12000])
def test_cut_files(segment_bytes: int) -> None:
    disk, driver = prepared(segment_bytes=segment_bytes)
    rng = random.Random(2)
    for path in disk.paths():
        for _ in range(3):
            victim = disk.copy()
            del victim.content(path)[rng.randrange(disk.size(path)) :]
            check_damage(victim, driver, lost_max=None, segment_bytes=segment_bytes)


# Where what removes a message lies in another file than the message, and where in the same.
@pytest.mark.parametrize("segment_bytes", [3500, 6000, SEGMENT, 12000])
def test_missing_files(segment_bytes: int) -> None:
    disk, driver = prepared(segment_bytes=segment_bytes)
    for path in disk.paths():
        victim = disk.copy()
        victim.remove(path)
        lost = check_damage(victim, driver, lost_max=None, segment_bytes=segment_bytes)
        if not path.endswith(".seg"):
            assert lost == 0, path


def test_index_file_of_another_segment_is_not_believed() -> None:
    disk, driver = prepared()
    indexes = [path for path in disk.paths() if path.endswith(".sdx")]
    victim = disk.copy()
    victim.content(indexes[0])[:] = victim.content(indexes[1])
    assert check_damage(victim, driver, lost_max=0) == 0


def test_configuration_survives_in_any_of_three_places() -> None:
    disk, _driver = prepared()
    manifests = [path for path in disk.paths() if "MANIFEST" in path]
    segments = [path for path in disk.paths() if path.endswith((".seg", ".sdx"))]
    without_manifest = disk.copy()
    for path in manifests:
        without_manifest.remove(path)
    assert reopen(without_manifest, segment_bytes=SEGMENT).config == b"second"
    only_last = disk.copy()
    for path in [*manifests, *sorted(segments)[:-1]]:
        only_last.remove(path)
    assert reopen(only_last, segment_bytes=SEGMENT).config == b"second"
    only_manifest = disk.copy()
    for path in segments:
        only_manifest.remove(path)
    store = reopen(only_manifest, segment_bytes=SEGMENT)
    assert store.config == b"second" and store.last_seq == 190


def test_nothing_usable_is_refused_not_deleted() -> None:
    disk = SimDisk()
    disk.make_dir("/store/A/stream")
    disk.create("/store/A/stream/0000000001.0000.seg")
    disk.write("/store/A/stream/0000000001.0000.seg", 0, b"rubbish" * 1000)
    with pytest.raises(StorageFault):
        reopen(disk)
    assert disk.paths() == ["/store/A/stream/0000000001.0000.seg"]


def test_unreadable_segment_marks_messages() -> None:
    """A device that cannot read gives marked gaps, not an exception and not silence."""
    disk, driver = prepared()
    store = reopen(disk, segment_bytes=SEGMENT)
    path = store.log.segments[0].path
    disk.read_faults.add(path)
    good, bad = read_all(store)
    assert bad and set(good) | bad == set(driver.must)
    assert bad <= set(store.lost().seqs)


def test_scrub_finds_damage_nobody_read() -> None:
    disk, driver = prepared()
    store = reopen(disk, segment_bytes=SEGMENT)
    segment, offset, _length = store.state.index.locate(38)
    disk.content(store.log.table.get(segment).path)[offset + 40] ^= 1
    while store.scrub_next():
        pass
    for _ in range(30):
        job = store.begin_upkeep()
        if job is None:
            break
        job.run()
        store.finish_upkeep(job)
    assert 38 in driver.must
    if is_sealed():
        assert 38 in store.lost().seqs and len(store.lost().seqs) <= costs(1)
    else:
        assert store.lost().seqs == [38]
