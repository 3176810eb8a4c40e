"""Reading scenarios, small, against both servers: the load generator accounts for every message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from benchmarks.js_consumers import create_times_ns, fill, make_consumer
from benchmarks.servers import Server

from slipstream.client.js_consume import Awaiting, Listening, Pulling
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_here
from slipstream.units import SECOND_NS
from support.servers import server_binary


@pytest.fixture(params=["real", "ours"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(server_binary(request.param), tmp_path, ("-js", "-sd", "data")) as started:
        yield started


def info(server: Server, name: str) -> dict[str, object]:
    with WireClient(server.url) as client:
        return make_consumer(client, name)


@pytest.mark.parametrize(("batch", "left", "acks"), [(100, 0, False), (100, 0, True), (100, 50, False), (7, 3, True)])
def test_every_message_is_read_once(server: Server, batch: int, left: int, acks: bool) -> None:
    fill(server.url, 1_000)
    policy = "explicit" if acks else "none"
    with WireClient(server.url) as client:
        make_consumer(client, "C", ack_policy=policy)
    job = Pulling(url=server.url, stream="BENCH", consumer="C", messages=1_000, batch=batch, left=left, acks=acks)
    assert run_here(job).messages == 1_000
    with WireClient(server.url) as client:
        found, deadline = make_consumer(client, "C", ack_policy=policy), monotonic() + 20
        while found["num_ack_pending"] and monotonic() < deadline:  # nats-server counts acks behind the connection
            found = make_consumer(client, "C", ack_policy=policy)
    assert (found["num_pending"], found["num_ack_pending"]) == (0, 0)


def test_flow_control_is_answered(server: Server) -> None:
    fill(server.url, 20_000)  # more than the first window
    with WireClient(server.url) as client:
        make_consumer(client, "C", deliver_subject="to.me", flow_control=True, idle_heartbeat=5 * SECOND_NS)
    assert run_here(Listening(url=server.url, subject="to.me", messages=20_000)).messages == 20_000


def test_waiting_is_timed(server: Server) -> None:
    fill(server.url, 1)
    with WireClient(server.url) as client:
        make_consumer(client, "C", deliver_policy="new")
    job = Awaiting(url=server.url, stream="BENCH", consumer="C", subject="BENCH.x", size=16, messages=20)
    assert len(run_here(job).latencies_ns) == 20


def test_consumers_are_made_with_any_filter(server: Server) -> None:
    fill(server.url, 100)
    assert len(create_times_ns(server.url, ["BENCH.s1", "BENCH.*", "BENCH.>"])) == 3
    with pytest.raises(ClientError, match=r"consumer bad\.name"):
        info(server, "bad.name")


def test_a_job_without_sense_is_refused(server: Server) -> None:
    with pytest.raises(ClientError):
        run_here(Pulling(url=server.url, stream="S", consumer="C", messages=1, batch=5, left=5))
