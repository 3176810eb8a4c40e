"""kill -9 at arbitrary moments, on a real disk: what was committed is there, again and again."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.values import StoredMessage
from support.stores import reopen

VICTIM = Path(__file__).with_name("kill_victim.py")


def cycles(directory: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for cycle in range(count):
        with subprocess.Popen(
            [sys.executable, str(VICTIM), str(directory), str(seed + cycle)], stdout=subprocess.PIPE
        ) as victim:
            assert victim.stdout is not None
            said = [victim.stdout.readline() for _ in range(rng.randint(1, 40))]
            victim.kill()
            said += victim.stdout.readlines()
        last, first = map(int, [line for line in said if line.endswith(b"\n")][-1].split())
        store = reopen(RealDisk(), str(directory), segment_bytes=64 * 1024)
        assert store.last_seq >= last
        assert store.lost().seqs == [] and store.report.damaged_regions == []
        for seq in range(max(first, store.first_seq), last + 1):
            message = store.get(seq)
            assert isinstance(message, StoredMessage), seq
            assert message.payload.rstrip(b"\0") == b"message %d" % seq
        whole_units(store)
        # What is not committed by the victim may trim more, never less.
        assert store.first_seq >= first


def whole_units(store: FileStore) -> None:
    """A unit is there with its last message, or not at all; the note names the last one that is."""
    noted = int(store.notes().get(b"unit", b"0"))
    for seq in range(store.first_seq, store.last_seq + 1):
        message = store.get(seq)
        if isinstance(message, StoredMessage) and message.headers:
            _, first, count = message.headers.split()
            end = int(first) + int(count) - 1
            assert isinstance(store.get(end), StoredMessage), f"{seq} without the end of its unit"
            assert noted >= end


def test_kill(tmp_path: Path) -> None:
    cycles(tmp_path / "s", 3, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_kill_long(tmp_path: Path) -> None:
    cycles(tmp_path / "s", 200, 2)
