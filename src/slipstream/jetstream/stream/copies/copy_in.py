"""Messages of other streams: what a mirror, sources and schedules put into a stream.

Their publishers' conditions were checked at the origin. Transform, sizes, limits and roll-ups are this stream's. Nobody
is answered: a refusal goes to whoever copies, who tries again or passes the message over.

Two paths, as for publishes: a message that came without headers into a stream without special settings is appended
there and then (`store_plain`); `store` is the specification of both.

What this is not: where copies come from and how far they were read (`mirror`, `sources`, `source_feed`).
"""

from __future__ import annotations

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.appends import exhausted
from slipstream.jetstream.stream.admission.ingest import Ingest
from slipstream.jetstream.stream.admission.settings_rules import wrong_rollup
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.limits import SOURCE_BUFFERED_BYTES_MAX

__all__ = ["CopyIn"]


class CopyIn:
    """The way in to one stream for messages of others."""

    __slots__ = ("_admission", "_append", "_appends", "_committer", "_ingest", "_intake", "_resources")

    def __init__(self, ingest: Ingest, committer: Committer) -> None:
        """Beside the publishes that `ingest` takes."""
        self._ingest = ingest
        self._intake = ingest.intake
        self._appends = ingest.appends
        self._append = ingest.appends.store.append
        self._admission = ingest.admission
        self._resources = ingest.admission.resources
        self._committer = committer

    def store_plain(
        self, subject: bytes, header: bytes, payload: bytes, seq: int = 0, ts_ns: int = 0
    ) -> ApiError | None:
        """The same as `store` for a message that came without headers, whatever was added since."""
        resources, intake, admission = self._resources, self._intake, self._admission
        if (
            not admission.is_plain
            or self._ingest.held is not None
            or resources.limited
            or resources.server_exceeded
            or len(header) + len(payload) > admission.max_msg_size
            or self._committer.waiting_bytes > SOURCE_BUFFERED_BYTES_MAX
        ):
            return self.store(subject, header, payload, seq=seq, ts_ns=ts_ns)
        seq = seq or intake.last_seq + 1
        if seq > SEQ_LAST:
            return exhausted()
        ts_ns = max(ts_ns or self._appends.now_ns(), intake.last_ts_ns)
        try:
            self._append(seq, ts_ns, subject, header, payload)
        except StorageFault as fault:
            return store_error(fault)
        except ValueError as error:
            return TableError(table.STREAM_STORE_FAILED, err=error)
        except Exception as error:
            return self._appends.broke(error)
        intake.last_seq = seq
        intake.last_ts_ns = ts_ns
        intake.last_id = b""
        intake.buffered_bytes += len(payload)
        if intake.appended is not None:
            intake.appended(seq, subject, 0)
        self._committer.wake()
        return None

    def store(self, subject: bytes, header: bytes, payload: bytes, *, seq: int = 0, ts_ns: int = 0) -> ApiError | None:
        """Store a message of another stream; why not, if it cannot be. A repetition by message id is left out silently.

        Args:
            subject: what it is stored under, before the stream's own transform.
            header: its header block without conditions, or `b""`.
            payload: its body.
            seq: the origin's sequence, for a mirror; 0 to assign the next.
            ts_ns: the origin's time, for a mirror; 0 for now.
        """
        appends, admission = self._appends, self._admission
        if self._ingest.held is not None or self._committer.waiting_bytes > SOURCE_BUFFERED_BYTES_MAX:
            return TableError(table.STREAM_TOO_MANY_REQUESTS)
        subject = admission.transformed(subject)
        refusal = admission.closed_or_too_large(len(header), len(payload))
        if refusal is not None:
            return refusal
        message_id = rollup = b""
        if header and header.find(b"Nats-") >= 0:
            config = admission.config
            header = headers.remove(header, b"Nats-Request-Info")
            message_id = headers.find(header, b"Nats-Msg-Id") or b""
            if message_id and not seq and appends.ids.find(message_id, appends.now_ns()) is not None:
                return None
            rollup = (headers.find(header, b"Nats-Rollup") or b"").lower()
            if rollup and (not config.allow_rollup_hdrs or config.deny_purge):
                rollup = b""
            refusal = wrong_rollup(config, rollup)
            if refusal is not None:
                return refusal
        if admission.counter is not None:
            counted = admission.counted(subject, header, payload)
            if isinstance(counted, ApiError):
                return counted
            header, payload, _tail = counted
        return appends.add(subject, None, header, payload, message_id=message_id, rollup=rollup, seq=seq, ts_ns=ts_ns)
