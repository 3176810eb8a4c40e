"""Segments of another replica, taken piece by piece into a directory of their own, which replaces the log's at the end.

    <directory>.import/   IMPORT: the manifest     <name>.part: on its way     <name>: whole, its digest holds
                          COMPLETE: it opens, and takes the place of <directory>, whatever happens

A process that dies goes on with the file it was at. From `COMPLETE` on the old log does not count: `replace_by_import`
ends what was begun, at the next start if need be. Before it the old log is untouched.

What this is not: the decision that a log may be replaced (`ReplicaLog.lacks`): nothing that the replica has
acknowledged and that may be committed must be in the old log alone.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.options import FileStoreOptions
from slipstream.jetstream.store.file.replica.segment_transfer import (
    DIGEST_BYTES,
    FileEntry,
    SegmentManifest,
    decode_manifest,
    manifest_id,
)
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header, encode_header
from slipstream.jetstream.store.file.store import FileStore
from slipstream.jetstream.store.limits import STORE_PIECE_BYTES
from slipstream.jetstream.store.packed.codecs import Codec

__all__ = ["SegmentImport", "is_complete", "remove_import", "replace_by_import"]

_MANIFEST: Final = "IMPORT"
_COMPLETE: Final = "COMPLETE"


class SegmentImport:
    """One copy that comes in. Every call blocks."""

    def __init__(self, disk: Disk, directory: str, manifest: bytes) -> None:
        """Begin, or go on where another process stopped with the same manifest.

        Raises:
            StorageFault: this is no manifest, or the disk refused.
        """
        found = decode_manifest(manifest)
        if found is None:
            raise StorageFault("this is no manifest of segments", path=directory)
        self.manifest: SegmentManifest = found
        self.id = manifest_id(manifest)
        """What the messages about it call it."""
        self._disk = disk
        self._directory = directory
        self._staging = f"{directory}.import"
        self._at = 0  # the file that comes in
        self._offset = 0
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        try:
            self._begin(manifest)
        except OSError as error:
            raise StorageFault(str(error), path=self._staging) from error

    @property
    def wanted(self) -> tuple[int, int, int] | None:
        """Number of the file, offset and length of the piece that comes next; None when all are there."""
        if self._at == len(self.manifest.files):
            return None
        return self._at, self._offset, min(STORE_PIECE_BYTES, self._entry.size - self._offset)

    def take(self, file: int, offset: int, content: bytes) -> bool:
        """A piece; False: it is not the one that comes next, and was dropped.

        Raises:
            StorageFault: the file is not what the manifest says, and is asked for once more; or the disk refused.
        """
        if self.wanted != (file, offset, len(content)):
            return False
        entry, path = self._entry, f"{self._staging}/{self._entry.name}"
        disk, part = self._disk, f"{path}.part"
        try:
            if offset == 0:
                if f"{entry.name}.part" in disk.list_dir(self._staging):
                    disk.remove(part)
                disk.create(part)
            disk.write(part, offset, content)
            self._digest.update(content)
            self._offset += len(content)
            if self._offset == entry.size:
                digest, self._digest, self._offset = self._digest.digest(), blake2b(digest_size=DIGEST_BYTES), 0
                if digest != entry.digest:
                    raise StorageFault(f"{entry.name} is not what was promised", path=part)
                disk.sync(part)
                if disk.seal.cipher:
                    self._seal(part, path)
                else:
                    disk.rename(part, path)
                disk.sync_dir(self._staging)
                self._skip_to(self._at + 1)
        except OSError as error:
            raise StorageFault(str(error), path=part) from error
        return True

    def finish(self, options: FileStoreOptions) -> None:
        """All files are there: see that they are a log, and decide that it counts from now on.

        Raises:
            StorageFault: they are not, and have been removed.
        """
        assert self.wanted is None
        try:
            self._check(options)
            write_whole_file(self._disk, f"{self._staging}/{_COMPLETE}", b"\n")
            self._disk.sync_dir(self._staging)
        except OSError as error:
            raise StorageFault(str(error), path=self._staging) from error

    def drop(self) -> None:
        """It is of no use any more.

        Raises:
            StorageFault: the disk refused.
        """
        try:
            remove_import(self._disk, self._directory)
        except OSError as error:
            raise StorageFault(str(error), path=self._staging) from error

    def _seal(self, part: str, path: str) -> None:
        """Put a whole file in its place under this server's key. Its frames may have no room for a seal of their own.

        So a segment is packed, as one is that was written before encryption was turned on.
        """
        disk, seal = self._disk, self._disk.seal
        data = disk.read(part, 0, self._entry.size)
        header = decode_header(data[:HEADER_BYTES]) if path.endswith(".seg") else None
        if header is not None:
            header = replace(header, cipher=seal.cipher, key_id=seal.key_id, codec=int(Codec.STORED))
            data = encode_header(header) + data[HEADER_BYTES:]
        write_whole_file(disk, path, data)
        disk.remove(part)

    @property
    def _entry(self) -> FileEntry:
        return self.manifest.files[self._at]

    def _begin(self, manifest: bytes) -> None:
        disk, staging = self._disk, self._staging
        path = f"{staging}/{_MANIFEST}"
        if _COMPLETE in disk.list_dir(staging):
            raise StorageFault("a log is complete, and has not taken its place yet", path=staging)
        if _MANIFEST not in disk.list_dir(staging) or disk.read(path, 0, disk.size(path)) != manifest:
            remove_import(disk, self._directory)
            disk.make_dir(staging)
            disk.sync_dir(staging.rsplit("/", 1)[0])
            write_whole_file(disk, path, manifest)
            disk.sync_dir(staging)
        self._skip_to(0)

    def _skip_to(self, file: int) -> None:
        """Go on with this file, or with the first behind it that is not there."""
        files, present = self.manifest.files, set(self._disk.list_dir(self._staging))
        while file < len(files) and files[file].name in present:
            file += 1
        self._at = file

    def _check(self, options: FileStoreOptions) -> None:
        manifest = self.manifest
        try:
            store = FileStore.open(self._disk, self._staging, options, committed=manifest.frame)
            assert store.replica is not None
            last = (store.replica.last_index, store.replica.terms()[-1][1])
            if last != (manifest.frame, manifest.term) or store.log.uid != manifest.uid:
                raise StorageFault("the log does not end where the manifest says", path=self._staging)
            store.let_go()
        except StorageFault:
            remove_import(self._disk, self._directory)
            raise


def is_complete(disk: Disk, directory: str) -> bool:
    """Whether a whole log lies beside the one in this directory. Blocks."""
    return _COMPLETE in disk.list_dir(f"{directory}.import")


def replace_by_import(disk: Disk, directory: str) -> bool:
    """If a whole log lies beside the one in this directory, put it in its place; whether one did. Blocks.

    Raises:
        OSError: the disk refused; it is tried again at the next call.
    """
    staging = f"{directory}.import"
    found = is_complete(disk, directory)
    if found:
        if disk.is_dir(directory):
            _remove_tree(disk, directory)
        disk.sync_dir(directory.rsplit("/", 1)[0])
        disk.rename(staging, directory)
        disk.sync_dir(directory.rsplit("/", 1)[0])
    left = [name for name in (_COMPLETE, _MANIFEST) if name in disk.list_dir(directory)]
    for name in left:  # in this order: what is left without the first means nothing
        disk.remove(f"{directory}/{name}")
    if left:
        disk.sync_dir(directory)
    return found


def remove_import(disk: Disk, directory: str) -> None:
    """Forget what came in for this directory and is not complete. Blocks.

    Raises:
        OSError: the disk refused.
    """
    staging = f"{directory}.import"
    if disk.is_dir(staging):
        marks = [name for name in (_COMPLETE, _MANIFEST) if name in disk.list_dir(staging)]
        for name in marks:  # what is left without them means nothing, whatever it is
            disk.remove(f"{staging}/{name}")
        if marks:
            disk.sync_dir(staging)
        _remove_tree(disk, staging)
        disk.sync_dir(directory.rsplit("/", 1)[0])


def _remove_tree(disk: Disk, directory: str) -> None:
    disk.remove_many([f"{directory}/{name}" for name in disk.list_dir(directory)])
    disk.remove_dir(directory)
