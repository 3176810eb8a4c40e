"""The two steps of a commit where a majority decides: on this disk, and committed. Several wait between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.values import Committed
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, UID, commit, fill, options, payload, upkeep


def new_store(disk: SimDisk) -> FileStore:
    return FileStore.create(disk, DIRECTORY, uid=UID, config=b"{}", options=replace(options(), replicated=True))


def test_what_is_on_this_disk_is_seen_when_a_majority_has_it() -> None:
    store = new_store(SimDisk())
    frames = []
    for count in (3, 2, 4):
        fill(store, count)
        assert commit(store) == Committed(0, commits=0)
        frames.append(store.log.writer.frame_no)
    assert (store.committed_seq, store.messages, store.is_settled) == (0, 0, False)
    assert store.log.writer.synced_upto == frames[-1], "it is on this disk"
    assert store.commit_frames(frames[0]) == Committed(3, commits=1)
    assert (store.committed_seq, store.messages) == (3, 3)
    assert store.commit_frames(frames[0]) == Committed(3, commits=0)
    assert store.commit_frames(frames[2]) == Committed(9, commits=2)
    assert store.is_settled and store.get(9).payload == payload(9)


def test_others_may_have_it_first() -> None:
    store = new_store(SimDisk())
    fill(store, 3)
    job = store.begin_commit()
    assert store.commit_frames(store.log.writer.frame_no).commits == 0
    job.run()
    assert store.finish_commit(job) == Committed(3, commits=1)


def test_removals_of_several_commits_are_seen_each_with_its_own() -> None:
    store = new_store(SimDisk())
    fill(store, 6)
    commit(store)
    first = store.log.writer.frame_no
    store.delete(2)
    commit(store)
    store.trim_to(2)
    store.delete(5)
    commit(store)
    fill(store, 1)
    commit(store)
    assert (store.assigned.messages, store.messages) == (4, 0)
    seen = []
    for frame in range(first, first + 4):
        assert store.commit_frames(frame).commits == 1
        seen.append((store.first_seq, store.messages, [seq for seq in range(1, 8) if store.get(seq) is not None]))
    # A message is found as soon as it was appended: who shows it looks at `committed_seq`.
    assert seen == [
        (1, 6, [1, 2, 3, 4, 5, 6, 7]),
        (1, 5, [1, 3, 4, 5, 6, 7]),
        (3, 3, [3, 4, 6, 7]),
        (3, 4, [3, 4, 6, 7]),
    ]


def test_nothing_is_overwritten_before_its_removal_is_committed() -> None:
    disk = SimDisk()
    store = new_store(disk)
    fill(store, 3)
    commit(store)
    store.commit_frames(store.log.writer.frame_no)
    secret = payload(2)
    store.erase(2)
    for _ in range(3):
        commit(store)
        fill(store, 1)
    path = store.log.active.path
    assert secret in bytes(disk.content(path)) and store.erasing == 1
    store.commit_frames(store.log.writer.frame_no)
    commit(store)
    assert secret not in bytes(disk.content(path)) and store.erasing == 0
    assert store.erased == (1, 1)


def test_a_manifest_names_what_is_committed() -> None:
    disk = SimDisk()
    store = new_store(disk)
    fill(store, 3)
    commit(store)
    upkeep(store)
    assert not [name for name in disk.list_dir(DIRECTORY) if name.startswith("MANIFEST")]
    store.commit_frames(store.log.writer.frame_no)
    upkeep(store)
    assert [name for name in disk.list_dir(DIRECTORY) if name.startswith("MANIFEST")]


def test_what_waits_counts_as_uncommitted_until_it_is() -> None:
    store = new_store(SimDisk())
    fill(store, 3)
    waiting = store.uncommitted_bytes
    commit(store)
    assert store.uncommitted_bytes == waiting > 0
    store.commit_frames(store.log.writer.frame_no)
    assert store.uncommitted_bytes == 0


@pytest.mark.parametrize("replicated", [True, False])
def test_a_commit_of_states_alone(replicated: bool) -> None:
    """Alone they have a file of their own; else they are in a frame, which a majority has to have."""
    chosen = replace(options(), replicated=replicated)
    store = FileStore.create(SimDisk(), DIRECTORY, uid=UID, config=b"{}", options=chosen)
    store.journal.put(b"c", b"state")
    assert commit(store) == Committed(0, commits=0 if replicated else 1)
    if replicated:
        assert store.commit_frames(store.log.writer.frame_no) == Committed(0, commits=1)
