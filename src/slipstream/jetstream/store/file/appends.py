"""How messages join the log of a file store: into the open frame of its writer, segment after segment.

What this is not: getting anything to the disk (`commits`). A message is in memory until a commit takes it.
"""

from __future__ import annotations

from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.segments.segment import pack_seq
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import StoreUnavailable
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import RECORD_HEAD, SKIP

__all__ = ["LogAppends"]


class LogAppends:
    """Messages and gaps."""

    __slots__ = ("_directory", "_log", "_state")

    def __init__(self, state: StoreState, log: SegmentedLog, directory: str) -> None:
        """Append to this log."""
        self._state = state
        self._log = log
        self._directory = directory

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """See `Store.append`."""
        if self._state.refusal is not None:
            raise self._state.refusal
        if self._log.unit is not None:
            raise StoreUnavailable("an atomic unit is being written", path=self._directory)
        if not self._log.writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            self._append_behind(seq, ts_ns, subject, headers, payload, expires_ns)

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """See `Store.append_atomic`."""
        if self._state.refusal is not None:
            raise self._state.refusal
        if self._log.unit is None:
            raise ValueError("no unit is open")
        if not self._log.writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            self._append_behind(seq, ts_ns, subject, headers, payload, expires_ns)

    def direct_writer(self) -> LogWriter | None:
        """See `Store.direct_writer`."""
        return self._log.writer if self._state.refusal is None and self._log.unit is None else None

    def skip_to(self, last_seq: int) -> None:
        """See `Store.skip_to`."""
        self._state.check_writable()
        if self._log.unit is not None:
            raise StoreUnavailable("an atomic unit is being written", path=self._directory)
        if last_seq > self._state.index.last_seq:
            self._log_gap(last_seq)

    def _append_behind(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int
    ) -> None:
        """Log the gap before a sequence, go on in a new segment or block if this one has no room, and append."""
        writer = self._log.writer
        length = RECORD_HEAD + len(subject) + len(headers) + len(payload)
        if seq > writer.last_seq + 1:
            self._log_gap(seq - 1)
        if writer.is_full:
            self._log.pass_on()  # which may take the last room of the segment
        if not writer.has_room(length):
            self._log.make_room(length)
        if not writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            raise AssertionError("the writer has room and expects this sequence")

    def _log_gap(self, last_seq: int) -> None:
        writer = self._log.writer
        writer.control(SKIP, writer.last_seq + 1, writer.last_ts, b"", pack_seq(last_seq))
        (self._log.staged or self._state.index).skip_to(last_seq)
