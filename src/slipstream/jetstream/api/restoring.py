"""A backup that comes in: what the client says of it, and the restore from its first chunk to its last answer.

Chunks are requests to a subject that the server names; each is confirmed, the last one answered with the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.info import stream_fields
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.rights import Granting, judge_consumer
from slipstream.jetstream.api.subjects import TYPE_PREFIX
from slipstream.jetstream.backup.commits import RestoreCommits
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.restore import Restore, StreamBounds
from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.config.validate import is_valid_asset_name
from slipstream.jetstream.consumer.config import ConsumerContext, checked
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.bind import Field, GoList, GoMap, GoPointer, GoStruct
from slipstream.jetstream.gojson.scalars import INT, TIME, UINT64
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.limits import ASSET_NAME_BYTES_MAX
from slipstream.jetstream.ports import LiveSubscription
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.jetstream.stream.stream import Stream

__all__ = ["RestoreCaller", "RestoreSession", "asked_to_restore"]

_CREATED: Final = TYPE_PREFIX + "stream_create_response"


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


def asked_to_restore(request: ApiRequest) -> tuple[StreamConfig, StreamBounds]:
    """What a call of STREAM.RESTORE asks for: a configuration, not checked yet, and what the backup should hold.

    Raises:
        TableError: it cannot be read, or names another stream.
    """
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
    return config, StreamBounds(asked.state.bytes, asked.state.first_seq, asked.state.last_seq)


class RestoreCaller(Granting, Protocol):
    """Who asked for a restore."""

    @property
    def client(self) -> Mapping[str, object]:
        """Who that is, for advisories."""
        ...

    def begun(self, deliver_subject: str) -> None:
        """Chunks are expected here."""
        ...

    def refused(self, error: ApiError) -> None:
        """It could not begin."""
        ...

    def concluded(self, error: ApiError | None) -> None:
        """It is done, or has failed."""
        ...


class RestoreSession:
    """One restore, from its request to its last answer. Implements `RestoreOwner`."""

    def __init__(
        self,
        account: JetStreamAccount,
        caller: RestoreCaller,
        config: StreamConfig,
        bounds: StreamBounds,
        under_way: set[RestoreSession],
    ) -> None:
        """Nothing is expected before `fill`; `under_way` are all restores of the account."""
        self._account = account
        self._ports = account.ports
        self._caller = caller
        self._config = config
        self._bounds = bounds
        self._under_way = under_way
        under_way.add(self)
        self._consumers = 0
        self._began_ns = account.ports.now_ns()
        self._restore: Restore | None = None
        self._chunks: LiveSubscription | None = None
        self._last_reply: bytes | None = None  # who waits for the outcome
        self._filled: Callable[[int | ApiError], None] | None = None

    def fill(
        self, config: StreamConfig, store: Store, commits: RestoreCommits, filled: Callable[[int | ApiError], None]
    ) -> None:
        """The empty store of a stream with this configuration, checked, is there: let the client begin.

        `filled` is told when the stream was made (nanoseconds), once all is committed, or why it stays empty.
        """
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
            self._caller.grants,
            commits,
        )
        self._chunks = self._ports.subscribe(subject.encode(), self._on_chunk)
        self._ports.log("INF", f"Starting restore for stream '{self._account.name} > {name}'")
        fields = {"stream": name, "client": dict(self._caller.client)}
        self._account.advisories.publish(f"STREAM.RESTORE_CREATE.{name}", "restore_create", fields)
        self._caller.begun(subject)

    def _on_chunk(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        assert self._restore is not None
        if reply and not payload:
            self._last_reply = reply
        guarded(partial(self._restore.on_chunk, reply, payload), self._restore.broke)()

    def give_up(self, reason: str) -> None:
        """Nobody needs it any more."""
        if self._restore is not None:
            self._restore.give_up(reason)

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
            judge_consumer(self._caller, state.config, None)
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
            self._caller.refused(outcome)
            return
        now_ns = self._ports.now_ns()
        name = self._config.name
        fields = {
            "stream": name,
            "start": format_time(self._began_ns),
            "end": format_time(now_ns),
            "bytes": self._restore.progress.received_bytes,
            "client": dict(self._caller.client),
        }
        self._account.advisories.publish(f"STREAM.RESTORE_COMPLETE.{name}", "restore_complete", fields)
        answer: dict[str, object] = {"type": _CREATED}
        self._caller.concluded(outcome if isinstance(outcome, ApiError) else None)
        if isinstance(outcome, ApiError):
            answer["error"] = error_object(outcome)
            self._ports.log("WRN", f"Restore failed for stream '{self._account.name} > {name}': {outcome}")
        else:
            cluster = self._account.cluster_block(name)
            answer.update(stream_fields(outcome, self._account.facts, now_ns, domain=False, cluster=cluster))
            self._ports.log("INF", f"Completed restore for stream '{self._account.name} > {name}'")
        if self._last_reply:
            self._ports.publish(self._last_reply, None, None, encode(answer))
