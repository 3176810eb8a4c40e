"""A stream as the rules see it: what was assigned so far, and what a batch adds to that before it is stored.

Rules compare a draft with a `View` and change nothing in it. The third view, of a bulk unit that is being written, is
`bulk.entry.UnitView`.
"""

from __future__ import annotations

from typing import Protocol

from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Damaged, SubjectState
from slipstream.jetstream.stream.admission.dedup import MessageIds, cost_of
from slipstream.jetstream.stream.admission.ingest_ports import IngestOwner, Resources
from slipstream.jetstream.stream.admission.settings import StreamSettings
from slipstream.jetstream.stream.admission.verdict import Admitted, Unwanted
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["AssignedView", "StagedView", "View"]


class View(Protocol):
    """What a draft is compared with."""

    @property
    def settings(self) -> StreamSettings:
        """What the configuration says."""
        ...

    @property
    def last_seq(self) -> int:
        """The sequence before the draft's."""
        ...

    @property
    def last_ts_ns(self) -> int:
        """The time before the draft's: times do not fall."""
        ...

    @property
    def last_id(self) -> bytes:
        """Message id of the message before it, empty if that had none."""
        ...

    @property
    def messages(self) -> int:
        """Messages in the stream."""
        ...

    @property
    def size_bytes(self) -> int:
        """Their size, by the formula of the limits."""
        ...

    @property
    def server_exceeded(self) -> bool:
        """The server has used up what it may."""
        ...

    @property
    def is_limited(self) -> bool:
        """Whether the account has a limit of its own."""
        ...

    def size_of(self, subject: bytes, header: bytes, payload: bytes) -> int:
        """Size of a message, by the same formula."""
        ...

    def would_exceed(self, extra_bytes: int) -> bool:
        """Whether the account has no room for this much more."""
        ...

    def can_remember(self, message_id: bytes) -> bool:
        """Whether an id can be kept for the whole window."""
        ...

    def original(self, message_id: bytes, now_ns: int) -> int | None:
        """The sequence of the message that had this id within the window; 0 if it is in the same batch."""
        ...

    def last_seq_of(self, subject: bytes) -> int:
        """The newest sequence under a subject or wildcard, 0 if there is none."""
        ...

    def subject_state(self, subject: bytes) -> SubjectState:
        """What is under a literal subject."""
        ...

    def newest(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """Header and body of the newest message under a subject, if there is one that can be read."""
        ...

    def size_at(self, seq: int) -> int:
        """Size of the message at a sequence, 0 if it cannot be read."""
        ...

    def has_written(self, subject: bytes = b"") -> bool:
        """Whether the draft's batch has one before it, on this subject if one is given.

        Its publisher could not know that one's sequence, so no condition can be about it.
        """
        ...

    def has_interest(self, subject: bytes) -> bool:
        """Whether some consumer wants a message on this subject."""
        ...


class AssignedView:
    """Everything that was decided, committed or not: two publishes in one commit see each other."""

    __slots__ = ("_has_interest", "_store", "ids", "intake", "resources", "settings")

    def __init__(
        self, store: Store, intake: Intake, owner: IngestOwner, resources: Resources, settings: StreamSettings
    ) -> None:
        """See `store` and what `intake` has assigned."""
        self._store = store
        self._has_interest = owner.has_interest
        self.intake = intake
        self.resources = resources
        self.settings = settings  # replaced as a whole by an update
        self.ids = MessageIds(settings.config.duplicate_window_ns, resources.hold)

    @property
    def last_seq(self) -> int:
        """See `View.last_seq`."""
        return self.intake.last_seq

    @property
    def last_ts_ns(self) -> int:
        """See `View.last_ts_ns`."""
        return self.intake.last_ts_ns

    @property
    def last_id(self) -> bytes:
        """See `View.last_id`."""
        return self.intake.last_id

    @property
    def messages(self) -> int:
        """See `View.messages`."""
        return self._store.assigned.messages

    @property
    def size_bytes(self) -> int:
        """See `View.size_bytes`."""
        return self._store.assigned.size_bytes

    @property
    def server_exceeded(self) -> bool:
        """See `View.server_exceeded`."""
        return self.resources.server_exceeded

    @property
    def is_limited(self) -> bool:
        """See `View.is_limited`."""
        return self.resources.limited

    def size_of(self, subject: bytes, header: bytes, payload: bytes) -> int:
        """See `View.size_of`."""
        return self._store.message_bytes(len(subject), len(header), len(payload))

    def would_exceed(self, extra_bytes: int) -> bool:
        """See `View.would_exceed`."""
        return self.resources.would_exceed(extra_bytes)

    def can_remember(self, message_id: bytes, beside_bytes: int = 0) -> bool:
        """See `View.can_remember`; `beside_bytes` is for others that are not remembered yet."""
        return self.ids.window_ns <= 0 or self.resources.can_hold(cost_of(message_id) + beside_bytes)

    def original(self, message_id: bytes, now_ns: int) -> int | None:
        """See `View.original`."""
        return self.ids.find(message_id, now_ns)

    def last_seq_of(self, subject: bytes) -> int:
        """See `View.last_seq_of`."""
        return self._store.assigned.last_seq_of(subject)

    def subject_state(self, subject: bytes) -> SubjectState:
        """See `View.subject_state`."""
        return self._store.assigned.subject_state(subject)

    def newest(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """See `View.newest`."""
        last = self._store.get(self._store.assigned.last_seq_of(subject))
        return None if last is None or isinstance(last, Damaged) else (last.headers, last.payload)

    def size_at(self, seq: int) -> int:
        """See `View.size_at`."""
        found = self._store.get(seq)
        if found is None or isinstance(found, Damaged):
            return 0
        return self.size_of(found.subject, found.headers, found.payload)

    def has_written(self, subject: bytes = b"") -> bool:
        """See `View.has_written`: every message is on its own."""
        return False

    def has_interest(self, subject: bytes) -> bool:
        """See `View.has_interest`."""
        return self._has_interest(subject)


class StagedView:
    """The stream with those messages of an atomic batch that passed so far."""

    def __init__(self, base: AssignedView) -> None:
        """Nothing has passed yet."""
        self._base = base
        self.settings = base.settings
        self.server_exceeded = base.server_exceeded
        self.is_limited = base.is_limited
        self.last_seq = base.last_seq
        self.last_ts_ns = base.last_ts_ns
        self.last_id = base.last_id
        self.messages = base.messages
        self.size_bytes = base.size_bytes
        self.size_of = base.size_of
        self.size_at = base.size_at
        self.has_interest = base.has_interest
        self._measures = base.is_limited or base.settings.discards_new  # whether a rule asks for sizes
        self._added_bytes = 0
        self._ids: set[bytes] = set()
        self._ids_bytes = 0
        self._written: set[bytes] = set()
        self._stored: dict[bytes, list[Admitted]] = {}

    def add(self, verdict: Admitted | Unwanted) -> None:
        """The next message passed: later ones see it."""
        self.last_seq = verdict.seq
        self.last_ts_ns = verdict.ts_ns
        self.last_id = verdict.message_id
        self._written.add(verdict.subject)
        if verdict.message_id:
            self._ids.add(verdict.message_id)
            self._ids_bytes += cost_of(verdict.message_id)
        if isinstance(verdict, Admitted):
            self.messages += 1
            if self._measures:
                size_bytes = self.size_of(verdict.subject, verdict.header, verdict.payload)
                self.size_bytes += size_bytes
                self._added_bytes += size_bytes
            self._stored.setdefault(verdict.subject, []).append(verdict)

    def would_exceed(self, extra_bytes: int) -> bool:
        """See `View.would_exceed`."""
        return self._base.would_exceed(self._added_bytes + extra_bytes)

    def can_remember(self, message_id: bytes) -> bool:
        """See `View.can_remember`."""
        return self._base.can_remember(message_id, self._ids_bytes)

    def original(self, message_id: bytes, now_ns: int) -> int | None:
        """See `View.original`."""
        return 0 if message_id in self._ids else self._base.original(message_id, now_ns)

    def last_seq_of(self, subject: bytes) -> int:
        """See `View.last_seq_of`."""
        stored = self._stored.get(subject)
        return stored[-1].seq if stored else self._base.last_seq_of(subject)

    def subject_state(self, subject: bytes) -> SubjectState:
        """See `View.subject_state`."""
        before, stored = self._base.subject_state(subject), self._stored.get(subject)
        if not stored:
            return before
        return SubjectState(before.first_seq or stored[0].seq, stored[-1].seq, before.count + len(stored))

    def newest(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """See `View.newest`."""
        stored = self._stored.get(subject)
        return (stored[-1].header, stored[-1].payload) if stored else self._base.newest(subject)

    def has_written(self, subject: bytes = b"") -> bool:
        """See `View.has_written`."""
        return subject in self._written if subject else bool(self._written)
