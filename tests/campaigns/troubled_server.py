"""The server program of a replicated trial: its wall clock is wrong by what a file says, and `kill -9` is a power cut.

Usage: TROUBLED_CLOCK=file [FORGETFUL_DISK=directory] troubled_server.py <flags>

The file holds nanoseconds, which are added to the time from then on.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import threading
import time
from pathlib import Path

_LOOK_S = 0.05


class WrongClock:
    """A wall clock that is set while the process runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._off_ns = 0
        threading.Thread(target=self._look, daemon=True).start()

    def now_ns(self) -> int:
        """See `Clock`."""
        return time.time_ns() + self._off_ns

    def _look(self) -> None:
        while True:
            self._off_ns = int(self._path.read_text() or 0) if self._path.exists() else 0
            time.sleep(_LOOK_S)


def main() -> int:
    import slipstream.clock as clock
    from slipstream.server.main import main as serve

    vars(clock)["SystemClock"].now_ns = staticmethod(WrongClock(Path(os.environ["TROUBLED_CLOCK"])).now_ns)
    if "FORGETFUL_DISK" in os.environ:
        from forgetful_server import forgetful  # the script's own directory is on the path

        import slipstream.jetstream.store.file.disk.real_disk as real
        import slipstream.server.jetstream.jetstream as runner

        vars(runner)["RealDisk"] = vars(real)["RealDisk"] = functools.cache(forgetful)
    return serve()


def troubled_program(directory: Path, clock: Path, disk: Path | None) -> Path:
    """A program that runs this file; with `disk`, what was not synced is forgotten when it is killed."""
    program = directory / "troubled-server"
    words = f'TROUBLED_CLOCK="{clock}"' + (f' FORGETFUL_DISK="{disk}"' if disk is not None else "")
    program.write_text(f'#!/bin/sh\n{words} exec "{sys.executable}" "{Path(__file__).absolute()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


if __name__ == "__main__":
    sys.exit(main())
