"""What one server is asked beside nats-server, asked of clusters of three beside its: streams have three copies.

The scripts are those of the tests for one server, so that whatever they look at holds with copies as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conformance import test_js_consumer_api as consumer_api
from conformance import test_js_mirrors as mirrors
from conformance import test_js_sources as sources
from conformance import test_js_stream_api as stream_api
from conformance import test_js_stream_batches as batches
from conformance import test_js_stream_publish as publishes
from conformance import test_js_stream_random as histories
from conformance.test_js_cluster import Process
from support.cluster_pair import ClusterCopies, ClusterPair, ready_client
from support.jetstream_oracle import header_block
from support.ports import free_port

pytest.importorskip("slipstream_raft")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[int]]]:
    """Of a cluster of ours and of one of nats-server."""
    with ExitStack() as running:
        yield [_started(kind, tmp_path_factory.mktemp(kind), running) for kind in ("ours", "real")]


def _started(kind: str, directory: Path, running: ExitStack) -> list[int]:
    routes = [free_port() for _ in range(3)]
    processes = [Process(kind, number, routes, directory) for number in range(3)]
    for process in processes:
        process.start()
        running.callback(process.kill)
    return [int(process.url.rpartition(":")[2]) for process in processes]


@pytest.fixture
def both(ports: list[list[int]]) -> Iterator[ClusterPair]:
    """Clients of their own for each test: what one did not wait for is not another's answer."""
    ours, theirs = ([ready_client(port) for port in cluster] for cluster in ports)
    asker = ClusterPair(ours, theirs)
    asker.clear()
    yield asker
    for client in (*ours, *theirs):
        client.close()


@pytest.fixture
def pair(both: ClusterPair) -> ClusterCopies:
    return both.copies


@pytest.mark.parametrize("lines", publishes.CONDITIONS[1:20:6], ids=str)
def test_publishes(both: ClusterPair, lines: list[str]) -> None:
    publishes.test_conditions(both, lines, rollup=True, ttl=False)


def test_sizes_in_memory(both: ClusterPair) -> None:
    """As many messages fit as with nats-server, whoever keeps them where."""
    both.make(max_bytes=400)
    for number in range(20):
        both.ask("s.a", b"x" * number, header_block("A: b") if number % 2 else None)
    both.everything(21)


# The rest takes minutes: every script of one server.


def scripts_of(module: ModuleType) -> Any:
    """All tests of a module, to be run with the fixtures of this one."""
    found: dict[str, Callable[..., Any]] = {
        name: staticmethod(test) for name, test in vars(module).items() if name.startswith("test_")
    }
    return pytest.mark.long(type(module.__name__, (), found))


TestStreams = scripts_of(stream_api)
TestPublishes = scripts_of(publishes)
TestBatchesCountersSchedules = scripts_of(batches)
TestConsumers = scripts_of(consumer_api)
TestHistories = scripts_of(histories)
TestMirrors = scripts_of(mirrors)
TestSources = scripts_of(sources)
