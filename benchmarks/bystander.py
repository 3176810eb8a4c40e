"""An idle client beside the work of others: it sends a PING now and then, and remembers the longest wait for a PONG.

    python -m benchmarks.bystander URL

It is a process of its own, so that the work of the measuring program does not count. It says `ready` when its
connection stands and ends when its input does, with the longest wait and the number of waits as JSON.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic_ns

from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient
from slipstream.units import SECOND_NS

__all__ = ["Waits", "bystander"]

_PAUSE_S = 0.002  # between a PONG and the next PING
_PONG_TIMEOUT_NS = 300 * SECOND_NS  # longer than any freeze that was ever seen


@dataclass
class Waits:
    """What an idle client saw; filled in when `bystander` is over."""

    worst_ms: float = 0.0
    pings: int = 0


@contextmanager
def bystander(url: str) -> Iterator[Waits]:
    """Ping the server from another process as long as this lasts.

    Raises:
        ClientError: it could not connect, or was cut off.
    """
    waits = Waits()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bystander", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            raise ClientError("the idle client could not connect")
        yield waits
        process.stdin.close()
        line = process.stdout.readline()
        if not line:
            raise ClientError("the idle client was cut off")
        found = json.loads(line)
        waits.worst_ms, waits.pings = found["worst_ms"], found["pings"]
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def main() -> None:
    """Ping until the input ends."""
    worst_ns = pings = 0
    with WireClient(sys.argv[1]) as client:
        print("ready", flush=True)
        while not pings or not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            began = monotonic_ns()
            client.flush(_PONG_TIMEOUT_NS)
            worst_ns = max(worst_ns, monotonic_ns() - began)
            pings += 1
    print(json.dumps({"worst_ms": worst_ns / 1e6, "pings": pings}), flush=True)


if __name__ == "__main__":
    main()
