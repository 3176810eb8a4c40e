"""Another main key: every data key that the one before has wrapped is wrapped anew. What it seals stays as it is.

Each file carries its own wrapped key, so a rotation that is cut short leaves files of both keys, all of them readable
with the two, and the next start goes on. The mark of the directory is written last.

What this is not: another data key. Who had the old main key and an old copy of a file keeps what he had: where that
matters, the streams are backed up and restored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header, encode_header
from slipstream.jetstream.store.sealed.boxes import (
    BOX_HEAD,
    BOX_HEAD_BYTES,
    BOX_MAGIC,
    open_box,
    read_box_head,
    seal_box,
)
from slipstream.jetstream.store.sealed.disk import FileKind, bare_name, file_kind
from slipstream.jetstream.store.sealed.forms import walk
from slipstream.jetstream.store.sealed.frame_file import REDO
from slipstream.jetstream.store.sealed.keys import SEED_BYTES, DataKey, KeyRing, MainKey
from slipstream.jetstream.store.sealed.marker import MarkState, write_mark
from slipstream.jetstream.store.sealed.parts import PART_MAGIC

__all__ = ["rotate"]

_HALF: Final = HEADER_BYTES // 2
_BATCH: Final = 256  # headers that wait for one sync
_DEPTH_MAX: Final = 5  # account, kind, stream, file; and one more for what an operator has moved


def rotate(
    disk: Disk,
    root: str,
    ring: KeyRing,
    previous: MainKey,
    accounts: Iterable[str],
    state: MarkState = MarkState.SEALED,
) -> int:
    """Wrap all data keys in a directory under the current key of `ring`, which has the previous one too. Blocks.

    Args:
        disk: where the files are, as they are.
        root: the directory.
        ring: both keys.
        previous: the key before.
        accounts: names that a directory may belong to, where it does not tell itself.
        state: what the mark of the directory is to say.

    Returns:
        How many files were changed.

    Raises:
        StorageFault: a file is of neither key; those before it were changed, and are readable.
        OSError: the disk refused.
    """
    return _Rotation(disk, root, ring, previous, accounts).run(state)


class _Rotation:
    def __init__(self, disk: Disk, root: str, ring: KeyRing, previous: MainKey, accounts: Iterable[str]) -> None:
        assert ring.current is not None
        self._disk = disk
        self._root = root
        self._ring = ring
        self._current = ring.current
        self._names = {previous.directory_name(name): name for name in accounts}
        self._rewrapped: dict[bytes, DataKey] = {}
        self._headers: list[tuple[str, bytes]] = []
        self._changed = 0

    def run(self, state: MarkState) -> int:
        for directory, names in walk(self._disk, self._root, _DEPTH_MAX):
            before = self._changed
            for name in names:
                self._file(f"{directory}/{name}")
            if self._changed > before:
                self._disk.sync_dir(directory)
        self._write_headers()
        for name in self._disk.list_dir(self._root):
            if self._disk.is_dir(f"{self._root}/{name}"):
                self._rename(name)
        write_mark(self._disk, self._root, self._ring, state)
        return self._changed

    def _file(self, path: str) -> None:
        kind = FileKind.BOX if path.endswith(REDO) else file_kind(path)
        if path.endswith(".tmp"):
            return  # it was never finished, and goes when the stream is opened
        if kind is FileKind.FRAMES:
            self._frames(path)
        elif kind is FileKind.BOX:
            self._box(path)
        elif kind is FileKind.PART:
            self._part(path)

    def _frames(self, path: str) -> None:
        header = decode_header(self._disk.read(path, 0, HEADER_BYTES))
        if header is None or not header.cipher or header.key_id == self._current.id:
            return
        key = self._key(self._ring.open(header.cipher, header.key_id, header.wrapped), path)
        self._headers.append((path, encode_header(replace(header, key_id=key.key_id), key.wrapped)))
        self._changed += 1
        if len(self._headers) >= _BATCH:
            self._write_headers()

    def _write_headers(self) -> None:
        """One copy of each header, then the other: there is always one that is whole."""
        for at in (_HALF, 0):
            for path, page in self._headers:
                self._disk.write(path, at, page[at : at + _HALF])
            self._disk.sync_many([path for path, _ in self._headers])
        self._headers = []

    def _box(self, path: str) -> None:
        data = self._disk.read(path, 0, self._disk.size(path))
        found, content = read_box_head(self._ring, data, BOX_MAGIC), open_box(self._ring, bare_name(path), data)
        if found is None or content is None or found[0].key_id == self._current.id:
            return  # damaged ones are of no use under any key: there is another slot, or it is made anew
        sealed = seal_box(self._key(found[0], path), self._ring.noise(SEED_BYTES), bare_name(path), content)
        write_whole_file(self._disk, path, sealed)
        self._changed += 1

    def _part(self, path: str) -> None:
        data = self._disk.read(path, 0, self._disk.size(path))
        found = read_box_head(self._ring, data, PART_MAGIC)
        if found is None or found[0].key_id == self._current.id:
            return
        key = self._key(found[0], path)
        head = BOX_HEAD.pack(PART_MAGIC, key.cipher, key.key_id, key.wrapped, found[1])
        write_whole_file(self._disk, path, head + data[BOX_HEAD_BYTES:])
        self._changed += 1

    def _key(self, key: DataKey | None, path: str) -> DataKey:
        if key is None:
            raise StorageFault("encrypted with neither key", path=path)
        known = self._rewrapped.get(key.wrapped)
        if known is None:
            known = self._rewrapped[key.wrapped] = key.wrapped_by(self._current, self._ring.noise(SEED_BYTES))
        return known

    def _rename(self, directory: str) -> None:
        """An account's directory is called by the key as well."""
        path = f"{self._root}/{directory}/ACCOUNT"
        name = self._names.get(directory)
        if "ACCOUNT" in self._disk.list_dir(f"{self._root}/{directory}"):
            content = open_box(self._ring, "ACCOUNT", self._disk.read(path, 0, self._disk.size(path)))
            name = content.decode() if content is not None else name
        target = self._current.directory_name(name) if name is not None else directory
        if target != directory:
            self._disk.rename(f"{self._root}/{directory}", f"{self._root}/{target}")
            self._disk.sync_dir(self._root)
