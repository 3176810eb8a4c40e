"""Files of an encrypted store that somebody has changed: nothing is shown that was not sealed there."""

from __future__ import annotations

import random
from functools import cache

import msgspec

from fuzz.target import Target
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.segments.segment import GONE_MAGIC, HEADER_BYTES
from slipstream.jetstream.store.sealed.boxes import seal_box
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.jetstream.store.sealed.marker import MARKER, read_mark, write_mark
from slipstream.testing.sim_disk import SimDisk

KEY = MainKey(b"the main key of the fuzzer", AtRestCipher.AES)
DIRECTORY = "/s/a/streams/x"
SEGMENT, MANIFEST, PART = f"{DIRECTORY}/0000000001.0000.seg", f"{DIRECTORY}/MANIFEST.1", "/s/a/staging/x/p.part"
JOURNAL, INDEX, REDO = f"{DIRECTORY}/consumers.log", f"{DIRECTORY}/0000000001.0000.sdx", f"{SEGMENT}.redo"


def _sealed(disk: SimDisk) -> SealedDisk:
    return SealedDisk(disk, KeyRing(KEY, None, random.Random(1).randbytes))


@cache
def _made() -> SimDisk:
    rng = random.Random(1)
    options = FileStoreOptions(random64=lambda: rng.getrandbits(64), noise=rng.randbytes, now_ns=lambda: 1)
    disk = SimDisk()
    sealed = _sealed(disk)
    store = FileStore.create(sealed, DIRECTORY, uid=bytes(16), config=b"{}", options=options)
    for seq in range(1, 9):
        store.append(seq, seq, b"s", b"", b"payload %d" % seq)
        store.journal.put(b"consumer", b"payload %d" % seq)
        job = store.begin_commit()
        assert job is not None
        job.run()
        store.finish_commit(job)
    store.close()
    for path, data in ((PART, b"staged"),):
        sealed.make_dir(path.rsplit("/", 1)[0])
        sealed.create(path.replace(".part", ".open"))
        sealed.write(path.replace(".part", ".open"), 0, data)
        sealed.sync(path.replace(".part", ".open"))
        sealed.rename(path.replace(".part", ".open"), path)
    sealed.read(SEGMENT, 0, 1 << 20)  # now it knows where the frames are, which goes into the index file
    for path, data in ((INDEX, b"index"), (REDO, b"")):
        sealed.create(path)
        sealed.write(path, 0, data)
    redo = msgspec.msgpack.encode([(HEADER_BYTES, bytes(disk.content(SEGMENT)[HEADER_BYTES:][:200]))])
    box = seal_box(KeyRing(KEY, None, rng.randbytes).make(), bytes(16), REDO.rsplit("/", 1)[1], redo)
    disk.content(REDO)[:] = box
    write_mark(disk, "/s", KeyRing(KEY, None, rng.randbytes))
    return disk


@cache
def _plain(path: str) -> bytes:
    return _sealed(_made().copy()).read(path, 0, 1 << 20)


def _changed(path: str, data: bytes) -> SimDisk:
    disk = _made().copy()
    content = disk.content(path)
    del content[:]
    content += data
    return disk


def segment(data: bytes) -> None:
    """Behind a header that is whole: what is shown of any bytes has their length, and no record that was not sealed."""
    disk = _sealed(_changed(SEGMENT, _header() + data))
    shown = disk.read(SEGMENT, HEADER_BYTES, 1 << 20)
    assert len(shown) == len(data)
    known, at = _plain(SEGMENT), shown.find(b"payload")
    while at >= 0:
        assert shown[at - 33 : at + 9] in known  # the whole record
        at = shown.find(b"payload", at + 1)


def header(data: bytes) -> None:
    """Any bytes as a header: the frames are shown as they were, hidden, or refused for want of the key."""
    whole = bytes(_made().content(SEGMENT))[HEADER_BYTES:]
    disk = _sealed(_changed(SEGMENT, data[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0") + whole))
    try:
        shown = disk.read(SEGMENT, HEADER_BYTES, 1 << 20)
    except PermissionError:
        return
    assert shown == _plain(SEGMENT)[HEADER_BYTES:] or b"payload" not in shown


def _header() -> bytes:
    return bytes(_made().content(SEGMENT))[:HEADER_BYTES]


def box(data: bytes) -> None:
    """A manifest is the one that was sealed, or none."""
    shown = _sealed(_changed(MANIFEST, data)).read(MANIFEST, 0, 1 << 20)
    assert shown in (b"", _plain(MANIFEST))


def part(data: bytes) -> None:
    """A staged part is what was staged, or an error."""
    disk = _sealed(_changed(PART, data))
    try:
        assert disk.size(PART) <= len(data)
        shown = disk.read(PART, 0, 100)
    except OSError:
        return
    assert shown in (b"", b"staged")


def journal(data: bytes) -> None:
    """Behind a header that is whole, states of consumers are those that were sealed, or hidden."""
    whole = bytes(_made().content(JOURNAL))[:HEADER_BYTES]
    shown = _sealed(_changed(JOURNAL, whole + data)).read(JOURNAL, HEADER_BYTES, 1 << 20)
    assert len(shown) == len(data)
    known, at = _plain(JOURNAL), shown.find(b"payload")
    while at >= 0:
        assert shown[at - 8 : at + 9] in known
        at = shown.find(b"payload", at + 1)


def index(data: bytes) -> None:
    """An index file is the one that was sealed, or none; whatever it is, the segment is shown as it was."""
    disk = _sealed(_changed(INDEX, data))
    assert disk.read(INDEX, 0, 1 << 20) in (b"", b"index")
    assert disk.read(SEGMENT, HEADER_BYTES, 1 << 20) == _plain(SEGMENT)[HEADER_BYTES:]


def redo(data: bytes) -> None:
    """Frames on their way into a segment: what was not sealed as such changes nothing in it."""
    assert _sealed(_changed(REDO, data)).read(SEGMENT, HEADER_BYTES, 1 << 20) == _plain(SEGMENT)[HEADER_BYTES:]


def mark(data: bytes) -> None:
    """The mark of a directory opens with its key, or with none."""
    found = read_mark(_changed(f"/s/{MARKER}", data), "/s")
    if found is not None:
        found.opens_with(KEY)


def _seeds(path: str) -> list[bytes]:
    return [bytes(_made().content(path)).rstrip(b"\0"), b""]


TARGETS = (
    Target("sealed-segment", segment, lambda: [_seeds(SEGMENT)[0][HEADER_BYTES:], b""], (b"SFR1", b"payload")),
    Target("sealed-header", header, lambda: [_header()], (b"SLIPSEG1",)),
    Target("sealed-box", box, lambda: _seeds(MANIFEST), (b"SLIPBOX1", b"SLIPMAN1")),
    Target("sealed-part", part, lambda: _seeds(PART), (b"SLIPPRT1", GONE_MAGIC)),
    Target("sealed-journal", journal, lambda: [_seeds(JOURNAL)[0][HEADER_BYTES:], b""], (b"SFR1", b"payload")),
    Target("sealed-index", index, lambda: _seeds(INDEX), (b"SLIPBOX1",)),
    Target("sealed-redo", redo, lambda: _seeds(REDO), (b"SLIPBOX1",)),
    Target("store-mark", mark, lambda: _seeds(f"/s/{MARKER}"), (b"SLIPENC1",)),
)
