"""JetStream: publish into streams with many or few acks under way, read single messages back.

The functions take a URL and numbers and can be used alone; `SCENARIOS` applies them with the numbers of the comparison.
How sure an ack is differs by the servers' settings, so each is a family of its own: by default Slipstream's acks mean
"on the device" and nats-server's "written to the operating system"; with `interval` both mean the latter, with
`always` both the former.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from benchmarks import js_api, js_batches, js_restart, js_subjects
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, Row, Scale, Scenario, Throughput
from benchmarks.servers import Server
from slipstream.client.js_requests import Asking
from slipstream.client.load import Tally
from slipstream.client.workers import run_together

__all__ = ["SCENARIOS", "Way", "get_messages", "publish_acked"]

WINDOW = 4_000  # acks that an asynchronous publisher may wait for
SUBJECTS = 16  # a publisher rotates over so many subjects of its stream
STREAMS = 1_000
GET_SUBJECTS = 10_000
GET_WINDOW = 64
SECONDS_A_RUN = 3.0  # slow runs are cut to about this
_NAME = "BENCH"
_CONFIGS = Path(__file__).resolve().parent / "configs"
_DEFAULT = ("-js", "-sd", "data")
_INTERVAL = (*_DEFAULT, "-c", str(_CONFIGS / "sync_interval.conf"))
_ALWAYS = (*_DEFAULT, "-c", str(_CONFIGS / "sync_always.conf"))


def publish_acked(
    url: str,
    *,
    messages: int,
    size: int,
    streams: Sequence[str] = (_NAME,),
    window: int = WINDOW,
    connections: int = 1,
) -> Throughput:
    """Publish into streams that exist; the time ends with the last ack.

    Args:
        url: the server.
        messages: published on each connection.
        size: of a payload in bytes.
        streams: published to in turn; a stream takes the subjects below its name.
        window: acks a connection may wait for; 1 publishes one message after the other.
        connections: publishers.

    Raises:
        MessagesMissing: a stream does not hold what it acknowledged.
    """
    payload = b"x" * size
    per_stream = SUBJECTS if len(streams) == 1 else 1
    requests = tuple((f"{name}.s{number}", payload) for number in range(per_stream) for name in streams)
    admin = StreamAdmin(url)
    before = sum(admin.messages(name) for name in streams)
    job = Asking(url=url, requests=requests, messages=messages, window=window, connections=connections)
    (tally,) = run_together([job])
    if len(streams) == 1:
        admin.check(streams[0], before + messages * connections)
    return _throughput(tally, size)


class Way(Enum):
    """How to ask for a message: what the request is for the n-th of them."""

    API = "get the last message of a subject"
    DIRECT_SUBJECT = "direct get of the last message of a subject"
    DIRECT_SEQUENCE = "direct get of a sequence"

    def request(self, number: int) -> tuple[str, bytes]:
        """Subject and payload."""
        match self:
            case Way.API:
                body = {"last_by_subj": f"{_NAME}.k{number}"}
                return f"$JS.API.STREAM.MSG.GET.{_NAME}", json.dumps(body).encode()
            case Way.DIRECT_SUBJECT:
                return f"$JS.API.DIRECT.GET.{_NAME}.{_NAME}.k{number}", b""
            case Way.DIRECT_SEQUENCE:
                return f"$JS.API.DIRECT.GET.{_NAME}", json.dumps({"seq": number + 1}).encode()


def get_messages(url: str, *, subjects: int, gets: int, size: int, way: Way, window: int = GET_WINDOW) -> Throughput:
    """Ask for many messages in turn."""
    requests = tuple(way.request(number) for number in range(subjects))
    (tally,) = run_together([Asking(url=url, requests=requests, messages=gets, window=window, answer_bytes_min=size)])
    return _throughput(tally, size)


def _throughput(tally: Tally, size: int) -> Throughput:
    return Throughput(messages=tally.messages, payload_bytes=tally.messages * size, seconds=tally.seconds)


def _row(title: str, at_least: float) -> Row:
    return Row(title, "k msg/s", Bar(Claim.RATIO_AT_LEAST, at_least))


def _warmed(publish: Callable[[int], Throughput], scale: Scale, least: int, most: int) -> Throughput:
    """Warm up with a tenth of the least, then run for some seconds, but with no more than `most` messages."""
    rate = publish(max(scale.of(least) // 10, 1)).rate
    return publish(min(max(int(rate * SECONDS_A_RUN / scale.value), scale.of(least)), scale.of(most)))


def _publish_scenario(
    name: str, title: str, *, flags: tuple[str, ...], storage: str, size: int, at_least: float, least: int = 100_000
) -> Scenario:
    def run(server: Server, scale: Scale) -> Sequence[float]:
        StreamAdmin(server.url).make([_NAME], storage)
        result = _warmed(lambda count: publish_acked(server.url, messages=count, size=size), scale, least, 1_000_000)
        return (result.rate / 1e3,)

    return Scenario(name, (_row(title, at_least),), run, flags)


def _asynchronous() -> list[Scenario]:
    found = []
    for mode, flags, at_least, least in (
        ("default", _DEFAULT, 1.5, 100_000),
        ("interval", _INTERVAL, 2.0, 100_000),
        ("always", _ALWAYS, 20.0, 4_000),
    ):
        for storage in ("file", "memory"):
            if mode == "always" and storage == "memory":
                continue  # memory is never synced
            for size, shown in ((128, "128 B"), (1024, "1 KiB")):
                name = f"js-{mode}-{storage}-{size}"
                title = f"stream in {storage}, sync {mode}, {shown}, {WINDOW:,} acks under way"
                found.append(
                    _publish_scenario(
                        name, title, flags=flags, storage=storage, size=size, at_least=at_least, least=least
                    )
                )
    return found


def _one_by_one() -> list[Scenario]:
    """One publisher that waits for each ack: streams in files and in memory, small and larger messages."""

    def scenario(storage: str, size: int, shown: str) -> Scenario:
        def run(server: Server, scale: Scale) -> Sequence[float]:
            StreamAdmin(server.url).make([_NAME], storage)

            def publish(count: int) -> Throughput:
                return publish_acked(server.url, messages=count, size=size, window=1)

            return (_warmed(publish, scale, 5_000, 50_000).rate / 1e3,)

        name = "js-sync-one" if (storage, size) == ("file", 128) else f"js-sync-one-{storage}-{size}"
        title = f"stream in {storage}, sync interval, {shown}, 1 publisher waits for each ack"
        return Scenario(name, (_row(title, 1.0),), run, _INTERVAL)

    return [
        scenario(storage, size, shown)
        for storage in ("file", "memory")
        for size, shown in ((128, "128 B"), (1024, "1 KiB"))
    ]


def _run_sixty_four(server: Server, scale: Scale) -> Sequence[float]:
    StreamAdmin(server.url).make([_NAME], "file")

    def publish(count: int) -> Throughput:
        return publish_acked(server.url, messages=max(count // 64, 1), size=128, window=1, connections=64)

    return (_warmed(publish, scale, 4_000, 200_000).rate / 1e3,)


def _run_gets(server: Server, scale: Scale) -> Sequence[float]:
    StreamAdmin(server.url).make([_NAME], "file")
    subjects = scale.of(GET_SUBJECTS)
    requests = tuple((f"{_NAME}.k{number}", b"x" * 128) for number in range(subjects))
    run_together([Asking(url=server.url, requests=requests, messages=subjects, window=WINDOW)])

    def rate(way: Way) -> float:
        def get(count: int) -> Throughput:
            return get_messages(server.url, subjects=subjects, gets=count, size=128, way=way)

        return _warmed(get, scale, 10_000, 200_000).rate / 1e3

    return [rate(way) for way in Way]


def _run_many_streams(server: Server, scale: Scale) -> Sequence[float]:
    names = [f"S{number}" for number in range(scale.of(STREAMS))]
    StreamAdmin(server.url).make(names, "file")

    def publish(count: int) -> Throughput:
        return publish_acked(server.url, messages=count, size=128, streams=names)

    return (_warmed(publish, scale, 20_000, 500_000).rate / 1e3,)


SCENARIOS = (
    *_asynchronous(),
    *_one_by_one(),
    Scenario(
        "js-sync-64",
        (_row("stream in file, sync always, 64 publishers wait for each ack", 5.0),),
        _run_sixty_four,
        _ALWAYS,
    ),
    Scenario(
        "js-get",
        tuple(_row(way.value, 1.0) for way in Way),
        _run_gets,
        _DEFAULT,
    ),
    Scenario("js-streams", (_row("1,000 streams in turn", 1.0),), _run_many_streams, _INTERVAL),
    *js_batches.SCENARIOS,
    js_api.SCENARIO,
    *js_subjects.SCENARIOS,
    js_restart.SCENARIO,
)
