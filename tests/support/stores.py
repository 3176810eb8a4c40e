"""Making stores for tests, and driving their jobs the way a server does, without a thread."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.file.disk.reserve import Reserve
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.values import Committed
from slipstream.testing.sim_disk import SimDisk

UID = bytes(range(16))
DIRECTORY = "/store/A/stream"


def options(
    *, segment_bytes: int = 1 << 20, seed: int = 1, reserve: Reserve | None = None, codec: Codec = Codec.NONE
) -> FileStoreOptions:
    """Deterministic options."""
    rng = random.Random(seed)
    clock = itertools.count(1_000)
    return FileStoreOptions(
        random64=lambda: rng.getrandbits(64),
        noise=rng.randbytes,
        now_ns=lambda: next(clock),
        segment_bytes=segment_bytes,
        reserve=reserve,
        codec=codec,
    )


def new_file_store(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    segment_bytes: int = 1 << 20,
    reserve: Reserve | None = None,
    chained: bool = False,
    codec: Codec = Codec.NONE,
) -> FileStore:
    """A fresh stream."""
    chosen = options(segment_bytes=segment_bytes, reserve=reserve, codec=codec)
    return FileStore.create(disk, directory, uid=UID, config=b'{"name":"S"}', options=chosen, chained=chained)


def reopen(
    disk: Disk, directory: str = DIRECTORY, *, segment_bytes: int = 1 << 20, codec: Codec = Codec.NONE
) -> FileStore:
    """Open what is on a disk, as a new process would."""
    return FileStore.open(disk, directory, options(segment_bytes=segment_bytes, seed=2, codec=codec))


def new_memory_store() -> MemoryStore:
    """A fresh memory stream."""
    return MemoryStore(b'{"name":"S"}', random64=lambda: 7)


def commit(store: Store, *, sync: bool = True, inline: bool = False) -> Committed | None:
    """One whole commit; None when there was nothing to do."""
    job = store.begin_commit(sync=sync, inline=inline)
    if job is None:
        return None
    if not job.ended:
        job.run()
    return store.finish_commit(job)


def upkeep(store: Store, turns: int = 50) -> int:
    """Background work until there is none; how many pieces were done."""
    for turn in range(turns):
        job = store.begin_upkeep() or store.begin_upkeep()
        if job is None:
            return turn
        job.run()
        store.finish_upkeep(job)
    return turns


def fill(store: Store, count: int, *, subjects: int = 10, size: int = 50, start_ts: int = 0) -> list[int]:
    """Append messages with telling content; the sequences."""
    seqs = []
    for _ in range(count):
        seq = store.last_seq + 1
        store.append(seq, start_ts + seq * 1_000, b"s.%d" % (seq % subjects), b"", payload(seq, size))
        seqs.append(seq)
    return seqs


def payload(seq: int, size: int = 50) -> bytes:
    """The payload `fill` gives a sequence."""
    return (b"payload-%d-" % seq).ljust(size, b"x")


MAKERS: dict[str, Callable[[str], Store]] = {
    "memory": lambda _directory: new_memory_store(),
    "file": lambda _directory: new_file_store(SimDisk()),
    "file-small-segments": lambda _directory: new_file_store(SimDisk(), segment_bytes=8192),
    "file-real-disk": lambda directory: new_file_store(RealDisk(), directory, segment_bytes=8192),
}
"""One maker a kind of store; the argument is a directory that is not there yet."""


def write_everything(store: FileStore, messages: int) -> None:
    """All that makes files: segments, indexes, journal, manifest, staged parts. Each word of it begins with `plain`."""
    for seq in range(1, messages + 1):
        store.append(seq, seq, b"plainsubject.%d" % (seq % 7), b"NATS/1.0\r\nplain: x\r\n\r\n", b"plainpayload" * 9)
        if seq % 10 == 0:
            store.journal.put(b"plainconsumer", b"plainstate")
            commit(store)
    store.put_note(b"plainnote", b"plainvalue")
    for seq in range(1, 40):
        store.erase(seq)
    for seq in range(40, 160):
        store.delete(seq)
    commit(store)
    commit(store)
    upkeep(store, turns=200)
    stage = store.bulk.staging()
    stage.create("one")
    stage.write("one", 0, b"plainpart" * 20_000)
    stage.finish("one")
    stage.create("two")
    stage.write("two", 0, b"plainpart" * 20_000)
