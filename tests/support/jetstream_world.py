"""JetStream of one account without a server: a fake clock, router, executor, and memory stores.

Time moves only by `advance`; nothing happens between calls except what `settle` runs. Files are not touched: a "file"
stream is a memory store too, which is what makes these tests fast and is why byte counts follow the memory formula.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from slipstream.errors import StorageFault
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.account.server import ClusterFacts, JetStreamServer
from slipstream.jetstream.api.api import open_api
from slipstream.jetstream.api.subjects import API_SUBSCRIPTIONS
from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import AccountLimits, Cancel, LiveSubscription, OnMessage, Recovered, ServerFacts
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.jetstream.store.values import Committed, CommitWork, Job, StoreUnavailable
from slipstream.kernels.fastpath.intake import Intake
from slipstream.kernels.fastpath.pointget import PointGet
from slipstream.kernels.subjects.subject import matches
from slipstream.version import SERVER_VERSION

START_NS = 1_763_173_337_000_000_000
Message = tuple[bytes, bytes | None, bytes | None, bytes]


class FakeSubscription:
    """One subscription of the fake router."""

    def __init__(self, ports: FakePorts, subject: bytes, on_message: OnMessage, queue: bytes | None = None) -> None:
        self.subject = subject
        self.queue = queue
        self.on_message = on_message
        self._ports = ports

    def close(self) -> None:
        if self in self._ports.subscriptions:
            self._ports.subscriptions.remove(self)


class FakeMemory:
    """Memory that nobody else has."""

    def __init__(self, memories: dict[str, FakeMemory], name: str, size: int) -> None:
        self.path, self.view = f"/fake/{name}", memoryview(bytearray(size))
        self._memories, self._name = memories, name
        memories[name] = self

    def close(self) -> None:
        self._memories.pop(self._name, None)


class FakeLoan:
    """A file that is kept open for somebody."""

    def __init__(self, loans: list[FakeLoan], path: str) -> None:
        self.path, self.device, self.inode = f"/fake{path}", 1, hash(path) & 0xFFFF
        self._loans = loans
        loans.append(self)

    def close(self) -> None:
        if self in self._loans:
            self._loans.remove(self)


class FakePorts:
    """Implements `slipstream.jetstream.ports.Ports`."""

    def __init__(self) -> None:
        self.clock_ns = START_NS
        self.sent: list[Message] = []  # everything published by JetStream, in order
        self.logged: list[tuple[str, str]] = []
        self.tolerant = False  # True: exceptions that nobody expected are kept, as in a server; else they fail the test
        self.reported: list[tuple[str, Exception]] = []
        self.subscriptions: list[FakeSubscription] = []
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.jobs_held = False  # True: blocking jobs wait until `run_jobs`
        self.commits_held = False  # True: commits wait with beginning until `begin_commits`
        self.commits: list[Callable[[], None]] = []
        self.cores = 2
        self.reads = 0
        self.alone = False
        self.memories: dict[str, FakeMemory] = {}  # memory that is shared now, by name
        self.shares_memory = True
        self.loans: list[FakeLoan] = []  # files that are lent now
        self._soon: list[Callable[[], None]] = []
        self._timers: list[tuple[int, int, list[Callable[[], None]]]] = []
        self._ids = itertools.count()
        self._random = random.Random(1)

    def now_ns(self) -> int:
        return self.clock_ns

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Cancel:
        slot = [callback]
        heapq.heappush(self._timers, (self.clock_ns + delay_ns, next(self._ids), slot))
        return slot.clear

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run_blocking(self, job: Callable[[], None], on_done: Callable[[], None]) -> None:
        self.jobs.append((job, on_done))

    def run_commit(self, job: Job, on_done: Callable[[], None]) -> None:
        self.run_blocking(job.run, on_done)

    def when_commits_run(self, begin: Callable[[], None]) -> None:
        if self.commits_held:
            self.commits.append(begin)
        else:
            begin()

    def share_memory(self, name: str, size: int, *, to_write: bool = False) -> FakeMemory | None:
        return FakeMemory(self.memories, name, size) if self.shares_memory else None

    def lend_file(self, path: str) -> FakeLoan | None:
        return FakeLoan(self.loans, path) if self.shares_memory else None

    def publish(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        self.sent.append((subject, reply, header, payload))
        self.route(subject, reply, header, payload)

    def publish_many(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        for subject, payload in messages:
            self.publish(subject, None, None, payload)

    def publish_acks(self, acks: list[tuple[bytes, int]], start: int, end: int, prefix: bytes) -> None:
        for subject, seq in acks[start:end]:
            self.publish(subject, None, None, prefix + b"%d}" % seq)

    def answer(self, subject: bytes, payload: bytes) -> None:
        self.publish(subject, None, None, payload)

    def route(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> int:
        targets = [sub for sub in self.subscriptions if matches(sub.subject, subject)]
        for target in targets:
            self._try("a subscriber", partial(target.on_message, subject, reply, header, payload))
        return len(targets)

    def has_interest(self, subject: bytes) -> bool:
        return any(matches(sub.subject, subject) for sub in self.subscriptions)

    def is_bound(self, subject: bytes, queue: bytes | None) -> bool:
        return any(sub.subject == subject and sub.queue == queue for sub in self.subscriptions)

    def subscribe(self, subject: bytes, on_message: OnMessage, queue: bytes | None = None) -> FakeSubscription:
        subscription = FakeSubscription(self, subject, on_message, queue)
        self.subscriptions.append(subscription)
        return subscription

    def listen(self, subject: bytes, intake: Intake, taker: object = None) -> FakeSubscription:
        def take(found: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
            intake(None, found, reply, len(header or b""), (header or b"") + payload)

        return self.subscribe(subject, take)

    def close_all(self, listening: list[LiveSubscription]) -> None:
        for one in listening:
            one.close()

    def answer_gets(self, subject: bytes, getter: PointGet, queue: bytes) -> FakeSubscription:
        def take(found: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
            getter(None, found, reply, len(header or b""), (header or b"") + payload)

        return self.subscribe(subject, take, queue)

    def log(self, level: str, text: str) -> None:
        self.logged.append((level, text))

    def report(self, what: str, error: Exception) -> None:
        if not self.tolerant:
            raise error
        self.reported.append((what, error.with_traceback(None)))  # which would keep everything it passed through

    def random_below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def new_nuid(self) -> str:
        return f"{next(self._ids):022d}"

    def run_jobs(self) -> None:
        """Do the blocking work that waits, one thread after the other."""
        while self.jobs:
            job, on_done = self.jobs.pop(0)
            self._try("a job", job)
            self._try("the end of a job", on_done)

    def begin_commits(self) -> None:
        """Let commits begin that waited."""
        waiting, self.commits = self.commits, []
        for begin in waiting:
            self._try("a commit", begin)

    def _try(self, what: str, callback: Callable[[], None]) -> None:
        """What the server's ports do: one callback's exception ends with it."""
        try:
            callback()
        except Exception as error:
            self.report(what, error)

    def settle(self) -> None:
        """Run until nothing is left to do at this time."""
        while self._soon or (self.jobs and not self.jobs_held):
            soon, self._soon = self._soon, []
            for callback in soon:
                self._try("call_soon", callback)
            if not self.jobs_held:
                self.run_jobs()

    def advance(self, duration_ns: int) -> None:
        """Let time pass, calling timers at their times."""
        until_ns = self.clock_ns + duration_ns
        self.settle()
        while self._timers and self._timers[0][0] <= until_ns:
            due_ns, _, slot = heapq.heappop(self._timers)
            self.clock_ns = max(self.clock_ns, due_ns)
            if slot:
                self._try("a timer", slot.pop())
            self.settle()
        self.clock_ns = until_ns


class DiskLikeStore:
    """A memory store whose commits need a thread and can fail: then everything since the last commit is gone."""

    def __init__(self, config: bytes) -> None:
        self._config = config
        self._rng = random.Random(2)
        self._store = self._fresh()
        self.fail_next: StorageFault | None = None
        self.refuse: StoreUnavailable | None = None
        self._safe: list[tuple[int, int, bytes, bytes, bytes, int]] = []

    def _fresh(self) -> MemoryStore:
        return MemoryStore(self._config, random64=lambda: self._rng.getrandbits(64))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        if self.refuse is not None:
            raise self.refuse
        self._store.append(seq, ts_ns, subject, headers, payload, expires_ns)

    def expiries(self) -> list[tuple[int, int]]:
        messages = self._store.read_batch((), 0, max_msgs=10**6, max_bytes=10**9, up_to_seq=self._store.last_seq)
        return [(message.seq, message.expires_ns) for message in messages if message.expires_ns]

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> CommitWork | None:
        job = self._store.begin_commit(sync=sync)
        return _ThreadJob(job) if job is not None else None

    def finish_commit(self, job: Job) -> Committed:
        assert isinstance(job, _ThreadJob)
        fault, self.fail_next = self.fail_next, None
        if fault is None:
            done = self._store.finish_commit(job.inner)
            self._safe = [
                (m.seq, m.ts_ns, m.subject, m.headers, m.payload, m.expires_ns)
                for m in self._store.read_batch((), 0, max_msgs=10**6, max_bytes=10**9, up_to_seq=done.last_seq)
            ]
            return done
        self._store = self._fresh()
        for message in self._safe:
            self._store.append(*message)
        inner = self._store.begin_commit()
        if inner is not None:
            self._store.finish_commit(inner)
        return Committed(self._store.last_seq, fault)


class _ThreadJob:
    ended = False

    def __init__(self, inner: Job) -> None:
        self.inner = inner

    def run(self) -> None:
        self.inner.run()

    def attend(self) -> bool:
        return False


class FakeStores:
    """Implements `slipstream.jetstream.ports.StreamStores`; `recover` gives back what is not destroyed."""

    def __init__(self, *, disk_like: bool = False) -> None:
        self.made: dict[str, Any] = {}
        self.fail_create: Exception | None = None
        self.fail_destroy: Exception | None = None
        self.recoverable: list[Recovered] = []
        self.aside: list[str] = []
        self._disk_like = disk_like

    def create(self, config: StreamConfig, created_ns: int) -> Any:
        if self.fail_create is not None:
            raise self.fail_create
        rng = random.Random(3)
        stored, first_seq = to_stored(config, created_ns), max(config.first_seq, 1)
        store: Any = (
            DiskLikeStore(stored)
            if self._disk_like
            else MemoryStore(stored, random64=lambda: rng.getrandbits(64), first_seq=first_seq)
        )
        self.made[config.name] = store
        return store

    def recover(self) -> list[Recovered]:
        return self.recoverable

    def unopened(self) -> dict[str, str]:
        return {}

    def destroy(self, store: Any) -> None:
        if self.fail_destroy is not None:
            raise self.fail_destroy
        store.destroy()

    def quarantined(self) -> list[str]:
        return self.aside


class World:
    """An account with its API, and a client that talks to it."""

    def __init__(
        self,
        *,
        limits: AccountLimits | None = None,
        disk_like: bool = False,
        stores: FakeStores | None = None,
        ports: FakePorts | None = None,
        cluster: ClusterFacts | None = None,
        **facts: Any,
    ) -> None:
        self.ports = ports or FakePorts()
        self.stores = stores or FakeStores(disk_like=disk_like)
        facts = {"max_memory": 1 << 40, "max_storage": 1 << 40, **facts}
        self.facts = ServerFacts(name="SERVER", version=SERVER_VERSION, **facts)
        self.full: list[str] = []  # streams that found no space on the disk
        self.dropped: list[bool] = []  # calls that were too many, and whether they only look
        server = JetStreamServer(self.facts, self.full.append, cluster)
        self.account = JetStreamAccount("$G", self.ports, server, self.stores, limits or AccountLimits())
        self.dispatcher = open_api(self.account, self.dropped.append)
        self.account.recover()
        for subject in API_SUBSCRIPTIONS:
            self.ports.subscribe(subject.encode(), self.dispatcher.handle)
        self._replies = itertools.count(1)

    def request_all(
        self, subject: str, body: Any = b"", header: bytes | None = None, reply_tail: str = ""
    ) -> list[tuple[bytes | None, bytes]]:
        """All answers to one request; its reply subject may have more tokens than a number."""
        reply = b"_INBOX.%d" % next(self._replies)
        if reply_tail:
            reply += b"." + reply_tail.encode()
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.ports.route(subject.encode(), reply, header, body)
        self.ports.settle()
        return [(sent[2], sent[3]) for sent in self.ports.sent if sent[0] == reply]

    def request(self, subject: str, body: Any = b"", header: bytes | None = None) -> tuple[bytes | None, bytes] | None:
        """The one answer to a request, or None."""
        answers = self.request_all(subject, body, header)
        assert len(answers) <= 1
        return answers[0] if answers else None

    def api(self, subject: str, body: Any = b"", header: bytes | None = None) -> Any:
        """The JSON answer of a `$JS.API.` call."""
        answer = self.request("$JS.API." + subject, body, header)
        return None if answer is None else json.loads(answer[1])

    def create(self, name: str = "S", **config: Any) -> Any:
        """Make a stream and insist on success."""
        answer = self.api(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer
        return answer

    def publish(self, subject: str, payload: bytes = b"x", **header: str) -> Any:
        """Publish with headers given as `Nats_Msg_Id="a"`; the ack, or None."""
        block = None
        if header:
            lines = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in header.items())
            block = f"NATS/1.0\r\n{lines}\r\n".encode()
        answer = self.request(subject, payload, block)
        return None if answer is None else json.loads(answer[1])

    def state(self, name: str = "S", **request: Any) -> dict[str, Any]:
        """`state` of STREAM.INFO."""
        state: dict[str, Any] = self.api(f"STREAM.INFO.{name}", {"deleted_details": True, **request})["state"]
        return state

    def seqs(self, name: str = "S") -> list[int]:
        """Sequences now stored."""
        store = self.account.streams[name].store
        return [seq for seq in range(store.first_seq, store.last_seq + 1) if store.get(seq) is not None]
