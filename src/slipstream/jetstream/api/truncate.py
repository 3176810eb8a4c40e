"""STREAM.TRUNCATE: drop the newest messages of a stream (ADR 94)."""

from __future__ import annotations

from typing import Final

import msgspec

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.gojson.scan import JsonError
from slipstream.jetstream.gojson.times import parse_time
from slipstream.jetstream.store.values import SEQ_MAX
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.retention.removals import refuse_if_closed
from slipstream.jetstream.stream.retention.truncation import first_of_newest
from slipstream.jetstream.stream.stream import Stream

__all__ = ["TruncateApi"]

_WRONG: Final = ErrorSpec(400, 30102, "stream truncate needs one of after_seq, after_time and newest")
_DELIVERED: Final = ErrorSpec(409, 30103, "stream truncate would drop messages that were delivered: {who}")
_HELD: Final = ErrorSpec(409, 30104, "stream truncate would drop messages that a bulk reader holds")
_NAMED_MAX: Final = 5  # consumers in an error


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    after_seq: int | None = None
    after_time: str | None = None
    newest: int | None = None
    force: bool = False


class TruncateApi:
    """The one handler."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register it."""
        self._account = account
        api.register("STREAM.TRUNCATE.*", "stream_truncate_response", self.truncate, error_fields={"truncated": 0})

    def truncate(self, request: ApiRequest) -> None:
        """Drop everything behind a sequence or a time, or the newest so many; answered when that is on the disk."""
        try:
            asked = msgspec.json.decode(request.body, type=_Asked) if request.body.strip() else _Asked()
        except msgspec.MsgspecError as error:
            raise TableError(table.INVALID_JSON, err=str(error)) from error
        given = [asked.after_seq, asked.after_time, asked.newest]
        numbers = [number for number in (asked.after_seq, asked.newest) if number is not None]
        if sum(one is not None for one in given) != 1 or any(not 0 <= number < SEQ_MAX for number in numbers):
            raise TableError(_WRONG)
        after_ns = _time_ns(asked.after_time)
        stream = self._account.get_stream(request.names[0])
        refusal = refuse_if_closed(stream.config, purge=True)
        if refusal is not None:
            raise refusal

        def committed(error: ApiError | None) -> None:
            if error is not None:
                request.fail(error)
            elif self._account.streams.get(stream.name) is stream:
                request.attempt(lambda: self._cut(request, asked, after_ns, stream))

        # What was received before it is there, and is judged; what comes meanwhile is behind the cut.
        stream.after_received(lambda: stream.after_commit(committed), gone=request.fail)

    def _cut(self, request: ApiRequest, asked: _Asked, after_ns: int, stream: Stream) -> None:
        store = stream.store
        last_seq = store.committed_seq
        if asked.after_seq is not None:
            first_seq = asked.after_seq + 1
        elif asked.newest is not None:
            first_seq = first_of_newest(store, asked.newest, max(store.first_seq, 1), last_seq)
        else:
            first_seq = store.seq_for_time(after_ns + 1)
        first_seq = max(first_seq, store.first_seq, 1)
        fields = {"stream": stream.name, "first_seq": first_seq, "last_seq": last_seq}
        if first_seq > last_seq or not store.count_matching((), first_seq, last_seq):
            request.respond({**fields, "success": True, "truncated": 0})
            return
        if not asked.force:
            self._check(stream, first_seq)

        def done(truncated: int, fault: StorageFault | None) -> None:
            if fault is not None:
                request.fail(store_error(fault))
                return
            settle = request.settle({**fields, "success": True, "truncated": truncated})

            def committed(error: ApiError | None) -> None:
                settle(error)
                if error is None:
                    self._account.advisories.stream_truncated(
                        stream.name, first_seq, last_seq, truncated, forced=asked.force
                    )

            stream.after_commit(committed)

        stream.removals.begin_truncate(first_seq, last_seq, done)

    def _check(self, stream: Stream, first_seq: int) -> None:
        names = stream.interest.delivered_from(first_seq)
        if names:
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            raise TableError(_DELIVERED, who=f"by {', '.join(names[:_NAMED_MAX])}{more}")
        if len(stream.holds):
            raise TableError(_HELD)


def _time_ns(text: str | None) -> int:
    try:
        return parse_time(text) if text is not None else 0
    except (JsonError, ValueError) as error:
        raise TableError(table.INVALID_JSON, err=f"after_time: {error}") from error
