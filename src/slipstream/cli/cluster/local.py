"""A cluster on this machine: `up` makes a directory with a configuration file for each server, and starts them.

    DIRECTORY/n1.conf, n1.log, n1.pid, n1/      a server: its configuration, its log, its process, its store

They listen on the loopback address only, and go on when the command ends.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

import click

from slipstream.cli.connection import Failure, LocalCommand
from slipstream.cli.render import counted, say

__all__ = ["down", "up"]

_DIRECTORY: Final = "slipstream-cluster"
_FOUNDED_S: Final = 60.0
_ENDED_S: Final = 30.0
_LOOK_S: Final = 0.1
_ROUTES, _HTTP = 2000, 4000  # how far ports of routes and of monitoring are from those of clients
_CONFIG: Final = """\
server_name: {name}
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http}"
pid_file: {pid}
jetstream {{ store_dir: {store} }}
cluster {{ name: local, listen: "127.0.0.1:{route}", routes: [{routes}] }}
accounts {{
  SYS {{ users: [{{user: admin, password: admin}}] }}
  APP {{ jetstream: enabled, users: [{{user: app, password: app}}] }}
}}
system_account: SYS
no_auth_user: app
"""


@click.command(cls=LocalCommand, short_help="Start a cluster on this machine, to try things out.")
@click.argument("directory", default=_DIRECTORY, type=click.Path(file_okay=False, path_type=Path))
@click.option("--servers", type=click.IntRange(3, 9), default=3, show_default=True, help="How many.")
@click.option("--port", type=click.IntRange(1024, 60000), default=4222, show_default=True, help="Of the first one.")
def up(directory: Path, servers: int, port: int) -> None:
    """Start servers that form a cluster, with all of their files in DIRECTORY, and wait until it is founded.

    Clients need no password; `--user admin --password admin` is the system account. What is there from before is used
    again.
    """
    if importlib.util.find_spec("slipstream_raft") is None:
        raise Failure("a cluster needs the Raft core: pip install 'slipstream-server[cluster]'")
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    running = [path.stem for path in sorted(directory.glob("n*.pid")) if _process(path) is not None]
    if running:
        raise Failure(f"{', '.join(running)} of {directory} run already; `slipstream cluster down` stops them")
    ports = [port + number for number in range(servers)]
    taken = [one + more for one in ports for more in (0, _HTTP, _ROUTES) if _is_taken(one + more)]
    if taken:
        raise Failure(f"another program listens on {', '.join(map(str, taken))}; choose others with --port")
    routes = ", ".join(f'"nats://127.0.0.1:{one + _ROUTES}"' for one in ports)
    processes = {}
    for number, one in enumerate(ports, 1):
        base = directory / f"n{number}"
        text = _CONFIG.format(
            name=base.name,
            port=one,
            http=one + _HTTP,
            route=one + _ROUTES,
            routes=routes,
            pid=_quoted(base.with_suffix(".pid")),
            store=_quoted(base),
        )
        base.with_suffix(".conf").write_text(text)
        command = [sys.executable, "-m", "slipstream.server", "-c", str(base.with_suffix(".conf"))]
        command += ["-l", str(base.with_suffix(".log"))]
        null = subprocess.DEVNULL  # whoever reads what this command says must not wait for the servers to end
        process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
        processes[base.name] = process
    _wait_until_founded(directory, processes, ports)
    say(f"A cluster of {counted(servers, 'server')} runs in {directory}:")
    for name, one in zip(processes, ports, strict=True):
        say(f"  {name}  nats://127.0.0.1:{one}  http://127.0.0.1:{one + _HTTP}")


@click.command(cls=LocalCommand, short_help="Stop the servers that `up` started.")
@click.argument("directory", default=_DIRECTORY, type=click.Path(file_okay=False, path_type=Path))
def down(directory: Path) -> None:
    """Stop the servers of DIRECTORY; their files stay."""
    found = {path: pid for path in sorted(directory.glob("n*.pid")) if (pid := _process(path)) is not None}
    for pid in found.values():
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _ENDED_S
    while left := [path.stem for path, pid in found.items() if _process(path) == pid]:
        if time.monotonic() > end:
            raise Failure(f"{', '.join(left)} did not end")
        time.sleep(_LOOK_S)
    say(f"Stopped {counted(len(found), 'server')}")


def _is_taken(port: int) -> bool:
    """Whether somebody listens there: their cluster would be taken for the new one."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _wait_until_founded(directory: Path, processes: dict[str, subprocess.Popen[bytes]], ports: list[int]) -> None:
    end = time.monotonic() + _FOUNDED_S
    while not all(_is_well(port + _HTTP) for port in ports):
        dead = [name for name, process in processes.items() if process.poll() is not None]
        if dead or time.monotonic() > end:
            for process in processes.values():
                process.terminate()
            for process in processes.values():
                process.wait()
            what = f"{', '.join(dead)} ended" if dead else "the servers did not find each other"
            raise Failure(f"{what}; see the logs in {directory}")
        time.sleep(_LOOK_S)


def _is_well(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _process(path: Path) -> int | None:
    """The process that a file names, if it runs and is a server of ours."""
    try:
        pid = int(path.read_text())
        command = Path(f"/proc/{pid}/cmdline")
        if command.parent.parent.is_dir() and str(path.with_suffix(".conf")) not in command.read_text():
            return None  # the number is another program's by now
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
