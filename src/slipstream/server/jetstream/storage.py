"""The directory of the streams: which one, that nobody else uses it, and how much may be put there.

    <store_dir>/jetstream/.lock             one server at a time
    <store_dir>/jetstream/<account>/...     see `slipstream.jetstream.account.directory`

Without a configured directory it is `nats` below the system's temporary one. Where another server is using that, it is
`nats-2`, `nats-3` and so on: test harnesses start several servers without giving them a place, and a server that comes
back while the others run finds its own again. A configured directory is never replaced by another.

What this is not: what is in there. It is imported at every start, so it knows nothing of streams.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Final

from slipstream.errors import StorageFault
from slipstream.server.jetstream.foreign_store import refuse_foreign_store
from slipstream.server.limits import JETSTREAM_DISK_SHARE, JETSTREAM_MEMORY_SHARE
from slipstream.server.memory import memory_bytes
from slipstream.version import API_LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from slipstream.config.jetstream_options import JetStreamOptions

__all__ = ["CLUSTER_DIRECTORY", "Storage", "announce", "disk_share", "memory_share", "take_storage"]

CLUSTER_DIRECTORY: Final = "+cluster"
"""Of a server of a cluster, beside the directories of accounts, whose names have no such character."""
_DEFAULT = "nats"
_DEFAULTS_MAX = 1000  # servers on one machine that were given no directory


class InUse(StorageFault):
    """Another server has the directory."""


class Storage:
    """A directory that belongs to this server until it is closed."""

    def __init__(self, directory: str, lock: int) -> None:
        self.directory = directory
        self._lock: int | None = lock

    @property
    def directories(self) -> list[str]:
        """Names of the directories in it: of accounts, where nothing is encrypted."""
        return _directories(self.directory)

    @property
    def is_encrypted(self) -> bool:
        """Whether it says that it is."""
        return os.path.lexists(os.path.join(self.directory, "ENCRYPTION"))

    @property
    def is_of_cluster(self) -> bool:
        """Whether a server of a cluster has used it."""
        return CLUSTER_DIRECTORY in self.directories

    @property
    def has_streams(self) -> bool:
        """Whether there is anything to recover."""
        return any(
            True
            for account in _directories(self.directory)
            for _ in _directories(os.path.join(self.directory, account, "streams"))
        )

    def close(self) -> None:
        """Let another server have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def take_storage(options: JetStreamOptions) -> Storage:
    """Make the directory if it is missing, and take it.

    Raises:
        StorageFault: it cannot be used.
    """
    if options.store_dir:
        return _taken(os.path.join(options.store_dir, "jetstream"))
    for number in range(1, _DEFAULTS_MAX):
        name = _DEFAULT if number == 1 else f"{_DEFAULT}-{number}"
        with contextlib.suppress(InUse):
            return _taken(os.path.join(_temporary_directory(), name, "jetstream"))
    raise StorageFault("every temporary storage directory is in use by another server")


def _taken(root: str) -> Storage:
    if os.path.exists(root) and not os.path.isdir(root):
        raise StorageFault("storage directory is not a directory")
    refuse_foreign_store(root)
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)  # made sure of by the first stream in it
        lock = os.open(os.path.join(root, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageFault(f"could not create storage directory - {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise InUse(f"storage directory {root} is in use by another server") from error
    return Storage(root, lock)


def _temporary_directory() -> str:
    """What Go calls the temporary directory, without the attempts of `tempfile` to write there."""
    return os.environ.get("TMPDIR") or "/tmp"


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def memory_share() -> int:
    """Memory for streams where none is configured."""
    return int(memory_bytes() * JETSTREAM_MEMORY_SHARE)


def disk_share(directory: str) -> int:
    """A share of the free space where the directory is."""
    space = os.statvfs(directory)
    return int(space.f_bavail * space.f_frsize * JETSTREAM_DISK_SHARE)


def announce(log: Callable[[str, str], None], options: JetStreamOptions, directory: str) -> None:
    """The lines about JetStream at the start, as nats-server writes them."""
    memory = options.max_memory_store if options.max_memory_store >= 0 else memory_share()
    disk = options.max_file_store if options.max_file_store >= 0 else disk_share(directory)
    log("INF", "Starting JetStream")
    if not options.store_dir:
        log("WRN", "Temporary storage directory used, data could be lost on system reboot")
    log("INF", "---------------- JETSTREAM ----------------")
    log("INF", f"  Strict:          {str(options.strict).lower()}")
    log("INF", f"  Max Memory:      {_size(memory)}")
    log("INF", f"  Max Storage:     {_size(disk)}")
    log("INF", f'  Store Directory: "{directory}"')
    if options.encrypts and not options.decrypt:
        log("INF", f"  Encryption:      {'AES-GCM' if options.cipher == 'aes' else 'ChaCha20-Poly1305'}")
    if options.domain:
        log("INF", f"  Domain:          {options.domain}")
    log("INF", f"  API Level:       {API_LEVEL}")
    log("INF", "-------------------------------------------")


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.2f} {unit}"
        amount /= 1024
    return f"{amount:.2f} TB"
