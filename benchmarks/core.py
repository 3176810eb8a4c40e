"""Core NATS: publish, deliver, fan out, request, hold idle connections, start, carry many subscriptions.

The functions take a URL and numbers and can be used alone; `SCENARIOS` applies them with the numbers of the comparison.
Payloads are 128 bytes unless a scenario is about something else.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic_ns, sleep

from benchmarks.scenario import Bar, Claim, Latency, MessagesMissing, Row, Scale, Scenario, Throughput
from benchmarks.servers import Server
from slipstream.client.load import percentile
from slipstream.client.roundtrip import Replying, Requesting
from slipstream.client.throughput import PublishLoad, Receiving
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together

__all__ = [
    "SCENARIOS",
    "IdleMemory",
    "WildcardCost",
    "deliver",
    "idle_memory",
    "publish",
    "request_reply",
    "wildcard_cost",
]

SIZE = 128
LARGE_SIZE = 16 * 1024
IDLE_CONNECTIONS = 5_000
WILDCARDS = 100_000
FEW_SUBJECTS = 1_000  # published in turn; a cache of recent subjects holds them
MANY_SUBJECTS = 10_000  # published in turn; nats-server's cache, for one, does not hold them
MATCHING_EVERY = 10  # of the rotation, one subject in so many has a subscription

Subjects = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class IdleMemory:
    """Memory of a server with connections that do nothing."""

    connections: int
    before_bytes: int
    after_bytes: int


@dataclass(frozen=True, kw_only=True)
class WildcardCost:
    """Publishing on the same subjects before and after many wildcard subscriptions were made."""

    subscriptions: int
    before: Throughput
    after: Throughput

    @property
    def kept(self) -> float:
        """Which part of the publish rate is left."""
        return self.after.rate / self.before.rate


def publish(url: str, *, messages: int, size: int = SIZE, subjects: Sequence[str] = ("bench.publish",)) -> Throughput:
    """One connection publishes, nobody subscribes; the time ends with the server's PONG."""
    (tally,) = run_together([PublishLoad(url=url, subjects=(tuple(subjects),), messages=messages, size=size)])
    return _throughput(tally.messages, tally.payload_bytes, tally.started_ns, tally.ended_ns)


def deliver(url: str, *, publishing: Subjects, receiving: Subjects, messages: int, size: int = SIZE) -> Throughput:
    """Publish and receive; the time is from the first byte sent to the last message received.

    Args:
        url: the server.
        publishing: for each publishing connection, its subjects.
        receiving: for each receiving connection, its subscriptions. Every one must match `messages` messages.
        messages: published on each publishing connection.
        size: of a payload in bytes.

    Raises:
        MessagesMissing: another number of messages came than was published.
    """
    receiver = Receiving(url=url, subjects=receiving, messages=messages)
    publisher = PublishLoad(url=url, subjects=publishing, messages=messages, size=size)
    received, published = run_together([receiver, publisher])
    expected = messages * len(receiving)
    if received.messages != expected or received.payload_bytes != expected * size:
        raise MessagesMissing(f"{received.messages} messages came instead of {expected}")
    return _throughput(received.messages, received.payload_bytes, published.started_ns, received.ended_ns)


def request_reply(url: str, *, requests: int, size: int = SIZE) -> Latency:
    """One requester, one responder, one request at a time."""
    inbox, subject = "_INBOX.bench", "bench.request"
    requester = Requesting(url=url, subject=subject, inbox=inbox, messages=requests, size=size)
    asked, _ = run_together([requester, Replying(url=url, subject=subject, messages=requests, size=size)])
    latencies = sorted(asked.latencies_ns)
    return Latency(requests=requests, p50_ns=percentile(latencies, 0.5), p99_ns=percentile(latencies, 0.99))


def idle_memory(url: str, resident_bytes: Callable[[], int], *, connections: int = IDLE_CONNECTIONS) -> IdleMemory:
    """Open connections that only said hello, and read the server's memory when it has settled.

    Args:
        url: the server.
        resident_bytes: reads the memory of the server's process.
        connections: how many.
    """
    _allow_descriptors(connections + 256)
    before = _settled(resident_bytes)
    with ExitStack() as opened:
        for _ in range(connections):
            opened.callback(WireClient(url).detach()[0].close)
        return IdleMemory(connections=connections, before_bytes=before, after_bytes=_settled(resident_bytes))


def wildcard_cost(
    url: str, *, messages: int, subscriptions: int = WILDCARDS, rotation: int = FEW_SUBJECTS, size: int = SIZE
) -> WildcardCost:
    """Publish on rotating subjects with no subscription at all, then with many that match one subject in ten.

    `messages` is rounded to whole rounds of the rotation, so that the number of deliveries is known.

    Raises:
        MessagesMissing: the subscriptions did not get exactly what matches.
    """
    messages = max(messages // rotation, 1) * rotation
    subjects = _rotation(rotation, subscriptions)
    publisher = PublishLoad(url=url, subjects=(subjects,), messages=messages, size=size)
    (alone,) = run_together([publisher])
    matching = messages // rotation * len(range(0, rotation, MATCHING_EVERY))
    receiver = Receiving(url=url, subjects=(_wildcards(subscriptions),), messages=matching)
    received, published = run_together([receiver, publisher])
    if received.messages != matching:
        raise MessagesMissing(f"{received.messages} messages came instead of {matching}")
    before = _throughput(messages, messages * size, alone.started_ns, alone.ended_ns)
    ended_ns = max(published.ended_ns, received.ended_ns)
    after = _throughput(messages, messages * size, published.started_ns, ended_ns)
    return WildcardCost(subscriptions=subscriptions, before=before, after=after)


def _wildcards(count: int) -> tuple[str, ...]:
    """Distinct patterns in four shapes: a star inside and at the end, a tail, a star before the literal."""
    shapes = ("wild.{}.*.events", "wild.{}.>", "wild.*.{}.state", "site.{}.*")
    return tuple(shapes[index % 4].format(index) for index in range(count))


def _rotation(count: int, subscriptions: int) -> tuple[str, ...]:
    """Subjects of which every tenth matches exactly one of the wildcards; the others nearly do, or are elsewhere."""
    subjects = []
    for index in range(count):
        number = index * 4 % max(subscriptions, 1) // 4 * 4  # a subscription of the first shape
        if index % MATCHING_EVERY == 0:
            subjects.append(f"wild.{number}.m{index}.events")
        elif index % 2:
            subjects.append(f"wild.{number}.n{index}.none")
        else:
            subjects.append(f"elsewhere.{index}.events")
    return tuple(subjects)


def _throughput(messages: int, payload_bytes: int, started_ns: int, ended_ns: int) -> Throughput:
    return Throughput(messages=messages, payload_bytes=payload_bytes, seconds=(ended_ns - started_ns) / 1e9)


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise OSError(f"{count} file descriptors are needed, {hard} allowed (RLIMIT_NOFILE)")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _settled(resident_bytes: Callable[[], int], *, timeout_ns: int = 5_000_000_000) -> int:
    """Read until the value has not changed by more than 1 % for half a second."""
    deadline = monotonic_ns() + timeout_ns
    value, calm = resident_bytes(), 0
    while calm < 5 and monotonic_ns() < deadline:
        sleep(0.1)
        latest = resident_bytes()
        calm = calm + 1 if abs(latest - value) <= value // 100 else 0
        value = latest
    return value


def _delivery(
    name: str, title: str, publishing: Subjects, receiving: Subjects, messages: int, size: int = SIZE
) -> Scenario:
    def run(server: Server, scale: Scale) -> Sequence[float]:
        count = scale.of(messages)
        deliver(server.url, publishing=publishing, receiving=receiving, messages=max(count // 10, 1), size=size)
        result = deliver(server.url, publishing=publishing, receiving=receiving, messages=count, size=size)
        return (result.rate / 1e3,)

    return Scenario(name, (_rate_row(title),), run)


def _rate_row(title: str) -> Row:
    return Row(title, "k msg/s", Bar(Claim.RATIO_AT_LEAST, 1.0))


def _run_publish(server: Server, scale: Scale) -> Sequence[float]:
    publish(server.url, messages=scale.of(300_000))
    return (publish(server.url, messages=scale.of(3_000_000)).rate / 1e3,)


def _run_request_reply(server: Server, scale: Scale) -> Sequence[float]:
    request_reply(server.url, requests=scale.of(2_000))
    result = request_reply(server.url, requests=scale.of(20_000))
    return result.p50_ns / 1e3, result.p99_ns / 1e3


def _run_idle_memory(server: Server, scale: Scale) -> Sequence[float]:
    result = idle_memory(server.url, server.resident_bytes, connections=scale.of(IDLE_CONNECTIONS))
    return (result.after_bytes / 2**20,)


def _run_start(server: Server, _: Scale) -> Sequence[float]:
    return (server.start_ns / 1e9,)


def _run_start_with_jetstream(server: Server, _: Scale) -> Sequence[float]:
    return server.start_cpu_ns / 1e9, server.start_ns / 1e9


def _wildcards_scenario(name: str, rotation: int) -> Scenario:
    def run(server: Server, scale: Scale) -> Sequence[float]:
        publish(server.url, messages=scale.of(300_000))
        messages, subscriptions = scale.of(1_000_000), scale.of(WILDCARDS)
        result = wildcard_cost(server.url, messages=messages, subscriptions=subscriptions, rotation=rotation)
        return result.kept, result.after.rate / 1e3

    title = f"100,000 wildcard subscriptions, publish on {rotation:,} subjects"
    rows = (
        Row(f"{title}: rate kept", "of 1", Bar(Claim.OURS_AT_LEAST, 0.5)),
        Row(f"{title}: rate", "k msg/s", None),
    )
    return Scenario(name, rows, run)


_ONE: Subjects = (("bench.one",),)
_HUNDRED: Subjects = tuple((f"bench.many.{index}",) for index in range(100))

SCENARIOS = (
    Scenario("publish", (_rate_row("publish, no subscriber"),), _run_publish),
    _delivery("one-to-one", "1 publisher, 1 subscriber", _ONE, _ONE, 1_500_000),
    _delivery("fan-out", "1 publisher, 10 subscribers", _ONE, _ONE * 10, 200_000),
    _delivery("many", "100 publishers, 100 subscribers, 100 subjects", _HUNDRED, _HUNDRED, 15_000),
    _delivery("large", "16 KiB payloads, 1 publisher, 1 subscriber", _ONE, _ONE, 100_000, LARGE_SIZE),
    Scenario(
        "request",
        (
            Row("request and reply, p50", "µs", Bar(Claim.RATIO_AT_MOST, 1.2)),
            Row("request and reply, p99", "µs", Bar(Claim.RATIO_AT_MOST, 1.2)),
        ),
        _run_request_reply,
    ),
    Scenario(
        "idle",
        (Row("memory with 5,000 idle connections", "MiB", Bar(Claim.RATIO_AT_MOST, 1.5)),),
        _run_idle_memory,
    ),
    Scenario("start", (Row("start to ready", "s", Bar(Claim.OURS_AT_MOST, 0.4)),), _run_start),
    Scenario(
        "start-js",
        (
            Row("start to ready with -js, processor time", "s", Bar(Claim.OURS_AT_MOST, 0.1)),
            Row("start to ready with -js", "s", None),
        ),
        _run_start_with_jetstream,
        ("-js", "-sd", "js"),
    ),
    _wildcards_scenario("wildcards", FEW_SUBJECTS),
    _wildcards_scenario("wildcards-spread", MANY_SUBJECTS),
)
