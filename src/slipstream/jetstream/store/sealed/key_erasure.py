"""The end of a sealed file: its data key is destroyed before its name goes.

A file carries its own data key, wrapped by the main key, and no other file has it. Once that place is overwritten and
synced nobody can open what was sealed under it, also not who has the main key and every block that the file system gave
back. The head of the file then says so and no more: a crash before the name is gone leaves a file that nobody takes for
a damaged one (`is_gone`).

A file that has another name keeps its key until that one goes: a power cut within a rename may have left both, and who
has made a second name has made it to keep the file.

In a sector of 512 bytes there is no half: a header of a segment, which is there twice, is whole in one of its places
unless both are overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import GONE_MAGIC, HEADER_BYTES, decode_header, is_gone
from slipstream.jetstream.store.sealed.boxes import BOX_HEAD, BOX_HEAD_BYTES, BOX_MAGIC
from slipstream.jetstream.store.sealed.keys import KeyRing
from slipstream.jetstream.store.sealed.parts import PART_MAGIC

__all__ = ["erase_keys"]


def erase_keys(disk: Disk, ring: KeyRing, frames: Sequence[str], boxes: Sequence[str]) -> None:
    """Destroy the data keys of these files, as they lie on `disk`: durable when this returns. Blocks.

    Args:
        disk: where they are, as they are.
        ring: forgets them as well.
        frames: segments and journals.
        boxes: files with the head of a box.

    Raises:
        FileNotFoundError: one of them is not there.
        OSError: the disk refused; the names of all of them must stay.
    """
    erased = []
    for path in frames:
        if disk.link_count(path) > 1:
            continue  # under its other name it is in use
        page = disk.read(path, 0, HEADER_BYTES)
        header = decode_header(page)
        if header is not None:
            ring.forget(header.wrapped)
        if page and not is_gone(page) and (header is None or header.cipher):
            disk.write(path, 0, GONE_MAGIC.ljust(len(page), b"\0"))
            erased.append(path)
    for path in boxes:
        if disk.link_count(path) > 1:
            continue
        head = disk.read(path, 0, BOX_HEAD_BYTES)
        if head[:8] in (BOX_MAGIC, PART_MAGIC):
            if len(head) == BOX_HEAD_BYTES:
                ring.forget(BOX_HEAD.unpack(head)[3])
            disk.write(path, 0, GONE_MAGIC.ljust(len(head), b"\0"))
            erased.append(path)
    if erased:
        disk.sync_many(erased)
