"""Erasures of a file store: messages that are removed and then overwritten where they lie.

    requested -> logged as an intent -> the commit that logged it is done -> overwritten by the commit behind
                                        '- readers are not shown it any more

A compaction that runs meanwhile may have copied a message that is being erased: the copy is overwritten one commit
later, and the file it was copied from counts until upkeep has removed it.

Invariant: an erasure counts in `unfinished` until no file holds the message.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.jobs import Erasure, Overwrite
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.segments.open_segment import index_path
from slipstream.jetstream.store.file.segments.segment import EraseIntent, pack_erase
from slipstream.jetstream.store.indexed import LENGTH_MASK
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.log.chainlinks import leaf_of
from slipstream.kernels.log.record import ERASE, RECORD_HEAD, erased_record

__all__ = ["LogErasures"]

_LENGTH_EXPIRES = 0x40000000

_Placed = tuple[int, int, EraseIntent]  # an erasure, and where its record lies


class LogErasures:
    """Every erasure of one store on its way."""

    __slots__ = (
        "_beside_leftovers",
        "_committed",
        "_compacting",
        "_disk",
        "_files",
        "_in_flight",
        "_log",
        "_meanwhile",
        "_noise",
        "_overwriting",
        "_overwritten",
        "_state",
        "_writes_in_flight",
        "copies",
        "logged",
        "placed",
        "requested",
    )

    def __init__(
        self, state: StoreState, log: SegmentedLog, files: PendingFiles, disk: Disk, noise: Callable[[int], bytes]
    ) -> None:
        """Nothing is being erased."""
        self._state = state
        self._log = log
        self._files = files
        self._disk = disk
        self._noise = noise
        self.requested: list[Erasure] = []
        """Not logged yet."""
        self.logged: list[Erasure] = []
        """Intents that are in the log and that no commit has taken."""
        self._in_flight = 0  # those whose intents are in commits that have begun
        self.placed: list[_Placed] = []
        """Logged by earlier commits, to be overwritten by the next."""
        self.copies: list[_Placed] = []
        """The same for copies that a compaction has made."""
        self._overwriting = 0  # of the erasures logged before, those that the commit in flight carries out
        self._writes_in_flight = 0  # overwrites of that commit
        self._compacting = False
        self._meanwhile: list[Erasure] = []  # committed since a compaction began: it may have copied them
        self._beside_leftovers = 0
        self._committed = 0  # since the store was opened
        self._overwritten = 0  # of these, from the first on

    @property
    def unfinished(self) -> int:
        """See `Store.erasing`."""
        waiting = len(self.requested) + len(self.logged) + len(self.placed)
        return waiting + self._in_flight + self._writes_in_flight + self._late_copies

    @property
    def counts(self) -> tuple[int, int]:
        """See `Store.erased`."""
        return self._committed, 0 if self._late_copies else self._overwritten

    @property
    def _late_copies(self) -> int:
        """Erased messages that a compaction has copied, or may have, and files with them that are not removed yet."""
        beside = self._beside_leftovers if self._files.leftovers else 0
        return len(self.copies) + len(self._meanwhile) + beside

    def request(self, seq: int, ts_ns: int) -> None:
        """Erase a message that was just removed."""
        self.requested.append((seq, ts_ns))

    # --- with the commits -------------------------------------------------------------------------------------------

    def log_requested(self) -> None:
        """Put intents into the open frame."""
        writer = self._log.writer
        for seq, _ in self.requested:
            intent = self._intent(seq)
            if intent is not None:
                writer.control(ERASE, seq, writer.last_ts, self._leaf(seq, intent), pack_erase(intent))
        self.logged += self.requested
        self.requested = []

    def take_logged(self) -> list[Erasure]:
        """The commit that begins writes these intents, and gives them back to `settle`."""
        taken, self.logged = self.logged, []
        self._in_flight += len(taken)
        return taken

    def take_overwrites(self) -> list[Overwrite]:
        """The commit that begins overwrites what earlier ones have left."""
        overwrites: list[Overwrite] = []
        if self.placed or self.copies:
            for seq, ts_ns, where in self.placed + self.copies:
                overwrites += self._overwrite(seq, ts_ns, self._intent(seq) or where)
            self._overwriting, self._writes_in_flight = len(self.placed), len(overwrites)
            self.placed, self.copies = [], []
        return overwrites

    def overwritten(self) -> None:
        """The overwrites that were taken last are on disk."""
        self._overwritten += self._overwriting
        self._overwriting = self._writes_in_flight = 0

    def settle(self, erased: list[Erasure]) -> None:
        """A commit is done: what it logged may be overwritten."""
        self._in_flight -= len(erased)
        places = [(seq, ts_ns, self._intent(seq)) for seq, ts_ns in erased]
        self.placed += [(seq, ts_ns, place) for seq, ts_ns, place in places if place is not None]
        self._committed += len(erased)
        self._overwritten += sum(place is None for _, _, place in places)
        if self._compacting:
            self._meanwhile += erased

    def replay(self, erased: list[Erasure]) -> None:
        """Another replica has logged these, and they are committed: the next commit overwrites them here."""
        self._in_flight += len(erased)
        self.settle(erased)

    def fail(self) -> None:
        """The commit failed. What was to be erased is found again in the log, if it got there."""
        self.logged, self._in_flight, self._overwriting, self._writes_in_flight = [], 0, 0, 0

    def adopt(self, unfinished: list[tuple[int, EraseIntent]]) -> None:
        """The log was read back, with these intents that were not carried out."""
        self.requested, self.copies = [], []
        self.placed = [(seq, 0, intent) for seq, intent in unfinished]
        self._committed, self._overwritten = len(unfinished), 0

    # --- with compactions -------------------------------------------------------------------------------------------

    def compaction_begins(self) -> None:
        """From here on messages that are erased may be copied."""
        self._meanwhile = []
        self._compacting = True

    def compaction_ends(self, *, replaced: bool, failed: bool) -> None:
        """It has ended. `replaced`: its copies are in the place of the records; `failed`: they may be in a file."""
        self._compacting = False
        if replaced:
            places = [(seq, ts_ns, self._intent(seq)) for seq, ts_ns in self._meanwhile]
            self.copies += [(seq, ts_ns, place) for seq, ts_ns, place in places if place is not None]
        if not failed:
            self._meanwhile = []

    def _intent(self, seq: int) -> EraseIntent | None:
        """Where the record of a removed message lies."""
        place = self._state.index.record_place(seq)
        if place is None:
            return None
        header = self._log.table.get(place[0]).header
        return EraseIntent(header.no, header.generation, place[1], place[2])

    def _leaf(self, seq: int, intent: EraseIntent) -> bytes:
        """What stands for the message in the hash chain once it is overwritten; empty without one."""
        chain, segment = self._log.chain, self._log.table.find(intent.no, intent.generation)
        if chain is None or segment is None:
            return b""
        least = (intent.length & LENGTH_MASK) + (8 if intent.length & _LENGTH_EXPIRES else 0)
        data, base, salt = self._log.slice(segment.id, intent.offset, least, least)
        leaf = leaf_of(data, intent.offset - base, salt) or b""
        if leaf:
            chain.erased[seq] = leaf
        return leaf

    def _overwrite(self, seq: int, ts_ns: int, intent: EraseIntent) -> list[Overwrite]:
        segment = self._log.table.find(intent.no, intent.generation)
        if segment is None:
            return []
        length = (intent.length & LENGTH_MASK) + (8 if intent.length & _LENGTH_EXPIRES else 0)
        record = erased_record(seq, ts_ns, intent.length, segment.header.salt, self._noise(length - RECORD_HEAD))
        segment.erasures += 1
        # A superseded file that is not removed yet may hold another copy.
        self._beside_leftovers = self._beside_leftovers + 1 if self._files.leftovers else 0
        out = [Overwrite(segment.path, intent.offset, record)]
        if segment.indexed:
            # The index file names subjects as well. It is wiped here and made anew by upkeep.
            segment.indexed = False
            path = index_path(segment.path)
            out.append(Overwrite(path, 0, bytes(self._disk.size(path))))
        return out
