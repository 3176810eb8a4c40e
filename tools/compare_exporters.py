"""Runs NATS's Prometheus exporter and NATS Surveyor before nats-server and before this server; compares what they show.

    python tools/compare_exporters.py                   both, below build/exporters
    python tools/compare_exporters.py --only surveyor   one
    python tools/compare_exporters.py --programs DIR    they are there already, as built by `go install`

Both servers get the same streams, consumers and clients. What counts is the name of each metric with the names of its
labels: a board finds its data by these. The program ends with 1 when one is there with nats-server and not with ours.
Figures are not compared; each server has its own. What cannot be built here is left out, and said so.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slipstream.sync import connect

READY_SECONDS_MAX = 60.0
LOOK_SECONDS = 1  # between two looks at what is shown
LOOKS_ALIKE = 3  # after so many nothing more is expected
BUILD_SECONDS_MAX = 1800
CONFIG = """
server_name: compared
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http}"
jetstream {{ store_dir: "{directory}/js" }}
accounts {{
  SYS {{ users: [{{user: sys, password: sys}}] }}
  APP {{ jetstream: enabled, users: [{{user: app, password: app}}] }}
}}
system_account: SYS
"""
_METRIC = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ")
_LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')

Shown = set[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Exporter:
    """A program that asks a server and shows metrics over HTTP."""

    module: str
    program: str
    arguments: Callable[[int, int, int], list[str]]  # of the server's port, its HTTP port, and the program's own
    prefixes: tuple[str, ...]  # of what is about the server; the rest is about the program


EXPORTERS = {
    "exporter": Exporter(
        "github.com/nats-io/prometheus-nats-exporter",
        "prometheus-nats-exporter",
        lambda _port, http, own: [
            *("-a", "127.0.0.1", "-p", str(own), "-varz", "-connz_detailed", "-subz", "-routez", "-gatewayz", "-leafz"),
            *("-accstatz", "-accountz", "-healthz", "-jsz", "all", f"http://127.0.0.1:{http}"),
        ],
        ("gnatsd_", "jetstream_"),
    ),
    "surveyor": Exporter(
        "github.com/nats-io/nats-surveyor",
        "nats-surveyor",
        lambda port, _http, own: [
            *("-s", f"nats://127.0.0.1:{port}", "--user", "sys", "--password", "sys", "-c", "1"),
            *("-a", "127.0.0.1", "-p", str(own), "--accounts", "--gatewayz", "--jsz", "all"),
        ],
        ("nats_",),
    ),
}


def metrics(page: str, prefixes: tuple[str, ...]) -> Shown:
    """Names with the names of their labels."""
    found: Shown = set()
    for line in page.splitlines():
        parts = _METRIC.match(line)
        if parts and parts[1].startswith(prefixes):
            found.add((parts[1], tuple(sorted(_LABEL.findall(parts[2] or "")))))
    return found


def built(exporter: Exporter, programs: Path) -> Path | None:
    """The program, built if it is not there; None where it cannot be."""
    place = programs / exporter.program
    if not place.exists():
        if shutil.which("go") is None:
            print(f"{exporter.program}: left out, go is not installed")
            return None
        environment = {**os.environ, "GOBIN": str(programs)}
        command = ["go", "install", f"{exporter.module}@latest"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
        if done.returncode:
            print(f"{exporter.program}: left out, it cannot be built: {done.stderr.strip()[-300:]}")
            return None
    return place


def shown(exporter: Exporter, program: Path, server: Path) -> Shown:
    """What a program shows of a server that has something of everything."""
    port, http, own = free_ports(3)
    with tempfile.TemporaryDirectory() as directory, running_server(server, Path(directory), port, http):
        url = f"nats://127.0.0.1:{port}"
        with connect(url, user="app", password="app", name="shop") as client, client.subscribe("orders.*"):
            jetstream = client.jetstream()
            orders = jetstream.create_stream("ORDERS", subjects=["orders.*"])
            orders.create_consumer("billing")
            jetstream.create_stream("COPY", mirror={"name": "ORDERS"})
            for number in range(10):
                jetstream.publish(f"orders.{number}", b"x")
            command = [str(program), *exporter.arguments(port, http, own)]
            with (
                (Path(directory) / "log").open("wb") as log,
                subprocess.Popen(command, stdout=log, stderr=log) as asking,
            ):
                try:
                    return _settled(f"http://127.0.0.1:{own}/metrics", exporter.prefixes)
                finally:
                    asking.kill()


def _settled(url: str, prefixes: tuple[str, ...]) -> Shown:
    """What is shown once some looks in a row show nothing new: programs ask in the background."""
    end = time.monotonic() + READY_SECONDS_MAX
    found: Shown = set()
    same = 0
    while same < LOOKS_ALIKE and time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                now = metrics(answer.read().decode(), prefixes)
        except (urllib.error.URLError, OSError):
            now = set()
        same = same + 1 if found and now <= found else 0
        found |= now
        time.sleep(LOOK_SECONDS)
    return found


@contextmanager
def running_server(binary: Path, directory: Path, port: int, http: int) -> Iterator[None]:
    """A server that is ready."""
    config = directory / "server.conf"
    config.write_text(CONFIG.format(port=port, http=http, directory=directory))
    log = directory / "server.log"
    with subprocess.Popen([str(binary), "-c", str(config), "-l", str(log)]) as server:
        try:
            end = time.monotonic() + READY_SECONDS_MAX
            while not (log.exists() and "Server is ready" in log.read_text(errors="replace")):
                if server.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{binary} did not start")
                time.sleep(0.05)
            yield
        finally:
            server.kill()


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main() -> int:
    """Build, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(EXPORTERS))
    parser.add_argument("--programs", type=Path, default=Path("build/exporters"))
    beside = Path(sys.executable).parent
    parser.add_argument("--ours", type=Path, default=beside / "slipstream-server")
    parser.add_argument("--theirs", type=Path, default=beside / "nats-server")
    options = parser.parse_args()
    worse = 0
    for name in options.only or sorted(EXPORTERS):
        exporter = EXPORTERS[name]
        program = built(exporter, options.programs.absolute())
        if program is None:
            continue
        real, ours = (shown(exporter, program, binary) for binary in (options.theirs, options.ours))
        print(f"{name}: {len(real)} with nats-server, {len(ours)} with ours, {len(real & ours)} the same", flush=True)
        for words, only in (("with nats-server only", real - ours), ("with ours only", ours - real)):
            for metric, labels in sorted(only):
                print(f"{name}: {words}: {metric}{{{','.join(labels)}}}")
        worse += len(real - ours) + (not real)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
