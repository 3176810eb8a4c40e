"""What joins the log of a file store: messages, units of messages, gaps, notes and the configuration; and the journal.

What this is not: removals (`removals`), and getting anything to the disk (`commits`). A change is in memory, and in the
open frame of the log's writer, until a commit takes it.

Invariant: while a unit is open, nothing but its messages joins the log. What is set meanwhile waits behind it.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.jetstream.store.base import StoreUnavailable
from slipstream.jetstream.store.file.segment import pack_seq
from slipstream.jetstream.store.file.state import FileStoreState
from slipstream.jetstream.store.notes import check_notes
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.record import CONFIG, NOTE, RECORD_HEAD, SKIP

__all__ = ["FileStoreWrites"]


class FileStoreWrites(FileStoreState):
    """Messages and everything beside them that is written."""

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """See `Store.append`."""
        if self._refusal is not None:
            raise self._refusal
        if self._log.unit is not None:
            raise StoreUnavailable("an atomic unit is being written", path=self._directory)
        self._append(seq, ts_ns, subject, headers, payload, expires_ns)

    def _append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int) -> None:
        if not self._writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            length = RECORD_HEAD + len(subject) + len(headers) + len(payload)
            self._prepare(seq, length)
            if not self._writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
                raise AssertionError("the writer has room and expects this sequence")

    def _prepare(self, seq: int, length: int) -> None:
        """Log the gap before a sequence, and go on in a new segment if this one has no room for the message."""
        if seq > self._writer.last_seq + 1:
            self._log_gap(seq - 1)
        if not self._writer.has_room(length):
            self._log.make_room(length, self._config, self._writer.last_ts, self._options.now_ns())
            self._manifest_due = True

    def begin_atomic(self) -> None:
        """See `Store.begin_atomic`."""
        if self._refusal is not None:
            raise self._refusal
        self._log.begin_unit(MessageIndex(self._options.random64()))

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """See `Store.append_atomic`."""
        if self._refusal is not None:
            raise self._refusal
        if self._log.unit is None:
            raise ValueError("no unit is open")
        self._append(seq, ts_ns, subject, headers, payload, expires_ns)

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """See `Store.end_atomic`."""
        if self._refusal is not None:
            raise self._refusal
        if self._log.unit is None:
            raise ValueError("no unit is open")
        self._log_notes(notes or {})
        self._log.end_unit()

    def abort_atomic(self) -> None:
        """See `Store.abort_atomic`."""
        if self._log.unit is None or self._fault is not None:
            return  # after a fault the log is read anew, without the unit
        dropped = self._log.abandon_unit(self._config, self._options.now_ns())
        self._dropped |= {segment.path for segment in dropped}
        self._unsynced -= self._dropped
        self._leftovers += [segment.path for segment in dropped]
        self._manifest_due = True

    @property
    def atomic_open(self) -> bool:
        """See `Store.atomic_open`."""
        return self._log.unit is not None and self._fault is None

    def notes(self) -> dict[bytes, bytes]:
        """See `Store.notes`."""
        return {key: value for key, value in {**self._log.notes, **self._notes_due}.items() if value}

    def put_note(self, key: bytes, value: bytes) -> None:
        """See `Store.put_note`."""
        self._writable()
        if self._log.unit is not None:
            check_notes(self.notes(), {key: value})
            self._notes_due[key] = value
        else:
            self._log_notes({key: value})

    def _log_notes(self, notes: Mapping[bytes, bytes]) -> None:
        check_notes(self.notes(), notes)
        for key, value in notes.items():
            self._writer.control(NOTE, self._writer.last_seq, self._writer.last_ts, key, value)
            if value:
                self._log.notes[key] = value
            else:
                self._log.notes.pop(key, None)

    def skip_to(self, last_seq: int) -> None:
        """See `Store.skip_to`."""
        self._writable()
        if self._log.unit is not None:
            raise StoreUnavailable("an atomic unit is being written", path=self._directory)
        if last_seq > self._index.last_seq:
            self._log_gap(last_seq)

    def set_config(self, config: bytes) -> None:
        """See `Store.set_config`."""
        self._writable()
        self._config = config
        self._config_due = True
        if self._log.unit is None:
            self._log_config()
        self._manifest_due = True

    def _log_config(self) -> None:
        self._writer.control(CONFIG, self._index.last_seq, self._writer.last_ts, b"", self._config)
        self._config_due = False

    def journal_put(self, key: bytes, state: bytes) -> None:
        """See `Store.journal_put`."""
        self._journal.put(key, state)

    def journal_add(self, key: bytes, delta: bytes) -> None:
        """See `Store.journal_add`."""
        self._journal.add(key, delta)

    def journal_remove(self, key: bytes) -> None:
        """See `Store.journal_remove`."""
        self._journal.remove(key)

    def journal_entries(self) -> dict[bytes, list[bytes]]:
        """See `Store.journal_entries`."""
        return self._journal.entries()

    def _log_postponed(self) -> None:
        """Log what was set while a unit was open; it is not any more."""
        if self._config_due:
            self._log_config()
        if self._notes_due:
            self._log_notes(self._notes_due)
            self._notes_due = {}

    def _log_gap(self, last_seq: int) -> None:
        self._writer.control(SKIP, self._writer.last_seq + 1, self._writer.last_ts, b"", pack_seq(last_seq))
        (self._log.staged or self._index).skip_to(last_seq)
