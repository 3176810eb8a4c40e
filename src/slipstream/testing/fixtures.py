"""Pytest fixtures, there wherever Slipstream is installed: pytest finds this module as a plugin.

    def test_orders(nats_url, jetstream):
        jetstream.create_stream("ORDERS", subjects=["orders.>"])
        program_under_test(nats_url)
        assert jetstream.stream("ORDERS").last().data == b"42 apples"

A test gets a server of its own, with JetStream and an empty store: nothing of another test can be in it, not a stream,
a client or a counter. That costs some milliseconds, as the server is a thread of the test's process. Tests that share
one ask for `nats_server_session`. With pytest-xdist every worker has servers of its own.

The plugin is loaded in every run of pytest, so it imports nothing of the server before a test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from slipstream.sync import JetStream
    from slipstream.testing.thread import ServerThread

__all__ = ["jetstream", "nats_server", "nats_server_arguments", "nats_server_session", "nats_url"]


@pytest.fixture(scope="session")
def nats_server_arguments() -> dict[str, Any]:
    """Arguments of `slipstream.Server` for the servers of these fixtures; override the fixture to add some."""
    return {}


@pytest.fixture
def nats_server(nats_server_arguments: dict[str, Any]) -> Iterator[ServerThread]:
    """A fresh server with JetStream, on a free port of the loopback interface; it is gone after the test."""
    with _server(nats_server_arguments) as server:
        yield server


@pytest.fixture(scope="session")
def nats_server_session(nats_server_arguments: dict[str, Any]) -> Iterator[ServerThread]:
    """One server for the whole run, for fixtures that outlive a test. What a test leaves in it stays there."""
    with _server(nats_server_arguments) as server:
        yield server


@pytest.fixture
def nats_url(nats_server: ServerThread) -> str:
    """Where clients connect to `nats_server`."""
    return nats_server.url


@pytest.fixture
def jetstream(nats_url: str) -> Iterator[JetStream]:
    """JetStream of `nats_server` by plain calls, to arrange and to look: also in asyncio tests, beside their client."""
    from slipstream.sync import connect

    with connect(nats_url) as client:
        yield client.jetstream()


def _server(arguments: dict[str, Any]) -> ServerThread:
    from slipstream.config.jetstream_options import JetStreamOptions
    from slipstream.config.options import Options
    from slipstream.testing.thread import ServerThread

    # The store lives as long as the server: nobody is there to read what a sync would save from a power failure.
    options = Options(jetstream=JetStreamOptions(sync_always=False))
    return ServerThread(options, **{"port": -1, "jetstream": True, **arguments})
