"""Streams come and go: their file work, which runs in threads, and what else has to happen in order.

Until it is done the name is busy, and other requests for that name wait their turn. Whatever goes wrong, whoever asked
is answered, the name is free again, and nothing of a stream that could not be made stays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.busy import BusyNames
from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.running import RunningStreams
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import call, guarded, guarded_with
from slipstream.jetstream.ports import Ports, StreamStores
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.faults import fault_of, store_error
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Done", "Fill", "StreamMaker"]

Done = Callable[[Stream | ApiError], None]
Fill = Callable[[StreamConfig, Store, Callable[[int | ApiError], None]], None]
"""Gets an empty store, and later tells when its stream was made (nanoseconds), or why it stays empty."""


class StreamMaker:
    """Makes and removes the streams of one account."""

    def __init__(
        self,
        account: str,
        ports: Ports,
        stores: StreamStores,
        running: RunningStreams,
        holdings: Holdings,
        busy: BusyNames,
        advisories: Advisories,
    ) -> None:
        self._account = account
        self._ports = ports
        self._stores = stores
        self._running = running
        self._holdings = holdings
        self._busy = busy
        self._advisories = advisories
        self.creating: set[str] = set()  # streams that are not there yet, and count

    def create(
        self, config: StreamConfig, done: Done, fill: Fill | None = None, *, created_ns: int | None = None
    ) -> None:
        """Make a stream that nothing speaks against; `done` gets it when it listens and all is durable."""
        name = config.name
        created_ns = created_ns or self._ports.now_ns()
        outcome: list[Store | StorageFault] = []

        def broke(error: Exception) -> None:
            # Nobody expected it: nothing of the stream stays, and the name is free again.
            self._ports.report(f"The creation of stream '{self._account} > {name}'", error)
            self.creating.discard(name)
            self._abandon(config, outcome[0] if outcome else None, store_error(fault_of(error)), done)

        def make() -> None:
            try:
                outcome.append(self._stores.create(config, created_ns))
            except Exception as error:
                # Whatever it is, the client gets an answer and the name is free again.
                outcome.append(fault_of(error))

        def made() -> None:
            (made_or_fault,) = outcome
            if isinstance(made_or_fault, StorageFault):
                self.creating.remove(name)
                self._holdings.give_back(name)
                self._ports.log("ERR", f"Stream '{self._account} > {name}' could not be created: {made_or_fault}")
                self._busy.release(name)
                done(store_error(made_or_fault))
            elif fill is not None:
                fill(config, made_or_fault, guarded_with(partial(live, made_or_fault), broke))
            else:
                live(made_or_fault, created_ns)

        def live(store: Store, since: int | ApiError) -> None:
            self.creating.remove(name)
            if isinstance(since, ApiError):
                self._abandon(config, store, since, done)
                return
            try:
                stream = self._running.make(config, store, since)
                self._running.start(stream, recovered=False)
            except Exception as error:
                fault = fault_of(error)
                self._ports.log("ERR", f"Stream '{self._account} > {name}' could not be created: {fault}")
                self._abandon(config, store, store_error(fault), done)
                return
            self._busy.release(name)
            # Answered when it listens on all of its subjects, which may be many.
            announce = partial(self.announce, stream, "create", done=done)
            stream.slices.after(lambda: stream.after_commit(announce))

        self._holdings.take(config)
        self._busy.take(name)
        self.creating.add(name)
        self._ports.run_blocking(make, guarded(made, broke))

    def destroy(
        self, stream: Stream, done: Callable[[ApiError | None], None], broke: Callable[[Exception], None]
    ) -> None:
        """Remove a stream and its files; its name is busy. `broke`: told of what nobody expected."""
        name = stream.name
        self._running.forget(name)
        self._running.stop(stream, deleted=True)
        self._holdings.give_back(name)
        outcome: list[ApiError] = []

        def remove() -> None:
            try:
                self._stores.destroy(stream.store)
            except Exception as error:
                outcome.append(TableError(table.STREAM_DELETE, err=fault_of(error).text))

        def removed() -> None:
            if outcome:
                self._ports.log("ERR", f"Stream '{self._account} > {name}' could not be removed: {outcome[0]}")
            self._busy.release(name)
            call(self._ports, f"The removal of stream '{name}'", done, outcome[0] if outcome else None)
            self._advisories.stream_action(name, "delete")

        # A piece of upkeep may still run in its thread; it must not meet the removal.
        removal = partial(self._ports.run_blocking, remove, guarded(removed, broke))
        stream.committer.upkeep.when_quiet(guarded(removal, broke))

    def remove_files(self, store: Store | None, removed: Callable[[], None]) -> None:
        """Remove what a store has on disk."""

        def remove() -> None:
            # What cannot be removed now is found at the next start, as after any failed removal.
            if store is not None:
                with suppress(StorageFault):
                    self._stores.destroy(store)

        self._ports.run_blocking(remove, removed)

    def announce(self, stream: Stream, action: str, error: ApiError | None, done: Done) -> None:
        """Answer first: a stream that captures advisories must not show its own in the answer."""
        done(error or stream)
        if error is None:
            self._advisories.stream_action(stream.name, action)

    def _abandon(self, config: StreamConfig, store: Store | StorageFault | None, reason: ApiError, done: Done) -> None:
        """A stream was stored but could not be brought to life: nothing of it stays, and the client is told."""
        self._holdings.give_back(config.name)
        started = self._running.forget(config.name)
        if started is not None:
            self._running.stop(started, deleted=True)

        def removed() -> None:
            self._busy.release(config.name)
            done(reason)

        self.remove_files(None if isinstance(store, StorageFault) else store, removed)
