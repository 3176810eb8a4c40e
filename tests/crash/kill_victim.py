"""A process that publishes to a file store and says what was committed, until it is killed.

Usage: kill_victim.py DIRECTORY SEED. Prints one line `seq` after each commit.
"""

from __future__ import annotations

import os
import random
import sys
import time

from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk import RealDisk


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
        for _ in range(rng.randint(1, 20)):
            seq = store.last_seq + 1
            store.append(seq, seq, b"s.%d" % (seq % 7), b"", b"message %d" % seq + bytes(rng.randint(0, 300)))
        if store.messages > 500:
            store.trim_to(store.last_seq - 300)
        job = store.begin_commit()
        assert job is not None
        job.run()
        done = store.finish_commit(job)
        assert done.fault is None
        print(done.last_seq, store.first_seq, flush=True)
        piece = store.begin_upkeep()
        if piece is not None:
            piece.run()
            store.finish_upkeep(piece)


if __name__ == "__main__":
    main()
