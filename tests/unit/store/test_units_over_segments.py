"""Units that begin in one segment and end in another, of which one is rewritten."""

from __future__ import annotations

import pytest

from slipstream.jetstream.store.file import FileStore
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, commit, new_file_store, reopen, upkeep

SEGMENT_BYTES = 4096 + 12_000
PAYLOAD = bytes(1500)


def with_unit_over_segments(disk: SimDisk, *, chained: bool, messages: int) -> tuple[FileStore, list[int]]:
    """A store with a unit behind its first message, and where the segments of it begin."""
    store = new_file_store(disk, segment_bytes=SEGMENT_BYTES, chained=chained)
    store.append(1, 1, b"s", b"", PAYLOAD)
    commit(store)
    store.begin_atomic()
    for seq in range(2, 2 + messages):
        store.append_atomic(seq, seq, b"s", b"", PAYLOAD)
        commit(store)  # a frame each
    store.end_atomic({})
    commit(store)
    for seq in range(2 + messages, 16 + messages):
        store.append(seq, seq, b"s", b"", PAYLOAD)
        commit(store)
    return store, [segment.header.first_seq for segment in store.log.segments]


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("messages", [10, 20])
def test_its_end_is_rewritten(chained: bool, messages: int) -> None:
    """The segment that it began in still knows that it was whole, also without its index file."""
    disk = SimDisk()
    store, starts = with_unit_over_segments(disk, chained=chained, messages=messages)
    assert starts[0] == 1 and starts[1] <= messages, "the unit begins in the first segment and goes on in others"
    for seq in range(starts[1], starts[2] - 1):
        store.delete(seq)
    commit(store)
    upkeep(store)
    commit(store)
    second = store.log.segments[1].header
    assert second.first_seq == starts[1] and second.generation == 1, "the second is rewritten, the first is not"
    shown = [seq for seq in range(1, store.last_seq + 1) if store.get(seq) is not None]
    store.close()
    for name in disk.list_dir(DIRECTORY):
        if name.endswith(".sdx"):
            disk.remove(f"{DIRECTORY}/{name}")
    again = reopen(disk, segment_bytes=SEGMENT_BYTES)
    assert [seq for seq in range(1, again.last_seq + 1) if again.get(seq) is not None] == shown
    assert not again.lost().seqs
