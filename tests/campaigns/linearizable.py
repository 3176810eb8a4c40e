"""Many clients work on one key-value bucket, the server is killed and comes back; one order of events explains it all.

Clients put, create, update, delete and purge; others get, list keys and watch; all through the official client. Two
keys are never deleted, so that they must never be missing. The controls are servers in which the promise is broken on
purpose (`eager_server`): removals that are seen before they are committed, and readers that do not wait for what was
received before them.

With encryption at rest the files are searched at the end: nothing that was stored, no name and no key can be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from campaigns.eager_server import eager_program
from campaigns.kv_history import DELETE, KEYS, PUT, READ, Event, History
from support.raw_files import of_directory, told
from support.server_process import ServerProcess
from support.servers import server_binary

KEPT = ("kept-1", "kept-2")  # never deleted
KEYS_USED = (*KEPT, "a", "b", "c")
BUCKET = "LINEAR"
KEY = "the key of the files, 32 bytes or more of it"
WORDS = (b"LINEAR", b"kept-1", b"value ", b"max_msgs_per_subject")
START_S = 120.0  # campaigns run beside other work
ANSWER_S = 10.0
WRITERS, READERS = 4, 4
GONE = (nats.errors.Error, OSError, asyncio.TimeoutError, APIError)


@dataclass
class Linear:
    """What a run found."""

    history: History = field(default_factory=History)
    watched: int = 0
    broken: list[str] = field(default_factory=list)
    own_writes: int = 0


class Linearizable:
    """One server directory, and clients that come back after each death."""

    def __init__(self, directory: Path, *, eager: str = "", encrypted: bool = False, seed: int = 1) -> None:
        """Prepare; nothing runs yet. `eager` names what the control does too early."""
        self._rng = random.Random(seed)
        self._outcome = Linear()
        self._number = 0
        self._stop = asyncio.Event()
        binary = eager_program(directory, eager) if eager else server_binary("ours")
        self._store = directory / "store"
        key = f"key: '{KEY}'" if encrypted else ""
        config = f"jetstream {{ store_dir: '{self._store}'\n{key} }}\n"
        self._server = ServerProcess(binary, directory, config=config)
        self._server.start_timeout_s = START_S

    async def run(self, cycles: int, *, operations: int, kill: bool = True) -> Linear:
        """Let the server die that often, each time after so many operations."""
        self._server.start()
        client = await self._connect()
        await client.jetstream().create_key_value(KeyValueConfig(bucket=BUCKET, history=1))
        await client.close()
        for _ in range(cycles):
            await self._cycle(operations)
            if kill:
                self._server.kill()
                self._server.start()
        await self._cycle(operations // 4)
        self._server.end()
        self._outcome.broken += self._outcome.history.check()
        return self._outcome

    def readable(self) -> list[str]:
        """Where something of what was stored can be read."""
        return told(of_directory(self._store), WORDS, KEY.encode(), self._server.log_lines)

    async def _cycle(self, operations: int) -> None:
        self._stop = asyncio.Event()
        enough = len(self._outcome.history.events) + operations
        workers = [self._writes, *[self._writes] * (WRITERS - 1), *[self._reads] * READERS, self._lists, self._own]
        tasks = [asyncio.create_task(self._work(worker)) for worker in workers]
        tasks.append(asyncio.create_task(self._watches()))
        while len(self._outcome.history.events) < enough:
            await asyncio.sleep(0.01)  # the moment of death is up to the load
        self._stop.set()
        if self._rng.random() < 0.5:
            self._server.kill()
        await asyncio.gather(*tasks)
        if not self._server.is_running:
            self._server.start()

    async def _connect(self) -> Client:
        return await nats.connect(self._server.url, allow_reconnect=False, connect_timeout=ANSWER_S)

    async def _work(self, work: Callable[[KeyValue, JetStreamContext], Awaitable[None]]) -> None:
        client = await self._connect()
        jetstream = client.jetstream(timeout=ANSWER_S)
        bucket = await jetstream.key_value(BUCKET)
        try:
            while not self._stop.is_set():
                await work(bucket, jetstream)
        except GONE:
            if not self._stop.is_set():
                raise
        finally:
            with contextlib.suppress(*GONE):
                await client.close()

    def _began(self, kind: str, key: str, **more: object) -> Event:
        event = Event(kind, key, time.monotonic_ns(), **more)  # type: ignore[arg-type]
        self._outcome.history.events.append(event)
        return event

    def _value(self) -> str:
        self._number += 1
        return f"value {self._number}"

    # --- clients ---

    async def _writes(self, bucket: KeyValue, _: JetStreamContext) -> None:
        key, value = self._rng.choice(KEYS_USED), self._value()
        how = self._rng.choice(("put", "put", "create", "update", "delete", "purge"))
        if how in ("delete", "purge") and key in KEPT:
            how = "put"
        if how in ("delete", "purge"):
            event = self._began(DELETE, key)
            await (bucket.delete(key) if how == "delete" else bucket.purge(key))
        elif how == "update":
            expected = (await self._read(bucket, key)).revision
            if not expected:
                return
            event = self._began(PUT, key, value=value, expected=expected)
            try:
                event.revision = await bucket.update(key, value.encode(), last=expected)
            except KeyWrongLastSequenceError:
                self._outcome.history.events.remove(event)  # it did not happen
                return
        else:
            event = self._began(PUT, key, value=value)
            write = bucket.put if how == "put" else bucket.create
            try:
                event.revision = await write(key, value.encode())
            except (KeyWrongLastSequenceError, KeyNotFoundError) as error:
                self._outcome.history.events.remove(event)
                if isinstance(error, KeyNotFoundError):  # what was in its way must be found
                    self._outcome.broken.append(f"{key}: something is there, says a create, and a read finds nothing")
                return
        event.ended_ns = time.monotonic_ns()

    async def _read(self, bucket: KeyValue, key: str) -> Event:
        event = self._began(READ, key)
        try:
            entry = await bucket.get(key)
            event.revision, event.value = entry.revision or 0, (entry.value or b"").decode()
        except KeyNotFoundError as error:
            if error.entry is not None:
                event.revision = error.entry.revision or 0  # of its deletion
        event.ended_ns = time.monotonic_ns()
        return event

    async def _reads(self, bucket: KeyValue, _: JetStreamContext) -> None:
        await self._read(bucket, self._rng.choice(KEYS_USED))

    async def _lists(self, bucket: KeyValue, _: JetStreamContext) -> None:
        event = self._began(KEYS, "")
        try:
            event.found = frozenset(await bucket.keys())
        except nats.js.errors.NoKeysError:
            # The client says so, too, when all keys were delivered before it asked how many there are: no evidence.
            self._outcome.history.events.remove(event)
            return
        event.ended_ns = time.monotonic_ns()

    async def _own(self, bucket: KeyValue, jetstream: JetStreamContext) -> None:
        """Publish without waiting for the ack, and read what was published."""
        key, value = f"own-{self._rng.randrange(3)}", self._value()
        client = jetstream._nc
        event = self._began(PUT, key, value=value)
        await client.publish(f"$KV.{BUCKET}.{key}", value.encode())
        await client.flush(timeout=int(ANSWER_S))
        event.ended_ns = time.monotonic_ns()
        found = (await self._read(bucket, key)).value
        self._outcome.own_writes += 1
        if found != value:
            self._outcome.broken.append(f"{key}: published {value!r} and read {found!r}")

    async def _watches(self) -> None:
        """Each watcher sees revisions grow, and at its end the newest of every key that is not written meanwhile."""
        client = await self._connect()
        seen: dict[str, int] = {}
        try:
            bucket = await client.jetstream(timeout=ANSWER_S).key_value(BUCKET)
            watcher = await bucket.watchall()
            while not self._stop.is_set():
                try:
                    entry = await watcher.updates(timeout=0.2)
                except (TimeoutError, nats.errors.TimeoutError):
                    continue
                if entry is None:
                    continue
                self._outcome.watched += 1
                if (entry.revision or 0) <= seen.get(entry.key, 0):
                    self._outcome.broken.append(f"{entry.key}: watched {entry.revision} after {seen[entry.key]}")
                seen[entry.key] = entry.revision or 0
        except GONE:
            if not self._stop.is_set():
                raise
        finally:
            with contextlib.suppress(*GONE):
                await client.close()
