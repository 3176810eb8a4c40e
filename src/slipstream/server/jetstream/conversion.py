"""Encryption at rest that is turned on or off while the server runs: how far it is, and when it is done.

    open streams: their upkeep writes what is old anew (`store.file.reforms`)
    streams that nobody opened: the same here, in a thread, one after the other
    every few moments: which files are still in the old form?  none: that is written down, and it is done

What is left is looked for in the files themselves, so what is said to be done is done. A segment with damage is never
rewritten, nor is what was set aside: that is said, and keeps it from being done.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore, FileStoreOptions
from slipstream.jetstream.store.sealed.forms import count_files
from slipstream.monitoring.jetstream_facts import AtRestProgress

if TYPE_CHECKING:
    from slipstream.jetstream.store.file.disk.disk import Disk
    from slipstream.jetstream.store.values import Job
    from slipstream.server.jetstream.at_rest import AtRest

__all__ = ["Conversion", "convert_stream"]

LOOK_EVERY_S: Final = 1.0
"""Between two looks at all files, at least."""
LOOK_SHARE: Final = 20
"""And so many times what a look takes."""
STUCK_LOOKS: Final = 30
"""Looks without a change until it is said what keeps it."""
TOLD_EVERY: Final = 10
"""Percent between two lines in the log."""
NAMED_MAX: Final = 5
"""Files named in the log that cannot be written anew."""


class Conversion:
    """The way of one storage directory from one form to the other."""

    def __init__(self, raw: Disk, disk: Disk, root: str, at_rest: AtRest, log: Callable[[str, str], None]) -> None:
        """Nothing was looked at. `raw`: files as they are; `disk`: as stores see them."""
        self._raw = raw
        self._disk = disk
        self._root = root
        self._at_rest = at_rest
        self._log = log
        self._verb = "encrypted" if at_rest.hides_names else "decrypted"
        self._lock = threading.Lock()  # held while a stream is open here
        self._taken: set[str] = set()  # accounts whose streams others may have open
        self._failed: set[str] = set()  # directories of streams that could not be opened here
        self._others: list[str] = []
        self._idle_looks = 0
        self._told = 0  # percent
        self.took_s = 0.0
        """What the last look took."""
        self.files = 0
        """That can be encrypted."""
        self.left = -1
        """Of these, still in the old form; -1 before the first look."""
        self.is_done = False

    @property
    def pause_s(self) -> float:
        """How long to wait before the next look."""
        return max(LOOK_EVERY_S, LOOK_SHARE * self.took_s)

    def progress(self) -> AtRestProgress:
        """For monitoring."""
        if self.is_done:
            return AtRestProgress("done", self.files, 0)
        return AtRestProgress(
            "encrypting" if self._at_rest.hides_names else "decrypting", self.files, max(self.left, 0)
        )

    def leave(self, account_path: str) -> None:
        """The streams of an account are about to be opened elsewhere. Blocks while one is open here."""
        self._taken.add(account_path)
        with self._lock:
            pass

    def look(self) -> None:
        """Have a look at everything, and write anew what nobody else does; in a thread."""
        began = time.perf_counter()
        self.files, self._others = count_files(self._raw, self._root, sealed=self._at_rest.hides_names)
        self.took_s = time.perf_counter() - began
        self._others = [path for path in self._others if not self._is_orphan(path)]
        for directory in sorted({path.rsplit("/", 1)[0] for path in self._others}):
            self._unopened(directory)
        left = len(self._others)
        self._idle_looks = self._idle_looks + 1 if left == self.left else 0
        self.left = left
        if not left:
            self._at_rest.finish(self._root)
            self.is_done = True

    def tell(self) -> None:
        """Say in the log how far it is; after a look."""
        if self.is_done:
            self._log("INF", f"Everything stored is {self._verb} now: {self.files} files")
            return
        percent = 100 * (self.files - self.left) // max(self.files, 1) // TOLD_EVERY * TOLD_EVERY
        if percent > self._told:
            self._told = percent
            self._log("INF", f"{percent} % of {self.files} files are {self._verb}")
        if self._idle_looks == STUCK_LOOKS:
            named = ", ".join(self._others[:NAMED_MAX])
            self._log(
                "WRN",
                f"{self.left} files are damaged or were set aside, and are not {self._verb}: {named}. "
                "The rest is; remove them, or the messages in them",
            )

    def _is_orphan(self, path: str) -> bool:
        """Remove an index file whose segment is gone: a crash was between the two removals."""
        if not path.endswith(".sdx"):
            return False
        directory, name = path.rsplit("/", 1)
        if name.removesuffix(".sdx") + ".seg" in self._raw.list_dir(directory):
            return False
        with suppress(FileNotFoundError):
            self._raw.remove(path)
        return True

    def _unopened(self, directory: str) -> None:
        """Write a stream anew that is not open, if this is the directory of one."""
        above, _, _ = directory.rpartition("/")
        account, _, kind = above.rpartition("/")
        if kind != "streams" or directory in self._failed:
            return
        with self._lock:
            if account in self._taken:
                return
            try:
                convert_stream(self._disk, directory, lambda: account not in self._taken)
            except (OSError, StorageFault) as error:
                self._failed.add(directory)
                self._log("WRN", f"{directory} cannot be opened, and is not {self._verb}: {error}")


def convert_stream(disk: Disk, directory: str, goes_on: Callable[[], bool] = lambda: True) -> None:
    """Open a stream, write everything anew that is in another form than `disk` gives to new files, and close it.

    Raises:
        OSError, StorageFault: it cannot be opened.
    """
    options = FileStoreOptions(random64=lambda: secrets.randbits(64), noise=secrets.token_bytes, now_ns=time.time_ns)
    if any(name.startswith("VOTE") for name in disk.list_dir(directory)):
        raise StorageFault("the log of a replica is for its cluster alone", path=directory)
    store = FileStore.open(disk, directory, options)
    try:
        _commit(store)
        while goes_on():
            job = store.begin_upkeep()
            if job is None:
                break
            _run(job)
            store.finish_upkeep(job)
            _commit(store)
    finally:
        with suppress(OSError, StorageFault):
            store.close()


def _commit(store: FileStore) -> None:
    job = store.begin_commit()
    if job is not None:
        _run(job)
        store.finish_commit(job)


def _run(job: Job) -> None:
    if not job.ended:
        job.run()
