"""What a storage directory says about its encryption, and whether the keys at hand fit.

    <root>/ENCRYPTION      twice, 512 bytes apart: magic, state, cipher, key id, wrapped key, checksum

The wrapped key opens nothing: it is there to tell the right main key from a wrong one before anything is touched. If
the file is gone, the header of any segment tells the same, and it is made again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk import Disk
from slipstream.jetstream.store.file.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.kernels.log.record import crc32c

__all__ = ["MARKER", "StoreMark", "check_keys", "read_mark", "write_mark"]

MARKER: Final = "ENCRYPTION"
SEALED: Final = 1
_MAGIC: Final = b"SLIPENC1"
_COPY: Final = 512
_MARK: Final = struct.Struct("<8sIII64s")
_CRC: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class StoreMark:
    """How the files of a directory are encrypted."""

    cipher: int
    key_id: int
    wrapped: bytes
    state: int = SEALED

    def opens_with(self, key: MainKey | None) -> bool:
        """Whether this is the main key."""
        if key is None or key.id != self.key_id or self.cipher not in (AtRestCipher.AES, AtRestCipher.CHACHA):
            return False
        return key.unwrap(AtRestCipher(self.cipher), self.wrapped) is not None


def read_mark(disk: Disk, root: str) -> StoreMark | None:
    """What the file says, or a segment where there is no such file; None if nothing here is encrypted."""
    if MARKER in disk.list_dir(root):
        data = disk.read(f"{root}/{MARKER}", 0, 2 * _COPY)
        for at in (0, _COPY):
            packed, stated = data[at : at + _MARK.size], data[at + _MARK.size : at + _MARK.size + _CRC.size]
            if len(stated) == _CRC.size and packed[:8] == _MAGIC and _CRC.unpack(stated)[0] == crc32c(packed):
                _, state, cipher, key_id, wrapped = _MARK.unpack(packed)
                return StoreMark(cipher, key_id, wrapped, state)
    return _from_a_segment(disk, root)


def write_mark(disk: Disk, root: str, ring: KeyRing) -> None:
    """Say that what is here is encrypted with the current key."""
    key = ring.make()
    packed = _MARK.pack(_MAGIC, SEALED, key.cipher, key.key_id, key.wrapped)
    copy = (packed + _CRC.pack(crc32c(packed))).ljust(_COPY, b"\0")
    path = f"{root}/{MARKER}"
    if f"{MARKER}.tmp" in disk.list_dir(root):
        disk.remove(path + ".tmp")
    disk.create(path + ".tmp")
    disk.write(path + ".tmp", 0, copy + copy)
    disk.sync(path + ".tmp")
    disk.rename(path + ".tmp", path)
    disk.sync_dir(root)


def check_keys(
    disk: Disk, root: str, current: MainKey | None, previous: MainKey | None = None, *, has_streams: bool
) -> bool:
    """Whether the streams in a directory are still under the previous key. Changes nothing.

    Raises:
        StorageFault: they cannot be used with these keys; the text says what to do.
    """
    mark = read_mark(disk, root)
    if mark is None:
        if current is not None and has_streams:
            raise StorageFault(
                f"the streams in {root} are not encrypted and the configuration has an encryption key: nothing was "
                "changed; start without the key, or with another store directory"
            )
        return False
    if current is None:
        raise StorageFault(
            f"the streams in {root} are encrypted and the configuration has no key: nothing was changed; "
            "give it as `key`, `key_file` or `key_command` of `jetstream`"
        )
    if mark.opens_with(current):
        return False
    if not mark.opens_with(previous):
        raise StorageFault(
            f"the streams in {root} are encrypted with another key than the configuration has: nothing was changed"
        )
    return True


def _from_a_segment(disk: Disk, root: str) -> StoreMark | None:
    for account in _directories(disk, root):
        for stream in _directories(disk, f"{account}/streams"):
            for name in disk.list_dir(stream):
                if name.endswith(".seg"):
                    header = decode_header(disk.read(f"{stream}/{name}", 0, HEADER_BYTES))
                    if header is not None:
                        return StoreMark(header.cipher, header.key_id, header.wrapped) if header.cipher else None
    return None


def _directories(disk: Disk, path: str) -> list[str]:
    found = [f"{path}/{name}" for name in disk.list_dir(path)] if disk.is_dir(path) else []
    return [one for one in found if disk.is_dir(one)]
