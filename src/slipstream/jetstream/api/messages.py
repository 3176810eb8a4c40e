"""STREAM.MSG.GET and STREAM.MSG.DELETE: one message, as JSON."""

from __future__ import annotations

from functools import partial

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.store.contract import StoreReads
from slipstream.jetstream.stream import reads
from slipstream.jetstream.stream.retention.removals import refuse_if_closed
from slipstream.jetstream.stream.stream import Stream

__all__ = ["MessageApi"]


class MessageApi:
    """Handlers about single messages."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register the handlers."""
        self._account = account
        prepare = partial(bodies.prepare, bodies.MSG_GET)
        api.register("STREAM.MSG.GET.*", "stream_msg_get_response", self.get, prepare=prepare)
        api.register("STREAM.MSG.DELETE.*", "stream_msg_delete_response", self.delete)

    def get(self, request: ApiRequest) -> None:
        """Find one message by sequence, subject or time."""
        asked = bodies.quick_get(request.body)
        if asked is None:
            if bodies.is_empty(request.body):
                raise TableError(table.BAD_REQUEST)
            asked = bodies.decode(bodies.MSG_GET, request)
        timed = asked.start_time_ns is not None
        ways = (asked.seq > 0, bool(asked.last_by_subj), timed)
        if (
            asked.batch > 0
            or asked.max_bytes > 0
            or sum(ways) > 1
            or not (any(ways) or asked.next_by_subj)
            or (asked.last_by_subj and asked.next_by_subj)
        ):
            raise TableError(table.BAD_REQUEST)
        stream = self._account.get_stream(request.names[0])
        stream.after_received(
            lambda: request.attempt(lambda: self._found(request, asked, stream.store)), gone=request.fail
        )

    def _found(self, request: ApiRequest, asked: bodies.MsgGetRequest, store: StoreReads) -> None:
        seq = store.seq_for_time(asked.start_time_ns) if asked.start_time_ns is not None else asked.seq
        if seq > 0 and not asked.next_by_subj:
            message = reads.at(store, seq)
        elif asked.next_by_subj:
            message = reads.following(store, asked.next_by_subj.encode(), seq)
        else:
            message = reads.last(store, asked.last_by_subj.encode())
        if message is None:
            raise TableError(table.NO_MESSAGE_FOUND)
        fields: dict[str, object] = {"subject": message.subject.decode("utf-8", "replace"), "seq": message.seq}
        if message.headers and not asked.no_hdr:
            fields["hdrs"] = message.headers
        if message.payload:
            fields["data"] = message.payload
        fields["time"] = format_time(message.ts_ns)
        request.respond({"message": fields}, audited=False)

    def delete(self, request: ApiRequest) -> None:
        """Remove one message, overwriting it unless told not to."""
        if bodies.is_empty(request.body):
            raise TableError(table.BAD_REQUEST)
        asked = bodies.decode(bodies.MSG_DELETE, request)
        stream = self._account.get_stream(request.names[0])
        refusal = refuse_if_closed(stream.config, purge=False)
        if refusal is not None:
            raise refusal
        if not stream.removals.delete(asked.seq, erase=not asked.no_erase):
            raise _nothing_there(stream, asked.seq)
        answer_after = stream.after_commit if asked.no_erase else stream.committer.after_erasure
        answer_after(request.settle({"success": True}))


def _nothing_there(stream: Stream, seq: int) -> TableError:
    """nats-server's file store tells apart what was never there; its memory store does not."""
    store = stream.store
    if stream.config.storage is StorageType.FILE:
        if seq > store.last_seq:
            return TableError(table.STREAM_MSG_DELETE_FAILED, err="stream store EOF")
        if seq < store.first_seq:
            return TableError(table.STREAM_MSG_DELETE_FAILED, err="no message found")
    return TableError(table.SEQUENCE_NOT_FOUND, seq=seq)
