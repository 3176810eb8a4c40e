"""What it takes to make streams and consumers, one after the other. An answer means that they outlive a loss of power.

nats-server does not sync what it writes when it makes them, so this compares a promise with none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median, quantiles
from time import perf_counter

from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient

__all__ = ["SCENARIO", "filtered_consumers_ms"]

STREAMS = 200
CONSUMERS_A_STREAM = 2


def filtered_consumers_ms(url: str, stream: str, expected: dict[str, int], count: int) -> float:
    """Create and delete filtered consumers in turn; the time in milliseconds that 99 of 100 are made in.

    Args:
        url: the server.
        stream: its name.
        expected: filter → messages that match it.
        count: how many consumers.

    Raises:
        MessagesMissing: a server counted other messages than there are.
    """
    filters = list(expected)
    took_ms = []
    with WireClient(url) as client:
        for number in range(count):
            subject = filters[number % len(filters)]
            config = {"durable_name": "F", "ack_policy": "explicit", "filter_subject": subject}
            began = perf_counter()
            answer = _call(client, f"CONSUMER.CREATE.{stream}.F.{subject}", {"stream_name": stream, "config": config})
            took_ms.append((perf_counter() - began) * 1e3)
            if answer["num_pending"] != expected[subject]:
                raise MessagesMissing(f"{answer['num_pending']} messages match {subject}, not {expected[subject]}")
            _call(client, f"CONSUMER.DELETE.{stream}.F", None)
    return quantiles(took_ms, n=100)[98]


def _run(server: Server, scale: Scale) -> Sequence[float]:
    streams_ms, consumers_ms = [], []
    with WireClient(server.url) as client:
        for number in range(scale.of(STREAMS)):
            name = f"S{number}"
            began = perf_counter()
            _call(client, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file"})
            streams_ms.append((perf_counter() - began) * 1e3)
            for consumer in (f"C{number}" for number in range(CONSUMERS_A_STREAM)):
                config = {"durable_name": consumer, "ack_policy": "explicit"}
                began = perf_counter()
                _call(client, f"CONSUMER.CREATE.{name}.{consumer}", {"stream_name": name, "config": config})
                consumers_ms.append((perf_counter() - began) * 1e3)
    return median(streams_ms), median(consumers_ms)


def _call(client: WireClient, subject: str, body: dict[str, object] | None) -> dict[str, int]:
    payload = json.dumps(body).encode() if body is not None else b""
    answer: dict[str, int] = json.loads(client.request(f"$JS.API.{subject}", payload).payload)
    if "error" in answer:
        raise ClientError(f"{subject}: {answer['error']}")
    return answer


SCENARIO = Scenario(
    "js-create",
    (
        Row("make a stream in files, median", "ms", Bar(Claim.OURS_AT_MOST, 5.0)),
        Row("make a durable consumer, median", "ms", Bar(Claim.OURS_AT_MOST, 5.0)),
    ),
    _run,
    ("-js", "-sd", "data"),
)
