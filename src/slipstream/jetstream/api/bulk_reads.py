"""BULK.INFO, PLAN, READ, CREDIT, HOLD and RELEASE: bulk reading over the API. Documented in docs/internals/bulk.md."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.limits import (
    BULK_CHUNK_BYTES,
    BULK_CHUNK_BYTES_MAX,
    BULK_CHUNK_BYTES_MIN,
    BULK_CREDIT,
    BULK_CREDIT_MAX,
    BULK_MEMORY_CHUNK_BYTES,
    BULK_MEMORY_CREDIT,
    BULK_SPLITS_MAX,
    BULK_WINDOW_BYTES_MAX,
)
from slipstream.jetstream.bulk.pace import Pace
from slipstream.jetstream.bulk.plan import SplitPlanner, SplitTarget, cut
from slipstream.jetstream.bulk.readers import Readers
from slipstream.jetstream.bulk.requests import (
    HoldRequest,
    PlanRequest,
    Range,
    ReadRequest,
    ReleaseRequest,
    decode,
    identity_of,
    range_of,
)
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.store.bulk import Mark
from slipstream.jetstream.stream.retention.holds import Hold
from slipstream.jetstream.stream.stream import Stream
from slipstream.limits import BULK_HOLD_NS_MAX, BULK_HOLDER_MAX, BULK_HOLDS_MAX
from slipstream.units import SECOND_NS

__all__ = ["BULK_VERSION", "BulkApi"]

BULK_VERSION = 1
"""Of requests, answers and record layout together; a client that knows another one must not guess."""


class BulkApi:
    """Handlers of bulk reads."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, pace: Pace) -> None:
        """Register the handlers."""
        self._account = account
        self.readers = Readers(account.ports, pace)
        register = api.register
        register("BULK.INFO.*", "bulk_info_response", pace.counted(self.info))
        register("BULK.PLAN.*", "bulk_plan_response", pace.counted(self.plan))
        register("BULK.READ.*", "bulk_read_response", pace.counted(self.read))
        register("BULK.CREDIT.*.*", "bulk_credit_response", pace.counted(self.credit))
        register("BULK.HOLD.*", "bulk_hold_response", pace.counted(self.hold))
        register("BULK.RELEASE.*", "bulk_release_response", pace.counted(self.release))
        account.on_stopped.append(self.readers.drop_stream)
        account.on_shutdown.append(self.readers.stop)

    def info(self, request: ApiRequest) -> None:
        """What a reader has to know before it begins."""
        stream = self._account.get_stream(request.names[0])
        fixed = {"version": BULK_VERSION, "storage": stream.config.storage.value}

        def respond() -> None:
            request.respond({**_state(stream), **fixed, "holds": [_shown(hold) for hold in stream.holds]})

        stream.after_received(respond, gone=request.fail)

    def plan(self, request: ApiRequest) -> None:
        """Cut a range into pieces."""
        stream = self._account.get_stream(request.names[0])
        stream.after_received(lambda: request.attempt(lambda: self._plan(request, stream)), gone=request.fail)

    def _plan(self, request: ApiRequest, stream: Stream) -> None:
        asked = decode(PlanRequest, request.body)
        for limit in (asked.max_msgs, asked.max_bytes, asked.partitions):
            if limit is not None and limit < 1:
                raise TableError(errors.INVALID_REQUEST, err="a limit is below 1")
        if asked.partitions is not None and asked.partitions > BULK_SPLITS_MAX:
            raise TableError(errors.INVALID_REQUEST, err=f"more than {BULK_SPLITS_MAX} partitions")
        wanted = range_of(stream, asked)
        target = SplitTarget(asked.partitions, asked.target_bytes, asked.min_rows)

        def done(last: int, marks: list[Mark]) -> None:
            splits = cut(wanted.first, last, marks, target)
            request.respond(
                {
                    **_state(stream),
                    "first": wanted.first,
                    "last": last,
                    "messages": sum(split.messages for split in splits),
                    "bytes": sum(split.bytes for split in splits),
                    "splits": [[split.first, split.last, split.messages, split.bytes] for split in splits],
                }
            )

        SplitPlanner(
            stream.store,
            self._account.ports,
            wanted,
            target,
            max_msgs=asked.max_msgs,
            max_bytes=asked.max_bytes,
            done=done,
        ).step()

    def read(self, request: ApiRequest) -> None:
        """Send records to the reply subject, after an answer that names the read."""
        stream = self._account.get_stream(request.names[0])
        if not request.reply:
            raise TableError(errors.NO_REPLY)
        stream.after_received(lambda: request.attempt(lambda: self._read(request, stream)), gone=request.fail)

    def _read(self, request: ApiRequest, stream: Stream) -> None:
        assert request.reply
        asked = decode(ReadRequest, request.body)
        wanted: Range = range_of(stream, asked)
        usual_bytes = BULK_MEMORY_CHUNK_BYTES if asked.memory else BULK_CHUNK_BYTES
        chunk_bytes = min(max(asked.chunk_bytes or usual_bytes, BULK_CHUNK_BYTES_MIN), BULK_CHUNK_BYTES_MAX)
        credit_max = min(BULK_CREDIT_MAX, BULK_WINDOW_BYTES_MAX // chunk_bytes)
        usual_credit = BULK_MEMORY_CREDIT if asked.memory else BULK_CREDIT
        credit = min(max(asked.credit or usual_credit, 1), credit_max)
        reader = self.readers.begin(
            stream,
            wanted,
            request.reply,
            credit=credit,
            chunk_bytes=chunk_bytes,
            memory=asked.memory,
            files=asked.files,
        )
        answer = {**_state(stream), "id": reader.id, "first": wanted.first, "last": wanted.last, "credit": credit}
        if reader.memory is not None:
            answer["memory"] = {
                "path": reader.memory.path,
                "name": reader.memory_name,
                "bytes": reader.memory_bytes,
            }
        request.respond(answer)

    def credit(self, request: ApiRequest) -> None:
        """A reader has dealt with chunks. It needs no answer, and mostly does not ask for one."""
        count, _, how = request.body.strip().partition(b" ")
        if count.isdigit() and len(count) <= 4 and how in (b"", b"messages"):
            self.readers.confirm(request.names[0], request.names[1], int(count), without_memory=how == b"messages")
        request.respond({}, audited=False)

    def hold(self, request: ApiRequest) -> Mapping[str, object]:
        """Keep messages from a sequence on, whatever retention says; or renew or move a hold."""
        stream = self._account.get_stream(request.names[0])
        asked = decode(HoldRequest, request.body)
        ttl_s_max = BULK_HOLD_NS_MAX // SECOND_NS
        if not 0 < asked.ttl_s <= ttl_s_max or not 0 <= asked.first < 2**63:
            raise TableError(errors.INVALID_REQUEST, err=f"first is a sequence, ttl_s above 0 and at most {ttl_s_max}")
        if len(asked.by) > BULK_HOLDER_MAX:
            raise TableError(errors.INVALID_REQUEST, err=f"by has more than {BULK_HOLDER_MAX} characters")
        before = stream.holds.find(asked.id) if asked.id else None
        if asked.id and before is None:
            raise TableError(errors.HOLD_NOT_FOUND)
        if not asked.id and len(stream.holds) >= BULK_HOLDS_MAX:
            raise TableError(errors.TOO_MANY_HOLDS)
        ports = self._account.ports
        by = asked.by or ("" if before is None else before.by)
        hold = Hold(asked.id or ports.new_nuid(), asked.first, ports.now_ns() + int(asked.ttl_s * SECOND_NS), by)
        stream.holds.put(hold)
        return {**_state(stream), "id": hold.id, "first": hold.first_seq, "ttl_s": asked.ttl_s}

    def release(self, request: ApiRequest) -> Mapping[str, object]:
        """End a hold."""
        stream = self._account.get_stream(request.names[0])
        if not stream.holds.remove(decode(ReleaseRequest, request.body).id):
            raise TableError(errors.HOLD_NOT_FOUND)
        return {"success": True}


def _shown(hold: Hold) -> dict[str, object]:
    return {"id": hold.id, "by": hold.by, "first": hold.first_seq, "expires": format_time(hold.expires_ns)}


def _state(stream: Stream) -> dict[str, object]:
    store = stream.store
    return {
        "stream": stream.name,
        "identity": identity_of(stream),
        "first_seq": store.first_seq,
        "last_seq": store.committed_seq,
    }
