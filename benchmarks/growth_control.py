"""The control plane as it grows: lists of everything, long lists in one request, making, stopping and starting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from time import perf_counter

from benchmarks.growth_case import JETSTREAM, PATIENT, Action, Case, call, make_streams
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.js_requests import Asking
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together

__all__ = ["CASES", "SCENARIOS"]

STREAMS = 10_000
FEW_STREAMS = 100
SUBJECTS = 1_000_000
CONSUMERS = 10_000
CONSUMER_STREAMS = 20  # nats-server allows 1,000 consumers a stream, and some more are made
FILTERS = 4_096
STREAM_SUBJECTS = 20_000
TRANSFORMS = 6_000
CREATIONS = 50  # the cost of one is a median of so many
_WINDOW = 4_000


# --- lists of everything ---


def _many_streams(url: str, scale: Scale) -> None:
    make_streams(url, range(scale.of(STREAMS)))


def _account_info(client: WireClient, scale: Scale) -> None:
    found = call(client, "INFO")["streams"]
    if found != scale.of(STREAMS):
        raise MessagesMissing(f"{found} streams")


def _all_pages(client: WireClient, subject: str, field: str, expected: int, body: dict[str, object]) -> None:
    seen = 0
    while True:
        answer = call(client, subject, {**body, "offset": seen})
        page = answer[field] or ()
        seen += len(page)
        if not page or seen >= answer["total"]:
            break
    if seen != expected:
        raise MessagesMissing(f"{subject} listed {seen} of {expected}")


def _stream_list(client: WireClient, scale: Scale) -> None:
    _all_pages(client, "STREAM.LIST", "streams", scale.of(STREAMS), {})


def _stream_names(client: WireClient, scale: Scale) -> None:
    _all_pages(client, "STREAM.NAMES", "streams", scale.of(STREAMS), {})


def _stream_name_of_subject(client: WireClient, scale: Scale) -> None:
    for number in range(CREATIONS):
        name = f"S{number % scale.of(STREAMS)}"
        if call(client, "STREAM.NAMES", {"subject": f"{name}.a"})["streams"] != [name]:
            raise MessagesMissing(f"{name} was not found by its subject")


def _many_subjects(url: str, scale: Scale) -> None:
    StreamAdmin(url).make(["BENCH"], "memory")
    count = scale.of(SUBJECTS)
    requests = tuple((f"BENCH.device.{number}", b"x") for number in range(count))
    run_together([Asking(url=url, requests=requests, messages=count, window=_WINDOW)])
    StreamAdmin(url).check("BENCH", count)


def _subjects_of_stream(client: WireClient, scale: Scale) -> None:
    seen = 0
    while True:
        answer = call(client, "STREAM.INFO.BENCH", {"subjects_filter": ">", "offset": seen})
        seen += len(answer["state"].get("subjects") or ())
        if seen >= answer["total"]:
            break
    if seen != scale.of(SUBJECTS):
        raise MessagesMissing(f"{seen} subjects")


def _many_consumers(url: str, scale: Scale) -> None:
    make_streams(url, range(CONSUMER_STREAMS))
    requests = []
    for number in range(scale.of(CONSUMERS)):
        stream, name = f"S{number % CONSUMER_STREAMS}", f"C{number}"
        body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit"}}
        requests.append((f"$JS.API.CONSUMER.CREATE.{stream}.{name}", json.dumps(body).encode()))
    run_together([Asking(url=url, requests=tuple(requests), messages=len(requests), window=64)])


def _consumer_list(client: WireClient, scale: Scale) -> None:
    for number in range(CONSUMER_STREAMS):
        expected = scale.of(CONSUMERS) // CONSUMER_STREAMS
        _all_pages(client, f"CONSUMER.LIST.S{number}", "consumers", expected, {})


def _consumer_names(client: WireClient, scale: Scale) -> None:
    for number in range(CONSUMER_STREAMS):
        expected = scale.of(CONSUMERS) // CONSUMER_STREAMS
        _all_pages(client, f"CONSUMER.NAMES.S{number}", "consumers", expected, {})


# --- long lists in one request ---


def _one_stream(url: str, _scale: Scale) -> None:
    StreamAdmin(url).make(["BENCH"], "memory")


def _many_filters(client: WireClient, scale: Scale) -> None:
    filters = [f"BENCH.*.{number}" for number in range(scale.of(FILTERS))]
    config = {"durable_name": "F", "ack_policy": "explicit", "filter_subjects": filters}
    call(client, "CONSUMER.CREATE.BENCH.F", {"stream_name": "BENCH", "config": config})


def _long_subject_list(client: WireClient, scale: Scale) -> None:
    subjects = [f"L.*.{number}" for number in range(scale.of(STREAM_SUBJECTS))]
    call(client, "STREAM.CREATE.LONG", {"name": "LONG", "subjects": subjects, "storage": "memory"})


def _many_transforms(client: WireClient, scale: Scale) -> None:
    transforms = [{"src": f"T.{number}.*", "dest": f"U.{number}.{{{{wildcard(1)}}}}"} for number in range(TRANSFORMS)]
    source = {"name": "BENCH", "subject_transforms": transforms[: scale.of(TRANSFORMS)]}
    call(client, "STREAM.CREATE.SOURCED", {"name": "SOURCED", "sources": [source], "storage": "memory"})


CASES = (
    Case(
        "streams",
        _many_streams,
        (
            Action(f"$JS.API.INFO is asked with {STREAMS:,} streams", _account_info),
            Action(f"STREAM.LIST pages through {STREAMS:,} streams", _stream_list),
            Action(f"STREAM.NAMES pages through {STREAMS:,} streams", _stream_names),
            Action(f"STREAM.NAMES looks for {CREATIONS} subjects among {STREAMS:,} streams", _stream_name_of_subject),
        ),
    ),
    Case(
        "subjects",
        _many_subjects,
        (Action(f"STREAM.INFO pages through {SUBJECTS:,} subjects", _subjects_of_stream),),
    ),
    Case(
        "consumers",
        _many_consumers,
        (
            Action(f"CONSUMER.LIST pages through {CONSUMERS:,} consumers", _consumer_list),
            Action(f"CONSUMER.NAMES pages through {CONSUMERS:,} consumers", _consumer_names),
        ),
    ),
    Case(
        "long-lists",
        _one_stream,
        (
            Action(f"a consumer with {FILTERS:,} wildcard filters is made", _many_filters),
            Action(f"a stream with {STREAM_SUBJECTS:,} subjects is made", _long_subject_list),
            Action(f"a stream with {TRANSFORMS:,} subject transforms is made", _many_transforms),
        ),
    ),
)


# --- making, stopping, starting ---


def _stream_creation_ms(server: Server, begin: int) -> float:
    """Processor time of one creation, the median of some; the streams are deleted again."""
    names = [f"S{number}" for number in range(begin, begin + CREATIONS)]
    took = []
    with WireClient(server.url, PATIENT) as client:
        for name in names:
            before = server.busy_ns()
            call(client, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file"})
            took.append((server.busy_ns() - before) / 1e6)
        for name in names:
            call(client, f"STREAM.DELETE.{name}")
    return median(took)


def _consumer_creation_ms(server: Server, stream: str) -> float:
    took = []
    with WireClient(server.url, PATIENT) as client:
        for number in range(CREATIONS):
            body = {"stream_name": stream, "config": {"durable_name": f"G{number}", "ack_policy": "explicit"}}
            before = server.busy_ns()
            call(client, f"CONSUMER.CREATE.{stream}.G{number}", body)
            took.append((server.busy_ns() - before) / 1e6)
        for number in range(CREATIONS):
            call(client, f"CONSUMER.DELETE.{stream}.G{number}")
    return median(took)


def _grow_streams(server: Server, scale: Scale) -> Sequence[float]:
    few, many = scale.of(FEW_STREAMS), scale.of(STREAMS)
    make_streams(server.url, range(few))
    _stream_creation_ms(server, few)  # the first ones import modules and make threads
    at_few = _stream_creation_ms(server, few)
    make_streams(server.url, range(few, many))
    at_many = _stream_creation_ms(server, many)
    return at_few, at_many, at_many / at_few


def _grow_consumers(server: Server, scale: Scale) -> Sequence[float]:
    make_streams(server.url, range(CONSUMER_STREAMS))
    _consumer_creation_ms(server, "S0")
    at_none = _consumer_creation_ms(server, "S0")
    _many_consumers(server.url, scale)
    at_many = _consumer_creation_ms(server, "S0")
    return at_none, at_many, at_many / at_none


def _restart(server: Server, scale: Scale) -> Sequence[float]:
    """Stop and start with one message in every tenth stream."""
    count = scale.of(STREAMS)
    make_streams(server.url, range(count))
    requests = tuple((f"S{number}.a", b"x") for number in range(0, count, 10))
    run_together([Asking(url=server.url, requests=requests, messages=len(requests), window=64)])
    began = perf_counter()
    server.restart(clean=True)
    both_s = perf_counter() - began
    start_s = server.start_ns / 1e9
    StreamAdmin(server.url).check("S0", 1)
    with WireClient(server.url, PATIENT) as client:
        _account_info(client, scale)
    return both_s - start_s, start_s, both_s


_NOT_MORE = Bar(Claim.RATIO_AT_MOST, 1.0)
_TWICE = Bar(Claim.OURS_AT_MOST, 2.0)

SCENARIOS = (
    Scenario(
        "growth-create",
        (
            Row(f"processor time of making a stream, {FEW_STREAMS} streams", "ms", None),
            Row(f"processor time of making a stream, {STREAMS:,} streams", "ms", None),
            Row("the latter / the former", "", _TWICE),
        ),
        _grow_streams,
        JETSTREAM,
    ),
    Scenario(
        "growth-create-consumer",
        (
            Row("processor time of making a consumer, no other", "ms", None),
            Row(f"processor time of making a consumer, {CONSUMERS:,} others", "ms", None),
            Row("the latter / the former", "", _TWICE),
        ),
        _grow_consumers,
        JETSTREAM,
    ),
    Scenario(
        "growth-restart",
        (
            Row(f"stop with {STREAMS:,} streams", "s", _NOT_MORE),
            Row(f"start with {STREAMS:,} streams", "s", _NOT_MORE),
            Row(f"stop and start with {STREAMS:,} streams", "s", _NOT_MORE),
        ),
        _restart,
        JETSTREAM,
    ),
)
