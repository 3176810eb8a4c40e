"""The pid file and the ports file: how other programs find a running server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

__all__ = ["PortsFile", "remove_file", "write_pid_file"]


def write_pid_file(path: str) -> None:
    """Put this process's id into `path`.

    Raises:
        OSError: the file cannot be written.
    """
    with open(path, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


def remove_file(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except OSError:
        return


class PortsFile:
    """`<program>_<pid>.ports` in a directory: the URLs of every listener as JSON. Appears complete or not at all."""

    def __init__(self, folder: str) -> None:
        program = os.path.basename(sys.argv[0]) or "nats-server"
        self.path = os.path.join(folder, f"{program}_{os.getpid()}.ports")

    def write(self, urls: Mapping[str, Sequence[str]]) -> None:
        """Write the file.

        Args:
            urls: listener kind (`nats`, `monitoring`, `websocket`, ...) to its URLs; empty ones are left out.

        Raises:
            OSError: the directory is not there or not writable.
        """
        import json

        temporary = f"{self.path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({kind: list(found) for kind, found in urls.items() if found}, file)
        os.replace(temporary, self.path)

    def remove(self) -> None:
        """The server is going."""
        remove_file(self.path)
