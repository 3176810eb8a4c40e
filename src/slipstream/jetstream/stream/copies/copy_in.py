"""Messages of other streams: what a mirror, sources and schedules put into a stream.

Their publishers' conditions were checked at the origin; `rule_table` says what is left to check. Nobody is answered: a
refusal goes to whoever copies, who tries again or passes the message over.

A message that came without headers into a stream where the rules have nothing to say about such messages is appended
there and then (`store_plain`); `store` is the specification of both.

What this is not: where copies come from and how far they were read (`mirror`, `sources`, `source_feed`).
"""

from __future__ import annotations

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.ingest import Ingest
from slipstream.jetstream.stream.admission.verdict import Duplicate, Origin, Refused
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.limits import SOURCE_BUFFERED_BYTES_MAX

__all__ = ["CopyIn"]


class CopyIn:
    """The way in to one stream for messages of others."""

    __slots__ = ("_append", "_appends", "_committer", "_ingest", "_intake", "_now", "_resources")

    def __init__(self, ingest: Ingest, ports: Ports, committer: Committer) -> None:
        """Beside the publishes that `ingest` takes."""
        self._ingest = ingest
        self._intake = ingest.intake
        self._appends = ingest.appends
        self._append = ingest.appends.store.append
        self._now = ports.now_ns
        self._resources = ingest.appends.resources
        self._committer = committer

    def store_plain(
        self, subject: bytes, header: bytes, payload: bytes, seq: int = 0, ts_ns: int = 0
    ) -> ApiError | None:
        """The same as `store` for a message that came without headers, whatever was added since."""
        resources, intake, rules = self._resources, self._intake, self._appends.rules
        if (
            not rules.is_plain
            or self._ingest.held is not None
            or resources.limited
            or resources.server_exceeded
            or len(header) + len(payload) > rules.settings.max_msg_size
            or self._committer.waiting_bytes > SOURCE_BUFFERED_BYTES_MAX
            or seq > SEQ_LAST
            or intake.last_seq >= SEQ_LAST
        ):
            return self.store(subject, header, payload, seq=seq, ts_ns=ts_ns)
        seq = seq or intake.last_seq + 1
        ts_ns = max(ts_ns or self._now(), intake.last_ts_ns)
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

    def store(
        self,
        subject: bytes,
        header: bytes,
        payload: bytes,
        *,
        seq: int = 0,
        ts_ns: int = 0,
        origin: Origin = Origin.SOURCE,
    ) -> ApiError | None:
        """Store a message of another stream; why not, if it cannot be. A repetition by message id is left out silently.

        Args:
            subject: what it is stored under, before the stream's own transform.
            header: its header block without conditions, or `b""`.
            payload: its body.
            seq: the origin's sequence, for a mirror; 0 to assign the next.
            ts_ns: the origin's time, for a mirror; 0 for now.
            origin: whose message it is, if it is not a mirror's.
        """
        if self._ingest.held is not None or self._committer.waiting_bytes > SOURCE_BUFFERED_BYTES_MAX:
            return TableError(table.STREAM_TOO_MANY_REQUESTS)
        appends = self._appends
        origin = Origin.MIRROR if seq else origin
        verdict = appends.judge(origin, appends.stored_under(subject), header, payload, seq=seq, ts_ns=ts_ns)
        if isinstance(verdict, Duplicate):
            return None
        return verdict.error if isinstance(verdict, Refused) else appends.apply(verdict)
