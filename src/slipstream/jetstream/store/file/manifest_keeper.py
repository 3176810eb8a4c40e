"""When the manifest of a stream is written: after its segments or its configuration changed, when it is quiet."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.manifest import Manifest, SegmentEntry, write_manifest
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.upkeep_jobs import ManifestJob
from slipstream.jetstream.store.state import StoreState

__all__ = ["ManifestKeeper"]


class ManifestKeeper:
    """What the newest slot says, and what it should."""

    __slots__ = (
        "_damage",
        "_directory",
        "_disk",
        "_doubtful",
        "_known",
        "_log",
        "_missing",
        "_slots_due",
        "_state",
        "_version",
    )

    def __init__(self, state: StoreState, damage: Damage, log: SegmentedLog, disk: Disk, directory: str) -> None:
        """No slot was written."""
        self._state = state
        self._damage = damage
        self._log = log
        self._disk = disk
        self._directory = directory
        self._version = 0
        self._known: Manifest | None = None  # what the newest slot says
        self._doubtful = False  # ... which may not be on stable storage
        self._slots_due = 0  # slots to be written although they say nothing new
        self._missing: list[SegmentEntry] = []  # segments that are gone, whose index files are needed

    def begin(self) -> ManifestJob | None:
        """The next write, if there is something new to say."""
        self._log.manifest_due = False
        manifest = self._current()
        if self._is_known(manifest):
            return None
        return ManifestJob(self._disk, self._directory, manifest=manifest, doubtful=self._doubtful)

    def finish(self, done: ManifestJob) -> None:
        """A slot was written."""
        self._version += 1
        self._known, self._doubtful = done.manifest, False
        self._slots_due = max(self._slots_due - 1, 0)
        self._log.manifest_due = self._log.manifest_due or self._slots_due > 0

    def write_last(self) -> None:
        """Write what is new before the store is closed. Blocks.

        Raises:
            OSError: the disk refused.
        """
        manifest = self._current()
        if not self._is_known(manifest):
            write_manifest(self._disk, self._directory, manifest, doubtful=self._doubtful, sync=False)

    def adopt(self, manifest: Manifest | None, missing: list[SegmentEntry]) -> None:
        """Recovery read this one, and needs the index files of some segments that it names and that are gone."""
        self._missing = missing
        if manifest is not None and manifest.version >= self._version:
            self._known, self._version, self._doubtful = manifest, manifest.version, True
            self._slots_due = 2 if self._disk.seal.converting else 0

    def _is_known(self, manifest: Manifest) -> bool:
        """Whether the newest slot says the same."""
        known = self._known
        return (
            not self._slots_due
            and known is not None
            and msgspec.structs.replace(manifest, version=known.version) == known
        )

    def _current(self) -> Manifest:
        state, log = self._state, self._log
        first_seq = min(log.first_kept, state.committed_seq + 1)
        missing = [entry for entry in self._missing if entry.last_seq >= first_seq]
        return Manifest(
            version=self._version + 1,
            uid=log.uid,
            config=state.config,
            first_seq=first_seq,
            last_seq=state.committed_seq,
            last_ts_ns=log.writer.last_ts,
            segments=sorted([*missing, *map(_entry, log.table.written)], key=attrgetter("no")),
            lost=list(self._damage.ranges),
        )


def _entry(segment: Segment) -> SegmentEntry:
    """How the manifest names a segment."""
    header = segment.header
    return SegmentEntry(header.no, header.generation, header.first_seq, segment.last_seq, header.salt)
