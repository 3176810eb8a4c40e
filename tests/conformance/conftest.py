"""Servers with JetStream that the tests of one file share: nats-server to ask, ours to command, both to compare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.consumer_oracle import ListeningOracle
from support.jetstream_oracle import Oracle
from support.server_process import ServerProcess
from support.servers import ServerPool


def _with_jetstream(kind: str, pool: ServerPool, directories: pytest.TempPathFactory) -> ServerProcess:
    return pool.prepared(kind, "", ("-js", "-sd", str(directories.mktemp(kind))))


@pytest.fixture(scope="module")
def server(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Ours."""
    with _with_jetstream("ours", server_pool, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="module")
def real_server(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """nats-server."""
    with _with_jetstream("real", server_pool, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="module")
def oracle(real_server: ServerProcess) -> Iterator[Oracle]:
    """A client of nats-server that asks."""
    client = Oracle(real_server.port)
    yield client
    client.close()


@pytest.fixture(scope="module")
def listening_oracle(real_server: ServerProcess) -> Iterator[ListeningOracle]:
    """A client of nats-server that also receives."""
    client = ListeningOracle(real_server.port)
    yield client
    client.close()


@pytest.fixture(scope="module")
def clients(server: ServerProcess, real_server: ServerProcess) -> Iterator[list[ListeningOracle]]:
    """A client of ours and one of nats-server."""
    both = [ListeningOracle(one.port) for one in (server, real_server)]
    yield both
    for client in both:
        client.close()
