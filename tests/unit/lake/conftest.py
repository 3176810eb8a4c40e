"""A server for the tests of one file, or of one test, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstream.bulk import BulkClient, ConnectOptions, connect
from slipstream.testing import ServerThread
from support.spark_streams import Streams


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    """Of a server for each test; files whose tests share one have their own."""
    with ServerThread(store_dir=str(tmp_path / "server")) as server:
        yield Streams(server.url)


@pytest.fixture
def client(streams: Streams) -> Iterator[BulkClient]:
    with connect(ConnectOptions(streams.url)) as client:
        yield client
