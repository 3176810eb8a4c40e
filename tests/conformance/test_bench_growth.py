"""The growth family, small, against both servers: an idle client sees how long another one's work takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.bystander import bystander
from benchmarks.growth import CASES, SCENARIOS
from benchmarks.growth_case import call, make_streams
from benchmarks.scenario import Bar, Claim
from benchmarks.servers import Server

from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient
from support.servers import server_binary


@pytest.fixture(params=["real", "ours"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(server_binary(request.param), tmp_path, ("-js", "-sd", "data")) as started:
        yield started


def test_a_bystander_waits_for_pongs(server: Server) -> None:
    with bystander(server.url) as waits, WireClient(server.url) as client:
        client.flush()
    assert waits.pings >= 1
    assert waits.worst_ms > 0


def test_a_bystander_that_cannot_connect_is_an_error(server: Server) -> None:
    server.stop()
    with pytest.raises(ClientError), bystander(server.url):
        pass


def test_many_streams_are_made(server: Server) -> None:
    make_streams(server.url, range(5), "memory")
    with WireClient(server.url) as client:
        assert call(client, "INFO")["streams"] == 5
        with pytest.raises(ClientError, match="stream not found"):
            call(client, "STREAM.INFO.S5")


def test_calm_is_a_number_or_twice_theirs() -> None:
    bar = Bar(Claim.AT_MOST_OR_TWICE, 50.0)
    assert bar.cleared(49, 1)
    assert bar.cleared(99, 50)
    assert not bar.cleared(101, 50)
    assert not bar.cleared(51, 1)


def test_names_are_unique() -> None:
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS) >= len(CASES)
