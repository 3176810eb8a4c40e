"""Bulky work: a backup of many messages, a purge of many subjects, messages of megabytes in and out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.bystander import bystander
from benchmarks.growth_case import JETSTREAM, PATIENT, Action, Case, call
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.js_requests import Asking
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together
from slipstream.units import SECOND_NS

__all__ = ["CASES", "SCENARIOS"]

BACKED_UP = 10_000_000
PURGED = 500_000
KEPT = 1_000  # subjects beside the purged ones
LARGE_BYTES = 8 * 1024 * 1024 - 64
LARGE = 40
MEGABYTES = 400  # messages of this size, published
_WINDOW = 4_000
_MEGABYTE_WINDOW = 64
_CONFIGS = Path(__file__).resolve().parent / "configs"
_SYNCED = ("-c", str(_CONFIGS / "sync_always.conf"))
_LARGE_PAYLOAD = (*JETSTREAM, "-c", str(_CONFIGS / "large_payload.conf"))
_PATIENCE_NS = 60 * SECOND_NS


# --- a backup ---


def _many_messages(url: str, scale: Scale) -> None:
    StreamAdmin(url).make(["BENCH"], "file")
    count = scale.of(BACKED_UP)
    requests = tuple((f"BENCH.device.{number}", b"x" * 64) for number in range(1_000))
    run_together([Asking(url=url, requests=requests, messages=count, window=_WINDOW)])
    StreamAdmin(url).check("BENCH", count)


def _back_up(client: WireClient, expected: int) -> None:
    inbox = client.new_inbox()
    client.subscribe(inbox)
    client.flush()
    answer = call(client, "STREAM.SNAPSHOT.BENCH", {"deliver_subject": inbox})
    if answer["state"]["messages"] != expected:
        raise MessagesMissing(f"{answer['state']['messages']} messages in the backup")
    received = 0
    while True:
        for chunk in client.next_messages(_PATIENCE_NS):
            if not chunk.payload:
                if b" 204" not in (chunk.header or b""):
                    raise MessagesMissing(f"the backup ended with {chunk.header!r}")
                if received < expected:  # a byte of a message at least
                    raise MessagesMissing(f"the backup has {received} bytes")
                return
            received += len(chunk.payload)
            if chunk.reply:
                client.publish(chunk.reply)


def _backup(server: Server, scale: Scale) -> Sequence[float]:
    _many_messages(server.url, scale)
    with WireClient(server.url, PATIENT) as client, bystander(server.url) as waits:
        began = perf_counter()
        _back_up(client, scale.of(BACKED_UP))
        took_s = perf_counter() - began
    return waits.worst_ms, took_s


# --- a purge ---


def _many_subjects(url: str, scale: Scale) -> None:
    StreamAdmin(url).make(["BENCH"], "file")
    count = scale.of(PURGED)
    requests = [(f"BENCH.gone.{number}", b"x") for number in range(count)]
    requests += [(f"BENCH.kept.{number}", b"x") for number in range(KEPT)]
    run_together([Asking(url=url, requests=tuple(requests), messages=len(requests), window=_WINDOW)])
    StreamAdmin(url).check("BENCH", len(requests))


def _purge(client: WireClient, scale: Scale) -> None:
    purged = call(client, "STREAM.PURGE.BENCH", {"filter": "BENCH.gone.>"})["purged"]
    if purged != scale.of(PURGED):
        raise MessagesMissing(f"{purged} messages were purged")


# --- large messages ---


def _large_messages(url: str, scale: Scale) -> None:
    StreamAdmin(url).make(["BENCH"], "file")
    count = scale.of(LARGE)
    run_together([Asking(url=url, requests=(("BENCH.a", b"x" * LARGE_BYTES),), messages=count, window=2)])
    StreamAdmin(url).check("BENCH", count)


def _push(client: WireClient, scale: Scale) -> None:
    inbox = client.new_inbox()
    client.subscribe(inbox)
    config = {"deliver_subject": inbox, "ack_policy": "none"}
    call(client, "CONSUMER.CREATE.BENCH", {"stream_name": "BENCH", "config": config})
    _receive(client, scale.of(LARGE))


def _pull(client: WireClient, scale: Scale) -> None:
    inbox = client.new_inbox()
    client.subscribe(inbox)
    config = {"durable_name": "PULL", "ack_policy": "explicit"}
    call(client, "CONSUMER.CREATE.BENCH.PULL", {"stream_name": "BENCH", "config": config})
    count = scale.of(LARGE)
    client.publish("$JS.API.CONSUMER.MSG.NEXT.BENCH.PULL", b'{"batch":%d}' % count, reply=inbox)
    _receive(client, count)


def _receive(client: WireClient, expected: int) -> None:
    seen = 0
    while seen < expected:
        for message in client.next_messages(_PATIENCE_NS):
            if len(message.payload) != LARGE_BYTES:
                raise MessagesMissing(f"a message of {len(message.payload)} bytes")
            client.publish(message.reply, b"+ACK")
            seen += 1


def _publish_megabytes(server: Server, scale: Scale) -> Sequence[float]:
    StreamAdmin(server.url).make(["BENCH"], "file")
    requests = tuple((f"BENCH.{number}", b"x" * 1_000_000) for number in range(4))

    def publish(count: int) -> float:
        job = Asking(url=server.url, requests=requests, messages=count, window=_MEGABYTE_WINDOW)
        (tally,) = run_together([job])
        return count / tally.seconds

    count = scale.of(MEGABYTES)
    publish(count // 4)
    rate = publish(count)
    StreamAdmin(server.url).check("BENCH", count + count // 4)
    return [rate]


CASES = (
    Case("purge", _many_subjects, (Action(f"{PURGED:,} subjects are purged by a filter", _purge),)),
    Case(
        "large",
        _large_messages,
        (
            Action("messages of 8 MB are pushed to a consumer", _push),
            Action("messages of 8 MB are pulled", _pull),
        ),
        _LARGE_PAYLOAD,
    ),
)

SCENARIOS = (
    Scenario(
        "growth-backup",
        (
            Row(f"longest PING while {BACKED_UP:,} messages are backed up", "ms", Bar(Claim.AT_MOST_OR_TWICE, 50.0)),
            Row(f"back up {BACKED_UP:,} messages", "s", Bar(Claim.RATIO_AT_MOST, 1.0)),
        ),
        _backup,
        JETSTREAM,
    ),
    Scenario(
        "growth-megabytes",
        (Row("publish messages of 1 MB (ours synced)", "MB/s", Bar(Claim.RATIO_AT_LEAST, 1.0)),),
        _publish_megabytes,
        JETSTREAM,
    ),
    Scenario(
        "growth-megabytes-synced",
        (Row("publish messages of 1 MB, both synced", "MB/s", Bar(Claim.RATIO_AT_LEAST, 1.0)),),
        _publish_megabytes,
        (*JETSTREAM, *_SYNCED),
    ),
)
