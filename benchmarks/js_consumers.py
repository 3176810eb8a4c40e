"""Consumers: fetches, ordered and pushed reading, waiting for the next message, many consumers on one stream.

The functions take a URL and numbers and can be used alone; `SCENARIOS` applies them with the numbers of the comparison.
Where a bar is on our number alone, the other server's is for information. A message is delivered when it is as safe as
its ack: by default that is on the device here and in the page cache there, so the bars on waiting for the next message
compare like settings, and the default is for information.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from time import monotonic_ns, sleep

from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.js_consume import Awaiting, Listening, Pulling
from slipstream.client.js_requests import Asking
from slipstream.client.load import percentile
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together
from slipstream.units import SECOND_NS

__all__ = ["SCENARIOS", "create_times_ns", "fill", "make_consumer"]

SIZE = 128
MESSAGES = 400_000  # read in one run
WARM_UP = 20_000
SUBJECTS = 16
WINDOW = 4_000
CREATE_MESSAGES = 5_000_000
CREATE_SUBJECTS = 100_000
CREATES = 200
IDLE_CONSUMERS = 10_000
IDLE_STREAMS = 10  # nats-server allows 1,000 consumers a stream
IDLE_S = 10.0
FILTERED_CONSUMERS = 1_000
COVERING_TURNS = 8
_NAME = "BENCH"
_CONFIGS = Path(__file__).resolve().parent / "configs"
_DEFAULT = ("-js", "-sd", "data")
_INTERVAL = (*_DEFAULT, "-c", str(_CONFIGS / "sync_interval.conf"))
_ALWAYS = (*_DEFAULT, "-c", str(_CONFIGS / "sync_always.conf"))


def fill(url: str, messages: int, subjects: int = SUBJECTS) -> None:
    """Make a stream in a file and publish into it, in rotation over its subjects."""
    admin = StreamAdmin(url)
    admin.make([_NAME], "file")
    requests = tuple((f"{_NAME}.s{number}", b"x" * SIZE) for number in range(subjects))
    run_together([Asking(url=url, requests=requests, messages=messages, window=WINDOW)])
    admin.check(_NAME, messages)


def make_consumer(client: WireClient, name: str, **config: object) -> dict[str, object]:
    """Create a durable consumer, or one named `name` with `durable=False`; its info.

    Raises:
        ClientError: the server refused.
    """
    durable = config.pop("durable", True)
    body = {"name": name, "ack_policy": "none", **({"durable_name": name} if durable else {}), **config}
    request = json.dumps({"stream_name": _NAME, "config": body}).encode()
    answer: dict[str, object] = json.loads(
        client.request(f"$JS.API.CONSUMER.CREATE.{_NAME}.{name}", request, timeout_ns=30 * SECOND_NS).payload
    )
    if "error" in answer:
        raise ClientError(f"consumer {name}: {answer['error']}")
    return answer


def create_times_ns(url: str, filters: Sequence[str], start_seq: int = 0) -> list[int]:
    """How long it takes to create a consumer with each of the filters, sorted."""
    times = []
    with WireClient(url) as client:
        for number, subject in enumerate(filters):
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": start_seq} if start_seq else {}
            started_ns = monotonic_ns()
            make_consumer(client, f"C{number}", filter_subject=subject, **start)
            times.append(monotonic_ns() - started_ns)
    return sorted(times)


def _pull_rate(url: str, messages: int, *, left: int = 0, batch: int = 1_000, **config: object) -> float:
    """Read so many messages with a new consumer, after a short run with another one."""
    acks = config.get("ack_policy") == "explicit"
    rate = 0.0
    for name, count in (("WARM", min(WARM_UP, messages)), ("PULL", messages)):
        with WireClient(url) as client:
            make_consumer(client, name, **config)
        job = Pulling(url=url, stream=_NAME, consumer=name, messages=count, batch=batch, left=left, acks=acks)
        (tally,) = run_together([job])
        rate = tally.rate
        with WireClient(url) as client:
            client.request(f"$JS.API.CONSUMER.DELETE.{_NAME}.{name}", b"")
    return rate


def _run_fetch(server: Server, scale: Scale) -> Sequence[float]:
    messages = scale.of(MESSAGES)
    fill(server.url, messages)
    plain = _pull_rate(server.url, messages)
    acked = _pull_rate(server.url, messages, ack_policy="explicit", max_ack_pending=10_000)
    # Ordered: as clients consume, 500 at a time and the next ones when half of these have come.
    ordered = _pull_rate(server.url, messages, batch=500, left=250, durable=False, mem_storage=True)
    return plain / 1e3, acked / 1e3, ordered / 1e3


def _run_push(server: Server, scale: Scale) -> Sequence[float]:
    messages = scale.of(MESSAGES)
    fill(server.url, messages)
    rate = 0.0
    for name, count in (("WARM", min(WARM_UP, messages)), ("PUSH", messages)):
        subject = f"deliver.{name}"
        with WireClient(server.url) as client:
            make_consumer(
                client,
                name,
                durable=False,
                deliver_subject=subject,
                flow_control=True,
                idle_heartbeat=5 * SECOND_NS,
                mem_storage=True,
                max_deliver=1,
                inactive_threshold=60 * SECOND_NS,
            )
        (tally,) = run_together([Listening(url=server.url, subject=subject, messages=count)])
        rate = tally.rate
    return (rate / 1e3,)


def _run_latency(server: Server, scale: Scale) -> Sequence[float]:
    StreamAdmin(server.url).make([_NAME], "file")
    with WireClient(server.url) as client:
        make_consumer(client, "WAIT")
    job = Awaiting(
        url=server.url, stream=_NAME, consumer="WAIT", subject=f"{_NAME}.s", size=SIZE, messages=scale.of(3_000)
    )
    (tally,) = run_together([job])
    return (percentile(sorted(tally.latencies_ns), 0.5) / 1e3,)


def _run_many_filters(server: Server, scale: Scale) -> Sequence[float]:
    """Publish into a stream with many consumers, first while nobody asks them, then while each has a waiting pull."""
    count, messages = scale.of(FILTERED_CONSUMERS), scale.of(200_000)
    StreamAdmin(server.url).make([_NAME], "file")
    requests = tuple((f"{_NAME}.s{number}", b"x" * SIZE) for number in range(count))
    job = Asking(url=server.url, requests=requests, messages=messages, window=WINDOW)
    with WireClient(server.url) as client:
        for number in range(count):
            make_consumer(client, f"C{number}", filter_subject=f"{_NAME}.s{number}", deliver_policy="new")
    run_together([Asking(url=server.url, requests=requests, messages=messages // 10, window=WINDOW)])
    (idle,) = run_together([job])
    with WireClient(server.url) as client:
        client.subscribe("_INBOX.wait.*")
        body = json.dumps({"batch": messages, "expires": 120 * SECOND_NS}).encode()
        for number in range(count):
            target = f"$JS.API.CONSUMER.MSG.NEXT.{_NAME}.C{number}"
            client.publish(target, body, reply=f"_INBOX.wait.{number}")
        seen = 0
        while seen < messages + messages // 10:  # what was published before
            seen += len(client.next_messages())
        # Nothing comes for those who wait: they want other subjects than those that are published now.
        others = tuple((f"{_NAME}.t{number}", b"x" * SIZE) for number in range(count))
        (waiting,) = run_together([Asking(url=server.url, requests=others, messages=messages, window=WINDOW)])
    return idle.rate / 1e3, waiting.rate / 1e3


def _run_covering_filter(server: Server, scale: Scale) -> Sequence[float]:
    """The same fetches with a filter that passes everything and without: processor time of the server, divided."""
    messages = scale.of(MESSAGES)
    fill(server.url, messages)

    def cost_ns(filter_subject: str) -> int:
        before_ns = server.busy_ns()
        _pull_rate(server.url, messages, filter_subject=filter_subject)
        return server.busy_ns() - before_ns

    # Others on the machine only ever add to the time, and to whichever of the two runs beside them: the least counts.
    costs: dict[str, list[int]] = {f"{_NAME}.*": [], "": []}
    for turn in range(COVERING_TURNS):
        for filter_subject in sorted(costs, reverse=turn % 2 == 1):
            costs[filter_subject].append(cost_ns(filter_subject))
    return (min(costs[f"{_NAME}.*"]) / min(costs[""]),)


def _run_create(server: Server, scale: Scale) -> Sequence[float]:
    """Filters of every kind on a large stream; from the beginning, and from its middle."""
    messages, subjects = scale.of(CREATE_MESSAGES), scale.of(CREATE_SUBJECTS)
    StreamAdmin(server.url).make([_NAME], "file")
    requests = tuple((f"{_NAME}.g{number % 100}.s{number}", b"x" * SIZE) for number in range(subjects))
    run_together([Asking(url=server.url, requests=requests, messages=messages, window=WINDOW)])
    kinds = ("{}.g{}.*", "{}.g{}.>", "{}.*.s{}", "{}.g7.s{}07")
    filters = [kinds[number % len(kinds)].format(_NAME, number % 100) for number in range(CREATES // 2)]
    times = create_times_ns(server.url, filters)
    with WireClient(server.url) as client:
        for number in range(len(filters)):
            client.request(f"$JS.API.CONSUMER.DELETE.{_NAME}.C{number}", b"")
    times += create_times_ns(server.url, filters, messages // 2)
    _check_pending(server.url, messages, subjects)
    return (percentile(sorted(times), 0.99) / 1e6,)


def _check_pending(url: str, messages: int, subjects: int) -> None:
    with WireClient(url) as client:
        info = make_consumer(client, "EXACT", filter_subject=f"{_NAME}.g7.*")
    expected = sum(
        messages // subjects + (number < messages % subjects) for number in range(subjects) if number % 100 == 7
    )
    if info["num_pending"] != expected:
        raise ClientError(f"num_pending is {info['num_pending']} instead of {expected}")


def _run_idle(server: Server, scale: Scale) -> Sequence[float]:
    """Processor time that durable consumers cost which nobody uses."""
    count, streams = scale.of(IDLE_CONSUMERS), [f"S{number}" for number in range(IDLE_STREAMS)]
    StreamAdmin(server.url).make(streams, "file")
    requests = []
    for number in range(count):
        stream, name = streams[number % len(streams)], f"D{number}"
        config = {"durable_name": name, "name": name, "ack_policy": "explicit", "filter_subject": f"{stream}.s{number}"}
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        requests.append((f"$JS.API.CONSUMER.CREATE.{stream}.{name}", body))
    run_together([Asking(url=server.url, requests=tuple(requests), messages=count, window=64, answer_bytes_min=300)])
    sleep(2.0)
    before_ns = server.cpu_ns()
    sleep(IDLE_S / scale.value)
    return ((server.cpu_ns() - before_ns) / (IDLE_S / scale.value * SECOND_NS) * 100,)


def _at_least(title: str, ratio: float) -> Row:
    return Row(title, "k msg/s", Bar(Claim.RATIO_AT_LEAST, ratio))


def _wait_scenario(sync: str, flags: tuple[str, ...], bar: Bar | None) -> Scenario:
    row = Row(f"a waiting pull gets the next message, sync {sync}, p50", "us", bar)
    return Scenario(f"consume-wait-{sync}", (row,), _run_latency, flags)


_FETCH_ROWS = (
    _at_least("pull, fetch(1000) after fetch(1000), no acks", 1.3),
    _at_least("pull, fetch(1000) after fetch(1000), every message acknowledged", 1.3),
    _at_least("ordered pull consumer, 500 ahead", 1.3),
)

SCENARIOS = (
    Scenario("consume-pull", _FETCH_ROWS, _run_fetch, _DEFAULT),
    Scenario("consume-push", (_at_least("ordered push consumer with flow control", 1.3),), _run_push, _DEFAULT),
    _wait_scenario("default", _DEFAULT, None),
    _wait_scenario("interval", _INTERVAL, Bar(Claim.RATIO_AT_MOST, 1.2)),
    _wait_scenario("always", _ALWAYS, Bar(Claim.RATIO_AT_MOST, 1.2)),
    Scenario(
        "consume-filters",
        (
            _at_least(f"publish into a stream with {FILTERED_CONSUMERS:,} filtered consumers, all idle", 1.0),
            _at_least(f"the same while all {FILTERED_CONSUMERS:,} wait for other subjects", 1.0),
        ),
        _run_many_filters,
        _DEFAULT,
    ),
    Scenario(
        "consume-covering-filter",
        (
            Row(
                "processor time of fetches with a filter that passes everything / without",
                "times",
                Bar(Claim.OURS_AT_MOST, 1.1),
            ),
        ),
        _run_covering_filter,
        _DEFAULT,
    ),
    Scenario(
        "consumer-create",
        (Row("create a filtered consumer on 5 million messages, p99", "ms", Bar(Claim.OURS_AT_MOST, 50.0)),),
        _run_create,
        _DEFAULT,
    ),
    Scenario(
        "consumer-idle",
        (Row(f"{IDLE_CONSUMERS:,} idle durable consumers", "% of a core", Bar(Claim.OURS_AT_MOST, 2.0)),),
        _run_idle,
        _DEFAULT,
    ),
)
