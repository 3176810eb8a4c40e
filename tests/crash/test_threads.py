"""Commits and upkeep in real threads beside each other, with reads in between, on a real disk."""

from __future__ import annotations

import random
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.values import ALL, Job, StoredMessage
from support.stores import new_file_store, reopen

SEGMENT = 48 * 1024
KEPT = 300


def test_commits_upkeep_and_reads_beside_each_other(tmp_path: Path) -> None:
    rng = random.Random(5)
    directory = str(tmp_path / "s")
    store = new_file_store(RealDisk(), directory, segment_bytes=SEGMENT)
    live: dict[int, bytes] = {}
    commit: tuple[Job, Future[None]] | None = None
    piece: tuple[Job, Future[None]] | None = None
    pieces = set()
    with ThreadPoolExecutor(3) as threads:
        for turn in range(250):
            for _ in range(20):
                seq = store.last_seq + 1
                live[seq] = b"message %d" % seq + bytes(rng.randint(0, 200))
                store.append(seq, seq, b"k.%d" % rng.randint(0, 50), b"", live[seq])
            while len(live) > KEPT:
                seq = rng.choice(list(live)[:KEPT])
                assert store.erase(seq) if rng.random() < 0.02 else store.delete(seq)
                del live[seq]
            # Now and then wait for what is running, so that a slow disk does not let everything pile up in one commit.
            if commit is not None and (commit[1].done() or turn % 8 == 0):
                commit[1].result()
                assert store.finish_commit(commit[0]).fault is None
                commit = None
            quiet = turn % 16 == 0  # index files are made when no commit is under way
            if commit is None and not quiet and (job := store.begin_commit()) is not None:
                commit = (job, threads.submit(job.run))
            if piece is not None and (piece[1].done() or turn % 8 == 4 or quiet):
                piece[1].result()
                store.finish_upkeep(piece[0])
                piece = None
            if piece is None and (job := store.begin_upkeep()) is not None:
                piece = (job, threads.submit(job.run))
                pieces.add(type(job).__name__)
            for seq in rng.sample(sorted(live), 5):
                message = store.get(seq)
                assert isinstance(message, StoredMessage) and message.payload == live[seq]
        for pending, finish in ((commit, store.finish_commit), (piece, store.finish_upkeep)):
            if pending is not None:
                pending[1].result()
                finish(pending[0])
    store.state.index.check()
    assert "IndexFileJob" in pieces
    assert store.fault is None and store.lost().seqs == []
    assert not any(segment.damaged for segment in store.log.segments)
    store.close()
    again = reopen(RealDisk(), directory, segment_bytes=SEGMENT)
    found = again.read_batch(ALL, 0, max_msgs=1 << 20, max_bytes=1 << 40, up_to_seq=again.last_seq)
    assert {message.seq: message.payload for message in found} == live
