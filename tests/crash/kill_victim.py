"""A process that publishes to a file store and says what was committed, until it is killed.

Usage: kill_victim.py DIRECTORY SEED. Prints one line `seq` after each commit.
"""

from __future__ import annotations

import os
import random
import sys
import time

from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.real_disk import RealDisk


def commit(store: FileStore) -> int:
    job = store.begin_commit()
    assert job is not None
    job.run()
    done = store.finish_commit(job)
    assert done.fault is None
    return done.last_seq


def write_unit(store: FileStore, rng: random.Random) -> None:
    """A unit of some hundred messages, in several commits; headers say which ones belong together."""
    first, count = store.last_seq + 1, rng.randint(2, 400)
    store.begin_atomic()
    for seq in range(first, first + count):
        unit = b"unit %d %d" % (first, count)
        store.append_atomic(seq, seq, b"s.%d" % (seq % 7), unit, b"message %d" % seq + bytes(rng.randint(0, 300)))
        if rng.random() < 0.02:
            commit(store)
    if rng.random() < 0.2:
        store.abort_atomic()
    else:
        store.end_atomic({b"unit": b"%d" % (first + count - 1)})


def main() -> None:
    directory, rng = sys.argv[1], random.Random(int(sys.argv[2]))
    options = FileStoreOptions(
        random64=lambda: rng.getrandbits(64), noise=os.urandom, now_ns=time.time_ns, segment_bytes=64 * 1024
    )
    disk = RealDisk()
    if disk.list_dir(directory):
        store = FileStore.open(disk, directory, options)
    else:
        store = FileStore.create(disk, directory, uid=bytes(16), config=b"{}", options=options)
    while True:
        if rng.random() < 0.3:
            write_unit(store, rng)
        for _ in range(rng.randint(1, 20)):
            seq = store.last_seq + 1
            store.append(seq, seq, b"s.%d" % (seq % 7), b"", b"message %d" % seq + bytes(rng.randint(0, 300)))
        if store.messages > 500:
            store.trim_to(store.last_seq - 300)
        print(commit(store), store.first_seq, flush=True)
        piece = store.begin_upkeep()
        if piece is not None:
            piece.run()
            store.finish_upkeep(piece)


if __name__ == "__main__":
    main()
