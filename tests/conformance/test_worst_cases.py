"""The longest lists that a request can carry, in every field that is a list: nobody else waits for them.

Each request goes to a server with the watchdog on, which tells of events that hold the loop for longer than `LIMIT_MS`
of processor time, more where the machine is slow. The server must answer, whatever the answer is, and go on. A
neighbour on the same core makes the same work take twice as long: a request that was slow is made again, and fails the
test if it is slow each time.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from slipstream.client.options import WireOptions
from slipstream.client.wire import WireClient
from slipstream.units import SECOND_NS
from support.pace import slowness
from support.server_process import SLOW_EVENT_VARIABLE, ServerProcess
from support.servers import server_binary

PATIENT = WireOptions(timeout_ns=60 * SECOND_NS)
LIMIT_MS = 100  # of a calm core: the law says 50, which some of these requests miss
TRIES = 4
PAYLOAD_MAX = 1_000_000  # a little less than the server takes

Body = dict[str, object]


@dataclass(frozen=True)
class _Fitting:
    """As many entries as fit into a request, and some behind them; made when the request is."""

    one: Callable[[int], object]
    most: int
    more: tuple[object, ...] = ()

    def entries(self) -> list[object]:
        entries, size = [], 500
        for number in range(self.most):
            entry = self.one(number)
            size += len(json.dumps(entry)) + 2
            if size > PAYLOAD_MAX:
                break
            entries.append(entry)
        return [*entries, *self.more]


def _stream(**config: object) -> tuple[str, Body]:
    return "STREAM.CREATE.W", {"name": "W", "storage": "memory", **config}


def _consumer(**config: object) -> tuple[str, Body]:
    return "CONSUMER.CREATE.S.W", {"stream_name": "S", "config": {"name": "W", "durable_name": "W", **config}}


def _entangled(number: int) -> str:
    return ".".join(["*" if number >> bit & 1 else "a" for bit in range(12)] + [str(number)])


def _transforms(count: int) -> _Fitting:
    return _Fitting(lambda n: {"src": f"T.{n}.*", "dest": f"U.{n}.{{{{wildcard(1)}}}}"}, count)


def _requests() -> Iterator[tuple[str, str, Body]]:
    subjects: dict[str, Callable[[int], str]] = {
        "star inside": lambda n: f"L.*.{n}",
        "star first": lambda n: f"*.L{n}",
        "tails": lambda n: f"L.{n}.>",
        "literals": lambda n: f"L{n}",
        "entangled": _entangled,
    }
    for name, subject in subjects.items():
        yield f"stream subjects, {name}", *_stream(subjects=_Fitting(subject, 20_000))
        yield f"consumer filters, {name}", *_consumer(filter_subjects=_Fitting(subject, 4_096))
        yield f"too many filters, {name}", *_consumer(filter_subjects=_Fitting(subject, 100_000))
        yield f"multi_last, {name}", "STREAM.MSG.GET.S", {"multi_last": _Fitting(subject, 50_000)}
        yield f"direct multi_last, {name}", "DIRECT.GET.S", {"multi_last": _Fitting(subject, 50_000)}
    yield "twice the same subject", *_stream(subjects=_Fitting(lambda n: f"L.{n}", 20_000, ("L.7",)))
    yield "source transforms", *_stream(sources=[{"name": "S", "subject_transforms": _transforms(6_000)}])
    yield "mirror transforms", *_stream(mirror={"name": "S", "subject_transforms": _transforms(6_000)})
    yield "sources", *_stream(sources=_Fitting(lambda n: {"name": "S", "filter_subject": f"s.{n}"}, 1_000))
    externals = _Fitting(lambda n: {"name": "S", "external": {"api": f"A{n}.API", "deliver": f"D{n}"}}, 1_000)
    yield "external sources", *_stream(sources=externals)
    yield "stream metadata", *_stream(metadata={f"k{n}": "v" for n in range(15_000)})
    yield "too much stream metadata", *_stream(metadata={f"k{n}": "v" for n in range(60_000)})
    yield "placement tags", *_stream(placement={"tags": _Fitting(lambda n: f"t{n}", 50_000)})
    yield "update", "STREAM.UPDATE.S", {"name": "S", "subjects": _Fitting(lambda n: f"s.{n}", 20_000)}
    yield "consumer metadata", *_consumer(metadata={f"k{n}": "v" for n in range(15_000)})
    yield "backoff", *_consumer(ack_policy="explicit", max_deliver=99_999, backoff=[n + 1 for n in range(50_000)])
    groups = _Fitting(lambda n: f"g{n}", 50_000)
    yield "priority groups", *_consumer(ack_policy="explicit", priority_policy="overflow", priority_groups=groups)
    yield "names of a wide subject", "STREAM.NAMES", {"subject": ".".join("*" * 1_000)}
    yield "purge of a long subject", "STREAM.PURGE.S", {"filter": ".".join("*" * 200_000)}


REQUESTS = list(_requests())


class Watched:
    """A server with the watchdog on, and a client."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._seen = 0

    def ask(self, subject: str, body: bytes) -> None:
        """Make a request until it held up nobody, and what it made go again."""
        slow: list[str] = []
        for _ in range(TRIES):
            with WireClient(self._server.url, PATIENT) as client:
                config = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True}
                _answer(client, "STREAM.CREATE.S", json.dumps(config).encode())
                _answer(client, subject, body)
                for stream in ("S", "W"):
                    _answer(client, f"STREAM.DELETE.{stream}", b"")
                client.flush()
            found = self._slow()
            if not found:
                return
            slow += found
        pytest.fail("other clients had to wait:\n" + "\n".join(slow))

    def _slow(self) -> list[str]:
        """What the watchdog has said since the last time; a signal makes the server write a line behind it."""
        self._server.send_signal(signal.SIGUSR1)
        self._server.wait_for_log("user defined signal 1", after=self._seen)
        seen, self._seen = self._seen, len(self._server.log_lines)
        return self._server.slow_events(seen)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SLOW_EVENT_VARIABLE, str(int(LIMIT_MS * slowness())))
        directory = tmp_path_factory.mktemp("worst")
        server = ServerProcess(server_binary("ours"), directory, flags=("-js", "-sd", str(directory))).start()
        try:
            yield Watched(server)
        finally:
            server.kill()


def _answer(client: WireClient, subject: str, body: bytes) -> bytes:
    return client.request(f"$JS.API.{subject}", body).payload


@pytest.mark.parametrize(("subject", "body"), [case[1:] for case in REQUESTS], ids=[case[0] for case in REQUESTS])
def test_a_long_list_holds_up_nobody(watched: Watched, subject: str, body: Body) -> None:
    watched.ask(subject, json.dumps(body, default=_Fitting.entries).encode())


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
def test_a_strange_body_holds_up_nobody(watched: Watched, subject: str, body: bytes) -> None:
    watched.ask(subject, body)
