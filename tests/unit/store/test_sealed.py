"""Encryption at rest under a store: nothing readable, nothing believed that was changed, no nonce twice."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header, encode_header
from slipstream.jetstream.store.file.staging import DiskStage
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, DataKey, KeyRing, MainKey
from slipstream.jetstream.store.sealed.marker import KeyPlan, MarkState, check_keys, read_mark, write_mark
from slipstream.jetstream.store.sealed.rotation import rotate
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.sealing import SECRET, ring, sealed_disk, sealed_stores
from support.stores import DIRECTORY, commit, new_file_store, reopen, upkeep, write_everything

BOTH = pytest.mark.parametrize("cipher", list(AtRestCipher))
ANOTHER = b"not the main key of the tests"


def written(disk: Disk, *, segment_bytes: int = 8192, messages: int = 300) -> None:
    """A stream with everything that makes files: segments, indexes, journal, manifest, staged parts."""
    store = new_file_store(disk, segment_bytes=segment_bytes)
    write_everything(store, messages)
    store.close()


def raw(disk: SimDisk) -> dict[str, bytes]:
    return {path: bytes(disk.content(path)) for path in disk.paths()}


@BOTH
def test_no_word_of_anybody_is_in_any_file(cipher: AtRestCipher) -> None:
    disk = SimDisk()
    written(sealed_disk(disk, cipher=cipher))
    files = raw(disk)
    assert {path.rsplit(".", 1)[-1] for path in files} >= {"seg", "sdx", "log", "0", "1", "part", "open"}
    for path, content in files.items():
        for word in (b"plain", b'"name"', SECRET):
            assert word not in content and word.decode() not in path, path
    plain = SimDisk()
    written(plain)
    assert any(b"plainpayload" in content for content in raw(plain).values()), "the control"


@BOTH
def test_everything_is_there_for_the_next_process(cipher: AtRestCipher) -> None:
    disk = SimDisk()
    written(sealed_disk(disk, cipher=cipher))
    store = reopen(sealed_disk(disk, cipher=cipher), segment_bytes=8192)
    reads = store.read_batch(ALL, 0, max_msgs=1000, max_bytes=1 << 30, up_to_seq=1000)
    assert [read.seq for read in reads] == list(range(160, 301))
    assert all(isinstance(read, StoredMessage) and read.payload == b"plainpayload" * 9 for read in reads)
    assert store.journal.entries() == {b"plainconsumer": [b"plainstate"]}
    assert store.notes() == {b"plainnote": b"plainvalue"}
    assert not store.report.damaged_regions and not store.lost().seqs
    stage = store.bulk.staging()
    assert stage.names() == [("one", 180_000)]
    assert stage.read("one", 65_000, 2_000) == (b"plainpart" * 20_000)[65_000:67_000]
    assert stage.read("one", 179_990, 100) == (b"plainpart" * 20_000)[179_990:]


def test_a_sealed_index_file_saves_the_search_for_frames() -> None:
    disk = SimDisk()
    written(sealed_disk(disk))
    store = reopen(sealed_disk(disk), segment_bytes=8192)
    assert store.report.rebuilt_indexes == 0


@pytest.mark.parametrize("secret", [ANOTHER, SECRET + b"\n"])
def test_another_key_opens_nothing_and_changes_nothing(secret: bytes) -> None:
    disk = SimDisk()
    written(sealed_disk(disk))
    before = raw(disk)
    with pytest.raises(StorageFault, match="another key"):
        reopen(sealed_disk(disk, secret=secret), segment_bytes=8192)
    assert raw(disk) == before


def test_a_plain_file_is_not_believed_where_all_is_sealed() -> None:
    disk = SimDisk()
    written(sealed_disk(disk))
    plain = SimDisk()
    written(plain)
    (segment,) = [path for path in plain.paths() if path.endswith(".seg")][-1:]
    disk.create(DIRECTORY + "/0000000099.0000.seg")
    header = decode_header(bytes(plain.content(segment))[:HEADER_BYTES])
    assert header is not None
    disk.write(DIRECTORY + "/0000000099.0000.seg", 0, bytes(plain.content(segment)))
    store = reopen(sealed_disk(disk), segment_bytes=8192)
    for read in store.read_batch(ALL, 0, max_msgs=1000, max_bytes=1 << 30, up_to_seq=store.last_seq):
        assert not isinstance(read, StoredMessage) or 160 <= read.seq <= 300


def test_changed_bytes_are_never_shown() -> None:
    """Every byte of a frame, one bit each: also where a checksum alone could be made to fit."""
    disk = SimDisk()
    inner = sealed_disk(disk)
    store = new_file_store(inner)
    for seq in range(1, 6):
        store.append(seq, seq, b"s", b"", b"content of %d" % seq)
    commit(store)
    store.close()
    (path,) = [path for path in disk.paths() if path.endswith(".seg")]
    used = len(bytes(disk.content(path)).rstrip(b"\0"))
    size = used - HEADER_BYTES
    whole = inner.read(path, HEADER_BYTES, size)
    for at in range(HEADER_BYTES, used):
        victim = disk.copy()
        victim.content(path)[at] ^= 1
        shown = sealed_disk(victim).read(path, HEADER_BYTES, size)
        assert shown != whole
        for start in range(0, size - 8, 8):
            piece = shown[start : start + 8]
            assert piece in (whole[start : start + 8], b"\xff" * 8)


def nonces_used(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes, bytes]]:
    """Every (key, nonce, sealed bytes) from here on."""
    from slipstream.jetstream.store.sealed import keys

    used: list[tuple[bytes, bytes, bytes]] = []
    make: Callable[[AtRestCipher, bytes], object] = keys._aead

    class Watched:
        def __init__(self, cipher: AtRestCipher, key: bytes) -> None:
            self._key, self._aead = key, make(cipher, key)

        def encrypt(self, nonce: bytes, data: bytes, bound: bytes | None) -> bytes:
            sealed: bytes = self._aead.encrypt(nonce, data, bound)  # type: ignore[attr-defined]
            used.append((self._key, nonce, sealed))
            return sealed

        def decrypt(self, nonce: bytes, data: bytes, bound: bytes | None) -> bytes:
            opened: bytes = self._aead.decrypt(nonce, data, bound)  # type: ignore[attr-defined]
            return opened

    monkeypatch.setattr(keys, "_aead", Watched)
    return used


@pytest.mark.parametrize("seed", range(4))
def test_no_nonce_is_used_twice_under_one_key(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed writes, restarts, kills, power cuts, erasures, compactions: whatever makes a frame be written again."""
    used = nonces_used(monkeypatch)
    rng = random.Random(seed)
    disk = SimDisk()
    store = new_file_store(sealed_disk(disk), segment_bytes=16384)
    for _ in range(60):
        for _ in range(rng.randrange(1, 20)):
            seq = store.last_seq + 1
            store.append(seq, seq, b"s.%d" % (seq % 5), b"", rng.randbytes(rng.randrange(300)))
        for _ in range(rng.randrange(4)):
            store.erase(rng.randrange(1, store.last_seq + 1))
        if rng.random() < 0.2:
            disk.faults[disk.calls + rng.randrange(1, 6)] = 5
        store.journal.put(b"c", rng.randbytes(20))
        commit(store, inline=rng.random() < 0.5)
        upkeep(store, turns=rng.randrange(6))
        disk.faults.clear()
        upkeep(store, turns=50 if store.fault is not None else 0)
        if rng.random() < 0.25:
            disk = disk.kill() if rng.random() < 0.5 else disk.crash(rng, keep=rng.random(), torn=True)
            store = reopen(sealed_disk(disk), segment_bytes=16384)
    assert len(used) > 200
    seen: dict[tuple[bytes, bytes], bytes] = {}
    for key, nonce, sealed in used:
        assert seen.setdefault((key, nonce), sealed) == sealed, "one nonce, two texts"


def test_the_watch_over_nonces_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a sealer that never begins a new run."""
    from slipstream.jetstream.store.sealed.frames import FrameSealer

    used = nonces_used(monkeypatch)
    monkeypatch.setattr(FrameSealer, "takes", lambda *_: True)
    disk = SimDisk()
    store = new_file_store(sealed_disk(disk))
    for text in (b"one", b"two"):
        store.append(1, 1, b"s", b"", text)
        disk.faults[disk.calls + 2] = 5  # the sync: of what was written nothing is there
        commit(store)
        disk.faults.clear()
        upkeep(store)
    texts: dict[tuple[bytes, bytes], set[bytes]] = {}
    for key, nonce, sealed in used:
        texts.setdefault((key, nonce), set()).add(sealed)
    assert any(len(found) > 1 for found in texts.values())


def test_an_erasure_is_cut_short_at_every_call_and_costs_nobody_else() -> None:
    """A frame holds many messages: to seal it anew must not put the others at risk."""
    for call in range(1, 40):
        disk = SimDisk()
        store = new_file_store(sealed_disk(disk))
        for seq in range(1, 31):
            store.append(seq, seq, b"s", b"", b"content of %d" % seq)
        commit(store)
        store.erase(7)
        commit(store)
        images: list[SimDisk] = []

        def cut(now: SimDisk, images: list[SimDisk] = images, at: int = disk.calls + call) -> None:
            if now.calls + 1 == at:
                images += [now.crash(random.Random(seed), keep=seed / 4, torn=True) for seed in range(5)]

        disk.before_call = cut
        commit(store)
        for image in images:
            again = reopen(sealed_disk(image))
            kept = {
                read.seq
                for read in again.read_batch(ALL, 0, max_msgs=99, max_bytes=1 << 20, up_to_seq=30)
                if isinstance(read, StoredMessage)
            }
            assert kept == set(range(1, 31)) - {7}
            commit(again)
            commit(again)
            assert not [path for path in image.paths() if path.endswith(".redo")]


def test_an_erased_message_cannot_be_opened_any_more() -> None:
    disk = SimDisk()
    keys = ring()
    store = new_file_store(SealedDisk(disk, keys))
    for seq in range(1, 11):
        store.append(seq, seq, b"s", b"", b"secret of %d." % seq)
    commit(store)
    store.erase(3)
    commit(store)
    commit(store)
    assert store.erasing == 0
    (path,) = [path for path in disk.paths() if path.endswith(".seg")]
    opened = SealedDisk(disk, keys).read(path, 0, disk.size(path))
    assert b"secret of 4." in opened and b"secret of 3." not in opened
    for content in raw(disk).values():
        assert b"secret of" not in content


def test_a_part_is_written_from_beginning_to_end() -> None:
    disk = SimDisk()
    disk.make_dir("/a")
    stage = DiskStage(sealed_disk(disk), "/a/staging/x")
    stage.create("p")
    stage.write("p", 0, b"x" * 100_000)
    with pytest.raises(StorageFault):
        stage.write("p", 5, b"y")
    stage.finish("p")
    stage.create("empty")
    stage.finish("empty")
    again = DiskStage(sealed_disk(disk), "/a/staging/x")
    assert again.names() == [("empty", 0), ("p", 100_000)]
    disk.content("/a/staging/x/p.part")[70_000] ^= 1
    with pytest.raises(StorageFault):
        again.read("p", 69_000, 10)


@BOTH
def test_a_data_key_is_opened_by_its_main_key_only(cipher: AtRestCipher) -> None:
    key = ring(cipher=cipher).make()
    opened = ring(2, cipher=cipher).open(key.cipher, key.key_id, key.wrapped)
    assert isinstance(opened, DataKey) and opened.wrapped == key.wrapped
    assert ring(cipher=cipher, secret=ANOTHER).open(key.cipher, key.key_id, key.wrapped) is None
    for at in range(len(key.wrapped)):
        changed = bytearray(key.wrapped)
        changed[at] ^= 4
        assert ring(cipher=cipher).open(key.cipher, key.key_id, bytes(changed)) is None
    other = next(one for one in AtRestCipher if one != cipher)
    assert ring(cipher=cipher).open(other, key.key_id, key.wrapped) is None
    assert ring(cipher=cipher).open(9, key.key_id, key.wrapped) is None


def test_the_mark_of_a_directory_tells_the_right_key() -> None:
    disk = SimDisk()
    disk.make_dir("/js")
    right, wrong = MainKey(SECRET, AtRestCipher.AES), MainKey(ANOTHER, AtRestCipher.AES)
    assert check_keys(disk, "/js", right, has_streams=False).state is MarkState.SEALED
    assert check_keys(disk, "/js", None, has_streams=True) == KeyPlan()
    assert check_keys(disk, "/js", right, has_streams=True).state is MarkState.ENCRYPTING
    write_mark(disk, "/js", KeyRing(right, None, random.Random(1).randbytes))
    assert check_keys(disk, "/js", right, has_streams=True) == KeyPlan(right)
    assert check_keys(disk, "/js", None, right, has_streams=True, decrypts=True).state is MarkState.DECRYPTING
    with pytest.raises(StorageFault, match="has no key"):
        check_keys(disk, "/js", None, has_streams=True)
    with pytest.raises(StorageFault, match="another key"):
        check_keys(disk, "/js", wrong, has_streams=True)
    content = disk.content("/js/ENCRYPTION")
    content[40] ^= 1
    check_keys(disk, "/js", right, has_streams=True)  # there are two copies


def rotated(disk: SimDisk) -> int:
    old, new = MainKey(SECRET, AtRestCipher.AES), MainKey(ANOTHER, AtRestCipher.CHACHA)
    return rotate(disk, "/store", KeyRing(new, old, random.Random(3).randbytes), old, ["A"])


def with_another_key(disk: SimDisk) -> set[int]:
    found = sealed_disk(disk, secret=ANOTHER, cipher=AtRestCipher.CHACHA)
    store = reopen(found, DIRECTORY.replace("/A/", f"/{MainKey(ANOTHER, AtRestCipher.AES).directory_name('A')}/"))
    assert not store.report.damaged_regions and store.journal.entries() == {b"plainconsumer": [b"plainstate"]}
    assert store.bulk.staging().read("one", 0, 9) == b"plainpart"
    reads = store.read_batch(ALL, 0, max_msgs=1000, max_bytes=1 << 30, up_to_seq=1000)
    return {read.seq for read in reads if isinstance(read, StoredMessage) and read.payload == b"plainpayload" * 9}


def to_be_rotated() -> SimDisk:
    """A whole storage directory under the first key."""
    disk = SimDisk()
    written(sealed_disk(disk))
    disk.rename("/store/A", "/store/" + MainKey(SECRET, AtRestCipher.AES).directory_name("A"))
    return disk.copy()


def test_another_main_key_opens_everything_and_the_old_one_nothing() -> None:
    disk = to_be_rotated()
    assert rotated(disk) > 5
    assert with_another_key(disk) == set(range(160, 301))
    old = MainKey(SECRET, AtRestCipher.AES)
    for path in [path for path in disk.paths() if not path.endswith(".open")]:
        assert old.id.to_bytes(4, "little") not in bytes(disk.content(path)), path
    assert rotated(disk) == 0, "there is nothing left to do"


def test_a_change_of_keys_is_cut_short_at_every_call() -> None:
    disk = to_be_rotated()
    images: list[SimDisk] = []
    disk.before_call = lambda now: images.append(now.crash(random.Random(now.calls), keep=now.calls % 3 / 2, torn=True))
    rotated(disk)
    assert len(images) > 20
    for image in images:
        rotated(image)
        assert with_another_key(image) == set(range(160, 301))


def test_a_lost_mark_is_found_in_a_segment() -> None:
    disk = SimDisk()
    with sealed_stores():
        store = new_file_store(disk, "/js/x/streams/" + "0" * 32)
    commit(store)
    store.close()
    mark = read_mark(disk, "/js")
    assert mark is not None and mark.opens_with(MainKey(SECRET, AtRestCipher.AES))


def test_a_header_carries_its_key_in_both_copies() -> None:
    disk = SimDisk()
    written(sealed_disk(disk), messages=200)
    for path in [path for path in disk.paths() if path.endswith(".seg")]:
        page = bytes(disk.content(path))[:HEADER_BYTES]
        header = decode_header(page)
        assert header is not None and header.cipher == AtRestCipher.AES and len(header.wrapped) == 64
        assert struct.unpack_from("<I", page, 104) == struct.unpack_from("<I", page, 2048 + 104) == (header.cipher,)
        assert encode_header(header, header.wrapped) == page


@pytest.mark.parametrize("wait", [True, False])
def test_stretches_are_opened_in_place_and_only_if_they_are_whole(wait: bool) -> None:
    """Whole frames go straight into the reader's memory: of one that was changed nothing may be seen there."""
    disk = SimDisk()
    inner = sealed_disk(disk)
    store = new_file_store(inner)
    for seq in range(1, 2001):
        store.append(seq, seq, b"s", b"", b"content of %d" % seq)
        if seq % 100 == 0:
            commit(store)
    (path,) = [path for path in disk.paths() if path.endswith(".seg")]
    plain = inner.read(path, 0, disk.size(path))
    bodies, at = [], HEADER_BYTES
    while (length := struct.unpack_from("<I", plain, at + 4)[0]) and plain[at : at + 4] == plain[HEADER_BYTES:][:4]:
        bodies.append((at + 64, length - 64 - 24))
        at += length
    assert len(bodies) >= 20
    for places in (bodies, bodies[::7], [(start + 8, length - 16) for start, length in bodies], bodies[3:4]):
        room = memoryview(bytearray(sum(length for _, length in places)))
        packed = b"".join(struct.pack("=QQ", *place) for place in places)
        assert inner.read_stretches(path, packed, room, wait=wait) == len(room)
        assert bytes(room) == b"".join(plain[start : start + length] for start, length in places)
    start, length = bodies[5]
    disk.content(path)[start + 50] ^= 1
    room = memoryview(bytearray(length))
    assert inner.read_stretches(path, struct.pack("=QQ", start, length), room, wait=wait) == length
    assert bytes(room) == b"\xff" * length
