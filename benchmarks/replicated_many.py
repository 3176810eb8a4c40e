"""What many streams cost a cluster, and what a server has to catch up with.

A short look has a tenth of the streams and of the bytes. Servers are killed, not asked to end, so a start reads back
what a crash leaves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from time import monotonic_ns

from benchmarks.jetstream import publish_acked
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from benchmarks.three_servers import ASK_NS, asked, led_cluster, make_stream, three_servers
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient

__all__ = ["MANY_SCENARIOS"]

_FIRST_SETTLED_S = 1  # what is loaded for the first stream is no cost of the others
_SETTLED_S = 15.0  # until nothing is left of what making streams has begun
_POLL_S = 0.01  # between two looks
_WATCHED_S = 5.0
_IDLE_STREAMS = 1_000
_START_STREAMS = 10_000
_SAMPLE = 100  # streams that have to acknowledge before a start counts as done
_CATCH_UP_BYTES = 1 << 30
_CATCH_UP_SIZE = 8192
_EVER_NS = 120_000_000_000


def _run_idle(server: Server, scale: Scale) -> Sequence[float]:
    """Streams with three copies that nobody uses: processor time and memory of a server."""
    count = scale.of(_IDLE_STREAMS)
    with three_servers(server.binary, always=True) as servers:
        with WireClient(servers["n0"].url) as client:
            make_stream(client, "FIRST")
            time.sleep(_FIRST_SETTLED_S)
            before = [one.resident_bytes() for one in servers.values()]
            for number in range(count):
                make_stream(client, f"S{number}")
        time.sleep(_SETTLED_S)
        memory = [now.resident_bytes() - was for now, was in zip(servers.values(), before, strict=True)]
        began, used = monotonic_ns(), [one.cpu_ns() for one in servers.values()]
        time.sleep(_WATCHED_S)
        elapsed = monotonic_ns() - began
        shares = [(one.cpu_ns() - was) / elapsed * 100 for one, was in zip(servers.values(), used, strict=True)]
        return max(shares), sum(memory) / len(memory) / count / 1e3


def _run_start(server: Server, scale: Scale) -> Sequence[float]:
    """All three servers are killed and start again: until streams on all of them acknowledge."""
    count = scale.of(_START_STREAMS)
    with three_servers(server.binary, always=False) as servers:
        with WireClient(servers["n0"].url) as client:
            for number in range(count):
                make_stream(client, f"S{number}", copies=1)
        for one in servers.values():
            one.stop()
        began = monotonic_ns()
        starts = [threading.Thread(target=one.restart, kwargs={"clean": False}) for one in servers.values()]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        with WireClient(servers["n0"].url) as client:
            for number in range(0, count, max(count // _SAMPLE, 1)):
                _published(client, f"S{number}.a")
        return ((monotonic_ns() - began) / 1e9,)


def _published(client: WireClient, subject: str) -> None:
    deadline = monotonic_ns() + _EVER_NS
    while True:
        try:
            client.request(subject, b"x", timeout_ns=ASK_NS)
            return
        except ClientError as error:
            if monotonic_ns() > deadline:
                raise MessagesMissing(f"nobody takes {subject}") from error
            time.sleep(_POLL_S)


def _run_catch_up(server: Server, scale: Scale) -> Sequence[float]:
    """A server is away while much is published, and starts again: until it has all of it."""
    messages = scale.of(_CATCH_UP_BYTES) // _CATCH_UP_SIZE
    with led_cluster(server.binary, "BENCH", always=False) as (leader, others):
        late = others[0]
        late.stop()
        publish_acked(leader.url, messages=messages, size=_CATCH_UP_SIZE)
        began = monotonic_ns()
        late.restart(clean=False)
        with WireClient(leader.url) as client:
            while monotonic_ns() - began < _EVER_NS:
                shown = asked(client, "$JS.API.STREAM.INFO.BENCH", {})
                replicas = shown.get("cluster", {}).get("replicas", [])
                known = replicas if isinstance(replicas, list) and len(replicas) == 2 else [{}]
                if all(one.get("current") and not one.get("lag") and not one.get("offline") for one in known):
                    return (messages * _CATCH_UP_SIZE / 1e6 / ((monotonic_ns() - began) / 1e9),)
                time.sleep(_POLL_S)
        raise MessagesMissing("the server that was away does not catch up")


MANY_SCENARIOS = (
    Scenario(
        "replicated-idle",
        (
            Row("1,000 idle streams with three copies, processor time of a server", "%", Bar(Claim.OURS_AT_MOST, 2.0)),
            Row("1,000 idle streams with three copies, memory of a server a stream", "KB", None),
        ),
        _run_idle,
    ),
    Scenario(
        "replicated-start",
        (
            Row(
                "10,000 streams with one copy, three servers start: until they acknowledge",
                "s",
                Bar(Claim.RATIO_AT_MOST, 1.0),
            ),
        ),
        _run_start,
    ),
    Scenario(
        "replicated-catch-up",
        (Row("a server catches up with 1 GB", "MB/s", Bar(Claim.RATIO_AT_LEAST, 1.0)),),
        _run_catch_up,
    ),
)
