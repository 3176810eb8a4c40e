"""Three servers of a cluster on one machine: what crosses from one to another, and what it costs that they know each
other's subscriptions. And a leaf with its hub.

The first server is the one that the comparison starts; the other two are started here and dial it. Hub and leaf have
files of their own, and are both started here.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns, sleep

from benchmarks.core import SIZE, _allow_descriptors, _settled
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server, ServerFailed
from slipstream.client.load import Runner, percentile
from slipstream.client.options import ClientTimeout
from slipstream.client.roundtrip import Replying, Requesting
from slipstream.client.throughput import PublishLoad, Receiving
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together

__all__ = ["SCENARIOS", "three_servers"]

SUBSCRIPTIONS = 100_000
STORM = 5_000
FLAGS = ("--cluster_name", "bench", "--cluster", "nats://127.0.0.1:-1")
_KNOWN_S = 1.0  # for a subscription to be known everywhere before the clock starts; it takes milliseconds
_PATIENCE_S = 60.0
_PAIRS_ALONE = 4  # of a server with a cluster and one without, since no two processes lie alike in memory
_TURNS_ALONE = 6  # of each; the first warms them up
_ROUTE_PORT = re.compile(r"Listening for route connections on \S+:(\d+)")
_LEAF_PORT = re.compile(r"Listening for leafnode connections on \S+:(\d+)")


@contextmanager
def three_servers(first: Server) -> Iterator[list[Server]]:
    """The first server with two more, when all know each other."""
    flags = (*FLAGS, "--routes", f"nats://127.0.0.1:{_port(first, _ROUTE_PORT)}")
    with ExitStack() as started, tempfile.TemporaryDirectory(prefix="cluster-") as home:
        servers = [first, *(started.enter_context(Server(first.binary, Path(home), flags)) for _ in range(2))]
        for place, server in enumerate(servers):
            for other in servers:
                if other is not server:
                    _wait_until_known(other, server, f"known.{place}")
        yield servers


@contextmanager
def hub_and_leaf(binary: Path) -> Iterator[list[Server]]:
    """A leaf and its hub, when both know each other."""
    with ExitStack() as started, tempfile.TemporaryDirectory(prefix="leaf-") as home:
        files = [Path(home) / name for name in ("hub.conf", "leaf.conf")]
        files[0].write_text('server_name: hub\nleafnodes { listen: "127.0.0.1:-1" }\n')
        hub = started.enter_context(Server(binary, Path(home), ("-c", str(files[0]))))
        url = f"nats-leaf://127.0.0.1:{_port(hub, _LEAF_PORT)}"
        files[1].write_text(f'server_name: leaf\nleafnodes {{ remotes: [ {{ url: "{url}" }} ] }}\n')
        leaf = started.enter_context(Server(binary, Path(home), ("-c", str(files[1]))))
        for here, there, subject in ((hub, leaf, "known.leaf"), (leaf, hub, "known.hub")):
            _wait_until_known(here, there, subject)
        yield [leaf, hub]


def _port(server: Server, told: re.Pattern[str]) -> int:
    """Told in the log, by some servers only after they are ready."""
    deadline = monotonic_ns() + _PATIENCE_S * 1e9
    while monotonic_ns() < deadline:
        found = told.search(server.log)
        if found is not None:
            return int(found[1])
        sleep(0.01)
    raise ServerFailed(f"a port is missing:\n{server.log}")


def _wait_until_known(here: Server, there: Server, subject: str) -> float:
    """Publish here until somebody there answers; the seconds that it took."""
    with WireClient(there.url) as listening:
        listening.subscribe(subject)
        listening.flush()
        return _reaches(here, listening, subject)


def _reaches(here: Server, listening: WireClient, subject: str) -> float:
    started = monotonic_ns()
    with WireClient(here.url) as asking:
        while True:
            asking.publish(subject, b"")
            asking.flush()
            try:
                listening.next_message(20_000_000)
            except ClientTimeout:
                if monotonic_ns() - started > _PATIENCE_S * 1e9:
                    raise MessagesMissing(f"{subject} is not known at the other server") from None
            else:
                return (monotonic_ns() - started) / 1e9


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A job that begins when what the others subscribed to is known at all servers."""

    job: PublishLoad | Requesting

    def prepare(self) -> Runner:
        """Connect, and let others have their time."""
        runner = self.job.prepare()
        sleep(_KNOWN_S)
        return runner


def _deliver(servers: list[Server], receivers: list[Server], messages: int) -> float:
    """Messages a second: published at the first, received at others, one connection each."""
    jobs = [Receiving(url=one.url, subjects=(("bench.far",),), messages=messages) for one in receivers]
    publishing = PublishLoad(url=servers[0].url, subjects=(("bench.far",),), messages=messages, size=SIZE)
    *received, published = run_together([*jobs, Patient(job=publishing)])
    if any(one.messages != messages for one in received):
        raise MessagesMissing(f"{[one.messages for one in received]} messages came instead of {messages} each")
    seconds = (max(one.ended_ns for one in received) - published.started_ns) / 1e9
    return messages * len(receivers) / seconds


def _run_far(server: Server, scale: Scale) -> Sequence[float]:
    with three_servers(server) as servers:
        _deliver(servers, servers[1:2], scale.of(100_000))
        return (_deliver(servers, servers[1:2], scale.of(1_000_000)) / 1e3,)


def _run_leaf(server: Server, scale: Scale) -> Sequence[float]:
    with hub_and_leaf(server.binary) as servers:
        _deliver(servers, servers[1:], scale.of(100_000))
        return (_deliver(servers, servers[1:], scale.of(1_000_000)) / 1e3,)


def _run_fan_out(server: Server, scale: Scale) -> Sequence[float]:
    with three_servers(server) as servers:
        receivers = servers * 3
        _deliver(servers, receivers, scale.of(20_000))
        return (_deliver(servers, receivers, scale.of(200_000)) / 1e3,)


def _run_request(server: Server, scale: Scale) -> Sequence[float]:
    with three_servers(server) as servers:
        requests = scale.of(10_000)
        asking = Requesting(url=servers[0].url, subject="bench.ask", inbox="_INBOX.bench", messages=requests, size=SIZE)
        answering = Replying(url=servers[1].url, subject="bench.ask", messages=requests, size=SIZE)
        asked, _ = run_together([Patient(job=asking), answering])
        found = sorted(asked.latencies_ns)
        return percentile(found, 0.5) / 1e3, percentile(found, 0.99) / 1e3


def _run_interest(server: Server, scale: Scale) -> Sequence[float]:
    """The time from the first subscription at one server until the others have heard of the last one."""
    count = scale.of(SUBSCRIPTIONS)
    with three_servers(server) as servers:
        before = sum(_settled(one.resident_bytes) for one in servers)
        with WireClient(servers[0].url) as client:
            started = monotonic_ns()
            client.subscribe_many(f"interest.{number}.*" for number in range(count))
            client.subscribe("interest.last")
            client.flush()
            for other in servers[1:]:
                _reaches(other, client, "interest.last")
            seconds = (monotonic_ns() - started) / 1e9
            used = sum(_settled(one.resident_bytes) for one in servers) - before
        return seconds, used / 2**20


def _run_storm(server: Server, scale: Scale) -> Sequence[float]:
    """A server dies, and its clients come to the other two, each with a subscription."""
    count = scale.of(STORM)
    _allow_descriptors(2 * count + 256)
    with three_servers(server) as servers, ExitStack() as opened:
        lost = []
        for number in range(count):
            client = WireClient(servers[2].url)
            client.subscribe(f"storm.{number}")
            lost.append(client)
        for client in lost:
            client.flush()
        servers[2].stop()
        for client in lost:
            client.close()
        started = monotonic_ns()
        back = []
        for number in range(count):
            client = opened.enter_context(WireClient(servers[number % 2].url))
            client.subscribe(f"storm.{number}")
            back.append(client)
        for client in back:
            client.flush()
        with WireClient(servers[0].url) as asking:
            asking.publish(f"storm.{count // 2 * 2 - 1}", b"")
            asking.flush()
            _reaches(servers[0], back[count // 2 * 2 - 1], f"storm.{count // 2 * 2 - 1}")
        return ((monotonic_ns() - started) / 1e9,)


def _run_alone(server: Server, scale: Scale) -> Sequence[float]:
    """Processor time of a message in a cluster of one, by that of a server without one; the best of many turns.

    The two execute the same instructions for a message (counted by callgrind), so all that differs is noise, and what
    makes most of it is kept out: servers have a processor for themselves, the load has the others, and who is started
    and asked first changes from pair to pair and from turn to turn. What is left is seen in the row of nats-server.
    """
    messages = scale.of(500_000)
    with_cluster: list[int] = []
    without: list[int] = []
    processors = sorted(os.sched_getaffinity(0))
    try:
        for number in range(_PAIRS_ALONE):
            with tempfile.TemporaryDirectory(prefix="alone-") as home, ExitStack() as started:
                os.sched_setaffinity(0, processors[:1])
                kinds = [(FLAGS, with_cluster), ((), without)]
                if number % 2:
                    kinds.reverse()
                pair = [
                    (started.enter_context(Server(server.binary, Path(home), flags)), took) for flags, took in kinds
                ]
                os.sched_setaffinity(0, processors[1:] or processors)
                for _ in range(_TURNS_ALONE):
                    pair.reverse()
                    for one, took in pair:
                        before = one.busy_ns()
                        _deliver([one], [one], messages)
                        took.append(one.busy_ns() - before)
    finally:
        os.sched_setaffinity(0, processors)
    return (min(with_cluster) / min(without),)


SCENARIOS = (
    Scenario(
        "cluster-alone",
        (Row("a message in a cluster of one, by one without a cluster", "x", Bar(Claim.OURS_AT_MOST, 1.02)),),
        _run_alone,
        FLAGS,
    ),
    Scenario(
        "cluster-far",
        (Row("published at one server, received at another", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 1.5)),),
        _run_far,
        FLAGS,
    ),
    Scenario(
        "cluster-leaf",
        (Row("published at a leaf, received at its hub", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 1.5)),),
        _run_leaf,
    ),
    Scenario(
        "cluster-fan-out",
        (Row("9 subscribers on three servers", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 1.5)),),
        _run_fan_out,
        FLAGS,
    ),
    Scenario(
        "cluster-request",
        (
            Row("request at one server, answered at another, p50", "µs", Bar(Claim.RATIO_AT_MOST, 1.0)),
            Row("request at one server, answered at another, p99", "µs", Bar(Claim.RATIO_AT_MOST, 1.0)),
        ),
        _run_request,
        FLAGS,
    ),
    Scenario(
        "cluster-interest",
        (
            Row("100,000 subscriptions known at three servers", "s", Bar(Claim.RATIO_AT_MOST, 1.0)),
            Row("memory of three servers for 100,000 subscriptions", "MiB", Bar(Claim.RATIO_AT_MOST, 1.0)),
        ),
        _run_interest,
        FLAGS,
    ),
    Scenario(
        "cluster-storm",
        (Row("5,000 clients of a dead server come to the others", "s", Bar(Claim.RATIO_AT_MOST, 1.0)),),
        _run_storm,
        FLAGS,
    ),
)
