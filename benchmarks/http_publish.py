"""Publishes over HTTP a second, from some connections that each wait for their answer.

    python -m benchmarks.http_publish                    64 connections, 5 s
    python -m benchmarks.http_publish --ack              with the ack of a stream in memory

Besides the rate it prints the processor time of the server for each request: where other programs share the machine,
that is the number that can be compared.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from slipstream.client.wire import WireClient

__all__ = ["Measured", "cpu_s", "main", "measure"]

_WARM_UP_S = 1.0
_CONFIG = 'port: -1\nhost: "127.0.0.1"\nhttp_api {{ port: -1 }}\njetstream {{ store_dir: "{directory}" }}\n'


@dataclass(frozen=True)
class Measured:
    """What came out."""

    rate: float  # requests a second
    server_us: float  # of the server's processor, for each


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--subjects", type=int, default=1, help="so many subjects in turn")
    parser.add_argument("--payload", type=int, default=128)
    parser.add_argument("--ack", action="store_true")
    options = parser.parse_args()
    found = measure(options.connections, options.seconds, options.subjects, options.payload, ack=options.ack)
    print(f"{found.rate:,.0f} requests/s, {found.server_us:.1f} µs of the server's processor each")
    return 0


def measure(
    connections: int = 64, seconds: float = 5.0, subjects: int = 1, payload: int = 128, *, ack: bool = False
) -> Measured:
    """Start a server and publish."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "http.conf"
        path.write_text(_CONFIG.format(directory=directory))
        command = [sys.executable, "-m", "slipstream.server", "-c", str(path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                ports = _ports(server)
                if ack:
                    _make_stream(ports["nats"])
                load = _Load(ports["http"], connections, subjects, payload, ack)
                load.run(_WARM_UP_S)
                before_s = cpu_s(server.pid)
                count, took_s = load.run(seconds)
                used_s = cpu_s(server.pid) - before_s
            finally:
                server.kill()
    return Measured(count / took_s, used_s / count * 1e6)


def _ports(server: subprocess.Popen[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    assert server.stderr is not None
    for line in server.stderr:
        for name, words in (("http", "HTTP API requests on .*"), ("nats", "client connections on .*")):
            match = re.search(rf"Listening for {words}:(\d+)$", line.strip())
            if match:
                found[name] = int(match[1])
        if "Server is ready" in line:
            return found
    raise RuntimeError("the server did not start")


def _make_stream(port: int) -> None:
    with WireClient(f"nats://127.0.0.1:{port}") as client:
        config = b'{"name":"BENCH","subjects":["bench.>"],"storage":"memory","max_msgs":100000}'
        answer = client.request("$JS.API.STREAM.CREATE.BENCH", config)
        assert b"error" not in answer.payload, answer.payload


@dataclass(frozen=True)
class _Load:
    port: int
    connections: int
    subjects: int
    payload: int
    ack: bool

    def run(self, seconds: float) -> tuple[int, float]:
        """Requests answered, and the seconds they took."""
        requests = self._requests()
        poll = select.epoll()
        sockets: dict[int, socket.socket] = {}
        for _ in range(self.connections):
            one = socket.create_connection(("127.0.0.1", self.port))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets[one.fileno()] = one
            poll.register(one.fileno(), select.EPOLLIN)
            one.send(requests[0])
        began, count = perf_counter(), 0
        end = began + seconds
        while perf_counter() < end:
            for number, _ in poll.poll(1):
                answer = sockets[number].recv(4096)
                if not answer.startswith(b"HTTP/1.1 20"):
                    raise RuntimeError(f"refused: {answer[:200]!r}")
                count += 1
                sockets[number].send(requests[count % len(requests)])
        took_s = perf_counter() - began
        for one in sockets.values():
            one.close()
        poll.close()
        return count, took_s

    def _requests(self) -> list[bytes]:
        body = b"x" * self.payload
        query = b"?ack=true" if self.ack else b""
        headers = (
            b"Host: 127.0.0.1:%d\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Length: %d\r\n\r\n" % (self.port, len(body))
        )
        return [
            b"POST /v1/publish/bench.s%d%b HTTP/1.1\r\n%b%b" % (number, query, headers, body)
            for number in range(self.subjects)
        ]


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
