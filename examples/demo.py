"""The product in a minute and a half, told step by step: a real server process and the official Python client.

A server, a stream with 100,000 orders, a work queue, a key-value bucket, a server killed in the middle of its work that
has lost nothing, and a Spark query over the live stream. Every step checks what it claims.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, PubAck, RetentionPolicy

ORDERS = int(os.environ.get("SLIPSTREAM_DEMO_ORDERS", "100000"))
JOBS = 300
REGIONS = ("us", "eu", "apac", "africa", "latam")
READY_SECONDS_MAX = 120.0  # patience with slow machines, not a promise
ACKS_BEFORE_THE_KILL = 5_000


class ServerProcess:
    """A server as operators run it: a process of its own, with a directory for its streams."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> float:
        """Start; returns the seconds until clients could connect."""
        started = time.perf_counter()
        port = self.url.rpartition(":")[2] or "-1"
        command = [sys.executable, "-m", "slipstream.server", "-a", "127.0.0.1", "-p", port, "-js"]
        command += ["-sd", str(self._directory / "streams"), "--ports_file_dir", str(self._directory)]
        self._process = subprocess.Popen([*command, "-l", str(self._directory / "server.log")])
        while not (found := list(self._directory.glob(f"*_{self._process.pid}.ports"))):
            if self._process.poll() is not None or time.perf_counter() - started > READY_SECONDS_MAX:
                log = self._directory / "server.log"
                raise SystemExit(f"the server did not start: {log.read_text() if log.exists() else 'it said nothing'}")
            time.sleep(0.005)
        self.url = json.loads(found[0].read_text())["nats"][0]
        return time.perf_counter() - started

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait until the process is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def say(text: str) -> None:
    """One line of the story."""
    print(text, flush=True)


async def store_orders(client: Client) -> None:
    """A stream keeps what is published on its subjects; an ack means that it is on disk."""
    jetstream = client.jetstream()
    await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
    started = time.perf_counter()
    for number in range(ORDERS):
        order = b'{"order": %d, "cents": %d}' % (number, 100 + number % 900)
        await jetstream.publish_async(f"orders.{REGIONS[number % 5]}", order, wait_stall=60)
    await jetstream.publish_async_completed()
    seconds = time.perf_counter() - started
    state = (await jetstream.stream_info("ORDERS", subjects_filter=">")).state
    say(f"   {state.messages:,} orders in {seconds:.1f} s, each synced to disk before its ack:")
    subjects = state.subjects or {}
    say(f"   {ORDERS // len(REGIONS):,} each on {', '.join(sorted(subjects))}")
    assert state.messages == ORDERS and set(subjects.values()) == {ORDERS // len(REGIONS)}


async def work_off_a_queue(client: Client) -> None:
    """Jobs go to one worker each and leave the stream when done; what cannot be done becomes a dead letter."""
    jetstream = client.jetstream()
    await jetstream.add_stream(name="JOBS", subjects=["jobs.>"], retention=RetentionPolicy.WORK_QUEUE)
    await jetstream.add_stream(name="DEAD", subjects=["dead.>"])
    dead_letters = {"slipstream.dlq": "dead.jobs"}
    await jetstream.add_consumer("JOBS", ConsumerConfig(durable_name="workers", metadata=dead_letters))
    for number in range(JOBS):
        await jetstream.publish_async("jobs.ship", b"%d" % number)
    await jetstream.publish_async_completed()
    shares = await asyncio.gather(*(_work(jetstream) for _ in range(3)))
    left = (await jetstream.stream_info("JOBS")).state.messages
    dead = (await jetstream.stream_info("DEAD")).state.messages
    say(f"   three workers did {' + '.join(map(str, shares))} jobs, {dead} went to the dead letters, {left} are left")
    assert sum(shares) + dead == JOBS and left == 0


async def _work(jetstream: JetStreamContext) -> int:
    queue = await jetstream.pull_subscribe_bind("workers", "JOBS")
    done = 0
    while True:
        try:
            jobs = await queue.fetch(20, timeout=0.5)
        except TimeoutError:
            return done
        for job in jobs:
            if job.data.endswith(b"13"):
                await job.term()
            else:
                await job.ack_sync()
                done += 1


async def use_a_bucket(client: Client) -> None:
    """A bucket is a stream read as a table: newest value a key, with history and watchers."""
    bucket = await client.jetstream().create_key_value(bucket="STOCK", history=5)
    watcher = await bucket.watch("apples")
    await watcher.updates()  # type: ignore[no-untyped-call]  # says that the past is over
    for count in (42, 41, 40):
        await bucket.put("apples", b"%d" % count)
    seen = [(await watcher.updates()).value for _ in range(3)]  # type: ignore[no-untyped-call]
    entry = await bucket.get("apples")
    say(f"   apples = {int(entry.value or b'0')}, revision {entry.revision}; a watcher saw {[int(v) for v in seen]}")
    assert seen == [b"42", b"41", b"40"]
    await watcher.stop()  # type: ignore[no-untyped-call]


async def survive_a_kill(server: ServerProcess) -> None:
    """Publish as fast as possible, kill the server without warning, start it again, count."""
    client = await nats.connect(server.url, allow_reconnect=False, error_cb=_ignore, closed_cb=_nothing)
    jetstream = client.jetstream()
    before = (await jetstream.stream_info("ORDERS")).state.last_seq
    acked: dict[int, int] = {}  # number to sequence

    def remember(number: int) -> Callable[[asyncio.Future[PubAck]], None]:
        def remember_ack(ack: asyncio.Future[PubAck]) -> None:
            if not ack.cancelled() and ack.exception() is None:
                acked[number] = ack.result().seq
                if len(acked) == ACKS_BEFORE_THE_KILL:
                    server.end(signal.SIGKILL)

        return remember_ack

    number = 0
    try:
        while client.is_connected:
            ack = await jetstream.publish_async("orders.late", b"%d" % number, wait_stall=60)
            ack.add_done_callback(remember(number))
            number += 1
    except (nats.errors.Error, nats.js.errors.Error, OSError):
        pass  # the server is gone
    await client.close()
    seconds = server.start()
    client = await nats.connect(server.url)
    reader = await client.jetstream().subscribe("orders.late", stream="ORDERS", ordered_consumer=True)
    found: dict[int, int] = {}
    left = 1
    while left:
        message = await reader.next_msg(timeout=5)
        found[int(message.data)] = message.metadata.sequence.stream
        left = message.metadata.num_pending
    lost = [number for number, sequence in acked.items() if found.get(number) != sequence]
    say(f"   killed after {len(acked):,} acks, back in {seconds:.2f} s: {before:,} older orders kept, {len(lost)} lost")
    assert not lost
    await client.close()


async def _ignore(error: Exception) -> None:
    del error


async def _nothing() -> None: ...


def ask_spark(url: str) -> None:
    """The same stream as a table, read in bulk from the running server."""
    if find_spec("pyspark") is None:
        say('   left out: Spark is not installed (pip install "slipstream-server[spark]")')
        return
    from slipstream.spark import session

    started = time.perf_counter()
    with session("test", app_name="demo") as spark:  # the profile that starts fastest
        say(f"   Spark {spark.version} started in {time.perf_counter() - started:.1f} s")
        started = time.perf_counter()
        orders = spark.read.format("slipstream").option("servers", url).option("stream", "ORDERS").load()
        orders.createOrReplaceTempView("orders")
        rows = spark.sql(
            """
            SELECT subject, count(*) AS orders, sum(int(get_json_object(string(payload), '$.cents'))) / 100 AS total
            FROM orders WHERE subject != 'orders.late' GROUP BY subject ORDER BY subject
            """
        ).collect()
        say(f"   SELECT subject, count(*), sum(cents) ... took {time.perf_counter() - started:.1f} s:")
        for row in rows:
            say(f"     {row.subject:14} {row.orders:8,} {row.total:14,.2f}")
        assert sum(row.orders for row in rows) == ORDERS


async def tell(server: ServerProcess) -> None:
    """All steps but the last."""
    client = await nats.connect(server.url)
    steps: list[tuple[str, Callable[[], Coroutine[None, None, None]]]] = [
        (f"A stream with {ORDERS:,} orders, published by the official Python client", lambda: store_orders(client)),
        ("A work queue with three workers and dead letters", lambda: work_off_a_queue(client)),
        ("A key-value bucket", lambda: use_a_bucket(client)),
        ("kill -9 while a publisher runs at full speed", lambda: survive_a_kill(server)),
    ]
    for number, (title, step) in enumerate(steps, 2):
        say(f"{number}. {title}")
        if number == len(steps) + 1:
            await client.close()
        await step()


def main() -> None:
    """Start, tell, stop."""
    began = time.perf_counter()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    with tempfile.TemporaryDirectory(prefix="slipstream-demo-") as directory:
        server = ServerProcess(Path(directory))
        try:
            say(f"1. A server: ready on a free port in {server.start():.2f} s")
            asyncio.run(tell(server))
            say("6. The stream as a Spark table, while the server runs")
            ask_spark(server.url)
        finally:
            server.end(signal.SIGTERM)
    say(f"Everything held, in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
