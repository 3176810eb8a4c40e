"""The streams of one account on disk: a directory each, named by a random identifier, never by the stream.

    <root>/streams/<32 hex digits>/     a stream; its name is in its stored configuration
                               DELETED  in there: removal was decided, only files are left to go
    <root>/quarantine/<name>[.n]        what could not be opened, moved aside; an operator decides about it
    <root>/unfinished/<name>[.n]        a creation that was cut short before anybody was told of the stream

Nothing is deleted here except what a user asked to delete. What is not a stream, holds nothing that can be used, or
claims a name that another directory has, is moved aside and reported. A stream that cannot be opened for another reason
(the disk refuses to read, or a mistake in here) stays where it is, and is offline until the next start.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.config.chained import is_chained
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.stored import from_stored, to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.ports import Recovered
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.file.disk.disk import Disk, make_dirs
from slipstream.jetstream.store.file.manifest import read_manifest
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.open_segment import scan_segment
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.jetstream.store.values import StoreUnavailable
from slipstream.kernels.log.record import CONFIG

__all__ = ["ACCOUNT_FILE", "DirectoryStores", "account_directory", "account_of"]

ACCOUNT_FILE: Final = "ACCOUNT"
"""In the directory of an account whose name does not say whose it is."""

_STREAM_DIRECTORY = re.compile(r"[0-9a-f]{32}")
_DELETED: Final = "DELETED"
_SAFE = re.compile(r"[A-Za-z0-9_$-]")


def account_directory(account: str) -> str:
    """A file name for an account: letters and digits as they are, anything else as hexadecimal bytes."""
    return "".join(
        char if _SAFE.fullmatch(char) else "".join(f"%{byte:02X}" for byte in char.encode()) for char in account
    )


def account_of(directory: str) -> str:
    """The account whose files have this name."""
    from urllib.parse import unquote  # only where there are streams already

    return unquote(directory)


class DirectoryStores:
    """Implements `slipstream.jetstream.ports.StreamStores` over a disk."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        *,
        options: Callable[[StreamConfig], FileStoreOptions],
        new_uid: Callable[[], bytes],
        log: Callable[[str, str], None],
        label: bytes = b"",
    ) -> None:
        """Keep streams under `root`.

        Args:
            disk: where files are.
            root: directory of the account.
            options: how to store a stream; asked before its store is made or opened (with defaults in that case), and
                again when its configuration is known.
            new_uid: 16 random bytes.
            log: as `Ports.log`.
            label: whose directory it is, if its name does not say so.
        """
        self._disk = disk
        self._root = root
        self._options = options
        self._new_uid = new_uid
        self._log = log
        self._label = label
        self._directories: dict[int, str] = {}  # id of an open file store → its directory
        self._settled = False  # whether the directory of streams is known to survive a power cut
        self._unopened: dict[str, str] = {}  # see `unopened`

    def create(self, config: StreamConfig, created_ns: int) -> Store:
        """See `StreamStores.create`."""
        stored = to_stored(config, created_ns)
        options = self._options(config)
        first_seq = max(config.first_seq, 1)
        if config.storage is StorageType.MEMORY:
            return MemoryStore(stored, random64=options.random64, first_seq=first_seq)
        uid = self._new_uid()
        directory = f"{self._root}/streams/{uid.hex()}"
        try:
            self._settle()
            store = FileStore.create(
                self._disk,
                directory,
                uid=uid,
                config=stored,
                options=options,
                first_seq=first_seq,
                chained=is_chained(config),
            )
        except StorageFault:
            self._take_back(directory)
            raise
        self._directories[id(store)] = directory
        return store

    def destroy(self, store: Store) -> None:
        """See `StreamStores.destroy`."""
        directory = self._directories.pop(id(store), None)
        if directory is None:
            store.destroy()
            return
        try:
            self._disk.create(f"{directory}/{_DELETED}")
            self._disk.sync_dir(directory)
            store.close()
            self._remove(directory)
        except OSError as error:
            raise StorageFault(str(error), path=directory) from error

    def detach(self, store: Store) -> str | None:
        """See `StreamStores.detach`."""
        return self._directories.pop(id(store), None)

    def recover(self) -> list[Recovered]:
        """See `StreamStores.recover`."""
        found: dict[str, Recovered] = {}
        streams = f"{self._root}/streams"
        for name in self._disk.list_dir(streams):
            directory = f"{streams}/{name}"
            try:
                recovered = self._open(directory, name)
            except Exception as error:
                # One stream's trouble is not the others'.
                self._unopened[self._name_of(directory)] = str(error) or type(error).__name__
                continue
            if recovered is None:
                continue
            twin = found.get(recovered.config.name)
            if twin is not None and _age(twin) >= _age(recovered):
                self._set_aside(recovered.store, f"a newer directory holds stream '{recovered.config.name}'")
                continue
            if twin is not None:
                self._set_aside(twin.store, f"a newer directory holds stream '{twin.config.name}'")
            found[recovered.config.name] = recovered
        return [found[name] for name in sorted(found)]

    def unopened(self) -> dict[str, str]:
        """See `StreamStores.unopened`."""
        return dict(self._unopened)

    def quarantined(self) -> list[str]:
        """See `StreamStores.quarantined`."""
        place = f"{self._root}/quarantine"
        return [f"{place}/{name}" for name in self._disk.list_dir(place)]

    def _settle(self) -> None:
        """Make the directories above the streams, once: a stream is in a place that stays."""
        if self._settled:
            return
        streams, above = f"{self._root}/streams", self._root.rsplit("/", 1)[0]
        try:
            if not self._disk.is_dir(self._root):
                # The first stream of the account. What is above was made at some start, perhaps just now, and a start
                # does not wait for disks. Not every directory up there is ours to open.
                at = above
                while at:
                    at = at.rpartition("/")[0]
                    with suppress(PermissionError):
                        self._disk.sync_dir(at)
            make_dirs(self._disk, streams, below=above)
            if self._label and ACCOUNT_FILE not in self._disk.list_dir(self._root):
                write_whole_file(self._disk, f"{self._root}/{ACCOUNT_FILE}", self._label)
                self._disk.sync_dir(self._root)
        except OSError as error:
            raise StoreUnavailable(str(error), path=streams) from error
        self._settled = True

    def _take_back(self, directory: str) -> None:
        """Remove what a failed creation left. If that fails too, a later start finds a stream nobody was told of."""
        try:
            if self._disk.list_dir(directory):
                self._disk.create(f"{directory}/{_DELETED}")
                self._disk.sync_dir(directory)
                self._remove(directory)
        except OSError as error:
            self._log("WRN", f"{directory} was not made and could not be removed: {error}")

    def _open(self, directory: str, name: str) -> Recovered | None:
        if not _STREAM_DIRECTORY.fullmatch(name) or not self._disk.is_dir(directory):
            self._move(directory, "quarantine", "it is not a stream")
            return None
        entries = self._disk.list_dir(directory)
        if not entries:
            self._disk.remove_dir(directory)
            return None
        if _DELETED in entries:
            self._remove(directory)
            return None
        try:
            store = FileStore.open(self._disk, directory, self._options(StreamConfig()))
            config, created_ns = from_stored(store.config)
            wanted = self._options(config)
            store.set_segment_bytes(wanted.segment_bytes)
            store.compress(wanted.codec)
        except (StorageFault, JsonError) as error:
            if isinstance(error.__cause__, OSError):
                raise  # it may be readable the next time
            # Making a stream ends with its first segment, so without a whole one nobody was told that it exists. The
            # manifest comes soon after: where there is one, there was a first segment.
            begun = any(entry.endswith(".seg") for entry in entries) and len(entries) > 1
            self._move(directory, "quarantine" if begun else "unfinished", str(error))
            return None
        if is_chained(config) and store.chain_head is None:
            self._log("ERR", f"{directory} holds stream '{config.name}', whose hash chain is gone: verify it")
        self._directories[id(store)] = directory
        return Recovered(store, created_ns, config)

    def _name_of(self, directory: str) -> str:
        """What a stream that cannot be opened is called; what its directory is called, if that cannot be told."""
        try:
            manifest = read_manifest(self._disk, directory).manifest
            if manifest is not None:
                return from_stored(manifest.config)[0].name
            for name in self._disk.list_dir(directory):
                if name.endswith(".seg"):
                    path = f"{directory}/{name}"
                    header = decode_header(self._disk.read(path, 0, HEADER_BYTES))
                    scan = scan_segment(self._disk.read(path, 0, self._disk.size(path)), header) if header else None
                    for kind, _seq, _ts, _key, payload in scan.controls if scan else ():
                        if kind == CONFIG:
                            return from_stored(payload)[0].name
        except Exception:
            # Whatever it is, it is why the stream is not opened.
            self._log("DBG", f"{directory} does not tell its stream's name")
        return directory.rsplit("/", 1)[1]

    def _set_aside(self, store: Store, reason: str) -> None:
        store.close()
        self._move(self._directories.pop(id(store)), "quarantine", reason)

    def _move(self, directory: str, where: str, reason: str) -> None:
        place = f"{self._root}/{where}"
        make_dirs(self._disk, place, below=self._root)
        taken = set(self._disk.list_dir(place))
        name = directory.rsplit("/", 1)[1]
        target, number = name, 0
        while target in taken:
            number += 1
            target = f"{name}.{number}"
        if self._disk.is_dir(directory):
            make_dirs(self._disk, f"{place}/{target}", below=place)
            for entry in self._disk.list_dir(directory):
                self._disk.rename(f"{directory}/{entry}", f"{place}/{target}/{entry}")
            self._disk.sync_dir(f"{place}/{target}")
            self._disk.remove_dir(directory)
        else:
            self._disk.rename(directory, f"{place}/{target}")
        self._disk.sync_dir(place)
        self._log("WRN", f"{directory} could not be used and was moved to {place}/{target}: {reason}")

    def _remove(self, directory: str) -> None:
        """Remove all files, the mark that this was decided last, then the directory."""
        names = self._disk.list_dir(directory)
        self._disk.remove_many([f"{directory}/{name}" for name in names if name != _DELETED])
        self._disk.sync_dir(directory)
        self._disk.remove(f"{directory}/{_DELETED}")
        self._disk.sync_dir(directory)
        self._disk.remove_dir(directory)
        self._disk.sync_dir(directory.rsplit("/", 1)[0])


def _age(found: Recovered) -> tuple[int, int]:
    """Which of two streams of a name is the later one; the clock may have stood still between them."""
    return found.created_ns, found.store.last_seq
