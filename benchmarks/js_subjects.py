"""Memory for many subjects: one message each on a million of them."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep

from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.js_requests import Asking
from slipstream.client.workers import run_together

__all__ = ["SCENARIOS"]

SUBJECTS = 1_000_000
SIZE = 128
_STEP = 100_000  # subjects whose requests are prepared at once
_NAME = "BENCH"
_SETTLE_S = 3.0  # before memory is read: what is written in the background, and a garbage collection


def _scenario(storage: str) -> Scenario:
    def run(server: Server, scale: Scale) -> Sequence[float]:
        subjects = scale.of(SUBJECTS)
        StreamAdmin(server.url).make([_NAME], storage)
        for first in range(0, subjects, _STEP):
            numbers = range(first, min(first + _STEP, subjects))
            requests = tuple((f"{_NAME}.device.{number}", b"x" * SIZE) for number in numbers)
            run_together([Asking(url=server.url, requests=requests, messages=len(requests), window=4_000)])
        StreamAdmin(server.url).check(_NAME, subjects)
        sleep(_SETTLE_S)
        return (server.resident_bytes() / 2**20,)

    title = f"memory with {SUBJECTS:,} subjects, stream in {storage}"
    row = Row(title, "MiB", Bar(Claim.RATIO_AT_MOST, 1.0))
    return Scenario(f"js-subjects-{storage}", (row,), run, ("-js", "-sd", "data"))


SCENARIOS = tuple(_scenario(storage) for storage in ("file", "memory"))
