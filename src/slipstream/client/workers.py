"""Jobs side by side, each in a process of its own, started together.

    parent                       worker (one a job)
      | -- job ------------------> | connects and subscribes
      | <-- ready ---------------- |
      | -- go (when all are) ----> | works
      | <-- how far, now and then  |
      | <-- Tally or Failure ----- | ends

How far it is a worker tells only if somebody wants to know, from a thread of its own that looks a few times a second.
Receivers are therefore subscribed before the first publisher sends. Processes, not threads: two of them must be able to
use two cores. Ctrl-C is for the parent alone, which stops the workers. Invariant: when `run_together` is over, or its
process dies, no worker is left running.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from time import monotonic_ns
from typing import TypeVar

from slipstream.client.limits import LOAD_PROCESSES_MAX, LOAD_RUN_TIMEOUT_NS
from slipstream.client.load import Counting, LoadJob, Runner, Tally
from slipstream.client.options import ClientError, ClientTimeout

__all__ = ["run_here", "run_together"]

_Reply = TypeVar("_Reply")
_LOOK_S = 0.1  # between two looks at how far a worker is
_WAIT_MAX_S = 3600.0  # at once; some days are more than the system can wait
_END_TIMEOUT_S = 5.0  # a worker that has sent its tally has nothing left to do


@dataclass(frozen=True)
class _Ready:
    """The worker's connections are open."""


@dataclass(frozen=True)
class _SoFar:
    """How far the worker is."""

    messages: int


@dataclass(frozen=True)
class _Failure:
    """Why a worker could not do its job."""

    text: str


def run_here(job: LoadJob) -> Tally:
    """Run one job in this process.

    Raises:
        ClientError: it failed.
    """
    runner = job.prepare()
    try:
        return runner.run()
    finally:
        runner.close()


def run_together(
    jobs: Sequence[LoadJob],
    *,
    timeout_ns: int = LOAD_RUN_TIMEOUT_NS,
    on_progress: Callable[[int], None] | None = None,
) -> list[Tally]:
    """Run jobs at the same time in a process each; return their tallies in order.

    Args:
        jobs: what to do.
        timeout_ns: for all of it.
        on_progress: called a few times a second with the messages done so far, by all of them that count.

    Raises:
        ClientError: one of them failed, with its reason, or all together took too long; the others are stopped.
    """
    if len(jobs) > LOAD_PROCESSES_MAX:
        raise ClientError(f"{len(jobs)} processes of load; at most {LOAD_PROCESSES_MAX} run together")
    deadline = monotonic_ns() + timeout_ns
    with _workers(jobs, tells=on_progress is not None) as pipes:
        _gather(pipes, _Ready, deadline)
        for pipe in pipes:
            pipe.send(None)
        return _gather(pipes, Tally, deadline, on_progress)


def _gather(
    pipes: Sequence[Connection], kind: type[_Reply], deadline: int, on_progress: Callable[[int], None] | None = None
) -> list[_Reply]:
    """One reply from every worker; the first failure ends the waiting."""
    replies: dict[Connection, _Reply] = {}
    so_far: dict[Connection, int] = {}
    while len(replies) < len(pipes):
        awaited = [pipe for pipe in pipes if pipe not in replies]
        ready = wait(awaited, min(max(deadline - monotonic_ns(), 0) / 1e9, _WAIT_MAX_S))
        if not ready and monotonic_ns() >= deadline:
            raise ClientTimeout("the load did not end in time")
        for pipe in awaited:
            if pipe not in ready:
                continue
            reply = _receive(pipe, kind)
            if isinstance(reply, _SoFar):
                so_far[pipe] = reply.messages
                if on_progress is not None:
                    on_progress(sum(so_far.values()))
            else:
                replies[pipe] = reply
    return [replies[pipe] for pipe in pipes]


def _receive(pipe: Connection, kind: type[_Reply]) -> _Reply | _SoFar:
    try:
        reply = pipe.recv()
    except EOFError:
        raise ClientError("a load process ended without a result") from None
    if isinstance(reply, _Failure):
        raise ClientError(reply.text)
    assert isinstance(reply, (kind, _SoFar))
    return reply


@contextmanager
def _workers(jobs: Sequence[LoadJob], *, tells: bool) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")  # a fork would inherit the caller's threads and sockets
    processes, pipes = [], []
    finished = False
    try:
        for job in jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(job, theirs, tells), daemon=True)
            with _sigint_later():
                process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        yield pipes
        finished = True
    finally:
        for process in processes:
            process.join(_END_TIMEOUT_S if finished else 0)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for pipe in pipes:
            pipe.close()


@contextmanager
def _sigint_later() -> Iterator[None]:
    """Start a process that never sees Ctrl-C, and take notice of it ourselves only when the process has its job.

    Otherwise a worker would show a traceback, of its imports or of a job that does not come.
    """
    resource_tracker.ensure_running()  # its start would unblock the signal in between
    interrupts: list[int] = []
    handles = threading.current_thread() is threading.main_thread()  # others are not interrupted
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number)) if handles else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if handles:
            signal.signal(signal.SIGINT, handler)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


def _end_with_parent() -> None:
    """A worker whose parent was killed has nobody to work for."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: LoadJob, pipe: Connection, tells: bool) -> None:
    """The life of a worker."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        runner = job.prepare()
        try:
            pipe.send(_Ready())
            pipe.recv()
            with _telling(runner, pipe, tells):
                tally = runner.run()
            pipe.send(tally)
        finally:
            runner.close()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the parent is gone or the user has had enough
    except (ClientError, ValueError) as error:
        pipe.send(_Failure(f"{type(job).__name__.lower()}: {error}"))


@contextmanager
def _telling(runner: Runner, pipe: Connection, tells: bool) -> Iterator[None]:
    """Say how far the runner is, as long as this lasts."""
    if not tells or not isinstance(runner, Counting):
        yield
        return
    counting, ended = runner, threading.Event()

    def tell() -> None:
        while not ended.wait(_LOOK_S):
            pipe.send(_SoFar(counting.done))

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()  # nothing comes between what follows
