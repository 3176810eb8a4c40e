"""How what a restore has put into a store is committed: by the store's own device, or by a majority of replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Job
from slipstream.jetstream.stream.commit.faults import fault_of
from slipstream.jetstream.stream.stream import Stream

__all__ = ["OwnCommits", "ReplicatedCommits", "RestoreCommits"]


class RestoreCommits(Protocol):
    """Commits for a restore, one at a time."""

    def commit(self, done: Callable[[str], None]) -> None:
        """Commit all that is in the store; `done` gets why that cannot be, or nothing."""
        ...


class OwnCommits:
    """Of a store that nobody else works on."""

    def __init__(self, store: Store, ports: Ports) -> None:
        """Nothing is committed yet."""
        self._store = store
        self._ports = ports

    def commit(self, done: Callable[[str], None]) -> None:
        """See `RestoreCommits`."""
        job = self._store.begin_commit()
        if job is None:
            done("")
        elif job.ended:
            self._finish(job, done)
        else:
            self._ports.run_blocking(
                job.run, guarded(lambda: self._finish(job, done), lambda error: done(fault_of(error).text))
            )

    def _finish(self, job: Job, done: Callable[[str], None]) -> None:
        fault = self._store.finish_commit(job).fault
        done("" if fault is None else fault.text)


class ReplicatedCommits:
    """Of a stream whose replicas this server leads, and that is not open to anybody yet."""

    def __init__(self, stream: Stream) -> None:
        """Commit as it does."""
        self._stream = stream

    def commit(self, done: Callable[[str], None]) -> None:
        """See `RestoreCommits`."""
        self._stream.after_commit(lambda error: done("" if error is None else error.description))
