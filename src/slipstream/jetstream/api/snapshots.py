"""STREAM.SNAPSHOT and STREAM.RESTORE: backups to and from clients.

A backup goes to a subject the client names, in chunks it confirms; a restore comes as requests to a subject the server
names. Both may take long; at most a few of them run at a time. What they need is loaded with the first of them, or
before, when a server has the time (`server.late`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.info import config_fields, state_fields
from slipstream.jetstream.api.limits import BACKUPS_MAX
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.rights import judge_stream, target_for
from slipstream.jetstream.api.subjects import TYPE_PREFIX
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, INT, STRING
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.subjects.subject import is_valid_publish

if TYPE_CHECKING:
    from slipstream.jetstream.api.restoring import RestoreSession
    from slipstream.jetstream.backup.snapshot import Snapshot

__all__ = ["SnapshotApi"]

_CREATED: Final = TYPE_PREFIX + "stream_create_response"
_TOO_MANY: Final = "too many backups and restores at the same time"


class _SnapshotRequest(msgspec.Struct, kw_only=True):
    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: int = 0
    window_size: int = 0
    jsck: bool = False


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


class SnapshotApi:
    """Handlers of backups."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, *, alone: bool = True) -> None:
        """Register the handlers; in a cluster, who may restore is decided elsewhere."""
        self._account = account
        self._snapshots: dict[Snapshot, str] = {}  # on their way → stream
        self._restores: set[RestoreSession] = set()
        account.on_stopped.append(self._stopped)
        api.register("STREAM.SNAPSHOT.*", "stream_snapshot_response", self.snapshot)
        if alone:
            fields = {"deliver_subject": ""}
            api.register("STREAM.RESTORE.*", "stream_restore_response", self.restore, error_fields=fields)

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

        # What it holds is what is committed when everything asked before is, and nobody else leads the stream.
        def committed(error: ApiError | None) -> None:
            if error is not None:
                request.fail(error)
            else:
                stream.after_received(lambda: self._begin(request, asked), gone=request.fail)

        stream.after_commit(committed)

    def _begin(self, request: ApiRequest, asked: _SnapshotRequest) -> None:
        from slipstream.jetstream.backup.content import backup_content
        from slipstream.jetstream.backup.snapshot import Snapshot

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
        from slipstream.jetstream.api.restoring import RestoreSession, asked_to_restore
        from slipstream.jetstream.backup.commits import OwnCommits

        config, bounds = asked_to_restore(request)
        if len(self._snapshots) + len(self._restores) >= BACKUPS_MAX:
            raise TableError(table.STREAM_RESTORE, err=_TOO_MANY)
        judge_stream(request, config, None)
        account = self._account
        session = RestoreSession(account, _Requested(request), config, bounds, self._restores)

        def fill(config: StreamConfig, store: Store, filled: Callable[[int | ApiError], None]) -> None:
            session.fill(config, store, OwnCommits(store, account.ports), filled)

        try:
            account.restore_stream(config, fill, session.done)
        except ApiError:
            self._restores.discard(session)
            raise


class _Requested:
    """A call of the API that asks for a restore. Implements `RestoreCaller`."""

    def __init__(self, request: ApiRequest) -> None:
        self._request = request
        self.grants = request.grants
        self.client = _client(request)

    def begun(self, deliver_subject: str) -> None:
        self._request.respond({"deliver_subject": deliver_subject}, concluded=False)

    def refused(self, error: ApiError) -> None:
        self._request.fail(error)

    def concluded(self, error: ApiError | None) -> None:
        self._request.conclude(error)


def _client(request: ApiRequest) -> dict[str, object]:
    client = request.describe_client()
    return dict(client) if client is not None else {}
