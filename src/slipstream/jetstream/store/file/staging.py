"""Staged parts in files beside the streams.

<root>/staging/<stream id>/<name>.open     being written; of no use after a restart
                          <name>.part     whole

They are not synced: a part that a power cut has spoilt does not match its checksum any more, so its commit is refused
and whoever staged it stages it again. Most parts are committed and removed before the system has written them out.
"""

from __future__ import annotations

from contextlib import suppress

from slipstream.jetstream.store.file.disk.disk import Disk, make_dirs
from slipstream.jetstream.store.file.jobs import as_fault

__all__ = ["DiskStage"]

_OPEN = ".open"
_WHOLE = ".part"


class DiskStage:
    """Parts as files."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Keep parts in a directory that is made when the first part is."""
        self._disk = disk
        self._directory = directory
        self._made = False

    def create(self, name: str) -> None:
        """See `StageArea.create`."""
        try:
            if not self._made:
                make_dirs(self._disk, self._directory, below=self._directory.rsplit("/", 2)[0])
                self._made = True
            path = self._path(name, _OPEN)
            if name + _OPEN in self._disk.list_dir(self._directory):
                self._disk.remove(path)
            self._disk.create(path)
        except OSError as error:
            raise as_fault(error, self._directory) from error

    def write(self, name: str, offset: int, data: bytes) -> None:
        """See `StageArea.write`."""
        try:
            self._disk.write(self._path(name, _OPEN), offset, data)
        except OSError as error:
            raise as_fault(error, self._directory) from error

    def finish(self, name: str) -> None:
        """See `StageArea.finish`."""
        try:
            self._disk.rename(self._path(name, _OPEN), self._path(name, _WHOLE))
        except OSError as error:
            raise as_fault(error, self._directory) from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        """See `StageArea.read`."""
        try:
            return self._disk.read(self._path(name, _WHOLE), offset, length)
        except OSError as error:
            raise as_fault(error, self._directory) from error

    def remove(self, name: str) -> None:
        """See `StageArea.remove`."""
        for ending in (_OPEN, _WHOLE):
            try:
                self._disk.remove(self._path(name, ending))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise as_fault(error, self._directory) from error

    def names(self) -> list[tuple[str, int]]:
        """See `StageArea.names`."""
        found = []
        try:
            for name in self._disk.list_dir(self._directory):
                path = f"{self._directory}/{name}"
                if name.endswith(_WHOLE):
                    with suppress(FileNotFoundError):  # its end was cut short
                        found.append((name.removesuffix(_WHOLE), self._disk.size(path)))
                        continue
                self._disk.remove(path)
        except OSError as error:
            raise as_fault(error, self._directory) from error
        return found

    def is_used(self) -> bool:
        """See `StageArea.is_used`."""
        return self._disk.is_dir(self._directory)

    def destroy(self) -> None:
        """See `StageArea.destroy`."""
        try:
            names = self._disk.list_dir(self._directory)
            self._disk.remove_many([f"{self._directory}/{name}" for name in names])
            if names or self._disk.is_dir(self._directory):
                self._disk.remove_dir(self._directory)
        except OSError as error:
            raise as_fault(error, self._directory) from error

    def _path(self, name: str, ending: str) -> str:
        return f"{self._directory}/{name}{ending}"
