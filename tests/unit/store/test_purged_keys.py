"""What was purged cannot be opened any more: not with the main key and every block that the file system gave back."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.file.segments.segment import GONE_MAGIC, HEADER_BYTES, decode_header
from slipstream.jetstream.store.file.staging import DiskStage
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.jetstream.store.sealed import disk as sealed_module
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.values import ALL, StoredMessage, StoreUnavailable
from slipstream.testing.sim_disk import SimDisk
from support.raw_device import RawDevice, headers_in, opened
from support.sealing import ring, sealed_disk
from support.stores import DIRECTORY, commit, new_file_store, reopen, upkeep

WORDS = (b"payload-", b"subject.")


def filled(disk: SimDisk, messages: int = 120, codec: Codec = Codec.NONE) -> tuple[FileStore, PackedDisk]:
    """A stream over several segments, some of them rewritten, with index files and a journal."""
    inner = PackedDisk(SealedDisk(disk, ring()))
    store = new_file_store(inner, segment_bytes=8192, codec=codec)
    for seq in range(1, messages + 1):
        store.append(seq, seq, b"subject.%d" % seq, b"", b"payload-%d " % seq + bytes(150))
        if seq % 10 == 0:
            store.journal.put(b"consumer", b"state %d" % seq)
            commit(store)
    for seq in range(1, messages // 2, 2):
        store.delete(seq)
    store.erase(messages // 2)
    for _ in range(3):
        commit(store)
        upkeep(store)
        while store.scrub_next():
            upkeep(store)
    return store, inner


def in_slices(store: FileStore, subject: bytes) -> None:
    at = 0
    while True:
        _, at = store.purge_some(subject, from_seq=at, up_to_seq=store.last_seq, limit=17)
        if not at:
            break
    store.begin_afresh()


def settle(store: FileStore) -> None:
    for _ in range(4):
        commit(store)
        upkeep(store)


def destroy(store: FileStore) -> None:
    store.destroy()


PURGES: dict[str, Callable[[FileStore], None]] = {
    "purge": lambda store: store.purge() and None,
    "slices": lambda store: in_slices(store, b""),
    "filtered": lambda store: in_slices(store, b">"),
    "beyond the end": lambda store: (store.trim_to(store.last_seq + 10), store.begin_afresh())[1],
    "destroy": destroy,
}


def told(device: RawDevice, noted: list[object]) -> list[bytes]:
    text = opened(device.blocks(), ring(9), noted)  # type: ignore[arg-type]
    return [word for word in WORDS if word in text]


@pytest.mark.parametrize("way", PURGES)
@pytest.mark.parametrize("messages", [1, 120])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.S2])
def test_what_was_purged_cannot_be_opened(way: str, messages: int, codec: Codec) -> None:
    device = RawDevice()
    store, _ = filled(device, messages, codec)
    before = device.blocks()
    noted: list[object] = [*headers_in(before)]
    if messages > 1:
        assert told(device, noted) == list(WORDS), "the control: until then all of it can be opened"
    frames = [(path, bytes(HEADER_BYTES) + data[HEADER_BYTES:]) for path, data in before if path.endswith(".seg")]
    PURGES[way](store)
    if way != "destroy":
        settle(store)
        assert store.messages == 0
    assert not told(device, noted)
    device.freed += frames  # as they were: sealed bytes without their heads tell nothing either
    assert not told(device, noted)


def test_what_is_published_beside_a_purge_stays() -> None:
    """The purge and what follows it are in one commit; the fresh key is on disk with the first frame under it."""
    device = RawDevice()
    store, _ = filled(device)
    noted: list[object] = [*headers_in(device.blocks())]
    last = store.last_seq
    store.purge()
    store.append(last + 1, last + 1, b"after", b"", b"it goes on")
    settle(store)
    assert not told(device, noted)
    again = reopen(PackedDisk(sealed_disk(device)), segment_bytes=8192)
    (read,) = again.read_batch(ALL, 0, max_msgs=9, max_bytes=1 << 20, up_to_seq=last + 9)
    assert isinstance(read, StoredMessage) and (read.seq, read.payload) == (last + 1, b"it goes on")
    assert again.journal.entries() == {b"consumer": [b"state 120"]}


def test_every_file_has_a_key_of_its_own() -> None:
    disk = SimDisk()
    filled(disk)
    headers = [decode_header(bytes(disk.content(path))[:HEADER_BYTES]) for path in disk.paths() if ".seg" in path]
    keys = {header.wrapped for header in headers if header is not None}
    assert len(keys) == len(headers) > 3


def test_the_watch_notices_a_key_that_is_not_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: files that are only removed, and keys that are overwritten in memory alone."""
    for erasing in (lambda *_: None, _unsynced):
        monkeypatch.setattr(sealed_module, "erase_keys", erasing)
        device = RawDevice()
        store, _ = filled(device)
        noted: list[object] = [*headers_in(device.blocks())]
        store.purge()
        settle(store)
        assert told(device, noted) == list(WORDS)


def _unsynced(disk: SimDisk, _ring: object, frames: list[str], boxes: list[str]) -> None:
    for path in (*frames, *boxes):
        disk.write(path, 0, GONE_MAGIC.ljust(96, b"\0"))


def test_a_plain_stream_pays_nothing() -> None:
    calls = []
    for purges in (False, True):
        disk = SimDisk()
        store = new_file_store(disk)
        store.append(1, 1, b"s", b"", b"one")
        commit(store)
        if purges:
            store.purge()
        else:
            store.trim_to(2)
        store.begin_afresh()
        commit(store)
        calls.append(disk.calls)
        assert [path for path in disk.paths() if path.endswith(".seg")] == [f"{DIRECTORY}/0000000001.0000.seg"]
    assert calls[0] == calls[1]


def test_a_crash_between_the_key_and_the_name_is_no_damage() -> None:
    """Every call of the removal is cut short: the next start finds nothing wrong, and finishes it."""
    device = RawDevice()
    store, _ = filled(device)
    noted: list[object] = [*headers_in(device.blocks())]
    store.journal.put(b"consumer", b"last")
    store.purge()
    commit(store)
    images: list[SimDisk] = []
    device.before_call = lambda now: images.extend(
        now.crash(random.Random(now.calls), keep=keep, torn=True) for keep in (0.0, 0.5, 1.0)
    )
    upkeep(store)
    device.before_call = None
    half_done = 0
    for image in images:
        gone = [path for path in image.paths() if image.content(path)[:8] == GONE_MAGIC]
        half_done += bool(gone)
        again = reopen(PackedDisk(sealed_disk(image)), segment_bytes=8192)
        assert not again.report.unusable_files and not again.report.damaged_regions and not again.lost().seqs
        assert again.messages == 0 and again.last_seq == 120
        assert again.journal.entries() == {b"consumer": [b"last"]}
        again.keep_removed(lambda: 1 << 62)  # nobody asks for ids
        settle(again)
        assert not [path for path in image.paths() if image.content(path)[:8] == GONE_MAGIC]
        assert len([path for path in image.paths() if path.endswith(".seg")]) == 1
    assert half_done > 10
    settle(store)
    assert not told(device, noted)


def test_a_disk_that_refuses_to_forget_is_asked_again() -> None:
    """The name of a file stays as long as its key does."""
    device = RawDevice()
    store, _ = filled(device)
    noted: list[object] = [*headers_in(device.blocks())]
    store.purge()
    commit(store)
    for ahead in range(1, 12):
        device.faults[device.calls + ahead] = 5
        upkeep(store, turns=1)
    device.faults.clear()
    settle(store)
    assert not told(device, noted)
    assert len([path for path in device.paths() if path.endswith(".seg")]) == 1


def test_a_staged_part_is_gone_with_its_key() -> None:
    device = RawDevice()
    device.make_dir("/a")
    stage = DiskStage(sealed_disk(device), "/a/staging/x")
    stage.create("p")
    stage.write("p", 0, b"payload-1 " * 9000)
    stage.finish("p")
    cut: list[SimDisk] = []
    device.before_call = lambda now: cut.append(now.crash(random.Random(1), keep=1.0, torn=False))
    stage.remove("p")
    ((_, last),) = [(path, data) for path, data in device.freed if path.endswith(".part")]
    assert last[:8] == GONE_MAGIC
    for image in cut[-1:]:
        assert image.paths() == ["/a/staging/x/p.part"]
        assert DiskStage(sealed_disk(image), "/a/staging/x").names() == []
        assert image.paths() == []


def test_a_file_that_has_another_name_keeps_its_key(tmp_path: Path) -> None:
    """A power cut within a rename may leave both: one name goes, and under the other the file is what it was."""
    disk = RealDisk()
    store = new_file_store(SealedDisk(disk, ring()), str(tmp_path / "s"), segment_bytes=8192)
    for seq in range(1, 121):
        store.append(seq, seq, b"s", b"", bytes(150))
    commit(store)
    upkeep(store)
    names = ("0000000001.0000.seg", "0000000001.0000.sdx")
    for name in names:
        path = tmp_path / "s" / name
        whole = path.read_bytes()
        os.link(path, f"{path}.tmp")
        SealedDisk(disk, ring()).remove(f"{path}.tmp")
        assert path.read_bytes() == whole
        os.link(path, f"{path}.tmp")
        with path.open("rb") as held:
            SealedDisk(disk, ring()).remove_many([str(path), f"{path}.tmp"])
            assert not path.exists() and not Path(f"{path}.tmp").exists() and held.read(8) == GONE_MAGIC


def test_on_a_full_disk_the_key_goes_when_there_is_space_again() -> None:
    """A purge is what makes space: it must not need any for a fresh segment."""
    device = RawDevice()
    store, _ = filled(device)
    noted: list[object] = [*headers_in(device.blocks())]
    store.state.refusal = StoreUnavailable("no space left on device", full=True)
    before = store.log.active.header.no
    store.purge()
    commit(store)
    assert store.log.active.header.no == before
    settle(store)
    assert store.state.refusal is None, "upkeep has found space"
    assert store.log.active.header.no > before and not told(device, noted)
