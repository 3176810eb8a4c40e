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
* `Committed.commits` says how many commits are done with a call. Alone it is the one that was finished; where a
  majority decides it is none, or several (`file.commits`).
* Several stores commit side by side; they share nothing.
* Nothing is acknowledged after a failure: `Committed.fault` is set, `last_seq` is what was safe before, and every
  sequence above it did not happen. The store refuses to write (`StoreUnavailable`) until it has repaired itself.
* A sequence, once committed, never denotes other bytes. Sequences only grow; gaps are allowed.
* A damaged record is a `Damaged` value in the place of the message, and is listed in `lost()`. It is never skipped
  in silence, renumbered or deleted.

All calls are made on one thread (the loop), except `Job.run`.
"""

from __future__ import annotations

from typing import Protocol

from slipstream.jetstream.store.contract.bulk import BulkAccess
from slipstream.jetstream.store.contract.commits import StoreCommits, StoreUpkeep
from slipstream.jetstream.store.contract.journal import StoreJournal
from slipstream.jetstream.store.contract.reads import StoreMessages, StoreReads, StoreSubjects, StoreSummary
from slipstream.jetstream.store.contract.writes import StoreFacts, StoreUnits, StoreWrites

__all__ = [
    "BulkAccess",
    "Store",
    "StoreCommits",
    "StoreFacts",
    "StoreJournal",
    "StoreMessages",
    "StoreReads",
    "StoreSubjects",
    "StoreSummary",
    "StoreUnits",
    "StoreUpkeep",
    "StoreWrites",
]


class Store(StoreReads, StoreWrites, StoreUnits, StoreFacts, StoreCommits, StoreUpkeep, Protocol):
    """Messages of one stream, the state of its consumers and its configuration."""

    @property
    def journal(self) -> StoreJournal:
        """The states of the stream's consumers."""
        ...

    @property
    def bulk(self) -> BulkAccess:
        """The same records for bulk reads and writes."""
        ...
