"""The server program on a disk that forgets what was not synced when the process is killed.

Usage: FORGETFUL_DISK=directory [FORGETFUL_DROPS_SYNCS=1] [FORGETFUL_CAPACITY=bytes] forgetful_server.py <flags>
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def main() -> int:
    import slipstream.jetstream.store.file.disk.real_disk as real
    import slipstream.server.jetstream.jetstream as runner
    from slipstream.server.main import main as serve

    vars(runner)["RealDisk"] = vars(real)["RealDisk"] = forgetful
    return serve()


def forgetful() -> object:
    from forgetful_disk import ForgetfulDisk  # the script's own directory is on the path

    return ForgetfulDisk(
        Path(os.environ["FORGETFUL_DISK"]),
        drops_syncs=os.environ.get("FORGETFUL_DROPS_SYNCS") == "1",
        capacity=int(os.environ.get("FORGETFUL_CAPACITY", "0")),
        seed=int.from_bytes(os.urandom(4), "big"),
    )


def forgetful_program(directory: Path, **settings: str) -> Path:
    """A program that runs this file on a disk of its own below `directory`, with settings such as `DROPS_SYNCS="1"`."""
    program = directory / "forgetful-server"
    settings["DISK"] = str(directory / "disk")
    words = " ".join(f'FORGETFUL_{name}="{value}"' for name, value in settings.items())
    program.write_text(f'#!/bin/sh\n{words} exec "{sys.executable}" "{Path(__file__).absolute()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


if __name__ == "__main__":
    sys.exit(main())
