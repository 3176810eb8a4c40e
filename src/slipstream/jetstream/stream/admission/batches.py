"""Atomic batches: messages with one `Nats-Batch-Id` that are stored together, or not at all (ADR-50).

States of a batch::

    (none) ──sequence 1──► open ──next sequence──► open ──commit──► stored, or refused as a whole
                             └──gap, too large, bad commit, silence──► abandoned (an advisory says why)

Messages wait in memory. Only the commit looks at conditions, ids and limits; if all hold, the messages get
consecutive sequences in one unit of the store, which a crash leaves whole or not at all. Everything before the commit
is answered with an empty ack, the commit with the last sequence, the id and the count.

Invariant: what a batch holds counts towards `BatchLimits` until it is stored, refused or abandoned.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

import msgspec

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.versioning import level_suffices
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.limits import BATCH_ID_BYTES_MAX
from slipstream.jetstream.ports import BatchLimits, Cancel, Ports
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.admission.rules import sequence_of
from slipstream.jetstream.stream.admission.verdict import Admitted, Draft, Duplicate, Origin, Refused, Unwanted
from slipstream.jetstream.stream.admission.views import StagedView
from slipstream.jetstream.stream.commit.answers import Answers

__all__ = ["AtomicBatches", "batch_tail"]

_END: Final = b"eob"
# Of a message in an open batch beside its own bytes: a tuple and three bytes objects.
MESSAGE_OVERHEAD_BYTES: Final = 180


@dataclass(slots=True)
class _Batch:
    """One open batch."""

    messages: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    size_bytes: int = 0
    last_active_ns: int = 0
    timer: Cancel | None = None


class AtomicBatches:
    """The open batches of one stream."""

    def __init__(
        self, appends: Appends, answers: Answers, ports: Ports, advisories: Advisories, limits: BatchLimits
    ) -> None:
        """Store by `appends`, within the limits all streams share."""
        self._appends = appends
        self._answers = answers
        self._ports = ports
        self._advisories = advisories
        self._limits = limits
        self._resources = appends.resources
        self._open: dict[bytes, _Batch] = {}

    def __len__(self) -> int:
        """Open batches."""
        return len(self._open)

    def on_message(self, batch_id: bytes, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> None:
        """A message with a batch id arrived."""
        error = self._take(batch_id, subject, reply, header, payload)
        if error is not None:
            self._answers.refuse(reply, error)

    def refusal(
        self, batch_id: bytes, subject: bytes, header: bytes, payload: bytes
    ) -> tuple[ApiError | None, str | None]:
        """Why a message cannot be taken, and what becomes of its batch then: abandoned for a reason, ended (``""``).

        None: the message does not touch any batch.
        """
        appends = self._appends
        error = appends.refused_on_arrival(subject, header, payload)
        if error is None and not appends.rules.settings.config.allow_atomic:
            error = TableError(table.ATOMIC_PUBLISH_DISABLED)
        if error is None and len(batch_id) > BATCH_ID_BYTES_MAX:
            error = TableError(table.ATOMIC_PUBLISH_INVALID_BATCH_ID)
        seq = sequence_of(headers.find(header, b"Nats-Batch-Sequence") or b"")
        if error is None and seq < 0:
            error = TableError(table.ATOMIC_PUBLISH_MISSING_SEQ)
        if error is not None:
            return error, None
        commit = headers.find(header, b"Nats-Batch-Commit")
        stored_size = seq - 1 if commit == _END else seq  # the end marker is not a message of the batch
        is_too_large = stored_size > self._limits.msgs_max
        batch = self._open.get(batch_id)
        if batch is None and seq != 1:
            return self._too_large() if is_too_large else _incomplete(), None
        if batch is None and (len(self._open) >= self._limits.atomic_per_stream_max or self._limits.atomic_full):
            return TableError(table.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT), None
        if commit is not None and commit not in (b"1", _END):
            return TableError(table.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT), ""
        if not level_suffices(header):
            return TableError(table.REQUIRED_API_LEVEL), "unsupported"
        count = 0 if batch is None else len(batch.messages)
        if seq != count + 1 or (seq == 1 and commit == _END):
            return _incomplete(), "incomplete"
        return (self._too_large(), "large") if is_too_large else (None, None)

    def _take(
        self, batch_id: bytes, subject: bytes, reply: bytes | None, header: bytes, payload: bytes
    ) -> ApiError | None:
        error, end = self.refusal(batch_id, subject, header, payload)
        if error is not None and end is None:
            return error
        batch = self._open.get(batch_id) or self._begin(batch_id)
        if error is not None:
            if end:
                self._abandon(batch_id, end)
            else:
                self._end(batch_id)
            return error
        batch.last_active_ns = self._ports.now_ns()
        commit = headers.find(header, b"Nats-Batch-Commit")
        if headers.find(header, b"Nats-Required-Api-Level"):
            header = headers.remove(header, b"Nats-Required-Api-Level")
        if commit != _END:
            size = len(subject) + len(header) + len(payload)
            if self._limits.staged_bytes + size > self._limits.staged_bytes_max:
                self._abandon(batch_id, "large")
                return TableError(table.INSUFFICIENT_RESOURCES)
            if not self._resources.can_hold(size + MESSAGE_OVERHEAD_BYTES):
                self._abandon(batch_id, "large")
                return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)
            self._resources.hold(size + MESSAGE_OVERHEAD_BYTES)
            batch.messages.append((subject, header, payload))
            batch.size_bytes += size
            self._limits.staged_bytes += size
        if commit is None:
            # Nothing was promised, so nothing has to be waited for.
            if reply and self._answers.wanted:
                self._ports.publish(reply, None, None, b"")
            return None
        self._end(batch_id)
        return self._commit(batch_id, batch, reply, by_marker=commit == _END)

    def _commit(self, batch_id: bytes, batch: _Batch, reply: bytes | None, *, by_marker: bool) -> ApiError | None:
        appends, view, now_ns = self._appends, StagedView(self._appends.view), self._ports.now_ns()
        verdicts: list[Admitted | Unwanted] = []
        for subject, header, payload in batch.messages:
            draft = Draft(Origin.BATCH, appends.stored_under(subject), header, payload, now_ns)
            verdict = appends.rules.judge(draft, view)
            if isinstance(verdict, Duplicate):
                return TableError(table.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
            if isinstance(verdict, Refused):
                return verdict.error
            view.add(verdict)
            verdicts.append(verdict)
        if by_marker:
            header = headers.append(verdicts[-1].header, b"Nats-Batch-Commit", b"1")
            verdicts[-1] = msgspec.structs.replace(verdicts[-1], header=header)
        return appends.apply_unit(verdicts, reply, batch_tail(batch_id, len(verdicts)))

    def _too_large(self) -> ApiError:
        return TableError(table.ATOMIC_PUBLISH_TOO_LARGE_BATCH, size=self._limits.msgs_max)

    # --- life of a batch ---

    def _begin(self, batch_id: bytes) -> _Batch:
        batch = _Batch()
        self._watch(batch_id, batch, self._limits.timeout_ns)
        self._open[batch_id] = batch
        self._limits.atomic_open += 1
        return batch

    def _watch(self, batch_id: bytes, batch: _Batch, delay_ns: int) -> None:
        """Look again when the batch would have been silent for too long; most of the time it was not."""

        def look() -> None:
            left_ns = batch.last_active_ns + self._limits.timeout_ns - self._ports.now_ns()
            if left_ns > 0:
                self._watch(batch_id, batch, left_ns)
            else:
                self._abandon(batch_id, "timeout")

        def broke(error: Exception) -> None:
            self._ports.report("The end of an atomic batch", error)
            if batch_id in self._open:
                self._end(batch_id)

        batch.timer = self._ports.call_later(delay_ns, guarded(look, broke))

    def _end(self, batch_id: bytes) -> None:
        batch = self._open.pop(batch_id)
        self._limits.atomic_open -= 1
        self._limits.staged_bytes -= batch.size_bytes
        self._resources.hold(-batch.size_bytes - MESSAGE_OVERHEAD_BYTES * len(batch.messages))
        if batch.timer is not None:
            batch.timer()

    def _abandon(self, batch_id: bytes, reason: str) -> None:
        self._end(batch_id)
        stream = self._appends.rules.settings.config.name
        self._advisories.publish(
            f"STREAM.BATCH_ABANDONED.{stream}",
            "stream_batch_abandoned",
            {"stream": stream, "batch": batch_id.decode("utf-8", "replace"), "reason": reason},
        )

    def drop_all(self) -> None:
        """Forget every open batch: the stream stops, or takes no more of them."""
        for batch_id in list(self._open):
            self._end(batch_id)


def batch_tail(batch_id: bytes, count: int) -> bytes:
    """What an ack says about a batch, behind the sequence."""
    return b',"batch":%b,"count":%d' % (go_quote(batch_id.decode("utf-8", "replace")).encode(), count)


def _incomplete() -> ApiError:
    return TableError(table.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
