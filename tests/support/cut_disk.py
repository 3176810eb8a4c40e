"""A file system whose power can be cut under any program: what was not synced, or written out by the kernel, is gone.

It is an ext4 of its own in an image file, mounted by a loop device. Whatever a program has written and not synced is in
the kernel's memory and not in the image; so a copy of the image, made when the program is dead, is what a disk has
after a power cut, and the program goes on with the copy.

What this is not: a disk that tears or reorders what it was given between two syncs (`campaigns.forgetful_disk` does).
It needs root, loop devices and `mkfs.ext4`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["CutDisk", "can_cut_disks"]

_IMAGE_BYTES = 1 << 30  # sparse
_FILES = 16_384
_COMMIT_S = 3600  # the journal is written by syncs alone, and not every five seconds


def can_cut_disks() -> bool:
    """Whether this machine lets us make such file systems."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        return False
    with tempfile.TemporaryDirectory() as directory:
        try:
            CutDisk(Path(directory)).close()
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


class CutDisk:
    """One file system; programs use `root`."""

    def __init__(self, directory: Path) -> None:
        """Make it, and mount it below a directory."""
        self.root = directory / "mount"
        self.root.mkdir(parents=True)
        self._directory = directory
        self._cuts = 0
        image = self._image()
        with image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        whole = "lazy_itable_init=0,lazy_journal_init=0"  # or the kernel goes on with it later, by itself
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(_FILES), "-J", "size=16", "-E", whole, str(image))
        self._mount(image)

    def cut(self) -> None:
        """Forget what was not synced; nobody may use the file system meanwhile."""
        old = self._image()
        self._cuts += 1
        new = self._image()
        while True:
            before = old.stat().st_mtime_ns
            _run("cp", "--sparse=always", str(old), str(new))
            if old.stat().st_mtime_ns == before:
                break  # else the kernel has written something out in between
        self._unmount()
        old.unlink()
        self._mount(new)

    def close(self) -> None:
        """Remove it."""
        self._unmount()
        self._image().unlink()

    def _image(self) -> Path:
        return self._directory / f"disk{self._cuts}.img"

    def _mount(self, image: Path) -> None:
        _run("mount", "-o", f"loop,commit={_COMMIT_S}", str(image), str(self.root))

    def _unmount(self) -> None:
        # Mount namespaces of other programs may hold it for a while.
        _run("umount", "--lazy", str(self.root))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
