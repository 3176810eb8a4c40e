"""A cluster in under a minute: three servers, one killed while it leads, nothing lost, and a Spark query across it.

Every order is on the disks of two servers before it is acknowledged. When the server that leads dies, another one leads
within seconds, and the publisher goes on. Every step checks what it claims.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client

ORDERS = 20_000
AFTER_THE_KILL = 5_000
REGIONS = ("us", "eu", "apac")
SERVERS = 3
FORMED_SECONDS_MAX = 60.0


class Member:
    """A server of the cluster, as operators run it: a configuration file and a process."""

    def __init__(self, name: str, directory: Path, ports: list[int], routes: list[int]) -> None:
        self.name = name
        self.url = f"nats://127.0.0.1:{ports[0]}"
        self._config = directory / f"{name}.conf"
        self._log = directory / f"{name}.log"
        urls = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        self._config.write_text(
            f"server_name: {name}\nlisten: 127.0.0.1:{ports[0]}\n"
            f"jetstream {{ store_dir: '{directory / name}' }}\n"
            f"cluster {{ name: demo, listen: 127.0.0.1:{ports[1]}, routes: [{urls}] }}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it."""
        command = [sys.executable, "-m", "slipstream.server", "-c", str(self._config), "-l", str(self._log)]
        self._process = subprocess.Popen(command)

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait until the process is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def say(text: str) -> None:
    """One line of the story."""
    print(text, flush=True)


async def connect(members: list[Member], **more: object) -> Client:
    """A client that knows all servers, and goes to another one when its own is gone."""
    options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.1, "error_cb": _ignore, **more}
    started = time.perf_counter()
    while True:
        try:
            return await nats.connect([member.url for member in members], **options)  # type: ignore[arg-type]
        except (OSError, nats.errors.Error):
            if time.perf_counter() - started > FORMED_SECONDS_MAX:
                raise


async def make_stream(client: Client) -> float:
    """A stream with three copies, as soon as the servers have found each other; the seconds that took."""
    started = time.perf_counter()
    while True:
        try:
            await client.jetstream(timeout=2).add_stream(name="ORDERS", subjects=["orders.>"], num_replicas=SERVERS)
            return time.perf_counter() - started
        except (nats.errors.Error, nats.js.errors.Error):
            if time.perf_counter() - started > FORMED_SECONDS_MAX:
                raise


async def leader_of(client: Client) -> str:
    """The server that leads the stream, as soon as one does."""
    while True:
        try:
            answer = await client.request("$JS.API.STREAM.INFO.ORDERS", timeout=1)
            leader = json.loads(answer.data).get("cluster", {}).get("leader")
            if leader:
                return str(leader)
        except nats.errors.Error:
            pass  # nobody leads: nobody answers


async def publish(client: Client, first: int, count: int, acked: dict[int, int]) -> float:
    """Publish orders, each until it is acknowledged; the longest time without an acknowledgement."""
    jetstream = client.jetstream(timeout=1)
    longest, last = 0.0, time.perf_counter()
    queue = list(range(first, first + count))
    while queue:
        batch, queue = queue[:500], queue[500:]

        async def one(number: int) -> int:
            headers = {"Nats-Msg-Id": f"order-{number}"}  # sent again, it is not stored twice
            body = json.dumps({"order": number, "cents": 100 + number % 900}).encode()
            return (await jetstream.publish(f"orders.{REGIONS[number % 3]}", body, headers=headers)).seq

        done = await asyncio.gather(*(one(number) for number in batch), return_exceptions=True)
        for number, outcome in zip(batch, done, strict=True):
            if isinstance(outcome, BaseException):
                queue.append(number)
            else:
                acked[number] = outcome
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
    return longest


async def check(client: Client, acked: dict[int, int]) -> None:
    """Everything that was acknowledged is there, once, under its sequence."""
    reader = await client.jetstream(timeout=5).subscribe("orders.>", stream="ORDERS", ordered_consumer=True)
    found: dict[int, int] = {}
    left = 1
    while left:
        message = await reader.next_msg(timeout=10)
        number = json.loads(message.data)["order"]
        assert number not in found, f"order {number} is there twice"
        found[number] = message.metadata.sequence.stream
        left = message.metadata.num_pending
    lost = [number for number, sequence in acked.items() if found.get(number) != sequence]
    say(f"   {len(acked):,} orders were acknowledged, {len(found):,} are there, {len(lost)} are lost")
    assert not lost


def ask_spark(url: str, count: int) -> None:
    """The stream as a table, read from the server that leads now."""
    from slipstream.spark import session

    with session("test", app_name="demo-cluster") as spark:
        orders = spark.read.format("slipstream").option("servers", url).option("stream", "ORDERS").load()
        rows = orders.groupBy("subject").count().orderBy("subject").collect()
        for row in rows:
            say(f"     {row['subject']:14} {row['count']:8,}")
        assert sum(row["count"] for row in rows) == count


async def tell(members: list[Member]) -> tuple[str, int]:
    """The story; where the stream is led at its end, and how many orders it has."""
    client = await connect(members)
    say(f"1. Three servers found a cluster; a stream with three copies after {await make_stream(client):.1f} s")
    acked: dict[int, int] = {}
    started = time.perf_counter()
    await publish(client, 0, ORDERS, acked)
    rate = ORDERS / (time.perf_counter() - started)
    say(f"2. {ORDERS:,} orders, each on two disks at least before its ack: {rate:,.0f} a second")
    leader = await leader_of(client)
    publisher = asyncio.create_task(publish(client, ORDERS, AFTER_THE_KILL, acked))
    while len(acked) < ORDERS + AFTER_THE_KILL // 5:
        await asyncio.sleep(0.001)
    victim = next(member for member in members if member.name == leader)
    victim.end(signal.SIGKILL)
    longest = await publisher
    follower = await leader_of(client)
    say(f"3. {leader} led and was killed without warning: {follower} leads, {longest:.1f} s without an ack")
    await check(client, acked)
    victim.start()
    say(f"4. {leader} is back, and gets what it missed")
    await client.close()
    url = next(member.url for member in members if member.name == follower)
    return url, len(acked)


async def _ignore(error: Exception) -> None:
    del error


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> None:
    """Run the demo in a directory that is gone afterwards."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="slipstream-cluster-") as name:
        directory = Path(name)
        ports = free_ports(2 * SERVERS)
        pairs = [ports[2 * number : 2 * number + 2] for number in range(SERVERS)]
        routes = [pair[1] for pair in pairs]
        members = [Member(f"n{number + 1}", directory, pair, routes) for number, pair in enumerate(pairs)]
        try:
            for member in members:
                member.start()
            url, count = asyncio.run(tell(members))
            say("5. A Spark query over it, from the server that leads now:")
            ask_spark(url, count)
        finally:
            for member in members:
                member.end(signal.SIGTERM)
    say(f"Done in {time.perf_counter() - started:.0f} s.")


if __name__ == "__main__":
    main()
