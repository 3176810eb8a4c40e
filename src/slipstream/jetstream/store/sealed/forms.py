"""Which files of a directory are encrypted, and which are not: seen in the files themselves, as anybody can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header, is_gone
from slipstream.jetstream.store.sealed.boxes import BOX_MAGIC
from slipstream.jetstream.store.sealed.disk import FileKind, file_kind
from slipstream.jetstream.store.sealed.frame_file import REDO
from slipstream.jetstream.store.sealed.parts import PART_MAGIC

__all__ = ["count_files", "is_sealed_file", "walk"]

_DEPTH_MAX = 5  # account, kind, stream, file; and one more for what an operator has moved


def count_files(disk: Disk, root: str, *, sealed: bool) -> tuple[int, list[str]]:
    """How many files below a directory can be encrypted, and which of them are not as they should be."""
    files, others = 0, []
    for directory, names in walk(disk, root, _DEPTH_MAX):
        for name in names:
            path = f"{directory}/{name}"
            with suppress(FileNotFoundError):  # it was removed meanwhile
                found = is_sealed_file(disk, path)
                files += found is not None
                if found is not None and found != sealed:
                    others.append(path)
    return files, others


def is_sealed_file(disk: Disk, path: str) -> bool | None:
    """Whether a file is encrypted; None if it holds nothing that could be."""
    kind = FileKind.BOX if path.endswith(REDO) else file_kind(path)
    if kind is FileKind.PLAIN:
        return None
    head = disk.read(path, 0, HEADER_BYTES)
    if not head.strip(b"\0") or is_gone(head):
        return None  # not written yet, or overwritten
    if kind is FileKind.FRAMES:
        header = decode_header(head)
        return header is not None and bool(header.cipher)
    return head[:8] == (BOX_MAGIC if kind is FileKind.BOX else PART_MAGIC)


def walk(disk: Disk, path: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """Directories and the names of the files in them."""
    names = disk.list_dir(path)
    below = [name for name in names if disk.is_dir(f"{path}/{name}")]
    yield path, [name for name in names if name not in set(below)]
    if depth:
        for name in below:
            yield from walk(disk, f"{path}/{name}", depth - 1)
