"""Threads that wait for the disk, and the way back to the event loop.

    run(job, then) ──► queue ──► a thread: job() ──► ended ──► one wake-up of the loop ──► then(), then(), … ──► flush

A commit is short: handing it over costs as much as a fast device takes. So jobs go through a queue without futures,
and the way back is a pipe that holds at most one byte: whatever has ended by the time the loop looks is finished
together and sent in one go.

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
from queue import SimpleQueue

from slipstream.limits import COMMIT_THREADS_MAX, COMMIT_THREADS_MIN, FILE_THREADS

__all__ = ["FileThreads", "FileWork"]

_Work = Callable[[], None]
_Report = Callable[[str, Exception], None]


class FileThreads:
    """A few threads, started when they are needed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        threads_max: int,
        run_and_flush: Callable[[_Work], None],
        report: _Report,
    ) -> None:
        """End jobs on `loop`, inside of `run_and_flush`; `report` gets what they or their ends raise."""
        self._loop = loop
        self._report = report
        self._name = name
        self._threads_max = threads_max
        self._run_and_flush = run_and_flush
        self._queue: SimpleQueue[tuple[_Work, _Work] | None] = SimpleQueue()
        self._ended: deque[_Work] = deque()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0  # jobs whose `then` was not called yet
        self._woken = False  # a byte is in the pipe
        self._wake_in = self._wake_out = -1  # a pipe, from the first job on

    def run(self, job: _Work, then: _Work) -> None:
        """Run `job` in a thread, then `then` on the loop."""
        self._unfinished += 1
        if len(self._threads) < min(self._unfinished, self._threads_max):
            self._start_thread()
        self._queue.put((job, then))

    def stop(self) -> None:
        """Wait for everything that was handed in, and finish it."""
        if not self._threads:
            return
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._loop.remove_reader(self._wake_in)
        os.close(self._wake_in)
        os.close(self._wake_out)
        self._threads = []
        if self._ended:
            self._run_and_flush(self._finish)  # the threads are gone, so that is all

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
            job, then = task
            try:
                job()
            except Exception as error:
                self._loop.call_soon_threadsafe(self._report, "File work", error)
            ended.append(then)
            # The loop clears this before it looks at what has ended, so nothing that ends after its look stays unseen.
            if not self._woken:
                self._woken = True
                os.write(self._wake_out, b"\0")

    def _on_wake(self) -> None:
        os.read(self._wake_in, 64)
        self._woken = False
        self._run_and_flush(self._finish)

    def _finish(self) -> None:
        ended = self._ended
        for _ in range(len(ended)):  # what ends meanwhile waits until the loop has looked at its sockets
            then = ended.popleft()
            self._unfinished -= 1
            try:
                then()
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
        self.commits = FileThreads(loop, "slipstream-commit", committing, run_and_flush, report)
        self.rest = FileThreads(loop, "slipstream-io", min(FILE_THREADS, operations_max // 2), run_and_flush, report)

    def stop(self) -> None:
        """Wait for everything that was handed in, and finish it."""
        self.rest.stop()
        self.commits.stop()
