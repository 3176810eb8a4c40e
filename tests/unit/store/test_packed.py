"""Packed segments under a store: the same bytes at the same places, whatever is erased, cut short or damaged."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import ChainReport
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.disk.read_only import ReadOnlyDisk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.packed import codecs as codecs_module
from slipstream.jetstream.store.packed.blocks import BLOCK_BYTES, BlockTable, find_blocks, pack_segment, read_table
from slipstream.jetstream.store.packed.codecs import Codec, is_known
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.sealing import sealed_disk
from support.stores import DIRECTORY, commit, new_file_store, reopen, upkeep

BELOW = pytest.mark.parametrize("below", [lambda disk: disk, sealed_disk], ids=["plain", "sealed"])
Below = Callable[[SimDisk], Disk]
SEGMENT = 200_000


def content(seq: int) -> bytes:
    return b"the reading of sensor %d is %d." % (seq % 7, seq) + b"and the unit is celsius " * 8


def filled(disk: Disk, messages: int = 2400, codec: Codec = Codec.S2, *, chained: bool = False) -> FileStore:
    store = new_file_store(disk, segment_bytes=SEGMENT, codec=codec, chained=chained)
    for seq in range(1, messages + 1):
        store.append(seq, seq, b"s.%d" % (seq % 5), b"", content(seq))
        if seq % 40 == 0:
            commit(store)
    commit(store)
    upkeep(store, turns=200)
    return store


def held(store: FileStore) -> dict[int, bytes]:
    reads = store.read_batch(ALL, 0, max_msgs=10_000, max_bytes=1 << 30, up_to_seq=10_000)
    return {read.seq: read.payload for read in reads if isinstance(read, StoredMessage)}


def codecs(disk: SimDisk) -> dict[str, int]:
    """The codec of every segment."""
    found = {}
    for path in disk.paths():
        header = decode_header(bytes(disk.content(path))[:HEADER_BYTES]) if path.endswith(".seg") else None
        if header is not None:
            found[path] = header.codec
    return found


def packed_paths(disk: SimDisk) -> list[str]:
    return [path for path, codec in codecs(disk).items() if codec]


@BELOW
def test_closed_segments_are_packed_and_read_as_before(below: Below) -> None:
    disk, plain = SimDisk(), SimDisk()
    store = filled(PackedDisk(below(disk)))
    filled(below(plain)).close()
    assert list(codecs(disk).values())[:-1] == [Codec.S2] * (len(codecs(disk)) - 1) and len(codecs(disk)) > 3
    expected = {seq: content(seq) for seq in range(1, 2401)}
    assert held(store) == expected
    assert sum(disk.size(path) for path in packed_paths(disk)) * 5 < sum(
        plain.size(path) for path in plain.paths() if path.endswith(".seg")
    )
    store.close()
    again = reopen(PackedDisk(below(disk)), segment_bytes=SEGMENT, codec=Codec.S2)
    assert held(again) == expected and not again.report.damaged_regions
    for seq in (1, 700, 2400):
        found = again.get(seq)
        assert isinstance(found, StoredMessage) and found.payload == content(seq)


@BELOW
def test_another_codec_is_put_in_place_in_the_background(below: Below) -> None:
    disk = SimDisk()
    store = filled(PackedDisk(below(disk)), codec=Codec.NONE)
    assert not packed_paths(disk)
    store.compress(Codec.S2)
    upkeep(store, turns=100)
    assert len(packed_paths(disk)) == len(codecs(disk)) - 1
    store.compress(Codec.NONE)
    upkeep(store, turns=100)
    assert set(codecs(disk).values()) <= {Codec.NONE, Codec.STORED}
    assert held(store) == {seq: content(seq) for seq in range(1, 2401)}


@BELOW
def test_what_is_erased_from_a_packed_segment_is_nowhere(below: Below) -> None:
    disk = SimDisk()
    store = filled(PackedDisk(below(disk)))
    gone = [1, 2, 300, 301, 302, 800, 1500]
    for seq in gone:
        assert store.erase(seq)
        commit(store)
        commit(store)
    upkeep(store, turns=100)
    assert set(held(store)) == set(range(1, 2401)) - set(gone)
    fresh = PackedDisk(below(disk))
    paths = [path for path in disk.paths() if path.endswith(".seg")]
    opened = b"".join(fresh.read(path, 0, fresh.size(path)) for path in paths)
    assert content(303) in opened and not [seq for seq in gone if content(seq) in opened]
    assert not [path for path in disk.paths() if path.endswith(".patch")]
    store.close()
    again = reopen(fresh, segment_bytes=SEGMENT, codec=Codec.S2)
    assert set(held(again)) == set(range(1, 2401)) - set(gone) and not again.report.damaged_regions


@BELOW
def test_an_overwriting_is_cut_short_at_every_call(below: Below) -> None:
    """Whatever a crash leaves: every other message is there, and the erased one goes at the next commit."""
    disk = SimDisk()
    store = filled(PackedDisk(below(disk)), messages=1200)
    images: list[SimDisk] = []
    disk.before_call = lambda now: images.append(now.crash(random.Random(now.calls), keep=now.calls % 3 / 2, torn=True))
    for seq in (20, 21, 400):
        store.erase(seq)
    commit(store)
    commit(store)
    disk.before_call = None
    assert len(images) >= 20
    for image in images:
        again = reopen(PackedDisk(below(image)), segment_bytes=SEGMENT, codec=Codec.S2)
        assert not again.report.damaged_regions
        assert set(held(again)) >= set(range(1, 1201)) - {20, 21, 400}
        commit(again)
        upkeep(again, turns=50)
        commit(again)
        assert not [path for path in image.paths() if path.endswith(".patch")]


def test_a_block_that_grows_is_put_behind_the_last_one() -> None:
    disk = SimDisk()
    packed = PackedDisk(disk)
    filled(packed).close()
    path = packed_paths(disk)[0]
    before = packed.read(path, 0, packed.size(path))
    size, noise = disk.size(path), random.Random(5).randbytes(BLOCK_BYTES + 999)
    at = HEADER_BYTES + BLOCK_BYTES - 500
    packed.overwrite(path, [(at, noise)])
    wanted = before[:at] + noise + before[at + len(noise) :]
    assert disk.size(path) > size
    for one in (packed, PackedDisk(disk)):
        assert one.read(path, 0, one.size(path)) == wanted
    data = disk.content(path)
    data[HEADER_BYTES + 70] ^= 1  # without its table, too
    fresh = PackedDisk(disk)
    assert fresh.read(path, 0, fresh.size(path)) == wanted
    fresh.overwrite(path, [(at, before[at : at + len(noise)])])
    assert PackedDisk(disk).read(path, 0, fresh.size(path)) == before


@BELOW
@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_costs_a_block_and_is_reported(below: Below, seed: int) -> None:
    disk = SimDisk()
    filled(PackedDisk(below(disk))).close()
    rng = random.Random(seed)
    path = rng.choice(packed_paths(disk))
    data = disk.content(path)
    at = rng.randrange(HEADER_BYTES, len(data))
    data[at] ^= 1 << rng.randrange(8)
    for name in [name for name in disk.paths() if name.endswith(".sdx")]:
        disk.remove(name)
    again = reopen(PackedDisk(below(disk)), segment_bytes=SEGMENT, codec=Codec.S2)
    found = held(again)
    assert all(payload == content(seq) for seq, payload in found.items())
    lost = set(range(1, 2401)) - set(found)
    assert len(lost) * len(content(1)) < BLOCK_BYTES + 1000
    assert set(again.lost().seqs) == lost, "what is lost is said"


def test_packing_is_a_bijection() -> None:
    rng = random.Random(9)
    for size in (1, 7, 4000, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 17):
        for body in (rng.randbytes(size), (b"abcdefgh" * (size // 8 + 1))[:size]):
            for codec in (Codec.S2, Codec.ZSTD, Codec.STORED):
                data = pack_segment(bytes(HEADER_BYTES), body, 77, codec, 24)
                table = read_table(data[HEADER_BYTES:], 77, len(data))
                assert table is not None and table.size == HEADER_BYTES + size
                assert read_table(data[HEADER_BYTES:], 78, len(data)) is None
                assert find_blocks(data, 77).places == table.places
    assert BlockTable.decode(b"", 100) is None


@BELOW
def test_stretches_are_the_same_bytes_as_reads(below: Below) -> None:
    simulated = SimDisk()
    filled(PackedDisk(below(simulated))).close()
    disk, chance = PackedDisk(below(simulated)), random.Random(7)
    for path in packed_paths(simulated)[:3]:
        size = disk.size(path)
        whole = disk.read(path, 0, size)
        disk.drop_cache(path)
        for _ in range(40):
            cuts = sorted(chance.sample(range(HEADER_BYTES, size + 200), 2 * chance.randint(1, 12)))
            wanted = [(low, high - low) for low, high in zip(cuts[::2], cuts[1::2], strict=True)]
            room = memoryview(bytearray(sum(length for _, length in wanted)))
            places = b"".join(struct.pack("=QQ", *place) for place in wanted)
            done = disk.read_stretches(path, places, room, wait=chance.random() < 0.7)
            expected = b"".join(whole[at : at + length] for at, length in wanted)
            assert bytes(room[:done]) == expected[:done]
            assert done == len(expected)  # everything is at hand in a simulated disk


def test_stretches_end_where_the_device_would_have_to_be_asked() -> None:
    simulated = SimDisk()
    filled(PackedDisk(simulated)).close()
    (path, *_) = packed_paths(simulated)

    class Cold(ReadOnlyDisk):
        """Has the frame of the first block at hand and no more."""

        def __init__(self) -> None:
            super().__init__(simulated)
            self.read_stretches = self.some
            self.at_hand = 16

        def some(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
            some, self.at_hand = stretches[: self.at_hand], 0
            return simulated.read_stretches(path, stretches if wait else some, room, wait=wait)

    disk = PackedDisk(Cold())
    size = disk.size(path)
    room = memoryview(bytearray(size))
    places = struct.pack("=QQ", HEADER_BYTES, size - HEADER_BYTES)
    assert disk.read_stretches(path, places, room, wait=False) == BLOCK_BYTES
    assert disk.read_stretches(path, places, room, wait=True) == size - HEADER_BYTES


def test_a_block_that_was_read_before_an_overwriting_is_not_remembered_after_it() -> None:
    """A thread reads a block, messages in it are erased, and only then the thread puts it into the cache."""
    simulated = SimDisk()
    filled(PackedDisk(simulated)).close()
    (path, *_) = packed_paths(simulated)
    between: list[Callable[[], None]] = []

    class Slow(ReadOnlyDisk):
        def __init__(self) -> None:
            super().__init__(simulated)
            self.read_stretches = self.late
            for name in ("create", "write", "overwrite", "sync", "sync_dir", "remove"):
                setattr(self, name, getattr(simulated, name))

        def late(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
            done = simulated.read_stretches(path, stretches, room, wait=wait)
            if between:
                between.pop()()
            return done

    disk = PackedDisk(Slow())
    places = struct.pack("=QQ", HEADER_BYTES, 1000)
    assert disk.size(path)
    between.append(lambda: disk.overwrite(path, [(HEADER_BYTES + 100, b"erased!!")]))
    room = memoryview(bytearray(1000))
    disk.read_stretches(path, places, room)
    disk.read_stretches(path, places, room)
    assert bytes(room[100:108]) == b"erased!!"


def test_a_chained_stream_is_packed_and_holds() -> None:
    disk = SimDisk()
    store = filled(PackedDisk(disk), chained=True)
    reports: list[ChainReport | StorageFault] = []
    store.check_chain(None, reports.append)
    upkeep(store)
    (report,) = reports
    assert isinstance(report, ChainReport) and report.intact and packed_paths(disk)
    assert DIRECTORY in packed_paths(disk)[0]


def test_readers_that_map_files_are_not_sent_to_a_packed_one() -> None:
    disk = SimDisk()
    store = filled(PackedDisk(disk))
    direct = [store.bulk.is_direct(segment.id) for segment in store.log.segments]
    assert direct[-1] and not any(direct[:-1]) and len(direct) > 2


def test_without_a_disk_that_packs_nothing_is() -> None:
    disk = SimDisk()
    assert not filled(disk).log.segments[0].header.codec


@BELOW
def test_who_only_looks_sees_an_overwriting_that_was_cut_short_as_done(below: Below) -> None:
    disk = SimDisk()
    filled(PackedDisk(below(disk)), messages=1200).close()
    path = packed_paths(disk)[0]
    whole = PackedDisk(below(disk)).read(path, 0, 1 << 20)
    images: list[SimDisk] = []
    disk.before_call = lambda now: images.append(now.crash(random.Random(now.calls), keep=1.0, torn=False))
    noise = random.Random(3).randbytes(3000)
    PackedDisk(below(disk)).overwrite(path, [(9000, noise)])
    wanted = whole[:9000] + noise + whole[12_000:]
    seen = []
    for image in images:
        before = {name: bytes(image.content(name)) for name in image.paths()}
        found = PackedDisk(below(ReadOnlyDisk(image))).read(path, 0, 1 << 20)  # type: ignore[arg-type]
        assert found in (whole, wanted)
        seen.append(found == wanted)
        assert before == {name: bytes(image.content(name)) for name in image.paths()}
    assert seen == sorted(seen) and len(set(seen)) == 2


def test_a_disk_that_is_only_looked_at_refuses_everything_else() -> None:
    disk = SimDisk()
    disk.make_dir("/d")
    disk.create("/d/f")
    looked = ReadOnlyDisk(disk)
    refused: list[Callable[[], object]] = [
        lambda: looked.create("/d/g"),
        lambda: looked.allocate("/d/f", 9),
        lambda: looked.write("/d/f", 0, b"x"),
        lambda: looked.write_many([("/d/f", 0, b"x")]),
        lambda: looked.overwrite("/d/f", [(0, b"x")]),
        lambda: looked.truncate("/d/f", 0),
        lambda: looked.sync("/d/f"),
        lambda: looked.begin_synced_write("/d/f", 0, b"x"),
        lambda: looked.sync_many(["/d/f"]),
        lambda: looked.sync_dir("/d"),
        lambda: looked.rename("/d/f", "/d/g"),
        lambda: looked.remove("/d/f"),
        lambda: looked.make_dir("/d/e"),
        lambda: looked.remove_dir("/d"),
    ]
    for call in refused:
        with pytest.raises(OSError, match="Read-only"):
            call()
    assert looked.list_dir("/d") == ["f"] and looked.size("/d/f") == 0 and looked.is_dir("/d")


def test_another_package_is_missed_and_not_taken_for_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    store = filled(PackedDisk(disk), messages=1200, codec=Codec.ZSTD)
    assert held(store) == {seq: content(seq) for seq in range(1, 1201)} and Codec.ZSTD in codecs(disk).values()
    store.close()
    monkeypatch.setattr(codecs_module, "_zstandard", lambda: None)
    assert not is_known(Codec.ZSTD)
    for name in [name for name in disk.paths() if name.endswith(".sdx")]:
        disk.remove(name)
    with pytest.raises(StorageFault, match="zstandard is missing"):
        reopen(PackedDisk(disk), segment_bytes=SEGMENT, codec=Codec.ZSTD)
