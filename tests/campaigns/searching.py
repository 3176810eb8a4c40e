"""Encrypted forms of campaigns over simulated disks: every disk that a store is opened on is searched before."""

from __future__ import annotations

from collections.abc import Callable

from campaigns.figures import Figures
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.testing.sim_disk import SimDisk
from support.raw_files import of_disk, told
from support.sealing import SECRET, watched_disks


class Searched:
    """Looks at disks for `watched_disks`."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        """These words must be nowhere, and no key."""
        self.words = words
        self.files = 0
        self.found: list[str] = []

    def __call__(self, disk: Disk) -> None:
        """Search one disk."""
        assert isinstance(disk, SimDisk)
        files = of_disk(disk)
        self.files += len(files)
        self.found += told(files, self.words, SECRET)

    def counted_in(self, figures: Figures) -> Figures:
        """The figures of the campaign, and what was found beside."""
        figures.counts["files searched for what was stored, names and keys"] = self.files
        figures.counts["files in which it can be read"] = len(self.found)
        figures.broken += self.found[:20]
        return figures

    def controlled(self, figures: Figures, plain: Callable[[], object]) -> Figures:
        """The control: the same search where nothing is encrypted must find something."""
        control = Searched(self.words)
        with watched_disks(control):
            plain()
        figures.control += f"; without a key the search finds {len(control.found)} places"
        figures.control_found = figures.control_found and bool(control.found)
        return figures

    def added_to(self, figures: Figures, plain: Callable[[], object]) -> Figures:
        """Both."""
        return self.controlled(self.counted_in(figures), plain)
