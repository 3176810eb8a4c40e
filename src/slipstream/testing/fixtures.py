"""Pytest fixtures; a plugin module for `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipstream.testing.thread import ServerThread

__all__ = ["nats_server"]


@pytest.fixture
def nats_server() -> Iterator[ServerThread]:
    """A fresh server on a free port of the loopback interface."""
    with ServerThread() as server:
        yield server
