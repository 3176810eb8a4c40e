"""Days at the edge in compressed time: a leaf works on its own for most hours, and nothing is lost or doubled.

An hour takes a fraction of a second. Orders are stored at the edge and mirrored to the hub, prices at the hub and
sourced to the edge, while the link is there for some hours only, breaks in the middle of others, and the server at the
edge is started anew now and then.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import click
import nats
from nats.js.api import StreamConfig, StreamSource

from campaigns.figures import Figures
from support.domains import external, jetstream, stored
from support.leaf_world import DEADLINE, LeafServer, LeafWorld
from support.tcp_proxy import TcpProxy

HOURS = 24


@dataclass
class EdgeDays:
    """What some days showed."""

    hours: int = 0
    hours_alone: int = 0
    orders: int = 0
    prices: int = 0
    restarts: int = 0
    broken: list[str] = field(default_factory=list)


class _Day:
    """A hub, its leaf, and the wire between them."""

    def __init__(self, world: LeafWorld, directory: Path, wire: TcpProxy, hub: LeafServer) -> None:
        self._world = world
        self._wire = wire
        self._directory = directory
        self._hub = hub
        self._edge: LeafServer | None = None
        self.above: nats.js.JetStreamContext = None  # type: ignore[assignment]
        self.below: nats.js.JetStreamContext = None  # type: ignore[assignment]

    async def begin(self) -> None:
        self.above = (await self._world.client(self._hub)).jetstream(timeout=DEADLINE)
        await self.restart_edge()
        await self.below.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        await self.above.add_stream(StreamConfig(name="PRICES", subjects=["prices.>"]))
        orders = StreamSource(name="ORDERS", external=external("edge"))
        prices = StreamSource(name="PRICES", external=external("hub"))
        await self.above.add_stream(StreamConfig(name="ALL_ORDERS", mirror=orders))
        await self.below.add_stream(StreamConfig(name="MY_PRICES", sources=[prices]))

    async def restart_edge(self) -> None:
        if self._edge is not None:
            await self._edge.stop()
        url = f"nats-leaf://127.0.0.1:{self._wire.port}"
        more = jetstream(self._directory, "edge")
        self._edge = await self._world.leaf("o", self._hub, "ignore_discovered_servers: true", more, url)
        self.below = (await self._world.client(self._edge)).jetstream(timeout=DEADLINE)


async def edge_days(days: int, seed: int, *, comes_back: bool = True, patience: float = 30.0) -> EdgeDays:
    """So many days; `comes_back`: the link is there at the end."""
    rng, found = random.Random(seed), EdgeDays()
    with tempfile.TemporaryDirectory(prefix="edge-") as name:
        directory = Path(name)
        async with LeafWorld(directory) as world:
            hub = await world.hub("o", more=jetstream(directory, "hub"))
            async with TcpProxy(hub.leaf_port) as wire:
                day = _Day(world, directory, wire, hub)
                await day.begin()
                orders: list[bytes] = []
                prices: list[bytes] = []
                for hour in range(days * HOURS):
                    await _one_hour(day, wire, rng, found, hour, orders, prices)
                if comes_back:
                    wire.heal()
                else:
                    wire.cut()
                    await day.below.publish("orders.new", b"never told")
                    orders.append(b"never told")
                found.orders, found.prices = len(orders), len(prices)
                for js, stream, expected in ((day.above, "ALL_ORDERS", orders), (day.below, "MY_PRICES", prices)):
                    try:
                        if await stored(js, stream, len(expected), patience) != expected:
                            found.broken.append(f"seed {seed}: {stream} is not what was sent")
                    except TimeoutError:
                        found.broken.append(f"seed {seed}: {stream} misses messages")
    return found


async def _one_hour(
    day: _Day,
    wire: TcpProxy,
    rng: random.Random,
    found: EdgeDays,
    hour: int,
    orders: list[bytes],
    prices: list[bytes],
) -> None:
    found.hours += 1
    if rng.random() < 0.3:
        wire.heal()
    else:
        wire.cut()
        found.hours_alone += 1
    if rng.random() < 0.08:
        await day.restart_edge()
        found.restarts += 1
    breaks_at = rng.randrange(30)
    for number in range(rng.randrange(10, 20)):
        body = b"%d.%d" % (hour, number)
        await day.below.publish("orders.new", body)
        orders.append(body)
        await day.above.publish("prices.milk", body)
        prices.append(body)
        if number == breaks_at:
            wire.cut()


def edge(days: int) -> Figures:
    """So many days, a week at a time."""
    total, seed = EdgeDays(), 0
    while total.hours < days * HOURS and not total.broken:
        found = asyncio.run(edge_days(min(7, days - total.hours // HOURS), seed))
        total.hours += found.hours
        total.hours_alone += found.hours_alone
        total.orders += found.orders
        total.prices += found.prices
        total.restarts += found.restarts
        total.broken += found.broken
        seed += 1
        click.echo(f"{total.hours // HOURS} of {days} days", err=True)
    noticed = bool(asyncio.run(edge_days(1, 1, comes_back=False, patience=2.0)).broken)
    return Figures(
        {
            "days": total.hours // HOURS,
            "hours without a link": total.hours_alone,
            "orders stored at the edge and mirrored": total.orders,
            "prices stored at the hub and sourced": total.prices,
            "restarts of the edge": total.restarts,
            "lost, doubled or out of order": len(total.broken),
        },
        total.broken,
        f"a link that does not come back: {'noticed' if noticed else 'NOT noticed'}",
        noticed,
    )
