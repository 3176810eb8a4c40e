"""One Spark session and one server of ours for all of these tests; each test has streams of its own.

In a parallel run one worker gets all of them, so that one Java machine is started. Tasks are tried three times, as on a
cluster, so that faults in tasks can be survived.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipstream.spark.runtime.target import Reach
from slipstream.testing.spark import spark as spark  # the fixture
from support.server_process import ServerProcess
from support.servers import ServerPool
from support.spark_streams import Streams

TESTS = Path(__file__).resolve().parents[1]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark_arguments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Tasks may fail twice; workers find the faults of `support`."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), before)))
    warehouse = tmp_path_factory.mktemp("warehouse")
    yield {"master": "local[2,3]", "config": {"spark.sql.warehouse.dir": str(warehouse)}}
    if before is None:
        os.environ.pop("PYTHONPATH")
    else:
        os.environ["PYTHONPATH"] = before


def started(pool: ServerPool, kind: str) -> ServerProcess:
    """A server with JetStream, its store below its own directory."""
    server = pool.prepared(kind, "", ("-js",))
    server.flags += ["-sd", str(server.directory / "store")]
    return server.start()


@pytest.fixture(scope="session")
def node(server_pool: ServerPool) -> Iterator[ServerProcess]:
    """A server of ours that no test may stop."""
    server = started(server_pool, "ours")
    yield server
    server.end()


@pytest.fixture(scope="session")
def second_node(server_pool: ServerPool) -> Iterator[ServerProcess]:
    """Another server of ours that no test may stop: streams there may have the subjects of streams here."""
    server = started(server_pool, "ours")
    yield server
    server.end()


@pytest.fixture
def source(second_node: ServerProcess) -> Streams:
    """The server that is copied from; the other one is copied to."""
    return Streams(second_node.url)


@pytest.fixture
def ways(source: Streams, streams: Streams) -> dict[str, Reach]:
    """From server to server."""
    return {"reach": Reach(servers=source.url), "target_reach": Reach(servers=streams.url)}


@pytest.fixture
def own_node(server_pool: ServerPool) -> Iterator[ServerProcess]:
    """A server of ours that the test may kill."""
    server = started(server_pool, "ours")
    yield server
    server.end()


@pytest.fixture(scope="session")
def plain_node(server_pool: ServerPool) -> Iterator[ServerProcess]:
    """nats-server."""
    server = started(server_pool, "real")
    yield server
    server.end()


@pytest.fixture
def streams(node: ServerProcess) -> Streams:
    """The shared server's streams."""
    return Streams(node.url)


@pytest.fixture
def reach(streams: Streams) -> Reach:
    """How jobs find that server."""
    return Reach(servers=streams.url)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Where a test may put an archive."""
    return str(tmp_path / "lake")


@pytest.fixture
def name() -> str:
    """A name for a stream that no other test uses."""
    return f"S{next(_numbers)}"
