"""The contract between a stream and what keeps its messages.

A store is a log of messages with an index over it. The stream decides (which sequence, which time, what to remove);
the store executes and remembers. There are two: `memory.MemoryStore` and `file.FileStore`, and one suite of tests
(`tests/unit/store/test_contract.py`) that both must pass.

What this is not: policy. No store looks at a clock, enforces a limit, expires a message or wakes a consumer.

Life of a publish::

    store.append(seq, ts_ns, subject, headers, payload)   # joins the open frame; writers see it at once
    job = store.begin_commit()                            # takes everything that joined; None: nothing to do now
    job.run()                                             # in a thread, unless the job has `ended`
    done = store.finish_commit(job)                       # back on the loop
    done.last_seq                                         # everything up to here may be acknowledged and delivered

Rules a caller can rely on:

* There are two views. `assigned` shows every change at once, so that the next publish is checked against what was
  decided before it. Everything else is for readers: counts are those of the committed state, and a removed message is
  there until its removal is committed. A message is found as soon as it was appended, so whoever shows messages bounds
  itself by `committed_seq`. What a commit adds and what it removes appear in `finish_commit`, in the same instant.
* At most one commit of a store is in flight. `begin_commit` returns None while one is, or when nothing changed. What
  arrives meanwhile joins the next frame: the batch is what arrived during the previous sync.
* Several stores commit side by side; they share nothing.
* Nothing is acknowledged after a failure: `Committed.fault` is set, `last_seq` is what was safe before, and every
  sequence above it did not happen. The store refuses to write (`StoreUnavailable`) until it has repaired itself.
* A sequence, once committed, never denotes other bytes. Sequences only grow; gaps are allowed.
* A damaged record is a `Damaged` value in the place of the message, and is listed in `lost()`. It is never skipped
  in silence, renumbered or deleted.

All calls are made on one thread (the loop), except `Job.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slipstream.errors import StorageFault
from slipstream.kernels.fastpath.handout import Batch
from slipstream.kernels.index.subjectpages import SubjectPages
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import StoredMessage

if TYPE_CHECKING:
    from slipstream.jetstream.store.assigned import Assigned

__all__ = [
    "ALL",
    "SEQ_LAST",
    "SEQ_MAX",
    "Committed",
    "Damaged",
    "Filters",
    "Job",
    "Lost",
    "Read",
    "Store",
    "StoreUnavailable",
    "StoredMessage",
    "SubjectState",
]

Filters = Sequence[bytes]
"""Subjects, with or without wildcards; a message passes when any of them matches. Empty means every message."""

ALL: Filters = ()

SEQ_MAX = (1 << 64) - 1
"""No sequence is above it."""

SEQ_LAST = SEQ_MAX - 2
"""The last sequence a message can have: there must be one behind it, with which a segment could begin."""


class StoreUnavailable(StorageFault):
    """The store cannot take this change now. `full`: there is no space, it resumes by itself when there is."""

    def __init__(self, text: str, *, path: str = "", full: bool = False) -> None:
        """Remember whether the reason is a full disk (API error 10047) or a failing one."""
        super().__init__(text, path=path)
        self.full = full


class Damaged:
    """Stands where a message was stored that can no longer be read."""

    __slots__ = ("reason", "seq")

    def __init__(self, seq: int, reason: str) -> None:
        """Name the sequence and what is wrong with its bytes."""
        self.seq = seq
        self.reason = reason

    def __repr__(self) -> str:
        """Show both facts."""
        return f"Damaged(seq={self.seq}, reason={self.reason!r})"


Read = StoredMessage | Damaged
"""What a read of one sequence gives when that sequence is not a gap."""


@dataclass(frozen=True, slots=True)
class SubjectState:
    """What is stored under one subject, or under all subjects a filter matches. All zero when nothing is."""

    first_seq: int
    last_seq: int
    count: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Damage found so far. `seqs` were stored and cannot be read; `size_bytes` they occupied, if known."""

    seqs: list[int]
    size_bytes: int


@dataclass(slots=True)
class Committed:
    """How a commit ended."""

    last_seq: int
    """Every message up to here is committed: acknowledge and deliver it."""
    fault: StorageFault | None = None
    """Set when the commit failed: every assigned sequence above `last_seq` did not happen and will be reused."""


class Job(Protocol):
    """Work on files, prepared on the loop, run anywhere, finished on the loop."""

    @property
    def ended(self) -> bool:
        """Nothing is left to run: what there was to do was done when it began."""
        ...

    def run(self) -> None:
        """Do the work. Never raises for a disk error: the outcome is kept and read by `finish_*`."""
        ...


class Store(Protocol):
    """Messages of one stream, the state of its consumers and its configuration."""

    # --- state ----------------------------------------------------------------------------------------------------

    assigned: Assigned
    """The same stream as writers see it. Not to be kept: a repair puts another in its place."""

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

    @property
    def fault(self) -> StorageFault | None:
        """Why the store refuses changes, None when it takes them."""
        ...

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """Size of a message by the formula behind `size_bytes`, from the lengths of its parts: for limit checks."""
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

    # --- reading --------------------------------------------------------------------------------------------------

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

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """Give no place back that holds removed messages younger than this, as long as there is space to spare.

        `since_ns` is asked whenever a place could be given back; later than any message: nothing is kept.
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
        """The same for chosen sequences, ascending. Ends before one that is not there."""
        ...

    def longest_message(self, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """Subject, headers and payload of the longest of the next `limit` messages, in bytes, and where to go on.

        0 to go on: there is none behind them up to `up_to_seq`. Reads no message.
        """
        ...

    def load_last(self, subject: bytes) -> Read | None:
        """The newest committed message under a subject or wildcard."""
        ...

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

    def seq_for_time(self, ts_ns: int) -> int:
        """The first stored sequence whose time is at or after `ts_ns`; `last_seq + 1` when there is none."""
        ...

    # --- changing (all join the open frame; durable with the next commit) -------------------------------------------

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """Store one message. `seq` must be above `last_seq`; sequences left out become gaps.

        Args:
            seq: sequence the stream assigned.
            ts_ns: time the stream assigned, not below that of the message before.
            subject: literal subject, 1 to 65535 bytes.
            headers: raw header block from `NATS/1.0` to the empty line, or `b""`.
            payload: the body.
            expires_ns: deadline of the message's own TTL, 0 for none. Kept and given back; not acted on.

        Raises:
            StoreUnavailable: the disk is full or failing.
            ValueError: a part is too long, or `seq` does not grow.
        """
        ...

    def direct_writer(self) -> LogWriter | None:
        """Where messages may be appended in place of `append`, until the next commit begins, or upkeep does.

        None: nowhere, because messages are refused. What the writer does not take has to go through `append`.
        """
        ...

    def begin_atomic(self) -> None:
        """Open a unit: what `append_atomic` adds survives a crash as a whole or not at all. Not nested.

        A unit may be as large as the disk: between its appends the caller commits as often as it likes, to give back
        memory, and nothing of the unit counts before `end_atomic` and the commit after it. Until `end_atomic` no read
        sees it, `last_seq` does not move, and `append` and `skip_to` are refused. Removals, configurations and notes
        are taken and join the log behind the unit: a commit while it is open does not cover them.
        """
        ...

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """Add a message to the open unit, as `append` does without one."""
        ...

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """Close the unit: from here on its messages are like any others that wait for their commit.

        Args:
            notes: facts that become true with the unit, see `put_note`.
        """
        ...

    def abort_atomic(self) -> None:
        """Give the open unit up, if there is one, as if it had never begun; its sequences are free again."""
        ...

    @property
    def atomic_open(self) -> bool:
        """Whether a unit is open. A fault closes it: nothing of it remains."""
        ...

    def notes(self) -> dict[bytes, bytes]:
        """The facts kept beside the messages, as assigned."""
        ...

    def put_note(self, key: bytes, value: bytes) -> None:
        """Keep a small fact until it is replaced; an empty value removes it. Removing messages does not touch it.

        Raises:
            ValueError: there are too many, or it is too long.
        """
        ...

    def skip_to(self, last_seq: int) -> None:
        """Raise `last_seq` without storing anything: the sequences between become gaps."""
        ...

    def delete(self, seq: int) -> bool:
        """Remove one message; its bytes stay on disk until compaction. False: there was none, or not any more."""
        ...

    def erase(self, seq: int) -> bool:
        """Remove one message and overwrite its bytes where they lie, in the next commit. False: there was none.

        The commit removes it, the one behind overwrites it: until then readers may look at it. It is complete when
        `erasing` is 0: a compaction may have made a copy, overwritten one commit later, or may not have removed
        the old one yet, which upkeep does.
        """
        ...

    @property
    def erasing(self) -> int:
        """Erasures whose bytes are not all overwritten yet."""
        ...

    @property
    def erased(self) -> tuple[int, int]:
        """How many erasures were committed since the store was opened, and how many of these are complete.

        They are completed in order. While a copy is left that was made meanwhile, none counts as complete.
        """
        ...

    def trim_to(self, first_seq: int) -> int:
        """Remove everything below `first_seq`; how many messages went. One record, whatever the number.

        `first_seq` may be above `last_seq + 1`: then `last_seq` becomes `first_seq - 1`.
        """
        ...

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """Remove what matches; how many messages went.

        Args:
            subject: only messages this filter matches; `b""` for all.
            up_to_seq: only messages below this sequence; 0 for no bound.
            keep: leave this many of the newest that match.
        """
        ...

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """A piece of a purge: remove up to `limit` of the oldest that match, in sequences up to `up_to_seq`.

        Looks at a bounded number of sequences, from `from_seq` on. Returns how many messages went and where the next
        piece begins; 0 when all that was meant is gone.
        """
        ...

    # --- configuration and consumer state ---------------------------------------------------------------------------

    @property
    def config(self) -> bytes:
        """The stream's configuration as last set; the store does not look inside."""
        ...

    def set_config(self, config: bytes) -> None:
        """Replace the configuration."""
        ...

    def journal_put(self, key: bytes, state: bytes) -> None:
        """Set the whole state of one consumer; forgets its earlier states and deltas."""
        ...

    def journal_add(self, key: bytes, delta: bytes) -> None:
        """Add one change to the state of a consumer. The owner puts a whole state now and then to bound the list."""
        ...

    def journal_remove(self, key: bytes) -> None:
        """Forget a consumer."""
        ...

    def journal_entries(self) -> dict[bytes, list[bytes]]:
        """For each consumer the last whole state (first) and the deltas since, in order."""
        ...

    # --- commit and upkeep --------------------------------------------------------------------------------------------

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes that wait for a commit, in flight or not: the caller's measure for back-pressure."""
        ...

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> Job | None:
        """Take what changed. `sync=False` writes without waiting for the device (interval policy).

        With `sync=True` it also covers everything written before without sync. With `inline` a short commit may be
        carried out here and now, if that takes no longer than to hand it over: then the job has ended already.
        """
        ...

    def finish_commit(self, job: Job) -> Committed:
        """Account for a job whose `run` has returned."""
        ...

    def give_up(self, fault: StorageFault) -> None:
        """An exception that nobody expected left a commit in between, and no thread works on it.

        The store goes on from what it knows to be committed, as after a commit that failed.
        """
        ...

    @property
    def upkeep_due(self) -> bool:
        """Whether `begin_upkeep` may have something to do beside what the next commit does as well."""
        ...

    def begin_upkeep(self) -> Job | None:
        """The next piece of background work, if any: repair after a fault, index files, compaction, scrubbing.

        Call it about once a second and after a fault, until it gives None; then `begin_commit`, for upkeep may leave
        something to log. At most one is in flight, beside a commit.
        """
        ...

    def finish_upkeep(self, job: Job) -> None:
        """Account for it."""
        ...

    def scrub_next(self) -> bool:
        """Have upkeep read and check one more piece of what was written; False: all were, the next call begins anew."""
        ...

    def close(self) -> None:
        """Write and sync what is open, mark the log as cleanly closed, release files. Blocks; idempotent."""
        ...

    def destroy(self) -> None:
        """Close and remove everything this store ever wrote. Blocks."""
        ...
