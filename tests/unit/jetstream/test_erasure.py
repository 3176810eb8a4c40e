"""An erased message: the answer waits until no copy of it is left."""

import json
from typing import Any

from slipstream.errors import StorageFault
from slipstream.jetstream.store.values import Committed, Job
from slipstream.units import SECOND_NS
from support.jetstream_world import DiskLikeStore, FakeStores, World


class _Piece:
    ended = False

    def run(self) -> None:
        """Nothing to do in a thread."""


class CopyingStore(DiskLikeStore):
    """Counts erasures as a file store does: until the commit behind their own, and for as long as a copy is left."""

    def __init__(self, config: bytes) -> None:
        super().__init__(config)
        self.copies = 0
        self.upkeep_held = False
        self._asked = self._logging = self._committed = 0  # erasures asked for, in the commit in flight, committed
        self._overwriting = self._overwritten = 0  # of the committed ones

    @property
    def erasing(self) -> int:
        return self._asked - self._overwritten + self.copies

    @property
    def erased(self) -> tuple[int, int]:
        return self._committed, 0 if self.copies else self._overwritten

    def erase(self, seq: int) -> bool:
        self._asked += 1
        return self._store.erase(seq)

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> Job | None:
        if self._overwritten < self._committed:
            self._store.set_config(self._store.config)  # there is something to write
        job = super().begin_commit(sync=sync)
        if job is not None:
            self._logging, self._overwriting = self._asked, self._committed
        return job

    def finish_commit(self, job: Job) -> Committed:
        done = super().finish_commit(job)
        if done.fault is None:
            self._committed, self._overwritten = self._logging, self._overwriting
        else:
            self._asked = self._committed
        return done

    def begin_upkeep(self) -> Job | None:
        return _Piece() if self.copies and not self.upkeep_held else None

    def finish_upkeep(self, job: Job) -> None:
        self.copies -= 1


class CopyingStores(FakeStores):
    """Makes such stores."""

    def create(self, config: Any, created_ns: int) -> Any:
        made = super().create(config, created_ns)
        return self.made.setdefault(config.name + " copying", CopyingStore(made.config))


def prepared(messages: int = 3) -> tuple[World, CopyingStore]:
    w = World(stores=CopyingStores())
    w.create("S", subjects=["s"])
    for _ in range(messages):
        w.publish("s")
    store = w.account.streams["S"].store
    assert isinstance(store, CopyingStore)
    return w, store


def ask(w: World, seq: int, **more: Any) -> bytes:
    """Ask for a deletion without waiting; where its answer goes."""
    reply = b"_ANSWER.%d" % seq
    w.ports.route(b"$JS.API.STREAM.MSG.DELETE.S", reply, None, json.dumps({"seq": seq, **more}).encode())
    return reply


def answers(w: World, reply: bytes) -> list[Any]:
    return [json.loads(sent[3]) for sent in w.ports.sent if sent[0] == reply]


def test_answered_when_the_last_copy_is_gone() -> None:
    w, store = prepared()
    store.copies, store.upkeep_held = 2, True
    reply = ask(w, 1)
    w.ports.settle()
    assert w.seqs() == [2, 3] and answers(w, reply) == []
    w.ports.advance(5 * SECOND_NS)
    assert answers(w, reply) == []
    store.upkeep_held = False
    w.ports.advance(2 * SECOND_NS)
    assert store.copies == 0
    assert [answer["success"] for answer in answers(w, reply)] == [True]


def test_upkeep_is_not_waited_for_when_it_can_be_done() -> None:
    w, store = prepared()
    store.copies = 3
    reply = ask(w, 1)
    w.ports.settle()
    assert len(answers(w, reply)) == 1


def test_a_plain_deletion_does_not_wait_for_copies() -> None:
    w, store = prepared()
    store.copies, store.upkeep_held = 1, True
    reply = ask(w, 1, no_erase=True)
    w.ports.settle()
    assert len(answers(w, reply)) == 1


def test_later_erasures_do_not_hold_up_earlier_ones() -> None:
    w, store = prepared()
    w.ports.jobs_held = True
    first = ask(w, 1)
    w.ports.settle()
    second = ask(w, 2)
    for _ in range(2):  # its own commit, and the one that overwrites it and holds the second erasure
        assert answers(w, first) == []
        job, on_done = w.ports.jobs.pop(0)
        job()
        on_done()
    assert store.erasing == 1
    assert len(answers(w, first)) == 1 and answers(w, second) == []
    w.ports.jobs_held = False
    w.ports.settle()
    assert len(answers(w, second)) == 1


def test_a_failed_commit_is_told() -> None:
    w, store = prepared()
    store.copies, store.upkeep_held = 1, True
    store.fail_next = StorageFault("no luck")
    reply = ask(w, 1)
    w.ports.settle()
    assert [answer["error"]["err_code"] for answer in answers(w, reply)] == [10077]


def test_who_waits_for_a_stream_that_goes_is_told_so() -> None:
    w, store = prepared()
    store.copies, store.upkeep_held = 1, True
    reply = ask(w, 1)
    w.ports.settle()
    assert w.api("STREAM.DELETE.S")["success"] is True
    store.upkeep_held = False
    w.ports.advance(2 * SECOND_NS)
    assert [answer["error"]["err_code"] for answer in answers(w, reply)] == [10059]
    assert w.dispatcher.load.waiting == 0
