"""Files of an encrypted stream around hostile content, sealed by who has the key: what the seals guard is reached.

Whatever is in them, the stream is opened or refused, shows no bytes that are not in its segments, goes on, and shows
the same at the next start; and the stream beside it does not change by a byte. A segment reads as without seals.
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from functools import cache

import msgspec

from fuzz import checksums
from fuzz.target import Target, option
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, decode_header, encode_header
from slipstream.jetstream.store.sealed.boxes import seal_box
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.frames import FRAME_ROOM, FrameKeys, FrameMap
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.stores import commit, options, upkeep

STREAM, OTHER = "/s/a/streams/x", "/s/a/streams/y"
FIRST, LAST = f"{STREAM}/0000000001.0000.seg", f"{STREAM}/0000000003.0000.seg"
INDEX, MANIFEST, JOURNAL = FIRST.replace(".seg", ".sdx"), f"{STREAM}/MANIFEST.1", f"{STREAM}/consumers.log"
KEY = MainKey(b"the main key of the fuzzer", AtRestCipher.CHACHA)
HEAD = 64
MAGIC = b"SFR1"
SEGMENT_BYTES = HEADER_BYTES + 1800
RUN = b"fuzzing!"
COST = 40


def _ring(seed: int = 1) -> KeyRing:
    return KeyRing(KEY, None, random.Random(seed).randbytes)


@cache
def _made() -> SimDisk:
    """Two streams, each with two closed segments, their index files, a manifest and a journal."""
    disk = SimDisk()
    sealed = SealedDisk(disk, _ring())
    for directory in (STREAM, OTHER):
        chosen = options(segment_bytes=SEGMENT_BYTES)
        store = FileStore.create(sealed, directory, uid=directory[-1:].encode() * 16, config=b"{}", options=chosen)
        for seq in range(1, 25):
            store.append(seq, seq, b"s.%d" % (seq % 3), b"", b"message %d " % seq + bytes(60), expires_ns=0)
            store.journal.put(b"consumer", b"state %d" % seq)
            if seq % 4 == 0:
                store.put_note(b"note", b"%d" % seq)
                store.delete(seq - 1)
                commit(store)
        upkeep(store)
        store.close()
    assert {FIRST, LAST, INDEX, MANIFEST, JOURNAL} <= set(disk.paths())
    return disk


def _plain(path: str) -> bytes:
    return SealedDisk(_made().copy(), _ring(2)).read(path, 0, 1 << 20)


@cache
def _plain_disk() -> SimDisk:
    """The same without seals."""
    plain = SimDisk()
    plain.make_dir(STREAM)
    for path in _made().paths():
        if path.startswith(STREAM):
            content = _plain(path)
            header = decode_header(content[:HEADER_BYTES])
            if header is not None:
                content = encode_header(replace(header, cipher=0, key_id=0, wrapped=b"")) + content[HEADER_BYTES:]
            plain.create(path)
            plain.write(path, 0, content)
    return plain.copy()


@cache
def _known() -> frozenset[tuple[int, bytes, bytes]]:
    return frozenset((seq, b"s.%d" % (seq % 3), b"message %d " % seq + bytes(60)) for seq in range(1, 25))


def _open(disk: Disk, directory: str) -> FileStore:
    over = SealedDisk(disk, _ring(3)) if isinstance(disk, SimDisk) else disk
    return FileStore.open(over, directory, options(segment_bytes=SEGMENT_BYTES, seed=3))


def _shown(store: FileStore) -> list[tuple[int, bytes, bytes]]:
    reads = store.read_batch(ALL, 0, max_msgs=10_000, max_bytes=1 << 30, up_to_seq=max(store.last_seq, 1))
    return [(read.seq, read.subject, read.payload) for read in reads if isinstance(read, StoredMessage)]


def _put(path: str, content: bytes) -> SimDisk:
    return _with(_made().copy(), path, content)


def _with(disk: SimDisk, path: str, content: bytes) -> SimDisk:
    if path not in disk.paths():
        disk.create(path)
    disk.truncate(path, 0)
    disk.write(path, 0, content)
    return disk.copy()


def _lives(disk: SimDisk, *, only_known: bool) -> None:
    """The stream is refused, or goes on; the other one is what it was."""
    beside = {path: bytes(disk.content(path)) for path in disk.paths() if path.startswith(OTHER)}
    try:
        store = _open(disk, STREAM)
    except StorageFault:
        store = None
    if store is not None:
        store.state.index.check()
        shown = _shown(store)
        assert not only_known or set(shown) <= _known()
        upkeep(store, turns=20)
        if store.last_seq < 2**62 and store.state.refusal is None:
            seq = store.last_seq + 1
            store.append(seq, 1, b"after", b"", b"it")
            done = commit(store)
            assert done is not None and done.fault is None and done.last_seq == seq
            added = store.get(seq)
            assert isinstance(added, StoredMessage) and added.payload == b"it"
            assert _shown(store)[: len(shown)] == shown  # so many may be lost that the last is not among the first
        again = _shown(_open(disk.copy(), STREAM))
        assert again == _shown(store)
    assert beside == {path: bytes(disk.content(path)) for path in disk.paths() if path.startswith(OTHER)}
    assert len(_shown(_open(disk, OTHER))) == 18


# --- segments and journals ------------------------------------------------------------------------------------------


def _header(path: str) -> tuple[bytes, SegmentHeader]:
    page = bytes(_made().content(path))[:HEADER_BYTES]
    header = decode_header(page)
    assert header is not None
    return page, header


def _resealed(path: str, data: bytes) -> tuple[bytes, bytes, bool]:
    """The file with these frames, with and without seals, and whether there is nothing but frames in it."""
    page, header = _header(path)
    key = _ring().open(header.cipher, header.key_id, header.wrapped)
    assert key is not None
    keys, low = FrameKeys(key, header), header.salt & 0xFFFFFFFF
    plain, sealed = bytearray(data[: len(data) // 8 * 8]), bytearray()
    at, only_frames, last = 0, True, 0
    while at < len(plain):
        length, number = struct.unpack_from("<IQ", plain, at + 4) if len(plain) - at >= HEAD else (0, 0)
        if plain[at : at + 4] != MAGIC or len(plain) - at < HEAD:
            only_frames = only_frames and not any(plain[at : at + 8])
            sealed += plain[at : at + 8]
            at += 8
            continue
        plain[at : at + 4] = keys.magic
        fits = HEAD + FRAME_ROOM <= length <= len(plain) - at and length % 8 == 0
        if fits:
            body = plain[at + HEAD : at + length - FRAME_ROOM]
            checksums.records(body, header.salt)
            plain[at + HEAD : at + length] = body + bytes(FRAME_ROOM)
        plain[at + 60 : at + 64] = checksums.crc32c(bytes(plain[at : at + 60]), low).to_bytes(4, "little")
        if not fits:
            only_frames = False
            sealed += plain[at : at + HEAD]
            at += HEAD
            continue
        last += 1  # a run for each, so that no number meets a key twice
        run = last.to_bytes(8, "little")
        sealed += b"".join(keys.seal(run, number, bytes(plain[at : at + length])))
        at += length
    return page + sealed, bytes(plain), only_frames


def _segment(path: str, data: bytes) -> None:
    sealed, plain, only_frames = _resealed(path, data)
    disk = _put(path, sealed)
    _lives(disk.copy(), only_known=False)
    if not only_frames:
        return
    bare = _plain_disk().copy()
    bare = _with(bare, path, bytes(bare.content(path)[:HEADER_BYTES]) + plain)
    results = []
    for one in (SealedDisk(disk, _ring(4)), _Bare(bare)):
        try:
            store = _open(one, STREAM)
            facts = (store.last_seq, store.config, store.notes(), store.journal.entries(), store.lost().seqs)
            results.append((_shown(store), facts))
        except StorageFault:
            results.append(([], ()))
    assert results[0] == results[1], results


class _Bare(SealedDisk):
    """Plain files, for `_open`."""

    def __init__(self, disk: SimDisk) -> None:
        super().__init__(disk, KeyRing(None, None, random.Random(5).randbytes))


def first_segment(data: bytes) -> None:
    """A closed segment that an index file speaks of or not."""
    flags, body = option(data)
    _segment(FIRST if flags & 1 else LAST, body)


def journal(data: bytes) -> None:
    """States of consumers."""
    _segment(JOURNAL, data)


# --- boxes ----------------------------------------------------------------------------------------------------------


def _boxed(path: str, content: bytes) -> bytes:
    name = path.rsplit("/", 1)[1]
    return seal_box(_ring(6).make(), bytes(16), name, content)


def manifest(data: bytes) -> None:
    """A manifest of the highest version, with a checksum that holds."""
    body = data[16:]
    head = struct.pack("<8sII", b"SLIPMAN1", len(body), checksums.crc32c(body))
    _lives(_put(MANIFEST, _boxed(MANIFEST, data if data[:1] == b"\1" else head + body)), only_known=True)


def index(data: bytes) -> None:
    """A map of frames, and an index behind it, whose checksum and salt are right."""
    _, header = _header(FIRST)
    count = min(int.from_bytes(data[:4], "little"), (len(data) - 8) // 4) if len(data) >= 8 else 0
    cut = 8 + 4 * count
    body = data[cut : cut + 8] + header.salt.to_bytes(8, "little") + data[cut + 16 :]
    crafted = data[:cut] + (checksums.last_word(body, header.salt) if len(body) >= 4 else body)
    _lives(_put(INDEX, _boxed(INDEX, crafted)), only_known=True)


def redo(data: bytes) -> None:
    """Frames on their way into a segment: such as were sealed for it, at any place."""
    flags, body = option(data)
    raw = bytes(_made().content(LAST))
    try:
        places = msgspec.msgpack.decode(body, type=list[tuple[int, int]])[:4]
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        places = []
    frames = [(at, raw[begin : begin + _length_at(raw, begin)]) for at, begin in places if begin >= 0]
    content = msgspec.msgpack.encode(frames) if not flags & 1 else body
    path = LAST + ".redo"
    _lives(_put(path, _boxed(path, content)), only_known=True)


def _length_at(raw: bytes, at: int) -> int:
    """Of the frame that begins there, if one does."""
    return int.from_bytes(raw[at + 4 : at + 8], "little")


def _frame_seeds(path: str) -> list[bytes]:
    content = bytearray(_plain(path)[HEADER_BYTES:].rstrip(b"\0"))
    content += bytes(-len(content) % 8 + FRAME_ROOM)
    _, header = _header(path)
    magic = (int.from_bytes(MAGIC, "little") ^ (header.salt & 0xFFFFFFFF)).to_bytes(4, "little")
    return [bytes(content.replace(magic, MAGIC))[:4000]]


def _index_seeds() -> list[bytes]:
    return [FrameMap().to_bytes() + _plain(INDEX)]


def _redo_seeds() -> list[bytes]:
    places = [[(HEADER_BYTES, HEADER_BYTES)], [(HEADER_BYTES + 8, HEADER_BYTES)], [(0, HEADER_BYTES), (-8, 5000)]]
    return [b"\0" + msgspec.msgpack.encode(one) for one in [*places, [(1 << 40, HEADER_BYTES)]]]


TARGETS = (
    Target(
        "resealed-segment",
        first_segment,
        lambda: [b"\0" + one for one in _frame_seeds(LAST)] + [b"\1" + one for one in _frame_seeds(FIRST)],
        (MAGIC, b"message"),
        cost=COST,
    ),
    Target("resealed-journal", journal, lambda: _frame_seeds(JOURNAL), (MAGIC, b"state"), cost=COST),
    Target("resealed-manifest", manifest, lambda: [_plain(MANIFEST)], (b"segments", b"lost"), cost=COST),
    Target("resealed-index", index, _index_seeds, cost=COST),
    Target("resealed-redo", redo, _redo_seeds, cost=COST),
)
