"""A follower that lacks entries which the leader's log no longer has gets whole segments.

    leader                                follower
    behind ──► export, manifest ────────► does its log lack that? ──► import begins
    a piece ◄──────────────────────────── wanted, again after a while without an answer
            ────────────────────────────► ... ──► all are there: the replica is opened again with them
    manifest ───────────────────────────► it has that
    Raft's own snapshot without data ◄─── have: Raft checks that, and goes on behind it

One piece is on its way at a time. Files are read and written in threads, and while a copy is open the leader's segments
stay. What comes in is believed by nobody: see `segment_transfer` and `segment_import`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.replica.segment_export import SegmentExport
from slipstream.jetstream.store.file.replica.segment_import import SegmentImport
from slipstream.jetstream.store.file.replica.segment_transfer import (
    Membership,
    decode_manifest,
    manifest_id,
    pack_piece,
    pack_wanted,
    unpack_piece,
    unpack_wanted,
)
from slipstream.replication.replica.files import ReplicaFiles

__all__ = ["HAVE", "MANIFEST", "PIECE", "WANTED", "Lacking", "SegmentSender", "SegmentTaker", "Send"]

MANIFEST: Final = 1
WANTED: Final = 2
PIECE: Final = 3
HAVE: Final = 4
"""Kinds of messages (`groups.RAFT_MESSAGE` is 0)."""

_COPIES_MAX: Final = 2
"""Copies a leader gives at a time."""
_BEGUN_MAX: Final = 3
_ASKED_MAX: Final = 20
_AGAIN_NS: Final = 1_000_000_000
_GIVEN_UP_NS: Final = 30_000_000_000

Send = Callable[[int, int, bytes], None]
"""`(to, kind, body)`."""


class Lacking(Protocol):
    """A log that a copy may replace. `ReplicaLog` is one."""

    @property
    def applied_index(self) -> int:
        """The last entry that readers see."""
        ...

    def lacks(self, frame: int, term: int) -> bool:
        """Whether a log that ends with this committed frame may take its place."""
        ...


class _Copy:
    """One copy that is given out."""

    __slots__ = ("asked_ns", "begun", "export", "is_busy", "said_ns")

    def __init__(self, export: SegmentExport, now_ns: int) -> None:
        self.export = export
        self.is_busy = True  # a thread reads for it
        self.said_ns = self.asked_ns = now_ns
        self.begun: dict[int, int] = {}  # how often each file was asked for from its beginning


class SegmentSender:
    """Copies that this leader gives out."""

    def __init__(self, ports: Ports, send: Send) -> None:
        """None yet."""
        self._ports = ports
        self._send = send
        self._copies: dict[int, _Copy] = {}  # by who gets it
        self._timer: Cancel | None = None

    def offer(self, to: int, store: FileStore, membership: Membership) -> None:
        """This node needs what frames cannot give; called again as long as it does."""
        members = {*membership.voters, *membership.learners, *membership.outgoing}
        for other in self._copies.keys() - members:  # they left meanwhile, and somebody else waits
            self._copies.pop(other).export.close()
        now_ns, copy = self._ports.now_ns(), self._copies.get(to)
        if copy is not None:
            if not copy.is_busy and now_ns - copy.said_ns >= _AGAIN_NS:
                copy.said_ns = now_ns
                self._send(to, MANIFEST, copy.export.manifest)
            return
        export = store.export() if len(self._copies) < _COPIES_MAX else None
        if export is None:
            return
        copy = self._copies[to] = _Copy(export, now_ns)
        failed: list[Exception] = []

        def prepare() -> None:
            try:
                export.prepare(membership)
            except Exception as error:
                failed.append(error)

        def prepared() -> None:
            if self._copies.get(to) is not copy:
                return
            copy.is_busy = False
            if failed:
                self._end(to, failed[0])
            else:
                self._send(to, MANIFEST, export.manifest)

        self._ports.run_blocking(prepare, prepared)
        if self._timer is None:
            self._timer = self._ports.call_later(_GIVEN_UP_NS, self._look)

    def wanted(self, sender: int, body: bytes) -> None:
        """A node asks for a piece."""
        copy, asked = self._copies.get(sender), unpack_wanted(body)
        if copy is None or asked is None or copy.is_busy or asked[0] != copy.export.id:
            return
        id_, file, offset, length = asked
        copy.is_busy, copy.said_ns = True, self._ports.now_ns()
        copy.asked_ns = copy.said_ns
        if offset == 0:
            copy.begun[file] = copy.begun.get(file, 0) + 1
            if copy.begun[file] > _BEGUN_MAX:  # something in it was erased since: the next copy is without it
                self._copies.pop(sender).export.close()
                return
        found: list[bytes | Exception] = []

        def read() -> None:
            try:
                found.append(copy.export.read(file, offset, length))
            except Exception as error:
                found.append(error)

        def done() -> None:
            if self._copies.get(sender) is not copy:
                return
            copy.is_busy = False
            if isinstance(found[0], Exception):
                self._end(sender, found[0])
            else:
                self._send(sender, PIECE, pack_piece(id_, file, offset, found[0]))

        self._ports.run_blocking(read, done)

    def has(self, sender: int, id_: bytes) -> tuple[int, int] | None:
        """A node says that it has all of a copy: the last frame of it, and its term; None: it got no such copy."""
        copy = self._copies.get(sender)
        if copy is None or copy.is_busy or copy.export.id != id_:
            return None
        self._copies.pop(sender).export.close()
        return copy.export.frame, copy.export.term

    def drop(self, to: int) -> None:
        """What this node was given is of no use to it."""
        copy = self._copies.pop(to, None)
        if copy is not None:
            copy.export.close()

    def stop(self) -> None:
        """Give out no more."""
        if self._timer is not None:
            self._timer()
            self._timer = None
        for copy in self._copies.values():
            copy.export.close()
        self._copies.clear()

    def _end(self, to: int, error: Exception) -> None:
        self._ports.log("WRN", f"Segments for another server could not be read: {error}")
        self._copies.pop(to).export.close()

    def _look(self) -> None:
        """Those that nobody asks for any more end."""
        now_ns = self._ports.now_ns()
        for to, copy in list(self._copies.items()):
            if not copy.is_busy and now_ns - copy.asked_ns >= _GIVEN_UP_NS:
                self._copies.pop(to).export.close()
        self._timer = self._ports.call_later(_GIVEN_UP_NS, self._look) if self._copies else None


class SegmentTaker:
    """The copy that this follower gets."""

    def __init__(
        self, ports: Ports, files: ReplicaFiles, send: Send, complete: Callable[[SegmentImport], bool]
    ) -> None:
        """None yet; `complete` is called when all of one is there, and says whether it takes the place of the log."""
        self._ports = ports
        self._files = files
        self._send = send
        self._complete = complete
        self._import: SegmentImport | None = None
        self._sender = 0
        self._asked = 0  # in vain
        self._is_busy = False  # a thread works on it
        self._timer: Cancel | None = None
        self._stopped = False

    def offered(self, sender: int, body: bytes, log: Lacking) -> None:
        """The leader has a copy."""
        manifest = decode_manifest(body)
        if self._stopped or self._is_busy or manifest is None:
            return
        if not log.lacks(manifest.frame, manifest.term):
            if log.applied_index >= manifest.frame:
                self._send(sender, HAVE, manifest_id(body))
            return
        self._sender, self._asked = sender, 0
        if self._import is not None and self._import.id == manifest_id(body):
            self._ask()
            return

        def begin() -> None:
            self._import = self._files.begin_import(body)

        self._work(begin)

    def piece(self, sender: int, body: bytes) -> None:
        """A piece has come."""
        taking, found = self._import, unpack_piece(body)
        if self._stopped or self._is_busy or taking is None or found is None or found[0] != taking.id:
            return
        self._work(lambda: taking.take(*found[1:]))

    def stop(self) -> None:
        """Take no more."""
        self._stopped = True
        self._quiet()

    def _work(self, work: Callable[[], object]) -> None:
        """In a thread, and then go on."""
        failed: list[StorageFault] = []
        self._is_busy = True
        self._quiet()

        def run() -> None:
            try:
                work()
            except StorageFault as error:
                failed.append(error)

        def done() -> None:
            self._is_busy = False
            if self._stopped:
                return
            self._asked = 0
            if failed:
                self._ports.log("WRN", f"Segments of another server were not taken: {failed[0]}")
            taken = self._import
            if taken is None or taken.wanted is not None:
                self._ask()
            elif self._complete(taken):
                self._stopped = True
            else:
                self._import = None
                self._work(taken.drop)

        self._ports.run_blocking(run, guarded(done, lambda error: self._ports.report("Segments", error)))

    def _ask(self) -> None:
        self._quiet()
        self._asked += 1
        if self._asked > _ASKED_MAX:
            self._import = None  # whoever leads now has another one, if it is still needed
        if self._import is not None and not self._is_busy and (wanted := self._import.wanted) is not None:
            self._send(self._sender, WANTED, pack_wanted(self._import.id, *wanted))
            self._timer = self._ports.call_later(_AGAIN_NS, self._ask)

    def _quiet(self) -> None:
        if self._timer is not None:
            self._timer()
            self._timer = None
