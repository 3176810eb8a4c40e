"""What a storage directory says about its encryption, and whether the keys at hand fit.

    <root>/ENCRYPTION      twice, 512 bytes apart: magic, state, cipher, key id, wrapped key, checksum, proof

The wrapped key opens nothing: it is there to tell the right main key from a wrong one before anything is touched. If
the file is gone, the headers of segments tell the same, and it is made again. While encryption is turned on or off the
state says so, with a proof that only who has the key can make: else anybody could let plain files be believed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from cryptography.exceptions import InvalidTag

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, decode_header
from slipstream.jetstream.store.sealed.keys import TAG_BYTES, AtRestCipher, DataKey, KeyRing, MainKey
from slipstream.kernels.log.record import crc32c

__all__ = [
    "MARKER",
    "KeyPlan",
    "MarkState",
    "StoreMark",
    "check_keys",
    "mark_of",
    "read_mark",
    "remove_mark",
    "write_mark",
]

MARKER: Final = "ENCRYPTION"
_MAGIC: Final = b"SLIPENC1"
_COPY: Final = 512
_MARK: Final = struct.Struct("<8sIII64s")
_CRC: Final = struct.Struct("<I")
_NONCE: Final = bytes(12)


class MarkState(IntEnum):
    """What the files of a directory are."""

    SEALED = 1
    ENCRYPTING = 2
    """Some are plain still."""
    DECRYPTING = 3
    """Some are sealed still."""
    UNTOLD = 4
    """Both kinds are there and nothing says why."""


@dataclass(frozen=True, slots=True)
class StoreMark:
    """How the files of a directory are encrypted."""

    cipher: int
    key_id: int
    wrapped: bytes
    state: int = MarkState.SEALED
    packed: bytes = b""
    proof: bytes = b""

    def opens_with(self, key: MainKey | None) -> bool:
        """Whether this is the main key."""
        if key is None or key.id != self.key_id or self.cipher not in (AtRestCipher.AES, AtRestCipher.CHACHA):
            return False
        return key.unwrap(AtRestCipher(self.cipher), self.wrapped) is not None

    def proven_state(self, key: MainKey) -> MarkState:
        """The state, as far as one may believe it; `key` opens this."""
        if self.state == MarkState.UNTOLD:
            return MarkState.UNTOLD
        secret = key.unwrap(AtRestCipher(self.cipher), self.wrapped)
        if self.state in (MarkState.ENCRYPTING, MarkState.DECRYPTING) and secret is not None:
            data_key = DataKey(secret, AtRestCipher(self.cipher), self.key_id, self.wrapped)
            try:
                data_key.derive(b"state").decrypt(_NONCE, self.proof, self.packed)
                return MarkState(self.state)
            except InvalidTag:
                pass
        return MarkState.SEALED


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """What has to be done with a directory before, or while, it is used."""

    opener: MainKey | None = None
    """The key of what is there; None if nothing is encrypted."""
    rotates: bool = False
    """That is the previous one: data keys are to be wrapped anew."""
    state: MarkState = MarkState.SEALED
    """Where it goes: `ENCRYPTING` or `DECRYPTING` if files have to be written anew."""


def read_mark(disk: Disk, root: str) -> StoreMark | None:
    """What the file says, or segments where there is no such file; None if nothing here is encrypted."""
    if MARKER in disk.list_dir(root):
        data = disk.read(f"{root}/{MARKER}", 0, 2 * _COPY)
        for at in (0, _COPY):
            packed, rest = data[at : at + _MARK.size], data[at + _MARK.size : at + _COPY]
            if len(rest) >= _CRC.size and packed[:8] == _MAGIC and _CRC.unpack_from(rest)[0] == crc32c(packed):
                _, state, cipher, key_id, wrapped = _MARK.unpack(packed)
                return StoreMark(cipher, key_id, wrapped, state, packed, rest[_CRC.size : _CRC.size + TAG_BYTES])
    return _from_segments(disk, root)


def write_mark(disk: Disk, root: str, ring: KeyRing, state: MarkState = MarkState.SEALED) -> None:
    """Say that what is here is encrypted with the current key, or is on the way to or from that."""
    key = ring.make()
    packed = _MARK.pack(_MAGIC, state, key.cipher, key.key_id, key.wrapped)
    proof = key.derive(b"state").encrypt(_NONCE, b"", packed) if state != MarkState.SEALED else b""
    copy = (packed + _CRC.pack(crc32c(packed)) + proof).ljust(_COPY, b"\0")
    write_whole_file(disk, f"{root}/{MARKER}", copy + copy)
    disk.sync_dir(root)


def remove_mark(disk: Disk, root: str) -> None:
    """Nothing here is encrypted any more."""
    if MARKER in disk.list_dir(root):
        disk.remove(f"{root}/{MARKER}")
        disk.sync_dir(root)


def check_keys(
    disk: Disk,
    root: str,
    current: MainKey | None,
    previous: MainKey | None = None,
    *,
    has_streams: bool,
    decrypts: bool = False,
) -> KeyPlan:
    """What is to be done with a directory, given these keys. Changes nothing.

    Args:
        disk: where it is, as it is.
        root: the directory.
        current: the key that files are to have; if `decrypts`, one that they may have.
        previous: one that they may have.
        has_streams: whether there is anything in it.
        decrypts: files are to be plain.

    Raises:
        StorageFault: it cannot be used with these keys; the text says what to do.
    """
    mark = read_mark(disk, root)
    if mark is None:
        return KeyPlan(state=MarkState.ENCRYPTING if current and has_streams and not decrypts else MarkState.SEALED)
    if current is None and previous is None:
        raise StorageFault(
            f"the streams in {root} are encrypted and the configuration has no key: nothing was changed; "
            "give it as `key`, `key_file` or `key_command` of `jetstream`"
        )
    opener = next((key for key in (current, previous) if key is not None and mark.opens_with(key)), None)
    if opener is None:
        raise StorageFault(
            f"the streams in {root} are encrypted with another key than the configuration has: nothing was changed"
        )
    if decrypts:
        return KeyPlan(opener, state=MarkState.DECRYPTING)
    state = mark.proven_state(opener)
    if state is MarkState.UNTOLD:
        raise StorageFault(
            f"some streams in {root} are encrypted, some are not, and the file {MARKER}, which says why, is gone: "
            "nothing was changed; put it back, or decrypt them all with `decrypt: true`"
        )
    going_on = MarkState.SEALED if state is MarkState.SEALED else MarkState.ENCRYPTING
    return KeyPlan(opener, rotates=opener is not current, state=going_on)


def _from_segments(disk: Disk, root: str) -> StoreMark | None:
    accounts = _directories(disk, root)
    return mark_of(disk, [stream for account in accounts for stream in _directories(disk, f"{account}/streams")])


def mark_of(disk: Disk, streams: Iterable[str]) -> StoreMark | None:
    """What the segments in these directories say; None if none of them is encrypted."""
    sealed: SegmentHeader | None = None
    plain = False
    for header in _headers(disk, streams):
        if header.cipher:
            sealed = sealed or header
        else:
            plain = True
        if plain and sealed is not None:
            break
    if sealed is None:
        return None
    state = MarkState.UNTOLD if plain else MarkState.SEALED
    return StoreMark(sealed.cipher, sealed.key_id, sealed.wrapped, state)


def _headers(disk: Disk, streams: Iterable[str]) -> Iterator[SegmentHeader]:
    for stream in streams:
        for name in disk.list_dir(stream):
            header = decode_header(disk.read(f"{stream}/{name}", 0, HEADER_BYTES)) if name.endswith(".seg") else None
            if header is not None:
                yield header


def _directories(disk: Disk, path: str) -> list[str]:
    found = [f"{path}/{name}" for name in disk.list_dir(path)] if disk.is_dir(path) else []
    return [one for one in found if disk.is_dir(one)]
