"""BULK.STAGE, COMMIT and ABORT: staged atomic writes over the API. Documented in docs/internals/bulk.md."""

from __future__ import annotations

from slipstream.errors import ApiError
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.commits import CommitOutcome, Commits
from slipstream.jetstream.bulk.fences import find_fence
from slipstream.jetstream.bulk.limits import BULK_COMMIT_PARTS_MAX, BULK_MEMORY_CHUNK_BYTES
from slipstream.jetstream.bulk.pace import Pace
from slipstream.jetstream.bulk.parts import Part, part_prefix
from slipstream.jetstream.bulk.requests import (
    AbortRequest,
    CommitRequest,
    FenceRequest,
    PartRequest,
    StageRequest,
    checked_txn,
    decode,
    identity_of,
)
from slipstream.jetstream.bulk.stages import Begun, Stages, memory_name
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.stream.retention.removals import refuse_if_closed
from slipstream.jetstream.stream.stream import Stream
from slipstream.limits import BULK_STAGE_NS, BULK_STAGE_NS_MIN
from slipstream.units import SECOND_NS

__all__ = ["BulkWriteApi"]

_END = "END"
_IN_MEMORY = "M"  # before the offset of bytes that are in shared memory


class BulkWriteApi:
    """Handlers of bulk writes."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, pace: Pace) -> None:
        """Register the handlers."""
        self._account = account
        self.stages = Stages(account.ports)
        self.commits = Commits(account.ports, self.stages)
        register = api.register
        register("BULK.STAGE.*", "bulk_stage_response", pace.counted(self.stage))
        register("BULK.STAGE.*.*.*", "bulk_stage_response", pace.counted(self.stage_data))
        register("BULK.COMMIT.*", "bulk_commit_response", pace.counted(self.commit))
        register("BULK.ABORT.*", "bulk_abort_response", pace.counted(self.abort))
        register("BULK.FENCE.*", "bulk_fence_response", pace.counted(self.fence))
        account.on_started.append(self.stages.add_stream)
        account.on_stopped.append(self._stopped)
        account.on_shutdown += (self.commits.stop, self.stages.stop)

    def stage(self, request: ApiRequest) -> None:
        """Begin a part."""
        stream = self._account.get_stream(request.names[0])
        asked = decode(StageRequest, request.body)
        if asked.part < 0 or asked.attempt < 0:
            raise TableError(errors.INVALID_REQUEST, err="part and attempt are not negative")
        least_s, most_s = BULK_STAGE_NS_MIN // SECOND_NS, BULK_STAGE_NS // SECOND_NS
        if not least_s <= asked.keep_s <= most_s:
            raise TableError(errors.INVALID_REQUEST, err=f"keep_s is a number of seconds from {least_s} to {most_s}")
        refusal = refuse_if_closed(stream.config, purge=False) if stream.config.sealed else None
        if refusal is not None:
            raise refusal

        def begun(outcome: Begun | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
                return
            answer: dict[str, object] = {"stream": stream.name, "identity": identity_of(stream), "id": outcome.id}
            if outcome.memory is not None:
                size = len(outcome.memory.view)
                answer["memory"] = {"path": outcome.memory.path, "name": memory_name(outcome.id), "bytes": size}
                answer["room_bytes"] = BULK_MEMORY_CHUNK_BYTES
            request.respond(answer)

        self.stages.begin(
            stream,
            checked_txn(asked.txn),
            asked.part,
            asked.attempt,
            begun,
            memory=asked.memory,
            keep_ns=asked.keep_s * SECOND_NS,
        )

    def stage_data(self, request: ApiRequest) -> None:
        """Bytes of a part, or its end."""
        name, id_, what = request.names
        stream = self._account.get_stream(name)
        if what == _END:
            self._stage_end(request, stream, id_)
            return
        offset = what.removeprefix(_IN_MEMORY)
        if not offset.isdecimal() or len(offset) > 18:
            raise TableError(errors.INVALID_REQUEST, err="an offset is a number")

        def written(outcome: int | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
            else:
                request.respond({"offset": outcome}, audited=False)

        if offset == what:
            self.stages.add(stream, id_, int(offset), request.body, written)
            return
        at, _, size = request.body.partition(b" ")
        if not (at.isdigit() and size.isdigit() and len(request.body) < 32):
            raise TableError(errors.INVALID_REQUEST, err="a place in memory is two numbers")
        self.stages.add(stream, id_, int(offset), self.stages.place(stream, id_, int(at), int(size)), written)

    def commit(self, request: ApiRequest) -> None:
        """Turn parts into messages, all or none."""
        stream = self._account.get_stream(request.names[0])
        asked = decode(CommitRequest, request.body)
        if asked.identity is not None and asked.identity != identity_of(stream):
            raise TableError(errors.STREAM_CHANGED, identity=identity_of(stream))
        if not 0 <= asked.batch_id < 2**63:
            raise TableError(errors.INVALID_REQUEST, err="batch_id is not negative and has 63 bits")
        if len(asked.parts) > BULK_COMMIT_PARTS_MAX:
            raise TableError(errors.INVALID_REQUEST, err=f"more than {BULK_COMMIT_PARTS_MAX} parts")
        prefix = part_prefix(checked_txn(asked.txn))
        parts = [_part(part) for part in asked.parts]
        if any(not part.name.startswith(prefix) for part in parts) or len({part.name for part in parts}) < len(parts):
            raise TableError(errors.INVALID_REQUEST, err="a part is not of this transaction, or named twice")

        def done(outcome: CommitOutcome | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
                return
            request.respond(
                {
                    "stream": stream.name,
                    "identity": identity_of(stream),
                    "first_seq": outcome.first_seq,
                    "last_seq": outcome.last_seq,
                    "count": outcome.count,
                    "left_out": outcome.left_out,
                    "duplicate": outcome.duplicate,
                    "offered": outcome.offered,
                }
            )

        self.commits.begin(
            stream,
            asked.txn,
            asked.batch_id,
            parts,
            done,
            brief=asked.brief,
            after=asked.after,
            copied=asked.copied,
        )

    def fence(self, request: ApiRequest) -> None:
        """What a transaction has committed last; the batch number is -1 if nothing that is remembered."""
        stream = self._account.get_stream(request.names[0])
        txn = checked_txn(decode(FenceRequest, request.body).txn)

        def answer(error: ApiError | None) -> None:
            if error is not None:
                request.fail(error)
                return
            found = find_fence(stream.store, txn)
            facts: dict[str, object] = {"stream": stream.name, "identity": identity_of(stream), "batch_id": -1}
            if found is not None:
                facts |= {"batch_id": found.batch_id, "first_seq": found.first_seq, "last_seq": found.last_seq}
                facts |= {"count": found.count, "offered": found.offered, "ts_ns": found.ts_ns}
            request.respond(facts)

        stream.after_commit(answer)  # what it tells of is on disk then

    def abort(self, request: ApiRequest) -> None:
        """Forget what was staged for a transaction; what was committed stays."""
        stream = self._account.get_stream(request.names[0])
        txn = checked_txn(decode(AbortRequest, request.body).txn)
        if self.commits.is_running(stream, txn):
            raise TableError(errors.COMMIT_RUNNING)
        self.stages.abort(stream, txn, lambda count: request.respond({"parts": count}))

    def _stage_end(self, request: ApiRequest, stream: Stream, id_: str) -> None:
        def ended(outcome: Part | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
                return
            request.respond({"name": outcome.name, "count": outcome.count, "crc": outcome.crc, "bytes": outcome.bytes})

        self.stages.end(stream, id_, _part(decode(PartRequest, request.body)), ended)

    def _stopped(self, stream: Stream) -> None:
        self.commits.drop_stream(stream)
        self.stages.remove_stream(stream)


def _part(asked: PartRequest) -> Part:
    return Part(asked.name, asked.count, asked.crc, asked.bytes)
