"""STREAM.SNAPSHOT and STREAM.RESTORE: backups to and from clients.

A backup goes to a subject the client names, in chunks it confirms; a restore comes as requests to a subject the server
names. Both may take long; at most a few of them run at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.info import config_fields, state_fields, stream_fields
from slipstream.jetstream.api.limits import BACKUPS_MAX
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.rights import judge_consumer, judge_stream, target_for
from slipstream.jetstream.api.subjects import TYPE_PREFIX
from slipstream.jetstream.backup.content import backup_content
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.restore import Restore, StreamBounds
from slipstream.jetstream.backup.snapshot import Snapshot
from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.config.validate import is_valid_asset_name
from slipstream.jetstream.consumer.config import ConsumerContext, checked
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.bind import (
    BOOL,
    INT,
    STRING,
    TIME,
    UINT64,
    Field,
    GoList,
    GoMap,
    GoPointer,
    GoStruct,
)
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.limits import ASSET_NAME_BYTES_MAX
from slipstream.jetstream.ports import LiveSubscription
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.subjects.subject import is_valid_publish

__all__ = ["SnapshotApi"]

_CREATED: Final = TYPE_PREFIX + "stream_create_response"
_TOO_MANY: Final = "too many backups and restores at the same time"


class _SnapshotRequest(msgspec.Struct, kw_only=True):
    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: int = 0
    window_size: int = 0
    jsck: bool = False


class _Lost(msgspec.Struct, kw_only=True):
    msgs: list[int] = []
    bytes: int = 0


class _State(msgspec.Struct, kw_only=True):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts_ns: int = 0
    last_seq: int = 0
    last_ts_ns: int = 0
    num_subjects: int = 0
    subjects: dict[str, int] = {}
    num_deleted: int = 0
    deleted: list[int] = []
    lost: _Lost | None = None
    consumer_count: int = 0


class _RestoreRequest(msgspec.Struct, kw_only=True):
    config: StreamConfig = msgspec.field(default_factory=StreamConfig)
    state: _State = msgspec.field(default_factory=_State)


_SNAPSHOT = GoStruct(
    "JSApiStreamSnapshotRequest",
    _SnapshotRequest,
    [
        Field("deliver_subject", STRING),
        Field("no_consumers", BOOL),
        Field("chunk_size", INT),
        Field("window_size", INT),
        Field("jsck", BOOL),
    ],
)
_LOST = GoStruct("LostStreamData", _Lost, [Field("msgs", GoList(UINT64)), Field("bytes", UINT64)])
_STATE = GoStruct(
    "StreamState",
    _State,
    [
        Field("messages", UINT64),
        Field("bytes", UINT64),
        Field("first_seq", UINT64),
        Field("first_ts", TIME, attribute="first_ts_ns"),
        Field("last_seq", UINT64),
        Field("last_ts", TIME, attribute="last_ts_ns"),
        Field("num_subjects", INT),
        Field("subjects", GoMap(UINT64)),
        Field("num_deleted", INT),
        Field("deleted", GoList(UINT64)),
        Field("lost", GoPointer(_LOST)),
        Field("consumer_count", INT),
    ],
)
_RESTORE = GoStruct(
    "JSApiStreamRestoreRequest", _RestoreRequest, [Field("config", STREAM_CONFIG), Field("state", _STATE)]
)


class SnapshotApi:
    """Handlers of backups."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register the handlers."""
        self._account = account
        self._snapshots: dict[Snapshot, str] = {}  # on their way → stream
        self._restores: set[_Restoring] = set()
        account.on_stopped.append(self._stopped)
        api.register("STREAM.SNAPSHOT.*", "stream_snapshot_response", self.snapshot)
        api.register("STREAM.RESTORE.*", "stream_restore_response", self.restore, error_fields={"deliver_subject": ""})

    # --- out ---

    def snapshot(self, request: ApiRequest) -> None:
        """Send a backup to a subject."""
        if bodies.is_empty(request.body):
            raise TableError(table.BAD_REQUEST)
        stream = self._account.get_stream(request.names[0])
        asked = bodies.decode(_SNAPSHOT, request)
        if not is_valid_publish(asked.deliver_subject.encode()):
            raise TableError(table.SNAPSHOT_DELIVER_SUBJECT_INVALID)
        if len(self._snapshots) + len(self._restores) >= BACKUPS_MAX:
            raise TableError(table.STREAM_SNAPSHOT, err=_TOO_MANY)
        lost = stream.store.lost().seqs
        if asked.jsck and lost:
            raise TableError(table.STREAM_SNAPSHOT, err=f"snapshot check detected {len(lost)} bad messages")
        # What it holds is what is committed when everything asked before is.
        stream.after_commit(lambda error: request.fail(error) if error is not None else self._begin(request, asked))

    def _begin(self, request: ApiRequest, asked: _SnapshotRequest) -> None:
        account = self._account
        stream = account.streams.get(request.names[0])
        if stream is None:
            request.fail(TableError(table.STREAM_NOT_FOUND))
            return
        state = state_fields(stream)
        config = config_fields(stream.config, None)
        consumers = [] if asked.no_consumers else self._consumers(stream)
        now_ns = account.ports.now_ns()
        client = _client(request)
        start = format_time(now_ns)

        def finished(problem: str) -> None:
            del self._snapshots[snapshot]
            fields = {
                "stream": stream.name,
                "start": start,
                "end": format_time(account.ports.now_ns()),
                "client": client,
            }
            if problem:
                fields["error"] = problem
                account.ports.log("WRN", f"Snapshot for stream '{account.name} > {stream.name}' failed: {problem}")
            account.advisories.publish(f"STREAM.SNAPSHOT_COMPLETE.{stream.name}", "snapshot_complete", fields)

        snapshot = Snapshot(
            stream.name,
            account.ports,
            target=target_for(request, asked.deliver_subject),
            content=backup_content(stream, config, state, consumers, now_ns),
            chunk_bytes=asked.chunk_size,
            window_bytes=asked.window_size,
            on_finished=finished,
        )
        self._snapshots[snapshot] = stream.name
        request.respond({"config": config, "state": state})
        created = {"stream": stream.name, "state": state, "client": client}
        account.advisories.publish(f"STREAM.SNAPSHOT_CREATE.{stream.name}", "snapshot_create", created)
        snapshot.start()

    def _consumers(self, stream: Stream) -> list[Consumer]:
        consumers = stream.interest
        assert isinstance(consumers, Consumers)
        return [consumer for _, consumer in sorted(consumers.consumers.items()) if not consumer.config.direct]

    def _stopped(self, stream: Stream) -> None:
        for snapshot in [snapshot for snapshot, name in self._snapshots.items() if name == stream.name]:
            snapshot.stop()

    # --- in ---

    def restore(self, request: ApiRequest) -> None:
        """Make a stream from a backup that follows."""
        if bodies.is_empty(request.body):
            raise TableError(table.BAD_REQUEST)
        asked = bodies.decode(_RESTORE, request)
        name = request.names[0]
        config = asked.config
        if config.name not in ("", name):
            raise TableError(table.STREAM_MISMATCH)
        config.name = name
        if "/" in name or "\\" in name:
            raise TableError(table.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
        if len(self._snapshots) + len(self._restores) >= BACKUPS_MAX:
            raise TableError(table.STREAM_RESTORE, err=_TOO_MANY)
        state = asked.state
        bounds = StreamBounds(state.bytes, state.first_seq, state.last_seq)
        judge_stream(request, config, None)
        restoring = _Restoring(self._account, request, config, bounds, self._restores)
        self._account.restore_stream(config, restoring.fill, restoring.done)
        self._restores.add(restoring)


class _Restoring:
    """One restore, from its request to its last answer. Implements `RestoreOwner`."""

    def __init__(
        self,
        account: JetStreamAccount,
        request: ApiRequest,
        config: StreamConfig,
        bounds: StreamBounds,
        under_way: set[_Restoring],
    ) -> None:
        self._account = account
        self._ports = account.ports
        self._request = request
        self._config = config
        self._bounds = bounds
        self._under_way = under_way  # all restores of the account
        self._consumers = 0
        self._client = _client(request)
        self._began_ns = account.ports.now_ns()
        self._restore: Restore | None = None
        self._chunks: LiveSubscription | None = None
        self._last_reply: bytes | None = None  # who waits for the outcome
        self._filled: Callable[[int | ApiError], None] | None = None

    def fill(self, config: StreamConfig, store: Store, filled: Callable[[int | ApiError], None]) -> None:
        """The empty store of a stream with this configuration, checked, is there: let the client begin."""
        self._config = config
        name = self._config.name
        self._filled = filled
        subject = f"$JS.SNAPSHOT.RESTORE.{name}.{self._ports.new_nuid()}"
        facts = self._account.facts
        self._restore = Restore(
            self._config,
            store,
            self._ports,
            self,
            self._bounds,
            self._ports.now_ns(),
            facts.max_payload_bytes,
            self._request.grants,
        )
        self._chunks = self._ports.subscribe(subject.encode(), self._on_chunk)
        self._ports.log("INF", f"Starting restore for stream '{self._account.name} > {name}'")
        fields = {"stream": name, "client": self._client}
        self._account.advisories.publish(f"STREAM.RESTORE_CREATE.{name}", "restore_create", fields)
        self._request.respond({"deliver_subject": subject}, concluded=False)

    def _on_chunk(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        assert self._restore is not None
        if reply and not payload:
            self._last_reply = reply
        guarded(partial(self._restore.on_chunk, reply, payload), self._restore.broke)()

    @property
    def stored_bytes(self) -> int:
        """What this restore has put into the store so far."""
        return 0 if self._restore is None else self._restore.progress.stored_bytes

    # --- the restore ---

    def check_consumer(self, name: str, state: ConsumerState) -> None:
        """See `RestoreOwner.check_consumer`."""
        self._consumers += 1
        limits = (self._config.max_consumers, self._account.limits.max_consumers)
        if any(0 < limit < self._consumers for limit in limits):
            raise TableError(table.MAXIMUM_CONSUMERS_LIMIT)
        if not is_valid_asset_name(name) or len(name.encode()) > ASSET_NAME_BYTES_MAX:
            raise BadBackup(f'failed to add consumer "{name}": consumer name is not valid')
        if not state.config.durable_name:
            state.config.name = name
        elif state.config.durable_name != name:
            raise BadBackup(f'failed to add consumer "{name}": it is called "{state.config.durable_name}" inside')
        try:
            state.config = checked(state.config, ConsumerContext(self._config))
            judge_consumer(self._request, state.config, None)
        except ApiError as error:
            raise BadBackup(f'failed to add consumer "{name}": {error}') from None

    def would_exceed(self, extra_bytes: int) -> bool:
        """See `RestoreOwner.would_exceed`."""
        budget = self._account.budgets[self._config.storage]
        # What other restores have stored is nobody's yet, and on the same disk all the same.
        extra_bytes += sum(other.stored_bytes for other in self._under_way if other is not self)
        return budget.server_exceeded or (budget.limited and budget.would_exceed(extra_bytes))

    def complete(self, created_ns: int) -> None:
        """See `RestoreOwner.complete`."""
        self._end(created_ns)

    def failed(self, error: ApiError) -> None:
        """See `RestoreOwner.failed`."""
        self._end(error)

    def abandoned(self, reason: str) -> None:
        """See `RestoreOwner.abandoned`."""
        name = f"{self._account.name} > {self._config.name}"
        self._ports.log("WRN", f"restore for stream '{name}' {reason}")
        self._last_reply = None
        self._end(TableError(table.STREAM_RESTORE, err=reason))

    def _end(self, outcome: int | ApiError) -> None:
        filled, self._filled = self._filled, None
        if self._chunks is not None:
            self._chunks.close()
        if filled is not None:  # else it has ended before
            filled(outcome)

    def done(self, outcome: Stream | ApiError) -> None:
        """The stream lives, or nothing of it is left."""
        self._under_way.discard(self)
        if self._restore is None:
            assert isinstance(outcome, ApiError)
            self._request.fail(outcome)
            return
        now_ns = self._ports.now_ns()
        name = self._config.name
        fields = {
            "stream": name,
            "start": format_time(self._began_ns),
            "end": format_time(now_ns),
            "bytes": self._restore.progress.received_bytes,
            "client": self._client,
        }
        self._account.advisories.publish(f"STREAM.RESTORE_COMPLETE.{name}", "restore_complete", fields)
        answer: dict[str, object] = {"type": _CREATED}
        self._request.conclude(outcome if isinstance(outcome, ApiError) else None)
        if isinstance(outcome, ApiError):
            answer["error"] = error_object(outcome)
            self._ports.log("WRN", f"Restore failed for stream '{self._account.name} > {name}': {outcome}")
        else:
            answer.update(stream_fields(outcome, self._account.facts, now_ns, domain=False))
            self._ports.log("INF", f"Completed restore for stream '{self._account.name} > {name}'")
        if self._last_reply:
            self._ports.publish(self._last_reply, None, None, encode(answer))


def _client(request: ApiRequest) -> dict[str, object]:
    client = request.describe_client()
    return dict(client) if client is not None else {}
