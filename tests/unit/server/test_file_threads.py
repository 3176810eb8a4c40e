"""Threads for file work: every job ends on the loop, once, whatever became of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from slipstream.limits import CONCURRENT_IO
from slipstream.server.jetstream.file_threads import ENDS_A_TURN_MAX, LARGE_GROUP_MIN, FileThreads, FileWork
from slipstream.server.limits import FILE_THREADS


class Loop:
    """An event loop under test: what was flushed when, and what failed."""

    def __init__(self, threads_max: int = 4, group_max: int = 1) -> None:
        self.events: list[str] = []
        self.failures: list[object] = []
        loop = asyncio.get_running_loop()
        self.together: list[int] = []  # how many jobs were run in one go
        self.threads: FileThreads[Callable[[], None]] = FileThreads(
            loop,
            "io",
            threads_max,
            self.run_and_flush,
            lambda _, error: self.failures.append(error),
            self.run_jobs,
            group_max=group_max,
        )

    def run_jobs(self, jobs: list[Callable[[], None]]) -> None:
        self.together.append(len(jobs))
        for job in jobs:
            job()

    def run_and_flush(self, work: Callable[[], None]) -> None:
        work()
        self.events.append("flush")

    async def run(self, job: Callable[[], None], name: str = "then") -> None:
        done = asyncio.Event()
        self.threads.run(job, lambda: (self.events.append(name), done.set())[0])
        await done.wait()


def nothing() -> None:
    pass


class NoCommit:
    """A commit of nothing."""

    ended = False

    def __init__(self, run: Callable[[], None] = nothing) -> None:
        self.run = run


def test_a_job_is_followed_by_its_end_and_a_flush() -> None:
    async def run() -> list[str]:
        loop = Loop()
        await loop.run(lambda: loop.events.append(threading.current_thread().name))
        loop.threads.stop()
        return loop.events

    assert asyncio.run(run()) == ["io-0", "then", "flush"]


def test_what_ended_together_is_flushed_together() -> None:
    async def run() -> list[str]:
        loop = Loop(threads_max=1)
        ended = threading.Event()
        for name in ("a", "b"):
            loop.threads.run(nothing, lambda name=name: loop.events.append(name))  # type: ignore[misc]
        loop.threads.run(ended.set, lambda: loop.events.append("c"))
        ended.wait()  # the loop does not turn meanwhile
        loop.threads.stop()
        return loop.events

    assert asyncio.run(run()) == ["a", "b", "c", "flush"]


def test_a_job_that_fails_is_reported_and_ends() -> None:
    async def run() -> Loop:
        loop = Loop()
        await loop.run(lambda: [][1])
        await asyncio.sleep(0)
        loop.threads.stop()
        return loop

    loop = asyncio.run(run())
    assert loop.events == ["then", "flush"]
    assert [type(error) for error in loop.failures] == [IndexError]


def test_an_end_that_fails_does_not_keep_the_others() -> None:
    async def run() -> Loop:
        loop = Loop(threads_max=1)
        loop.threads.run(nothing, lambda: [][1])
        await loop.run(nothing)
        loop.threads.stop()
        return loop

    loop = asyncio.run(run())
    assert [event for event in loop.events if event != "flush"] == ["then"]
    assert [type(error) for error in loop.failures] == [IndexError]


def test_jobs_wait_side_by_side_up_to_the_limit() -> None:
    async def run() -> None:
        loop = Loop(threads_max=3)
        together = threading.Barrier(3)
        await asyncio.gather(*(loop.run(lambda: (together.wait(), None)[1]) for _ in range(9)))
        loop.threads.stop()
        assert loop.events.count("then") == 9

    asyncio.run(run())


def test_one_job_after_the_other_takes_one_thread() -> None:
    async def run() -> set[str]:
        loop, names = Loop(), set[str]()
        for _ in range(20):
            await loop.run(lambda: names.add(threading.current_thread().name))
        loop.threads.stop()
        return names

    assert asyncio.run(run()) == {"io-0"}


def test_stop_finishes_what_was_handed_in() -> None:
    async def run() -> list[str]:
        loop = Loop(threads_max=2)
        for number in range(50):
            loop.threads.run(nothing, lambda number=number: loop.events.append(str(number)))  # type: ignore[misc]
        loop.threads.stop()
        return loop.events

    assert len([event for event in asyncio.run(run()) if event != "flush"]) == 50


def test_nothing_to_do_needs_nothing() -> None:
    async def run() -> None:
        Loop().threads.stop()

    asyncio.run(run())


def test_commits_do_not_wait_behind_long_work() -> None:
    async def run() -> list[str]:
        events, committed, longer = list[str](), asyncio.Event(), threading.Event()
        files = FileWork(asyncio.get_running_loop(), lambda work: work(), lambda _what, _error: None, CONCURRENT_IO)
        for _ in range(2 * FILE_THREADS):
            files.rest.run(longer.wait, lambda: events.append("long"))
        files.commits.run(NoCommit(), lambda: (events.append("commit"), committed.set())[0])
        await committed.wait()
        longer.set()
        files.stop()
        return events

    assert asyncio.run(run()) == ["commit", *["long"] * (2 * FILE_THREADS)]


@pytest.mark.parametrize("operations_max", [4, 5, 9, CONCURRENT_IO])
def test_no_more_operations_wait_for_the_disk_than_configured(operations_max: int) -> None:
    async def run() -> int:
        files = FileWork(asyncio.get_running_loop(), lambda work: work(), lambda _what, _error: None, operations_max)
        waiting, go_on = threading.Semaphore(0), threading.Event()

        def job() -> None:
            waiting.release()
            go_on.wait()

        for _ in range(50):
            files.commits.run(NoCommit(job), nothing)
            files.rest.run(job, nothing)
        for _ in range(1 + len(files.rest._threads)):  # one of the threads for commits may have taken all of them
            waiting.acquire()
        threads = len(files.commits._threads) + len(files.rest._threads)
        go_on.set()
        files.stop()
        return threads

    at_once = asyncio.run(run())
    assert at_once == min(operations_max, at_once)
    assert at_once >= 4


def test_what_waits_is_run_together_up_to_a_limit() -> None:
    async def run() -> Loop:
        loop = Loop(threads_max=1, group_max=4)
        begun, go_on = threading.Event(), threading.Event()
        loop.threads.run(lambda: (begun.set(), go_on.wait(), None)[2], nothing)
        begun.wait()
        for number in range(6):
            loop.threads.run(nothing, lambda number=number: loop.events.append(str(number)))  # type: ignore[misc]
        go_on.set()
        loop.threads.stop()
        return loop

    loop = asyncio.run(run())
    assert loop.together == [1, 4, 2]
    assert [event for event in loop.events if event != "flush"] == list("012345")


def test_many_ends_leave_the_loop_time_for_others() -> None:
    async def run() -> list[str]:
        loop = Loop(threads_max=1)
        ended, done = threading.Event(), asyncio.Event()
        for _ in range(ENDS_A_TURN_MAX):
            loop.threads.run(nothing, lambda: loop.events.append("end"))
        loop.threads.run(ended.set, lambda: (loop.events.append("last"), done.set())[0])
        ended.wait()  # the loop does not turn meanwhile
        await done.wait()
        loop.threads.stop()
        return loop.events

    assert asyncio.run(run()) == [*["end"] * ENDS_A_TURN_MAX, "flush", "last", "flush"]


class Busy(Loop):
    """A loop with many jobs under way, until `go_on` is set."""

    def __init__(self) -> None:
        super().__init__(threads_max=1, group_max=1024)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.threads.run(lambda: (self.begun.set(), self.go_on.wait(), None)[2], lambda: self.events.append("end"))
        self.begun.wait()
        for _ in range(LARGE_GROUP_MIN - 1):
            self.threads.run(nothing, lambda: self.events.append("end"))


def test_a_job_is_made_at_once_when_few_are_under_way() -> None:
    async def run() -> list[str]:
        loop = Loop()
        loop.threads.when_free(lambda: loop.events.append("make"))
        return loop.events

    assert asyncio.run(run()) == ["make"]


def test_while_many_are_under_way_others_wait_with_making_theirs() -> None:
    async def run() -> list[str]:
        loop, done = Busy(), asyncio.Event()
        made: list[str] = []

        def make() -> None:
            loop.events.append("make")
            loop.threads.run(lambda: made.append("more"), lambda: (loop.events.append("mine"), done.set())[0])

        loop.threads.when_free(make)
        assert loop.events == [] == made
        loop.go_on.set()
        await done.wait()
        loop.threads.stop()
        assert made == ["more"]
        return [event for event in loop.events if event != "flush"]

    events = asyncio.run(run())
    # Before the others are told, or behind the first of them: the disk works while they are.
    assert events.index("make") <= 1
    assert sorted(events) == [*["end"] * LARGE_GROUP_MIN, "make", "mine"]


def test_who_makes_nothing_or_fails_does_not_keep_the_others() -> None:
    async def run() -> Loop:
        loop, done = Busy(), asyncio.Event()

        def make() -> None:
            loop.events.append("make")
            loop.threads.when_free(done.set)  # while others still wait

        loop.threads.when_free(make)
        loop.threads.when_free(lambda: [][1])
        loop.go_on.set()
        await done.wait()
        loop.threads.stop()
        return loop

    loop = asyncio.run(run())
    assert [type(error) for error in loop.failures] == [IndexError]


def test_many_that_wait_are_made_in_pieces_and_in_order() -> None:
    async def run() -> list[str]:
        loop, done = Busy(), asyncio.Event()
        for number in range(ENDS_A_TURN_MAX + 1):
            loop.threads.when_free(lambda number=number: loop.events.append(f"make {number}"))  # type: ignore[misc]
        loop.threads.when_free(done.set)
        loop.go_on.set()
        await done.wait()
        loop.threads.stop()
        return loop.events

    events = asyncio.run(run())
    made = [event for event in events if event.startswith("make")]
    assert made == [f"make {number}" for number in range(ENDS_A_TURN_MAX + 1)]
    last = events.index(made[-1])
    assert "flush" in events[events.index(made[-2]) : last]


def test_a_stop_makes_what_waited() -> None:
    async def run() -> list[str]:
        loop = Busy()
        loop.threads.when_free(lambda: loop.threads.run(nothing, lambda: loop.events.append("mine")))
        loop.go_on.set()
        loop.threads.stop()
        return loop.events

    assert "mine" in asyncio.run(run())
