"""The short form of `campaigns.consumers`: a server killed under its consumers."""

from __future__ import annotations

from pathlib import Path

from campaigns.consumer_deaths import ConsumerDeaths
from slipstream.units import MILLISECOND_NS


def test_consumers_survive_deaths(tmp_path: Path) -> None:
    run = ConsumerDeaths(tmp_path, ack_wait_ns=400 * MILLISECOND_NS)
    run.run(3, most_s=0.3)
    assert run.broken == []
    assert run.cycles == 3
    assert all(worker.promises.confirmed for worker in run.workers)
