"""The context files of `nats`: named connections in `~/.config/nats/context`, one of them selected.

    nats/context/NAME.json       the fields of one context, those this program does not know included
    nats/context.txt             name of the selected one
    nats/previous-context.txt    name of the one selected before

Files are written beside and renamed, readable by their owner alone: they hold passwords.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from slipstream.errors import SlipstreamError

__all__ = ["ContextError", "Contexts"]

_NAME = re.compile(r"[^./\\\s\0][^/\\\s\0]{0,200}")
_FILE_BYTES_MAX = 1024 * 1024  # embedded credentials are some kilobytes

Fields = dict[str, Any]


class ContextError(SlipstreamError):
    """A context is not there or cannot be read."""


class Contexts:
    """A directory of contexts."""

    def __init__(self, directory: Path | None = None) -> None:
        """Use a directory; by default the user's."""
        if directory is None:
            home = os.environ.get("XDG_CONFIG_HOME")
            directory = Path(home) / "nats" if home else Path.home() / ".config" / "nats"
        self._directory = directory

    def names(self) -> list[str]:
        """Every context, sorted."""
        return sorted(path.stem for path in (self._directory / "context").glob("*.json"))

    def path(self, name: str) -> Path:
        """The file of a context, which may not exist.

        Raises:
            ContextError: it cannot be a name.
        """
        if not _NAME.fullmatch(name):
            raise ContextError(f"{name!r} cannot be the name of a context")
        return self._directory / "context" / f"{name}.json"

    def load(self, name: str) -> Fields:
        """The fields of a context.

        Raises:
            ContextError: there is no such context, or its file is no JSON object.
        """
        path = self.path(name)
        try:
            if path.stat().st_size > _FILE_BYTES_MAX:
                raise ContextError(f"{path} is too big for a context")
            found = json.loads(path.read_text())
        except FileNotFoundError:
            raise ContextError(f"unknown context {name!r}") from None
        except (OSError, ValueError) as error:
            raise ContextError(f"context {name!r} cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise ContextError(f"context {name!r} is not a JSON object")
        return found

    def save(self, name: str, fields: Fields) -> None:
        """Write a context."""
        self._write(self.path(name), json.dumps(fields, indent=2) + "\n")

    def remove(self, name: str) -> None:
        """Delete a context; if it is the selected one, none is selected afterwards."""
        self.load(name)
        self.path(name).unlink()
        if self.selected() == name:
            self.unselect()

    def selected(self) -> str:
        """The selected context, or nothing."""
        return self._read("context.txt")

    def previous(self) -> str:
        """The context selected before, or nothing."""
        return self._read("previous-context.txt")

    def select(self, name: str) -> None:
        """Select a context and remember the one before."""
        self.load(name)
        before = self.selected()
        if before and before != name:
            self._write(self._directory / "previous-context.txt", before)
        self._write(self._directory / "context.txt", name)

    def unselect(self) -> None:
        """Select none."""
        before = self.selected()
        if before:
            self._write(self._directory / "previous-context.txt", before)
        (self._directory / "context.txt").unlink(missing_ok=True)

    def _read(self, name: str) -> str:
        try:
            return (self._directory / name).read_text().strip()
        except (OSError, ValueError):
            return ""

    def _write(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.replace(temporary, path)
        except OSError as error:
            raise ContextError(f"{path} cannot be written: {error.strerror}") from error
