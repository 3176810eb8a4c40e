"""Jobs side by side, each in a process of its own, started together.

    parent                       worker (one a job)
      | -- job ------------------> | connects and subscribes
      | <-- ready ---------------- |
      | -- go (when all are) ----> | works
      | <-- Tally or Failure ----- | ends

Receivers are therefore subscribed before the first publisher sends. Processes, not threads: two of them must be able to
use two cores. Invariant: when `run_together` returns or raises, no worker is left running.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from time import monotonic_ns
from typing import TypeVar

from slipstream import limits
from slipstream.client.load import Job, Tally
from slipstream.client.options import ClientError, ClientTimeout

__all__ = ["run_here", "run_together"]

_Reply = TypeVar("_Reply")
_END_TIMEOUT_S = 5.0  # a worker that has sent its tally has nothing left to do


@dataclass(frozen=True)
class _Ready:
    """The worker's connections are open."""


@dataclass(frozen=True)
class _Failure:
    """Why a worker could not do its job."""

    text: str


def run_here(job: Job) -> Tally:
    """Run one job in this process.

    Raises:
        ClientError: it failed.
    """
    runner = job.prepare()
    try:
        return runner.run()
    finally:
        runner.close()


def run_together(jobs: Sequence[Job], *, timeout_ns: int = limits.LOAD_RUN_TIMEOUT_NS) -> list[Tally]:
    """Run jobs at the same time in a process each; return their tallies in order.

    Raises:
        ClientError: one of them failed, with its reason, or all together took too long; the others are stopped.
    """
    if len(jobs) > limits.LOAD_PROCESSES_MAX:
        raise ClientError(f"{len(jobs)} processes of load; at most {limits.LOAD_PROCESSES_MAX} run together")
    deadline = monotonic_ns() + timeout_ns
    with _workers(jobs) as pipes:
        _gather(pipes, _Ready, deadline)
        for pipe in pipes:
            pipe.send(None)
        return _gather(pipes, Tally, deadline)


def _gather(pipes: Sequence[Connection], kind: type[_Reply], deadline: int) -> list[_Reply]:
    """One reply from every worker; the first failure ends the waiting."""
    replies: dict[Connection, _Reply] = {}
    while len(replies) < len(pipes):
        awaited = [pipe for pipe in pipes if pipe not in replies]
        ready = wait(awaited, max(deadline - monotonic_ns(), 0) / 1e9)
        if not ready:
            raise ClientTimeout("the load did not end in time")
        for pipe in awaited:
            if pipe in ready:
                replies[pipe] = _receive(pipe, kind)
    return [replies[pipe] for pipe in pipes]


def _receive(pipe: Connection, kind: type[_Reply]) -> _Reply:
    try:
        reply = pipe.recv()
    except EOFError:
        raise ClientError("a load process ended without a result") from None
    if isinstance(reply, _Failure):
        raise ClientError(reply.text)
    assert isinstance(reply, kind)
    return reply


@contextmanager
def _workers(jobs: Sequence[Job]) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")  # a fork would inherit the caller's threads and sockets
    processes, pipes = [], []
    finished = False
    try:
        for job in jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(job, theirs), daemon=True)
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


def _work(job: Job, pipe: Connection) -> None:
    """The life of a worker."""
    try:
        runner = job.prepare()
        try:
            pipe.send(_Ready())
            pipe.recv()
            pipe.send(runner.run())
        finally:
            runner.close()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the parent is gone or the user has had enough
    except (ClientError, ValueError) as error:
        pipe.send(_Failure(f"{type(job).__name__.lower()}: {error}"))
