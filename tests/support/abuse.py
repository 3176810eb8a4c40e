"""A server under abuse and the client that must not notice: round trips, memory, the table of connections, the log."""

from __future__ import annotations

import json
import re
import resource
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from support.monitoring import get
from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.transcript import connect_line, pub

SETTLE_TIMEOUT_S = 20.0
_LOG_LINE = re.compile(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[(?:INF|DBG|TRC|WRN|ERR)\] .*")


class Witness:
    """A well-behaved client, connected before the abuse begins."""

    def __init__(self, server: ServerProcess, **connect: Json) -> None:
        self.server = server
        self.client = RawClient(server.port, timeout_s=SETTLE_TIMEOUT_S)
        self.client.send(connect_line(name="witness", **connect) + b"SUB witness.* 1\r\n")
        self._count = 0
        self.round_trip()
        # What monitoring needs is loaded with the first request; it is not to be taken for the cost of something else.
        get(server, "/connz")

    def round_trip(self) -> None:
        """A message to itself comes back."""
        self._count += 1
        self.client.send(pub(f"witness.{self._count}", b"x"))
        self.client.read_until(b"MSG witness.%d 1 1\r\nx\r\n" % self._count)

    def is_alone(self) -> None:
        """Wait until the server knows nobody else, and see that it went through all this without surprise."""
        others: list[Json] = []
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < deadline:
            self.round_trip()
            page = json.loads(get(self.server, "/connz?limit=100").body)
            others = [entry for entry in page["connections"] if entry.get("name") != "witness"]
            if not others:
                break
        assert not others, f"still connected: {others[:3]}"
        no_surprise(self.server)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()


def no_surprise(server: ServerProcess) -> None:
    """Every line on standard error is a log line: no traceback, no complaint of the event loop, no allocator."""
    odd = [line for line in server.log_lines if not _LOG_LINE.fullmatch(line)]
    assert not odd, "\n".join(odd[:20])


def resident_bytes(server: ServerProcess) -> int:
    """Memory of the server process."""
    return _memory(server, "VmRSS")


def peak_bytes(server: ServerProcess) -> int:
    """The most memory the server process ever had."""
    return _memory(server, "VmHWM")


def _memory(server: ServerProcess, field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{server.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def allow_open_files(count: int) -> None:
    """Let this process, and those it starts, have so many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )
