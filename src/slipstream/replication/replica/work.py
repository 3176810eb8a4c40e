"""Commits and upkeep of a replica's store where no stream does it: of a follower, and of the meta group's log.

    wake ──end of turn──► a commit in its thread ──► persisted ──► again if more was written meanwhile
                     │                           └─► upkeep now and then, a piece at a time
                     └─► of a leader it is proposed first

Upkeep keeps what a leader needs to know: records of removed messages stay for as long as the duplicate window is, so
that whoever leads next finds their ids. Closed segments are compressed as the stream asks for, here as everywhere.

What this is not: what a stream does. Nothing is decided here, and nobody is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.packing import codec_of
from slipstream.jetstream.config.stored import from_stored
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.packed.codecs import Codec, is_known
from slipstream.jetstream.store.values import Job
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.commit.faults import fault_of
from slipstream.jetstream.stream.limits import STREAM_UPKEEP_IDLE_NS, STREAM_UPKEEP_INTERVAL_NS

__all__ = ["NO_STREAM", "ReplicaWork"]

NO_STREAM: Final = b"{}"
"""In the place of a stream's configuration: the log is that of no stream."""


class ReplicaWork:
    """Drives one store until it is stopped."""

    def __init__(
        self,
        store: FileStore,
        ports: Ports,
        persisted: Callable[[], None],
        failed: Callable[[StorageFault], None],
        leads: Replication | None = None,
    ) -> None:
        """`persisted` is called after each commit, `failed` instead, and then nothing more happens.

        Of a leader, `leads` has commits proposed, and is told when they end, also after `stop`.
        """
        self._store = store
        self._ports = ports
        self._persisted = persisted
        self._failed = failed
        self._leads = leads
        self._scheduled = False
        self._commits = False  # one is in its thread
        self._keeps = False  # a piece of upkeep is
        self._more = False
        self._stopped: Callable[[], None] | None = None
        self._timer: Cancel | None = None
        self._read_config = b""  # of which `_window_ns` is
        self._window_ns = 0
        self._look_at_config()
        store.keep_removed(self._since_ns)

    def _look_at_config(self) -> None:
        """Have upkeep go by what the stream asks for, as far as that is committed."""
        if self._store.config is self._read_config:
            return
        self._read_config = self._store.config
        if self._read_config == NO_STREAM:
            return
        config, _ = from_stored(self._read_config)
        self._window_ns = max(config.duplicate_window_ns, 0)
        codec = codec_of(config)
        self._store.compress(codec if is_known(codec) else Codec.NONE)
        if config.storage is StorageType.MEMORY:
            self._store.count_as_memory()

    def _since_ns(self) -> int:
        """Ids of messages from then on are in the duplicate window; a leader counts the same from its own clock."""
        return self._ports.now_ns() - self._window_ns

    def wake(self) -> None:
        """Something was written: commit it at the end of this turn, or behind the commit that runs."""
        if self._commits or self._keeps:
            self._more = True
        elif not self._scheduled and self._stopped is None:
            self._scheduled = True
            self._ports.call_soon(guarded(self._begin, self._broke))

    def scrub_next(self) -> bool:
        """Have one more piece of what was stored long ago read back; False: all of it was, or nothing may run now."""
        found = self._stopped is None and self._store.scrub_next()
        if found:
            self._keep_up_later()
        return found

    def stop(self, quiet: Callable[[], None]) -> None:
        """No more; `quiet` is called when no thread works on the store: now, if none does."""
        self._stopped = quiet
        if self._timer is not None:
            self._timer()
            self._timer = None
        self._look_quiet()

    def _begin(self) -> None:
        self._scheduled = False
        if self._stopped is not None:
            return
        if self._commits or self._keeps:  # upkeep began in this very turn
            self._more = True
            return
        self._more = False
        leads = self._leads
        # A follower's may be inline: nobody else has to wait for it. A leader's is proposed before it is written.
        job = self._store.begin_commit(sync=True, inline=leads is None and self._ports.alone)
        if job is None:
            return
        self._commits = True
        if leads is not None and not leads.begun(job, awaited=False):
            self._commits = False
            self._look_quiet()
        elif job.attend():
            self._finish(job)
        else:
            self._ports.run_commit(job, guarded(lambda: self._finish(job), self._broke))

    def _finish(self, job: Job) -> None:
        self._commits = False
        fault = self._store.finish_commit(job).fault
        if self._leads is not None:
            self._leads.synced(fault)
        if self._stopped is not None:
            self._look_quiet()
        elif fault is not None:
            self._failed(fault)
        else:
            self._persisted()
            if self._more:
                self.wake()
            self._keep_up_later()

    def _keep_up_later(self) -> None:
        if self._timer is None and self._stopped is None:
            self._timer = self._ports.call_later(STREAM_UPKEEP_INTERVAL_NS, guarded(self._keep_up, self._broke))

    def _keep_up(self) -> None:
        self._timer = None
        if self._stopped is not None or self._keeps:
            return
        self._look_at_config()
        if self._commits:
            self._keep_up_later()
        elif (job := self._store.begin_upkeep()) is not None:
            self._keeps = True
            self._ports.run_blocking(job.run, guarded(lambda: self._kept_up(job), self._broke))
        elif self._store.sheds:
            if self._leads is None and self._store.uncommitted_bytes:
                self.wake()  # the segment that was closed, and the head of the next
            if self._timer is None:
                self._timer = self._ports.call_later(STREAM_UPKEEP_IDLE_NS, guarded(self._keep_up, self._broke))

    def _kept_up(self, job: Job) -> None:
        self._keeps = False
        self._store.finish_upkeep(job)
        if self._stopped is not None:
            self._look_quiet()
            return
        self._keep_up()
        if self._more or self._store.erasing:
            self.wake()

    def _look_quiet(self) -> None:
        if self._stopped is not None and not (self._commits or self._keeps):
            quiet, self._stopped = self._stopped, _nothing  # once: a leader's `synced` may have stopped this
            quiet()

    def _broke(self, error: Exception) -> None:
        committed, self._commits, self._keeps = self._commits, False, False
        self._ports.report("A replica", error)
        if committed and self._leads is not None:
            self._leads.synced(fault_of(error))
        if self._stopped is not None:
            self._look_quiet()
        else:
            self._failed(fault_of(error))


def _nothing() -> None:
    pass
