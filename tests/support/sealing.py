"""Stores with encryption at rest in tests that were written without a thought of it.

A test module asks for both forms with one line:

    at_rest = both_forms()

Then every store that is made or opened in it stands on a `SealedDisk` in the second round. What looks at raw files, or
says how much one flipped bit may cost, asks `is_sealed()`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from slipstream.jetstream.account.directory import DirectoryStores
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey

SECRET = b"the main key of the tests, 32 bytes long"
_sealed = [False]
_cipher = [AtRestCipher.AES]


def is_sealed() -> bool:
    """Whether stores are encrypted now."""
    return _sealed[0]


def ring(seed: int = 1, *, secret: bytes = SECRET, cipher: AtRestCipher = AtRestCipher.AES, **given: Any) -> KeyRing:
    """Keys, with randomness that repeats itself."""
    return KeyRing(MainKey(secret, cipher), given.pop("previous", None), random.Random(seed).randbytes, **given)


_made: list[tuple[Disk, SealedDisk]] = []  # the last one
_seeds = iter(range(1, 1 << 62))


def sealed_disk(disk: Disk, **given: Any) -> SealedDisk:
    """A disk as a new process sees it: what is random is not what it was before."""
    return SealedDisk(disk, ring(next(_seeds), **{"cipher": _cipher[0], **given}))


def as_wanted(disk: Disk, *, fresh: bool = True) -> Disk:
    """The disk for a store, in the form of this round; not `fresh`: the one that other stores have there."""
    if not is_sealed() or isinstance(disk, SealedDisk):
        return disk
    if fresh or not _made or _made[0][0] is not disk:
        _made[:] = [(disk, sealed_disk(disk))]
    return _made[0][1]


@contextmanager
def sealed_stores(cipher: AtRestCipher = AtRestCipher.AES) -> Iterator[None]:
    """Every store that is made or opened in here is encrypted."""
    patch = pytest.MonkeyPatch()
    create, open_, init = FileStore.create.__func__, FileStore.open.__func__, DirectoryStores.__init__  # type: ignore[attr-defined]

    def make(cls: Any, disk: Disk, *args: Any, **given: Any) -> FileStore:
        made: FileStore = create(cls, as_wanted(disk, fresh=False), *args, **given)
        return made

    def reopen(cls: Any, disk: Disk, *args: Any, **given: Any) -> FileStore:
        opened: FileStore = open_(cls, as_wanted(disk), *args, **given)
        return opened

    def stores(self: DirectoryStores, disk: Disk, *args: Any, **given: Any) -> None:
        init(self, as_wanted(disk), *args, **given)

    patch.setattr(FileStore, "create", classmethod(make))
    patch.setattr(FileStore, "open", classmethod(reopen))
    patch.setattr(DirectoryStores, "__init__", stores)
    _sealed[0], _cipher[0] = True, cipher
    try:
        yield
    finally:
        _sealed[0], _cipher[0] = False, AtRestCipher.AES
        patch.undo()


@contextmanager
def watched_disks(looked_at: Callable[[Disk], None]) -> Iterator[None]:
    """Each disk is shown, as it is, before a store is opened on it."""
    patch = pytest.MonkeyPatch()
    open_, init = FileStore.open, DirectoryStores.__init__

    def reopen(_cls: Any, disk: Disk, *args: Any, **given: Any) -> FileStore:
        if not isinstance(disk, SealedDisk):
            looked_at(disk)
        return open_(disk, *args, **given)

    def stores(self: DirectoryStores, disk: Disk, *args: Any, **given: Any) -> None:
        if not isinstance(disk, SealedDisk):
            looked_at(disk)
        init(self, disk, *args, **given)

    patch.setattr(FileStore, "open", classmethod(reopen))
    patch.setattr(DirectoryStores, "__init__", stores)
    try:
        yield
    finally:
        patch.undo()


def both_forms() -> Callable[..., Any]:
    """A fixture for a module: all its tests, plain and sealed."""

    @pytest.fixture(scope="module", params=["plain", "sealed"], autouse=True)
    def at_rest(request: pytest.FixtureRequest) -> Iterator[None]:
        if request.param == "plain":
            yield
        else:
            with sealed_stores():
                yield

    return at_rest
