"""Files that hold keys and tokens: readable by their owner alone, and there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from slipstream.cli.connection import Failure

__all__ = ["FILE_BYTES_MAX", "make_directory", "read_text", "write_secret"]

FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # a backup of thousands of accounts; a token is at most 1 MiB


def read_text(path: Path | str) -> str:
    """The text in a file.

    Raises:
        Failure: it cannot be read.
    """
    path = Path(path)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise Failure(f"{path} is longer than {FILE_BYTES_MAX} bytes")
        return path.read_text()
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is no text") from error


def make_directory(path: Path) -> None:
    """Make a directory for its owner alone, with those above it."""
    if not path.is_dir():
        if path.parent != path:
            make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def write_secret(path: Path | str, content: str | bytes, *, replace: bool = True) -> None:
    """Write a file that only its owner may read.

    Raises:
        Failure: it is there already and should not be replaced.
    """
    path = Path(path)
    if not replace and path.exists():
        raise Failure(f"file {path} exists already: give --force to replace it")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
