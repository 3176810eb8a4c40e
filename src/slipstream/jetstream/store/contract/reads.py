"""What readers ask a store: its committed state, its messages, its subjects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from slipstream.jetstream.store.values import SEQ_MAX, Filters, Lost, Read, StoredMessage, SubjectState
from slipstream.kernels.fastpath.handout import Batch
from slipstream.kernels.index.subjectpages import SubjectPages

__all__ = ["StoreMessages", "StoreReads", "StoreSubjects", "StoreSummary"]


class StoreSummary(Protocol):
    """What a stream holds, in numbers."""

    @property
    def is_settled(self) -> bool:
        """Whether everything that was decided about messages is committed, and so both views are the same."""
        ...

    @property
    def first_seq(self) -> int:
        """Sequence of the oldest message; `committed_seq + 1` when there is none."""
        ...

    @property
    def last_seq(self) -> int:
        """Highest sequence ever assigned (0 before the first), whether or not its message still exists."""
        ...

    @property
    def committed_seq(self) -> int:
        """Highest sequence that is committed as the sync policy says. Never above `last_seq`."""
        ...

    @property
    def committed_ts_ns(self) -> int:
        """`last_ts_ns` as of the last commit."""
        ...

    @property
    def first_ts_ns(self) -> int:
        """Time of the oldest message, 0 when there is none."""
        ...

    @property
    def last_ts_ns(self) -> int:
        """Time of the last message ever appended, 0 before the first."""
        ...

    @property
    def messages(self) -> int:
        """Messages now stored."""
        ...

    @property
    def size_bytes(self) -> int:
        """Size of the stored messages by nats-server's formula, which clients and limits use."""
        ...

    @property
    def num_subjects(self) -> int:
        """Distinct subjects now stored."""
        ...

    @property
    def num_deleted(self) -> int:
        """Sequences between `first_seq` and `committed_seq` that hold no message."""
        ...

    def deleted(self, limit: int) -> list[int]:
        """Up to `limit` sequences between `first_seq` and `committed_seq` without a message, ascending."""
        ...

    def lost(self) -> Lost:
        """The damage found so far, by recovery, reads and scrubbing."""
        ...

    def expiries(self) -> Iterable[tuple[int, int]]:
        """`(seq, expires_ns)` of what was stored with its own expiry when the store was opened: to rebuild timers."""
        ...


class StoreMessages(Protocol):
    """Messages, by sequence, subject or time."""

    def get(self, seq: int) -> Read | None:
        """The message at `seq`; None for a gap, a deleted or a not yet assigned sequence."""
        ...

    def find_record(self, key: bytes | int) -> tuple[int, bytes, int, int] | None:
        """Where one committed message lies: `(sequence, bytes, position of its record in them, salt)`.

        The record was not looked at: it may be damaged, or cut off.

        Args:
            key: its sequence, or a literal subject whose newest message it is.

        Returns:
            None when there is none, or changes wait for their commit: the other reads know more.
        """
        ...

    def next_seq(self, filters: Filters, from_seq: int) -> int:
        """The first stored sequence at or above `from_seq` that passes, 0 when there is none. Reads no message."""
        ...

    def next_with_headers(self, from_seq: int) -> int:
        """The first stored sequence at or above `from_seq` whose message has headers; 0 when there is none."""
        ...

    def removed_with_headers(self, since_ns: int) -> Iterator[StoredMessage]:
        """Removed messages younger than this that have headers and can still be read, the newest first.

        A record outlives its message until its place is given back; one that was erased is not among them.
        """
        ...

    def next_matching(self, filters: Filters, from_seq: int) -> Read | None:
        """The message at `next_seq`, or None."""
        ...

    def read_batch(
        self, filters: Filters, from_seq: int, *, max_msgs: int, max_bytes: int, up_to_seq: int
    ) -> list[Read]:
        """Messages that pass, in order, from `from_seq` to `up_to_seq` inclusive.

        Stops after `max_msgs`, or before the message that would exceed `max_bytes` (subject, headers and payload
        counted), but gives at least one if there is one.
        """
        ...

    def gather(self, filters: Filters, from_seq: int, *, max_msgs: int, max_bytes: int, up_to_seq: int) -> Batch:
        """The same as `read_batch` without an object for each message, to be handed out as they are.

        Ends before a message that cannot be had this way, so it may be empty where `read_batch` is not.
        """
        ...

    def gather_seqs(self, seqs: list[int], *, max_bytes: int) -> Batch:
        """The same for chosen sequences, in any order. Ends before one that is not there."""
        ...

    def longest_message(self, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """Subject, headers and payload of the longest of the next `limit` messages, in bytes, and where to go on.

        0 to go on: there is none behind them up to `up_to_seq`. Reads no message.
        """
        ...

    def load_last(self, subject: bytes) -> Read | None:
        """The newest committed message under a subject or wildcard."""
        ...

    def seq_for_time(self, ts_ns: int) -> int:
        """The first stored sequence whose time is at or after `ts_ns`; `last_seq + 1` when there is none."""
        ...


class StoreSubjects(Protocol):
    """Counts and sequences, by subject. None of these reads a message."""

    def filtered_state(self, filters: Filters, from_seq: int) -> SubjectState:
        """First, last and count of what passes at or above `from_seq`."""
        ...

    def count_matching(self, filters: Filters, from_seq: int, up_to_seq: int = SEQ_MAX) -> int:
        """Exact number of messages that pass from `from_seq` to `up_to_seq` inclusive."""
        ...

    def subjects_matching(self, subject: bytes) -> list[tuple[bytes, int]]:
        """Every stored subject the filter matches with its count, sorted by subject."""
        ...

    def subject_pages(self, subject: bytes) -> SubjectPages:
        """The same as they are now; to be sorted in a thread, and read in pages."""
        ...

    def subjects_from(
        self, filters: Filters, from_seq: int, *, max_msgs: int, up_to_seq: int
    ) -> tuple[list[int], list[bytes]]:
        """Sequences of the next messages that pass, and the subject of each. Reads no message."""
        ...

    def subjects_between(self, first_seq: int, last_seq: int) -> list[bytes]:
        """The subjects of what is stored in this range, each once, in order of appearance. Reads no message."""
        ...

    def prepare(self, filters: Filters, limit: int) -> bool:
        """Look at up to `limit` more subjects, so that questions about these filters need not; True: at all of them.

        Never needed, but a first question about patterns looks at every subject of the stream in one go.
        """
        ...

    def last_per_subject(self, filters: Filters, up_to_seq: int) -> Sequence[int]:
        """For each subject that passes, its newest sequence not above `up_to_seq` (0: no bound), ascending."""
        ...


class StoreReads(StoreSummary, StoreMessages, StoreSubjects, Protocol):
    """Everything that a reader can ask."""
