"""The longest lists that a request can carry, in every field that is a list: nobody else waits for them.

Each request goes to a server with the watchdog on, which fails the test if one event holds the loop for longer than
`LIMIT_MS` of processor time. The server must answer, whatever the answer is, and go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from slipstream.client.options import ConnectOptions
from slipstream.client.wire import WireClient
from slipstream.limits import SECOND_NS
from support.server_process import SLOW_EVENT_VARIABLE
from support.servers import Launcher

PATIENT = ConnectOptions(timeout_ns=60 * SECOND_NS)
# The aim is 50 ms. Longest now are 20,000 subjects that begin to be listened on, and the first use of modules.
LIMIT_MS = "200"
PAYLOAD_MAX = 1_000_000  # a little less than the server takes

Body = dict[str, object]


def _fitting(one: Callable[[int], object], most: int) -> list[object]:
    """As many entries as fit into a request."""
    entries, size = [], 500
    for number in range(most):
        entry = one(number)
        size += len(json.dumps(entry)) + 2
        if size > PAYLOAD_MAX:
            break
        entries.append(entry)
    return entries


def _stream(**config: object) -> tuple[str, Body]:
    return "STREAM.CREATE.W", {"name": "W", "storage": "memory", **config}


def _consumer(**config: object) -> tuple[str, Body]:
    return "CONSUMER.CREATE.S.W", {"stream_name": "S", "config": {"name": "W", "durable_name": "W", **config}}


def _entangled(number: int) -> str:
    return ".".join(["*" if number >> bit & 1 else "a" for bit in range(12)] + [str(number)])


def _transforms(count: int) -> list[object]:
    return _fitting(lambda n: {"src": f"T.{n}.*", "dest": f"U.{n}.{{{{wildcard(1)}}}}"}, count)


def _requests() -> Iterator[tuple[str, str, Body]]:
    subjects: dict[str, Callable[[int], str]] = {
        "star inside": lambda n: f"L.*.{n}",
        "star first": lambda n: f"*.L{n}",
        "tails": lambda n: f"L.{n}.>",
        "literals": lambda n: f"L{n}",
        "entangled": _entangled,
    }
    for name, subject in subjects.items():
        yield f"stream subjects, {name}", *_stream(subjects=_fitting(subject, 20_000))
        yield f"consumer filters, {name}", *_consumer(filter_subjects=_fitting(subject, 4_096))
        yield f"too many filters, {name}", *_consumer(filter_subjects=_fitting(subject, 100_000))
        yield f"multi_last, {name}", "STREAM.MSG.GET.S", {"multi_last": _fitting(subject, 50_000)}
        yield f"direct multi_last, {name}", "DIRECT.GET.S", {"multi_last": _fitting(subject, 50_000)}
    yield "twice the same subject", *_stream(subjects=[*_fitting(lambda n: f"L.{n}", 20_000), "L.7"])
    yield "source transforms", *_stream(sources=[{"name": "S", "subject_transforms": _transforms(6_000)}])
    yield "mirror transforms", *_stream(mirror={"name": "S", "subject_transforms": _transforms(6_000)})
    yield "sources", *_stream(sources=_fitting(lambda n: {"name": "S", "filter_subject": f"s.{n}"}, 1_000))
    externals = _fitting(lambda n: {"name": "S", "external": {"api": f"A{n}.API", "deliver": f"D{n}"}}, 1_000)
    yield "external sources", *_stream(sources=externals)
    yield "stream metadata", *_stream(metadata={f"k{n}": "v" for n in range(15_000)})
    yield "too much stream metadata", *_stream(metadata={f"k{n}": "v" for n in range(60_000)})
    yield "placement tags", *_stream(placement={"tags": _fitting(lambda n: f"t{n}", 50_000)})
    yield "update", "STREAM.UPDATE.S", {"name": "S", "subjects": _fitting(lambda n: f"s.{n}", 20_000)}
    yield "consumer metadata", *_consumer(metadata={f"k{n}": "v" for n in range(15_000)})
    yield "backoff", *_consumer(ack_policy="explicit", max_deliver=99_999, backoff=[n + 1 for n in range(50_000)])
    groups = _fitting(lambda n: f"g{n}", 50_000)
    yield "priority groups", *_consumer(ack_policy="explicit", priority_policy="overflow", priority_groups=groups)
    yield "names of a wide subject", "STREAM.NAMES", {"subject": ".".join("*" * 1_000)}
    yield "purge of a long subject", "STREAM.PURGE.S", {"filter": ".".join("*" * 200_000)}


REQUESTS = list(_requests())


@pytest.fixture
def client(ours: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireClient]:
    monkeypatch.setenv(SLOW_EVENT_VARIABLE, LIMIT_MS)
    server = ours("", "-js", "-sd", "worst")  # of these tests alone
    with WireClient(server.url, PATIENT) as connected:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True}
        _answer(connected, "STREAM.CREATE.S", json.dumps(config).encode())
        yield connected
        for stream in ("S", "W"):
            _answer(connected, f"STREAM.DELETE.{stream}", b"")
        connected.flush()


def _answer(client: WireClient, subject: str, body: bytes) -> bytes:
    return client.request(f"$JS.API.{subject}", body).payload


@pytest.mark.parametrize(("subject", "body"), [case[1:] for case in REQUESTS], ids=[case[0] for case in REQUESTS])
def test_a_long_list_holds_up_nobody(client: WireClient, subject: str, body: Body) -> None:
    _answer(client, subject, json.dumps(body).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 900_000,
        b'{"a":' * 150_000,
        b'{"metadata":{' + b",".join(b'"\\u006b%d":"v"' % n for n in range(50_000)) + b"}}",
        b'{"subjects":[' + b'"\\u0061",' * 80_000 + b'"b"]}',
        b'{"subjects":[' + b"1.5," * 200_000 + b"1]}",
        b'{"sources":[' + b"{}," * 250_000 + b"{}]}",
        b'{"name":"' + b"x" * 900_000 + b'"}',
        b'{"name":"W"} ' * 70_000,
    ],
    ids=["brackets", "objects", "escaped names", "escaped subjects", "numbers", "empty sources", "name", "documents"],
)
@pytest.mark.parametrize("subject", ["STREAM.CREATE.W", "CONSUMER.CREATE.S.W", "STREAM.MSG.GET.S", "STREAM.PURGE.S"])
def test_a_strange_body_holds_up_nobody(client: WireClient, subject: str, body: bytes) -> None:
    _answer(client, subject, body)
