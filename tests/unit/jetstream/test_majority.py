"""In a replicated stream nothing leaves before a majority has it; commits go on meanwhile, and leave in order."""

from __future__ import annotations

import json
from typing import Any

from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import World


class Group:
    """A stream whose frames are replicated by whoever calls `agree`."""

    def __init__(self) -> None:
        self.world: World = disk_world(SimDisk(), replicated=True)
        self.world.ports.route(b"$JS.API.STREAM.CREATE.S", b"_INBOX.made", None, b'{"name":"S","subjects":["s.>"]}')
        self.world.ports.settle()
        self.stream: Any = self.world.account.streams["S"]
        self.agree()
        self.world.ports.sent.clear()

    @property
    def frame_no(self) -> int:
        return self.stream.store.log.writer.frame_no

    def agree(self, frame_no: int | None = None) -> None:
        store = self.stream.store
        self.stream.committer.committed(store.commit_frames(frame_no or self.frame_no))
        self.world.ports.settle()

    def send(self, subject: str, reply: str, payload: bytes = b"x") -> None:
        self.world.ports.route(subject.encode(), reply.encode(), None, payload)
        self.world.ports.settle()

    def answers(self) -> list[str]:
        return [sent[0].decode() for sent in self.world.ports.sent if sent[0].startswith(b"_INBOX")]


def test_acks_wait_for_a_majority_and_commits_do_not_wait_for_each_other() -> None:
    group = Group()
    frames = []
    for n in range(4):
        group.send("s.a", f"_INBOX.{n}")
        frames.append(group.frame_no)
    assert len(set(frames)) == 4 and group.answers() == [] and group.stream.store.committed_seq == 0
    assert group.stream.committer.waiting == 4
    group.agree(frames[1])
    assert group.answers() == ["_INBOX.0", "_INBOX.1"]
    group.agree(frames[3])
    assert group.answers() == ["_INBOX.0", "_INBOX.1", "_INBOX.2", "_INBOX.3"]
    assert group.stream.committer.waiting == 0


def test_a_read_that_changes_nothing_comes_behind_what_was_published_before_it() -> None:
    group = Group()
    group.send("s.a", "_INBOX.pub")
    group.send("$JS.API.STREAM.MSG.GET.S", "_INBOX.get", b'{"last_by_subj":"s.a"}')
    assert group.answers() == []
    group.agree()
    assert group.answers() == ["_INBOX.pub", "_INBOX.get"]
    got = next(sent[3] for sent in group.world.ports.sent if sent[0] == b"_INBOX.get")
    assert json.loads(got)["message"]["seq"] == 1


def test_a_removal_is_told_when_it_is_committed() -> None:
    group = Group()
    for n in range(3):
        group.send("s.a", f"_INBOX.{n}")
    group.agree()
    group.world.ports.sent.clear()
    group.send("$JS.API.STREAM.PURGE.S", "_INBOX.purged")
    group.send("s.b", "_INBOX.next")
    assert group.answers() == [] and group.stream.store.messages == 3
    group.agree()
    assert group.answers() == ["_INBOX.purged", "_INBOX.next"] and group.stream.store.messages == 1


def test_nobody_who_published_is_answered_after_the_end() -> None:
    group = Group()
    group.send("s.a", "_INBOX.a")
    done = group.stream.store.commit_frames(group.frame_no)
    group.stream.committer.stop(deleted=False)
    group.stream.committer.committed(done)
    assert group.answers() == []
