"""Restart with many messages: how long until the server is ready, and how much memory it has then."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep

from benchmarks.js_api import filtered_consumers_ms
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.js_requests import Asking
from slipstream.client.workers import run_together

__all__ = ["SCENARIO"]

MESSAGES = 5_000_000
SUBJECTS = 100_000
SIZE = 128
CREATIONS = 100
_NAME = "BENCH"
_SETTLE_S = 1.0  # before memory is read


def _run(server: Server, scale: Scale) -> Sequence[float]:
    """Fill a stream, stop the server cleanly and start it, kill it and start it again; it must miss nothing."""
    messages, subjects = scale.of(MESSAGES), scale.of(SUBJECTS)
    StreamAdmin(server.url).make([_NAME], "file")
    requests = tuple((f"{_NAME}.device.{number}", b"x" * SIZE) for number in range(subjects))
    run_together([Asking(url=server.url, requests=requests, messages=messages, window=4_000)])
    StreamAdmin(server.url).check(_NAME, messages)
    server.restart(clean=True)
    StreamAdmin(server.url).check(_NAME, messages)
    clean_s = server.start_ns / 1e9
    # One more message, so that the files are not as the clean stop left them.
    run_together([Asking(url=server.url, requests=requests[:1], messages=1)])
    server.restart(clean=False)
    StreamAdmin(server.url).check(_NAME, messages + 1)
    killed_s = server.start_ns / 1e9
    sleep(_SETTLE_S)
    resident_bytes = server.resident_bytes()
    # One message of each subject per round; the last round of all may be short, and one message more was published.
    each = messages // subjects
    filters = {f"{_NAME}.*.{number}": each for number in range(1, 20)} | {f"{_NAME}.device.>": messages + 1}
    creation_ms = filtered_consumers_ms(server.url, _NAME, filters, CREATIONS)
    return clean_s, clean_s, killed_s, killed_s, resident_bytes / 2**20, creation_ms


def _rows() -> tuple[Row, ...]:
    after = f"{MESSAGES // 1_000_000} million messages on {SUBJECTS:,} subjects"
    rows = []
    for title in (f"restart after a clean stop, {after}", f"restart after kill -9, {after}"):
        rows.append(Row(title, "s", Bar(Claim.RATIO_AT_MOST, 1.0)))
        rows.append(Row(title, "s", Bar(Claim.OURS_AT_MOST, 3.0)))
    rows.append(Row(f"memory after that, {after}", "MiB", Bar(Claim.RATIO_AT_MOST, 1.0)))
    rows.append(Row(f"make a filtered consumer, p99, {after}", "ms", Bar(Claim.OURS_AT_MOST, 50.0)))
    return tuple(rows)


SCENARIO = Scenario("restart", _rows(), _run, ("-js", "-sd", "data"))
