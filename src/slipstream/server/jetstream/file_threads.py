"""Threads that wait for the disk, and the way back to the event loop.

    run(job, then) ──► queue ──► a thread: jobs ──► ended ──► one wake-up of the loop ──► then(), then(), … ──► flush

A commit is short: handing it over costs as much as a fast device takes. So jobs go through a queue without futures,
and the way back is a pipe that holds at most one byte: whatever has ended by the time the loop looks is finished
together and sent in one go. A thread that is free takes all jobs that wait, up to a limit, and runs them together.

A job is what there was to do when it was made. So while many are under way, whoever has more to do may wait with making
his (`when_free`): what he gets meanwhile is in it. They are made when the group has ended, before its ends are told, so
that the disk works while the loop does.

What this is not: a place for decisions. A job keeps its own errors; one that lets an exception out is a bug, which is
reported, and `then` follows all the same, because somebody waits for it.

Invariants: `then` is called exactly once for each job, on the loop. No job is dropped: `stop` returns when all ended.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from slipstream.jetstream.store.file.group_commit import run_group
from slipstream.jetstream.store.values import Job
from slipstream.server.limits import COMMIT_THREADS_MAX, COMMIT_THREADS_MIN, FILE_THREADS

__all__ = ["ENDS_A_TURN_MAX", "GROUP_COMMITS_MAX", "FileThreads", "FileWork"]

GROUP_COMMITS_MAX: Final = 1_024
"""Commits of so many streams are synced in one go at most: whoever waits for the first waits for the last."""
LARGE_GROUP_MIN: Final = 32
"""Jobs under way from which on a thread waits until another's large group is done, and further jobs with being made."""
ENDS_A_TURN_MAX: Final = 256
"""Jobs that begin, and whose ends are told, in one turn of the loop: about 10 ms each."""

J = TypeVar("J")
_Work = Callable[[], None]
_Report = Callable[[str, Exception], None]


class FileThreads(Generic[J]):
    """A few threads, started when they are needed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        threads_max: int,
        run_and_flush: Callable[[_Work], None],
        report: _Report,
        run_jobs: Callable[[list[J]], None],
        *,
        group_max: int = 1,
    ) -> None:
        """End jobs on `loop`, inside of `run_and_flush`; `report` gets what they or their ends raise.

        `run_jobs` gets what waited when a thread was free, up to `group_max`.
        """
        self._loop = loop
        self._report = report
        self._name = name
        self._threads_max = threads_max
        self._run_and_flush = run_and_flush
        self._run_jobs = run_jobs
        self._group_max = group_max
        self._large_group = threading.Lock()  # one at a time, so that what comes meanwhile is the next
        self._queue: SimpleQueue[tuple[J, _Work] | None] = SimpleQueue()
        self._ended: deque[_Work] = deque()
        self._threads: list[threading.Thread] = []
        self._postponed: deque[_Work] = deque()  # who makes a job when those under way have ended
        self._making = 0  # so many of them make theirs now
        self._unfinished = 0  # jobs whose `then` was not called yet
        self._woken = False  # a byte is in the pipe
        self._wake_in = self._wake_out = -1  # a pipe, from the first job on

    def run(self, job: J, then: _Work) -> None:
        """Run `job` in a thread, then `then` on the loop."""
        self._unfinished += 1
        if len(self._threads) < min(self._unfinished, self._threads_max):
            self._start_thread()
        self._queue.put((job, then))

    def when_free(self, make: _Work) -> None:
        """Call `make`, which hands in a job, now, or when the many that are under way have ended."""
        if not self._postponed and self._unfinished - len(self._ended) < LARGE_GROUP_MIN:
            make()
        else:
            self._postponed.append(make)

    @property
    def _has_room(self) -> bool:
        """Few jobs are under way."""
        return self._unfinished - len(self._ended) < LARGE_GROUP_MIN

    def stop(self) -> None:
        """Wait for everything that was handed in, and finish it."""
        if not self._threads:
            return
        while self._postponed:
            self._postponed.popleft()()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._loop.remove_reader(self._wake_in)
        os.close(self._wake_in)
        os.close(self._wake_out)
        self._threads = []
        if self._ended:
            self._run_and_flush(lambda: self._finish(len(self._ended)))  # the threads are gone, so that is all

    def _start_thread(self) -> None:
        if not self._threads:
            self._wake_in, self._wake_out = os.pipe()
            for fd in (self._wake_in, self._wake_out):
                os.set_blocking(fd, False)
            self._loop.add_reader(self._wake_in, self._on_wake)
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        """One thread."""
        take, ended = self._queue.get, self._ended
        while (task := take()) is not None:
            if self._group_max > 1 and self._queue.qsize() >= LARGE_GROUP_MIN:
                with self._large_group:
                    ended.extend(self._run([task, *self._waiting()]))
            else:
                ended.extend(self._run([task, *self._waiting()]))
            # The loop clears this before it looks at what has ended, so nothing that ends after its look stays unseen.
            if not self._woken:
                self._woken = True
                os.write(self._wake_out, b"\0")

    def _run(self, tasks: list[tuple[J, _Work]]) -> list[_Work]:
        """What follows from these jobs, which were run."""
        try:
            self._run_jobs([job for job, _ in tasks])
        except Exception as error:
            self._loop.call_soon_threadsafe(self._report, "File work", error)
        return [then for _, then in tasks]

    def _waiting(self) -> list[tuple[J, _Work]]:
        """What can be taken without waiting for it, beside one job."""
        tasks: list[tuple[J, _Work]] = []
        while len(tasks) < self._group_max - 1:
            try:
                task = self._queue.get_nowait()
            except Empty:
                break
            if task is None:
                self._queue.put(None)  # the end is for the next look
                break
            tasks.append(task)
        return tasks

    def _on_wake(self) -> None:
        os.read(self._wake_in, 64)
        self._woken = False
        if not self._making and self._has_room:
            self._making = len(self._postponed)
        self._run_and_flush(self._go_on)
        # Those who still wait with a job are woken by the end of what is under way, if that is much.
        if (self._ended or self._making or (self._postponed and self._has_room)) and not self._woken:
            self._woken = True
            os.write(self._wake_out, b"\0")

    def _go_on(self) -> None:
        """What waited begins, then others are told that theirs has ended; the rest when the loop has looked around."""
        now = min(self._making, ENDS_A_TURN_MAX)
        self._making -= now
        for _ in range(now):
            self._call(self._postponed.popleft())
        self._finish()

    def _finish(self, most: int = ENDS_A_TURN_MAX) -> None:
        ended = self._ended
        for _ in range(min(len(ended), most)):
            then = ended.popleft()
            self._unfinished -= 1
            self._call(then)

    def _call(self, work: _Work) -> None:
        try:
            work()
        except Exception as error:
            self._report("What follows from file work", error)  # one stream's mistake is not another's


class FileWork:
    """The threads of a server: commits never wait behind work that takes long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run_and_flush: Callable[[_Work], None],
        report: _Report,
        operations_max: int,
    ) -> None:
        """Start nothing yet; `operations_max` of them at most wait for the disk at the same time."""
        committing = min(max(2 * (os.cpu_count() or 1), COMMIT_THREADS_MIN), COMMIT_THREADS_MAX)
        committing = min(committing, operations_max - operations_max // 2)
        self.commits: FileThreads[Job] = FileThreads(
            loop,
            "slipstream-commit",
            committing,
            run_and_flush,
            report,
            run_group,
            group_max=GROUP_COMMITS_MAX,
        )
        self.rest: FileThreads[_Work] = FileThreads(
            loop,
            "slipstream-io",
            min(FILE_THREADS, operations_max // 2),
            run_and_flush,
            report,
            lambda jobs: jobs[0](),
        )

    def stop(self) -> None:
        """Wait for everything that was handed in, and finish it."""
        self.rest.stop()
        self.commits.stop()
