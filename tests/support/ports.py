"""Ports for servers that have to know theirs before they start.

The system gives ports from its own range to every socket that asks for none, and so to the clients of all tests that
run at the same time: one that was free a moment ago is taken when the server comes. These come from below that range,
each worker's from a part of its own, and none twice in a row.
"""

from __future__ import annotations

import os
import socket
from itertools import cycle

FIRST = 12_000
PART = 2_000  # of a worker
PARTS = 10  # up to 32,000, where the range of the system begins

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PARTS
# Runs at the same time begin at different places, too.
_start = os.getpid() % PART
_candidates = cycle(FIRST + _worker * PART + (_start + step) % PART for step in range(PART))


def free_port() -> int:
    """A port that nobody listens on."""
    for port in _candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError
