"""Whole replicas of a stream in a storm: seeds that must hold, and a leader that acknowledges early and is caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from campaigns.raft_sealed import sealed_seeds, searched, storms
from slipstream.errors import StorageFault
from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.replication.raft.marks import ReplicaDamaged
from slipstream.replication.replica import follower_reads
from slipstream.replication.replica.leader_commits import LeaderCommits
from slipstream.replication.replica.stream_replica import StreamReplica
from support.jetstream_world import START_NS
from support.replica_world import UID, Storm

SEEDS = 15
BLOCKS = 5


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold(block: int) -> None:
    """S10: what a leader proposed who is none any more is acknowledged in no later term, unless it is there."""
    acked = read = read_behind = 0
    for seed in range(block, SEEDS, BLOCKS):
        storm = Storm(seed, nodes=5 if seed % 5 == 0 else 3).run()
        acked += len(storm.acked)
        read += storm.read
        read_behind += storm.read_behind
    assert acked > 10 and read > 10 and read_behind > 100  # there was something to lose


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold_while_segments_go(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        Storm(seed, nodes=5 if seed % 5 == 0 else 3, steps=250, padding=3000, max_msgs=5).run()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_hold_while_files_are_damaged(block: int) -> None:
    damaged = 0
    for seed in range(block, SEEDS, BLOCKS):
        options = {"max_msgs": 5} if seed % 4 == 3 else {}
        damaged += len(Storm(seed, damages=0.05, padding=300 if seed % 2 else 0, **options).run().damaged)
    assert damaged  # there was something to repair


def test_seeds_hold_on_encrypted_disks_that_tell_nothing() -> None:
    """The campaign `raft-encrypted` runs more of the same seeds."""
    found = sealed_seeds(range(3, 5))
    assert found.broken == []
    assert found.counts["publishes acknowledged"] and found.counts["files damaged"]
    assert searched(storms(3)[0]().run())[1]  # the same search, where nothing is encrypted


def test_an_emptied_segment_that_others_came_after_is_damage() -> None:
    """Seed 20566: it was taken for one that was never finished, and the replica showed less than the others."""
    assert Storm(20566, damages=0.05).run().damaged


class EarlyCommits(LeaderCommits):
    """A commit counts as committed when it is on this disk."""

    def synced(self, fault: StorageFault | None) -> None:
        replica = self._replica
        if fault is None and replica.stream is not None and replica.store is not None:
            log = replica.store.replica
            assert log is not None
            replica.stream.committer.committed(log.commit(log.last_index))
        super().synced(fault)


class CertainCommits(LeaderCommits):
    """A leader takes its own word for it that it still is one."""

    def confirm(self, read: Callable[[bool], None]) -> None:
        read(True)


class EarlyAck(StreamReplica):
    """Acknowledges before others have it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commits = EarlyCommits(self, self._groups, self._ports)


class UnsyncedFollower(StreamReplica):
    """A follower answers before its disk does."""

    def sync_log(self) -> None:
        if self.stream is None and self.store is not None:
            self.store.log.writer.synced_upto = self.log.last_index
            self._ports.call_soon(self.persisted)
        super().sync_log()


class StaleReads(StreamReplica):
    """Reads of a leader that may be none any more."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commits = CertainCommits(self, self._groups, self._ports)


class BeginsAnew(StreamReplica):
    """A replica that has lost something has nothing to say about before, and votes."""

    def damaged(self, error: ReplicaDamaged) -> None:
        self._files.destroy()
        config = StreamConfig(name="S", subjects=["s.>"], num_replicas=3)
        self._files.create(UID, to_stored(config, START_NS), [1, 2, 3])
        self._ports.call_soon(self.start)


SHOWN: dict[type[StreamReplica], tuple[int, ...]] = {StaleReads: (4,), UnsyncedFollower: (82,)}
"""Where to look first."""


@pytest.mark.parametrize("mutant", [EarlyAck, UnsyncedFollower, StaleReads, BeginsAnew])
def test_a_broken_replica_is_caught(mutant: type[StreamReplica]) -> None:
    for seed in (*SHOWN.get(mutant, ()), *range(100)):
        try:
            Storm(seed, replica=mutant, damages=0.1 if mutant is BeginsAnew else 0.0).run()
        except (AssertionError, StorageFault):
            return
    pytest.fail("nobody noticed")


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (follower_reads.FollowerReads, "read", lambda _, read: read()),
        (follower_reads, "_is_majority", lambda *_: True),
    ],
    ids=["followers show what they have", "one log is enough"],
)
def test_stale_followers_are_caught(owner: object, name: str, mutant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, mutant)
    for seed in range(20):
        try:
            Storm(seed).run()
        except AssertionError:
            return
    pytest.fail("nobody noticed")
