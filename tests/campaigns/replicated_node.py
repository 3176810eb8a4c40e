"""A server of a replicated trial, in its network namespace, and what is done to its files."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

from campaigns.troubled_server import troubled_program
from support.cut_disk import CutDisk
from support.network_namespaces import NetworkNamespaces
from support.servers import server_binary


class Node:
    """One server of the cluster, in its namespace."""

    def __init__(
        self,
        namespaces: NetworkNamespaces,
        number: int,
        kind: str,
        directory: Path,
        *,
        power: bool = False,
        mounts: bool = False,
    ) -> None:
        self.number = number
        self.name = f"n{number}"
        self.url = f"nats://{namespaces.address(number)}:4222"
        self._namespaces = namespaces
        self._cut_disk = CutDisk(directory / f"{self.name}.disk") if power and mounts else None
        self.store = (self._cut_disk.root if self._cut_disk is not None else directory) / self.name
        self._clock = directory / f"{self.name}.clock"
        self._binary = str(server_binary("real"))
        if kind == "o":
            program = directory / f"{self.name}.program"
            program.mkdir()
            forgetful = self.store / "disk" if power and not mounts else None
            self._binary = str(troubled_program(program, self._clock, forgetful))
        self._log = directory / f"{self.name}.log"
        self._conf = directory / f"{self.name}.conf"
        routes = ", ".join(f"nats://{namespaces.address(other)}:6222" for other in range(namespaces.count))
        # Of ours every second server is encrypted: frames and segments go from one kind to the other.
        self.key = f"a key of server {number} alone" if kind == "o" and number % 2 else ""
        ours = f"key: '{self.key}'" if self.key else ""
        more = {"o": ours, "n": "", "a": "sync_interval: always"}[kind]
        self._conf.write_text(
            f"server_name: {self.name}\nlisten: 0.0.0.0:4222\n"
            f"jetstream {{ store_dir: '{self.store}'\n{more} }}\n"
            f"cluster {{ name: C, listen: 0.0.0.0:6222, routes: [{routes}]\n"
            f" advertise: '{namespaces.address(number)}:6222' }}\n"
            f"client_advertise: '{namespaces.address(number)}:4222'\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it."""
        with self._log.open("ab") as log:
            words = self._namespaces.command(self.number, self._binary, "-c", str(self._conf))
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed."""
        return self._process is not None

    def send(self, what: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(what)

    def set_clock(self, off_s: float) -> None:
        """Let its wall clock be wrong by so much."""
        self._clock.write_text(str(int(off_s * 1e9)))

    def kill(self) -> None:
        """End it without a last word, and cut the power of its disk."""
        if self._process is not None:
            self.send(signal.SIGKILL)
            self._process.wait()
            self._process = None
            if self._cut_disk is not None:
                self._cut_disk.cut()

    def close(self) -> None:
        """End it for good."""
        self.kill()
        if self._cut_disk is not None:
            self._cut_disk.close()

    def log_text(self) -> str:
        """What it logged."""
        return self._log.read_text(errors="replace")


def damage(store: Path, rng: random.Random) -> str:
    """Spoil one of the files by which a server takes part in its cluster; what was done."""
    files = [path for path in store.glob("jetstream/+cluster/**/*") if path.is_file() and path.stat().st_size]
    path, how = rng.choice(sorted(files)), rng.choice(("flip", "cut", "empty", "remove"))
    content = bytearray(path.read_bytes())
    used = len(bytes(content).rstrip(b"\0")) or 1
    if how == "flip":
        content[rng.randrange(used)] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    elif how == "cut":
        path.write_bytes(content[: rng.randrange(used)])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    return f"{how} {path.relative_to(store)}"
