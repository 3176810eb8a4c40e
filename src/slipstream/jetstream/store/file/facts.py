"""What a file store keeps beside its messages in the same log: the configuration of the stream, and notes.

Both are repeated at the head of every segment, by the log.

Invariant: while a unit is open, nothing but its messages joins the log. What is set meanwhile waits behind it.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.notes import check_notes
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.log.record import CONFIG, NOTE

__all__ = ["LogFacts"]


class LogFacts:
    """Configuration and notes of one store."""

    __slots__ = ("_config_due", "_log", "_notes_due", "_state", "is_waiting")

    def __init__(self, state: StoreState, log: SegmentedLog) -> None:
        """Nothing waits."""
        self._state = state
        self._log = log
        self._config_due = False  # set while a unit was open: logged behind it
        self._notes_due: dict[bytes, bytes] = {}  # the same for notes
        self.is_waiting = False
        """Whether something was set while a unit was open."""

    def notes(self) -> dict[bytes, bytes]:
        """See `Store.notes`."""
        return {key: value for key, value in {**self._log.notes, **self._notes_due}.items() if value}

    def put_note(self, key: bytes, value: bytes) -> None:
        """See `Store.put_note`."""
        self._state.check_writable()
        if self._log.unit is not None:
            check_notes(self.notes(), {key: value})
            self._notes_due[key] = value
            self.is_waiting = True
        else:
            self.log_notes({key: value})

    def log_notes(self, notes: Mapping[bytes, bytes]) -> None:
        """Put notes into the open frame."""
        check_notes(self.notes(), notes)
        log, writer = self._log, self._log.writer
        for key, value in notes.items():
            writer.control(NOTE, writer.last_seq, writer.last_ts, key, value)
            if value:
                log.notes[key] = value
            else:
                log.notes.pop(key, None)

    def set_config(self, config: bytes) -> None:
        """See `Store.set_config`."""
        self._state.check_writable()
        self._state.config = config
        self._config_due = self.is_waiting = True
        if self._log.unit is None:
            self._log_config()
            self.is_waiting = bool(self._notes_due)
        self._log.manifest_due = True

    def log_waiting(self) -> None:
        """Log what was set while a unit was open; it is not any more."""
        if self._config_due:
            self._log_config()
        if self._notes_due:
            self.log_notes(self._notes_due)
            self._notes_due = {}
        self.is_waiting = False

    def replay(self, controls: list[tuple[int, int, int, bytes, bytes]]) -> None:
        """Take over what another replica has set: it is committed, and its records are in the log."""
        for kind, _seq, _ts_ns, key, payload in controls:
            if kind == CONFIG:
                self._state.config = payload
                self._log.manifest_due = True
            elif kind == NOTE and payload:
                self._log.notes[key] = payload
            elif kind == NOTE:
                self._log.notes.pop(key, None)

    def adopt(self, config: bytes) -> None:
        """The log was read back: what waited did not happen."""
        self._state.config = config
        self._config_due = self.is_waiting = False
        self._notes_due = {}

    def _log_config(self) -> None:
        writer = self._log.writer
        writer.control(CONFIG, self._state.index.last_seq, writer.last_ts, b"", self._state.config)
        self._config_due = False
