"""What JetStream needs from its surroundings, as protocols: the server implements them, tests fake them.

Nothing in `jetstream` reads a clock, sends a message or starts a thread except through these. All calls are made on
the event loop, and every callback given to a port is called on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Final, Protocol

from slipstream.accounts.account import MessageTaker
from slipstream.dataclass import dataclass
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.limits import (
    ATOMIC_BATCH_MSGS_MAX,
    ATOMIC_BATCHES_BYTES_MAX,
    ATOMIC_BATCHES_MAX,
    ATOMIC_BATCHES_PER_STREAM_MAX,
    BATCH_TIMEOUT_NS,
    FAST_BATCHES_MAX,
    FAST_BATCHES_PER_STREAM_MAX,
)
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Job
from slipstream.kernels.fastpath.ackintake import AckIntake
from slipstream.kernels.fastpath.handout import Batch
from slipstream.kernels.fastpath.intake import Intake
from slipstream.kernels.fastpath.pointget import PointGet
from slipstream.limits import (
    API_REQUEST_QUEUE_LIMIT,
    MAX_PAYLOAD_BYTES,
    MAX_PENDING_BYTES,
    STREAM_MAX_BUFFERED_BYTES,
    STREAM_MAX_BUFFERED_MSGS,
    SYNC_INTERVAL_NS,
)

__all__ = [
    "AccountLimits",
    "BatchLimits",
    "Cancel",
    "Delivery",
    "LentFile",
    "LiveSubscription",
    "OnMessage",
    "Ports",
    "Recovered",
    "ServerFacts",
    "SharedMemory",
    "StreamStores",
]

Cancel = Callable[[], None]
"""Undoes what gave it; calling it twice, or too late, does nothing."""

OnMessage = Callable[[bytes, bytes | None, bytes | None, bytes], None]
"""`(subject, reply, header, payload)`; `header` is a whole block or None."""

Delivery = tuple[bytes, bytes, bytes | None, bytes | None, bytes]
"""`(target, subject, reply, header, payload)`: routed by `target`, while the receiver sees `subject`."""


class LiveSubscription(Protocol):
    """A live subscription of the server itself."""

    def close(self) -> None:
        """Stop delivering to it; idempotent."""
        ...


class SharedMemory(Protocol):
    """Memory that clients on this machine can look at."""

    path: str
    """Where they open it."""
    view: memoryview
    """The same, to write to."""

    def close(self) -> None:
        """Let nobody else open it; idempotent."""
        ...


class LentFile(Protocol):
    """A file that clients on this machine can open, under whatever name it has by then, or none."""

    path: str
    device: int
    inode: int

    def close(self) -> None:
        """Let nobody else open it this way; idempotent."""
        ...


class Ports(Protocol):
    """Time, routing, threads, randomness and the log, as one account sees them."""

    cores: int
    """Processors of this machine."""

    @property
    def reads(self) -> int:
        """Times that messages of clients, one or many, were taken in so far."""
        ...

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since 1970. It may jump; streams keep their own times monotone."""
        ...

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Cancel:
        """Call once after at least `delay_ns`."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call once at the end of this turn of the loop: after all its input, or after that of a lone client."""
        ...

    @property
    def alone(self) -> bool:
        """Whether what runs now is all there is to do: one callback of `call_soon`, after one read since the last."""
        ...

    def run_commit(self, job: Job, on_done: Callable[[], None]) -> None:
        """As `run_blocking`, but never behind long work: for what somebody waits for, one job a stream at a time.

        Jobs that wait at the same time are run together.
        """
        ...

    def when_commits_run(self, begin: Callable[[], None]) -> None:
        """Call `begin`, which may call `run_commit`, at once, or while very many commits are under way, behind them.

        Meanwhile more can join the commit.
        """
        ...

    def run_blocking(self, job: Callable[[], None], on_done: Callable[[], None]) -> None:
        """Run `job` in a thread, then `on_done` on the loop. `job` keeps its own outcome and does not raise."""
        ...

    def publish(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """Publish into the account: permissions of clients do not apply, imports and exports do."""
        ...

    def publish_many(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Publish `(subject, payload)` pairs in order, without reply or header."""
        ...

    def publish_acks(self, acks: list[tuple[bytes, int]], start: int, end: int, prefix: bytes) -> None:
        """Answer publishes: to each subject from `start` to `end` goes `prefix`, the number beside it, and `}`."""
        ...

    def answer(self, subject: bytes, payload: bytes) -> None:
        """Answer a publish in other words."""
        ...

    def deliver_many(self, messages: Iterable[Delivery]) -> bool:
        """Hand out stored messages in order. Each is routed by its target and shown with its own subject.

        False: a receiver is close to its limit of pending bytes; the caller should pause a moment. Nothing was
        dropped.
        """
        ...

    def hand_out(
        self,
        targets: bytes | list[bytes],
        batch: Batch,
        start: int,
        count: int,
        prefix: bytes,
        dseq: int,
        pending: int,
        max_bytes: int,
        *,
        headers_only: bool,
    ) -> tuple[int, int, int]:
        """Hand out stored messages as they are, with ack subjects: see `kernels.handout.hand_out`.

        Returns how many that were, their bytes, and those of the last one. `deliver_many` tells afterwards whether a
        receiver is close to its limit.
        """
        ...

    def is_congested(self, target: bytes, most: int) -> bool:
        """Whether more than `most` bytes wait for a receiver of what is handed out to `target`, or nearly its limit."""
        ...

    def flush(self) -> None:
        """Send what was written so far at once instead of at the end of the turn."""
        ...

    def has_interest(self, subject: bytes) -> bool:
        """Whether anybody would receive a message on this subject."""
        ...

    def is_bound(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether somebody subscribes to exactly this subject, in exactly this queue group or in none."""
        ...

    def watch_interest(self, subject: bytes, queue: bytes | None, on_change: Callable[[bool], None]) -> Cancel:
        """Tell whenever the answer of `is_bound` changes.

        `on_change` is not called before this returns: ask `is_bound` for the present state.
        """
        ...

    def subscribe(self, subject: bytes, on_message: OnMessage, queue: bytes | None = None) -> LiveSubscription:
        """Receive what is published in the account on `subject`."""
        ...

    def listen(self, subject: bytes, intake: Intake | AckIntake, taker: MessageTaker | None = None) -> LiveSubscription:
        """Let a kernel receive what is published in the account on `subject`; `taker` gets what is traced instead."""
        ...

    def close_all(self, listening: list[LiveSubscription]) -> None:
        """Listen no more on any of these, which `listen` gave: there may be very many."""
        ...

    def answer_gets(self, subject: bytes, getter: PointGet, queue: bytes) -> LiveSubscription:
        """Let a stream answer requests for single messages, which are published in the account on `subject`."""
        ...

    def share_memory(self, name: str, size: int, *, to_write: bool = False) -> SharedMemory | None:
        """Memory of this name that clients on this machine can look at, or `to_write`; None where that cannot be had.

        Nobody can change its size.
        """
        ...

    def lend_file(self, path: str) -> LentFile | None:
        """A file for clients on this machine to read; None where that cannot be had."""
        ...

    def log(self, level: str, text: str) -> None:
        """Write one log line; `level` is nats-server's three letters (INF, WRN, ERR, DBG)."""
        ...

    def report(self, what: str, error: Exception) -> None:
        """An exception that nobody expected ended here: log it with its cause. Never raises."""
        ...

    def random_below(self, bound: int) -> int:
        """A number in `[0, bound)`."""
        ...

    def new_nuid(self) -> str:
        """A fresh 22-character identifier."""
        ...


@dataclass(slots=True)
class Recovered:
    """A stream found on disk at start."""

    store: Store
    created_ns: int
    config: StreamConfig


class StreamStores(Protocol):
    """Makes, finds and removes the stores of one account's streams. All of it blocks.

    A store's configuration is what `stored_config.to_stored` gives.
    """

    def create(self, config: StreamConfig, created_ns: int) -> Store:
        """Make an empty store whose first sequence and configuration are durable on return; runs in a thread.

        Raises:
            StorageFault: the disk refused.
        """
        ...

    def recover(self) -> list[Recovered]:
        """Open every stream of the account; runs before the server accepts connections.

        What is no stream is moved aside, logged, and reported by `quarantined`. A stream that cannot be opened for any
        other reason stays where it is, and is reported by `unopened`.
        """
        ...

    def unopened(self) -> dict[str, str]:
        """Streams that are there and could not be opened: their names, as far as they can be told, and why."""
        ...

    def destroy(self, store: Store) -> None:
        """Remove a store and all it wrote, so that no later start finds it; runs in a thread.

        Raises:
            StorageFault: the disk refused.
        """
        ...

    def detach(self, store: Store) -> str | None:
        """A closed store is somebody else's from now on: its directory, None if it has none."""
        ...

    def quarantined(self) -> list[str]:
        """Directories moved aside, for /healthz."""
        ...


ONE_REPLICA: Final = "R1"  # the tier of everything on a server that is alone


@dataclass(slots=True)
class AccountLimits:
    """Resource limits of an account; -1 means none."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False
    # Those of each number of replicas, `R1`; the others here are then of the one that this server can keep, if any.
    tiers: Mapping[str, AccountLimits] = field(default_factory=dict)


@dataclass(slots=True)
class BatchLimits:
    """How many publish batches may be open, and how many are, over all streams of a server."""

    atomic_per_stream_max: int = ATOMIC_BATCHES_PER_STREAM_MAX
    atomic_max: int = ATOMIC_BATCHES_MAX
    fast_per_stream_max: int = FAST_BATCHES_PER_STREAM_MAX
    fast_max: int = FAST_BATCHES_MAX
    msgs_max: int = ATOMIC_BATCH_MSGS_MAX
    timeout_ns: int = BATCH_TIMEOUT_NS
    staged_bytes_max: int = ATOMIC_BATCHES_BYTES_MAX
    atomic_open: int = 0
    fast_open: int = 0
    staged_bytes: int = 0

    @property
    def atomic_full(self) -> bool:
        """No more atomic batches anywhere."""
        return self.atomic_open >= self.atomic_max

    @property
    def fast_full(self) -> bool:
        """No more fast batches anywhere."""
        return self.fast_open >= self.fast_max


@dataclass(slots=True)
class ServerFacts:
    """What the JetStream API says about the server, and the limits that are the server's."""

    name: str
    version: str
    domain: str = ""
    max_memory: int = 2**63 - 1
    max_storage: int = 2**63 - 1
    duplicate_window_max_ns: int = 0
    sync_always: bool = True
    sync_interval_ns: int = SYNC_INTERVAL_NS
    max_pending_bytes: int = MAX_PENDING_BYTES
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_held_bytes: int = 2**63 - 1
    """Memory for what streams hold beside their messages: open batches, message ids."""
    max_ack_pending: int = 0
    max_request_batch: int = 0
    default_max_consumers: int = 0
    """Of streams where neither they nor their account have a limit; 0 or less: any number."""
    strict: bool = True
    max_buffered_msgs: int = STREAM_MAX_BUFFERED_MSGS
    max_buffered_bytes: int = STREAM_MAX_BUFFERED_BYTES
    request_queue_limit: int = API_REQUEST_QUEUE_LIMIT
    info_queue_limit: int = API_REQUEST_QUEUE_LIMIT
    batches: BatchLimits = field(default_factory=BatchLimits)
