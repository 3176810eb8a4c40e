"""The data plane as it grows: filters over many subjects, all keys of a bucket, purges, publishing over streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.growth_case import JETSTREAM, PATIENT, Action, Case, call, make_streams
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.js_requests import Asking
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together
from slipstream.units import SECOND_NS

__all__ = ["CASES", "SCENARIOS"]

SUBJECTS = 1_000_000
FILTERS = 1_000
PUBLISHED = 60_000  # over many streams
STREAM_COUNTS = (300, 1_000, 3_000)
_WINDOW = 4_000
_PAYLOAD = b"x" * 100
_SYNCED = ("-c", str(Path(__file__).resolve().parent / "configs" / "sync_always.conf"))


# --- many subjects ---


def _many_subjects(url: str, scale: Scale) -> None:
    """Subjects `BENCH.<group>.<number>`, a thousand groups, one message each."""
    StreamAdmin(url).make(["BENCH"], "file")
    count = scale.of(SUBJECTS)
    requests = tuple((_subject(number), b"x") for number in range(count))
    run_together([Asking(url=url, requests=requests, messages=count, window=_WINDOW)])
    StreamAdmin(url).check("BENCH", count)


def _subject(number: int) -> str:
    return f"BENCH.{number % FILTERS}.{number}"


def _filtered(client: WireClient, name: str, filters: list[str], expected: int) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", "filter_subjects": filters}
    made = call(client, f"CONSUMER.CREATE.BENCH.{name}", {"stream_name": "BENCH", "config": config})
    if made["num_pending"] != expected:
        raise MessagesMissing(f"{made['num_pending']} messages pass the filters instead of {expected}")


def _literal_filters(client: WireClient, scale: Scale) -> None:
    step = scale.of(SUBJECTS) // FILTERS
    _filtered(client, "LITERAL", [_subject(number * step) for number in range(FILTERS)], FILTERS)


def _wildcard_filters(client: WireClient, scale: Scale) -> None:
    count = scale.of(SUBJECTS)
    _filtered(client, "WILD", [f"BENCH.{group}.*" for group in range(min(FILTERS, count))], count)


def _filtered_purge(client: WireClient, scale: Scale) -> None:
    """Half of all subjects."""
    count = scale.of(SUBJECTS)
    purged = 0
    for digit in range(5):
        purged += call(client, "STREAM.PURGE.BENCH", {"filter": f"BENCH.{digit}.>"})["purged"]
    if purged != 5 * (count // FILTERS):
        raise MessagesMissing(f"{purged} messages were purged")


def _all_keys(client: WireClient, scale: Scale) -> None:
    """What `keys()` of a bucket does: the newest of each subject, headers alone."""
    _read_keys(client, scale.of(SUBJECTS))


def _read_keys(client: WireClient, expected: int) -> None:
    inbox = client.new_inbox()
    client.subscribe(inbox)
    config = {
        "deliver_policy": "last_per_subject",
        "deliver_subject": inbox,
        "filter_subject": "BENCH.>",
        "headers_only": True,
        "ack_policy": "none",
    }
    call(client, "CONSUMER.CREATE.BENCH", {"stream_name": "BENCH", "config": config})
    seen = 0
    while seen < expected:
        seen += len(client.next_messages(60 * SECOND_NS))
    if seen != expected:
        raise MessagesMissing(f"{seen} keys instead of {expected}")


def _keys_time(server: Server, scale: Scale) -> Sequence[float]:
    _many_subjects(server.url, scale)
    with WireClient(server.url, PATIENT) as client:
        began = perf_counter()
        _read_keys(client, scale.of(SUBJECTS))
        return [perf_counter() - began]


# --- many streams ---


def _publishing(streams: int) -> Callable[[Server, Scale], Sequence[float]]:
    def run(server: Server, scale: Scale) -> Sequence[float]:
        count = scale.of(streams)
        make_streams(server.url, range(count))
        requests = tuple((f"S{number}.a", _PAYLOAD) for number in range(count))
        messages = scale.of(PUBLISHED)
        run_together([Asking(url=server.url, requests=requests, messages=count, window=_WINDOW)])
        began = perf_counter()
        run_together([Asking(url=server.url, requests=requests, messages=messages, window=_WINDOW)])
        return [messages / (perf_counter() - began)]

    return run


def _spread(streams: int) -> list[Scenario]:
    title = f"publish over {streams:,} streams"
    own = Row(f"{title}, each as it comes (ours synced)", "msgs/s", Bar(Claim.RATIO_AT_LEAST, 0.5))
    both = Row(f"{title}, both synced", "msgs/s", Bar(Claim.RATIO_AT_LEAST, 2.0))
    return [
        Scenario(f"growth-publish-{streams}", (own,), _publishing(streams), JETSTREAM),
        Scenario(f"growth-publish-{streams}-synced", (both,), _publishing(streams), (*JETSTREAM, *_SYNCED)),
    ]


CASES = (
    Case(
        "subjects-filtered",
        _many_subjects,
        (
            Action("a consumer with 1,000 literal filters over a million subjects is made", _literal_filters),
            Action("a consumer with 1,000 patterns over a million subjects is made", _wildcard_filters),
            Action("a million keys are listed", _all_keys),
            Action("thousands of subjects are purged by filter", _filtered_purge),
        ),
    ),
)

SCENARIOS = (
    Scenario(
        "growth-keys",
        (Row("list a million keys", "s", Bar(Claim.RATIO_AT_MOST, 1.0)),),
        _keys_time,
        JETSTREAM,
    ),
    *(one for streams in STREAM_COUNTS for one in _spread(streams)),
)
