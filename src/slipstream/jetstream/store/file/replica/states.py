"""The states of consumers of a replicated stream: records of its log, in the frames of the commit they belong to.

    put, add, remove ──► wait ──► the next commit logs them ──► committed ──► what the stream says of its consumers
    of another replica ──────────────── its frames ─────────────────┘

The same protocol as the journal of a stream that is alone. There it is a file of its own; here the log is the truth,
and `applied_file` has a copy that says up to which frame it is true, so that old segments can go.

What this is not: an interpretation of the states.

Invariant: `_states` is what the frames up to `exact(committed)` say.
"""

from __future__ import annotations

from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.kernels.log.record import ADD, PUT, RECORD_HEAD, REMOVE

__all__ = ["LoggedStates", "StateRecord", "apply_states"]

StateRecord = tuple[int, bytes, bytes]
"""PUT, ADD or REMOVE; the consumer; a state or a change."""


def apply_states(states: dict[bytes, list[bytes]], records: list[StateRecord]) -> None:
    """Carry out what records say."""
    for kind, key, payload in records:
        if kind == PUT:
            states[key] = [payload]
        elif kind == ADD and key in states:
            states[key].append(payload)
        elif kind == REMOVE:
            states.pop(key, None)


class LoggedStates:
    """States of the consumers of one replicated stream."""

    __slots__ = ("_keys", "_log", "_logged", "_open", "_states", "_waiting", "live_bytes", "pending_bytes")

    def __init__(self, log: SegmentedLog) -> None:
        """No consumer."""
        self._log = log
        self._states: dict[bytes, list[bytes]] = {}
        self._waiting: list[StateRecord] = []  # that no commit has logged
        self._open: tuple[int, list[StateRecord]] | None = None  # logged from this frame on, not taken by a commit yet
        self._logged: list[tuple[int, int, list[StateRecord]]] = []  # by the first and the last frame
        self._keys: dict[bytes, None] = {}  # of those that have a state when all that waits is committed
        self.live_bytes = 0
        """What a copy of the states would take, about."""
        self.pending_bytes = 0
        """Bytes that wait for a commit."""

    # --- as the journal of a stream has it --------------------------------------------------------------------------

    def entries(self) -> dict[bytes, list[bytes]]:
        """See `StoreJournal.entries`: with all that was set, committed or not."""
        states = self.committed()
        for _, _, records in self._logged:
            apply_states(states, records)
        apply_states(states, self._open[1] if self._open is not None else [])
        apply_states(states, self._waiting)
        return states

    def put(self, key: bytes, state: bytes) -> None:
        """See `StoreJournal.put`."""
        self._keys[key] = None
        self._wait(PUT, key, state)

    def add(self, key: bytes, delta: bytes) -> None:
        """See `StoreJournal.add`."""
        if key not in self._keys:
            raise KeyError(key)
        self._wait(ADD, key, delta)

    def remove(self, key: bytes) -> None:
        """See `StoreJournal.remove`."""
        if key in self._keys:
            del self._keys[key]
            self._wait(REMOVE, key, b"")

    def _wait(self, kind: int, key: bytes, payload: bytes) -> None:
        self._waiting.append((kind, key, payload))
        self.pending_bytes += RECORD_HEAD + len(key) + len(payload)

    # --- with the commits -------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether something was set that is not in the log yet."""
        return bool(self._waiting)

    def log_waiting(self) -> None:
        """Put what waits into the open frame; no unit is open."""
        log = self._log
        if log.writer.position + self.pending_bytes > log.writer.limit and log.active.end > HEADER_BYTES:
            log.roll()  # states are large: a segment is not to become a multiple of its size
        writer, first = log.writer, log.writer.frame_no + 1
        records = _without_outdated(self._waiting)
        for kind, key, payload in records:
            writer.control(kind, writer.last_seq, writer.last_ts, key, payload)
        self._open = (first, records)
        self._waiting = []
        self.pending_bytes = 0

    def take(self, frame_no: int) -> None:
        """The commit that begins writes what is logged; its last frame is this one."""
        if self._open is not None:
            first, records = self._open
            self._logged.append((first, frame_no, records))
            self._open = None

    def commit(self, frame_no: int) -> None:
        """A majority has every frame up to this one."""
        while self._logged and self._logged[0][1] <= frame_no:
            self._apply(self._logged.pop(0)[2])

    def replay(self, controls: list[tuple[int, int, int, bytes, bytes]]) -> None:
        """Take over what a frame of another replica says: it is committed."""
        records = [(kind, key, payload) for kind, _, _, key, payload in controls if kind in (PUT, ADD, REMOVE)]
        if records:
            self._apply(records)
            self._keys = dict.fromkeys(self._states)

    def exact(self, frame_no: int) -> int:
        """The newest frame, this one at most, up to which `committed` says what the log does and nothing else.

        Records of one commit are carried out together, when its last frame is committed.
        """
        return min(frame_no, self._logged[0][0] - 1) if self._logged else frame_no

    def committed(self) -> dict[bytes, list[bytes]]:
        """The states as readers see them."""
        return {key: list(parts) for key, parts in self._states.items()}

    def adopt(self, states: dict[bytes, list[bytes]]) -> None:
        """The log was read back."""
        self._states, self._keys = states, dict.fromkeys(states)
        self._waiting, self._open, self.pending_bytes = [], None, 0
        self._logged.clear()
        self.live_bytes = sum(map(_size, states.values()))

    def _apply(self, records: list[StateRecord]) -> None:
        keys = {key for _, key, _ in records}
        before = sum(_size(self._states[key]) for key in keys if key in self._states)
        apply_states(self._states, records)
        self.live_bytes += sum(_size(self._states[key]) for key in keys if key in self._states) - before


def _size(parts: list[bytes]) -> int:
    return sum(map(len, parts)) + RECORD_HEAD * len(parts)


def _without_outdated(records: list[StateRecord]) -> list[StateRecord]:
    """What counts of records that are carried out together: nothing before a whole state, or before the end of one."""
    kept: list[StateRecord] = []
    whole: set[bytes] = set()
    for record in reversed(records):
        if record[1] not in whole:
            kept.append(record)
            if record[0] != ADD:
                whole.add(record[1])
    return kept[::-1]
