"""Streams with three copies on three servers of one machine: publishing, and what a dead leader costs.

Ours acknowledges what a majority has synced; nats-server is measured as it comes, and with `sync always`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic_ns

from benchmarks.jetstream import publish_acked
from benchmarks.replicated_many import MANY_SCENARIOS
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from benchmarks.three_servers import ASK_NS, led_cluster
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.client.wire import WireClient

__all__ = ["SCENARIOS"]

_STREAM = "BENCH"
_SIZE = 128
_EVER_NS = 30_000_000_000


def _run_async(server: Server, scale: Scale, *, always: bool) -> Sequence[float]:
    with led_cluster(server.binary, _STREAM, always=always) as (leader, _):
        publish_acked(leader.url, messages=scale.of(10_000), size=_SIZE)
        return (publish_acked(leader.url, messages=scale.of(60_000), size=_SIZE).rate / 1e3,)


def _run_sync(server: Server, scale: Scale) -> Sequence[float]:
    """One publisher that waits for each ack, theirs synced as ours is."""
    with led_cluster(server.binary, _STREAM, always=True) as (leader, _), WireClient(leader.url) as client:
        found = []
        for _ in range(scale.of(3_000)):
            began = monotonic_ns()
            client.request(f"{_STREAM}.s", b"x" * _SIZE)
            found.append(monotonic_ns() - began)
        found.sort()
        return found[len(found) // 2] / 1e3, found[len(found) * 99 // 100] / 1e3


def _run_death(server: Server, scale: Scale) -> Sequence[float]:
    """The leader is killed: the time until another one acknowledges."""
    del scale
    with led_cluster(server.binary, _STREAM, always=False) as (leader, others), WireClient(others[0].url) as client:
        client.request(f"{_STREAM}.s", b"before")
        leader.stop()
        began = monotonic_ns()
        while monotonic_ns() - began < _EVER_NS:
            try:
                client.request(f"{_STREAM}.s", b"after", timeout_ns=ASK_NS // 5)
            except (ClientTimeout, ClientError):
                continue
            return ((monotonic_ns() - began) / 1e9,)
        raise MessagesMissing("nobody follows the leader that died")


SCENARIOS = (
    Scenario(
        "replicated-default",
        (Row("three copies, ours on two disks, theirs as it comes", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 1.0)),),
        lambda server, scale: _run_async(server, scale, always=False),
    ),
    Scenario(
        "replicated-always",
        (Row("three copies, both on two disks", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 2.0)),),
        lambda server, scale: _run_async(server, scale, always=True),
    ),
    Scenario(
        "replicated-sync",
        (
            Row("three copies, both synced, 1 publisher waits for each ack, p50", "µs", Bar(Claim.RATIO_AT_MOST, 1.0)),
            Row("three copies, both synced, 1 publisher waits for each ack, p99", "µs", Bar(Claim.RATIO_AT_MOST, 1.0)),
        ),
        _run_sync,
    ),
    Scenario(
        "replicated-death",
        (Row("the leader is killed: until another one acknowledges", "s", Bar(Claim.RATIO_AT_MOST, 0.4)),),
        _run_death,
    ),
    *MANY_SCENARIOS,
)
