"""STREAM.CREATE, UPDATE, NAMES, LIST, INFO, DELETE and PURGE."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.info import stream_fields
from slipstream.jetstream.api.limits import API_LIST_MAX, API_NAMES_MAX, SUBJECT_DETAILS_MAX
from slipstream.jetstream.api.received import all_committed, all_received
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.rights import judge_stream
from slipstream.jetstream.api.subject_details import SubjectDetails, SubjectPage
from slipstream.jetstream.config.precheck import Prechecked
from slipstream.jetstream.config.structs import STREAM_CONFIG_REQUEST, StreamConfig, StreamConfigRequest
from slipstream.jetstream.config.templated import is_template, rule_of
from slipstream.jetstream.config.validate import checked
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.retention.removals import refuse_if_closed
from slipstream.jetstream.stream.stream import Stream
from slipstream.jetstream.templates import made_by

__all__ = ["StreamApi", "asked_to_create"]

_PAGING: Final = {"total": 0, "offset": 0, "limit": 0}
_LIST_SLICE: Final = 32  # streams that are described in one turn: 5 ms
Fields = Mapping[str, object]


class StreamApi:
    """Handlers about whole streams."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, *, alone: bool = True) -> None:
        """Register the handlers; unless this server is alone, those of single streams only."""
        self._account = account
        self._details = SubjectDetails(account.ports)
        register = api.register
        if alone:
            register("STREAM.CREATE.*", "stream_create_response", self.create, prepare=self._prepare)
            register("STREAM.UPDATE.*", "stream_update_response", self.update, prepare=self._prepare)
            register("STREAM.NAMES", "stream_names_response", self.names, error_fields={**_PAGING, "streams": None})
            register("STREAM.LIST", "stream_list_response", self.list, error_fields={**_PAGING, "streams": []})
            register("STREAM.DELETE.*", "stream_delete_response", self.delete)
        register("STREAM.INFO.*", "stream_info_response", self.info, error_fields=_PAGING)
        prepare = partial(bodies.prepare_optional, bodies.STREAM_PURGE)
        register("STREAM.PURGE.*", "stream_purge_response", self.purge, error_fields={"purged": 0}, prepare=prepare)

    def _prepare(self, request: ApiRequest) -> None:
        """In a thread: read a long configuration, and judge it as far as that depends on nothing that may change."""
        asked = bodies.prepare(STREAM_CONFIG_REQUEST, request)
        if asked is not None:
            request.checked = self._account.checks.precheck(asked.config(), pedantic=asked.pedantic)

    def create(self, request: ApiRequest) -> None:
        """Make a stream, or confirm that it is there."""
        asked = asked_to_create(request)

        def done(outcome: Stream | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
            else:
                request.respond({**self._fields(outcome, domain=False), "did_create": True})

        config = asked.config()
        self._judge(request, config)
        self._account.create_stream(config, done, pedantic=asked.pedantic, prechecked=_prechecked(request))

    def update(self, request: ApiRequest) -> None:
        """Replace a stream's configuration."""
        asked = bodies.decode(STREAM_CONFIG_REQUEST, request)
        # Checked before the name is compared, as nats-server does, so that its complaint comes first.
        prechecked = _prechecked(request)
        if prechecked is not None:
            prechecked.result()
        else:
            checked(asked.config(), self._account.checks.context(), pedantic=asked.pedantic)
        if asked.name != request.names[0]:
            raise TableError(table.STREAM_MISMATCH)

        def done(outcome: Stream | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
            else:
                request.respond(self._fields(outcome))

        config = asked.config()
        self._judge(request, config)
        self._account.update_stream(config, done, pedantic=asked.pedantic, prechecked=prechecked)

    def names(self, request: ApiRequest) -> Fields:
        """A page of names."""
        asked = bodies.decode_optional(bodies.STREAM_NAMES, request)
        names = self._account.matching(asked.subject)
        offset = min(max(asked.offset, 0), len(names))
        page = names[offset : offset + API_NAMES_MAX]
        return {"total": len(names), "offset": offset, "limit": API_NAMES_MAX, "streams": page or None}

    def list(self, request: ApiRequest) -> None:
        """A page of streams, described a few in a turn."""
        asked = bodies.decode_optional(bodies.STREAM_LIST, request)
        names = self._account.matching(asked.subject)
        offset = min(max(asked.offset, 0), len(names))
        total, page = len(names), [self._account.streams[name] for name in names[offset : offset + API_LIST_MAX]]
        left = iter(page)
        described: dict[Stream, dict[str, object]] = {}

        def describe() -> None:
            some = tuple(islice(left, _LIST_SLICE))
            for stream in some:
                show(stream)
            if len(some) == _LIST_SLICE:
                # Others have their turn before the rest is described.
                self._account.ports.call_soon(lambda: request.attempt(describe))
            else:
                # Held back until what it shows is committed: nobody may see what could still be lost.
                all_committed(described, show, respond)

        def show(stream: Stream) -> None:
            if self._account.streams.get(stream.name) is stream:
                described[stream] = self._fields(stream, versioned=False)
            else:
                described.pop(stream, None)

        def respond() -> None:
            fields: dict[str, object] = {
                "total": total,
                "offset": offset,
                "limit": API_LIST_MAX,
                "streams": [*described.values()],
            }
            if self._account.offline:
                fields["offline"] = dict(sorted(self._account.offline.items()))
            request.respond(fields)

        all_received(page, lambda: request.attempt(describe))

    def info(self, request: ApiRequest) -> None:
        """One stream, perhaps with its subjects or deleted sequences."""
        asked = bodies.decode_optional(bodies.STREAM_INFO, request)
        stream = self._account.get_stream(request.names[0])
        stream.after_received(lambda: request.attempt(lambda: self._show(request, asked, stream)), gone=request.fail)

    def _show(self, request: ApiRequest, asked: bodies.StreamInfoRequest, stream: Stream) -> None:
        if not asked.subjects_filter:
            # Held back until what it shows is committed: nobody may see what could still be lost.
            stream.after_commit(request.settle({**_PAGING, **self._info_fields(stream, asked)}))
            return
        offset = max(asked.offset, 0)
        fields: dict[str, object] = {}

        def shown(page: SubjectPage) -> None:
            paging = {"total": page.total, "offset": offset, "limit": SUBJECT_DETAILS_MAX} if page.total else _PAGING
            state = fields["state"]
            assert isinstance(state, dict)
            if page.shown is None:
                del state["subjects"]
            else:
                state["subjects"] = page.shown
            stream.after_commit(request.settle({**paging, **fields}))

        pattern = asked.subjects_filter.encode()
        self._details.read(
            stream, pattern, offset, lambda: fields.update(self._info_fields(stream, asked, subjects={"": 0})), shown
        )

    def _info_fields(
        self, stream: Stream, asked: bodies.StreamInfoRequest, subjects: dict[str, int] | None = None
    ) -> dict[str, object]:
        account = self._account
        fields = stream_fields(
            stream,
            account.facts,
            account.ports.now_ns(),
            cluster=account.cluster_block(stream.name) or {"leader": account.facts.name},
            deleted=asked.deleted_details,
            subjects=subjects,
        )
        alternates = account.alternates(stream.name)
        if alternates:
            fields["alternates"] = alternates
        if is_template(stream.config):
            made = made_by(stream.name, account)
            fields["template"] = {"streams": made, "limit": rule_of(stream.config).limit}
        return fields

    def delete(self, request: ApiRequest) -> None:
        """Remove a stream."""
        if not bodies.is_empty(request.body):
            raise TableError(table.NOT_EMPTY_REQUEST)
        self._account.delete_stream(request.names[0], request.settle({"success": True}))

    def purge(self, request: ApiRequest) -> None:
        """Remove messages."""
        asked = bodies.decode_optional(bodies.STREAM_PURGE, request)
        if asked.seq > 0 and asked.keep > 0:
            raise TableError(table.BAD_REQUEST)
        stream = self._account.get_stream(request.names[0])
        refusal = refuse_if_closed(stream.config, purge=True)
        if refusal is not None:
            raise refusal

        def done(purged: int, fault: StorageFault | None) -> None:
            if fault is not None:
                request.fail(store_error(fault))
            else:
                stream.after_commit(request.settle({"success": True, "purged": purged}))

        stream.removals.begin_purge(asked.filter.encode(), below_seq=asked.seq, keep=asked.keep, done=done)

    def _judge(self, request: ApiRequest, config: StreamConfig) -> None:
        existing = self._account.streams.get(config.name)
        judge_stream(request, config, None if existing is None else existing.config)

    def _fields(self, stream: Stream, *, versioned: bool = True, domain: bool = True) -> dict[str, object]:
        now_ns = self._account.ports.now_ns()
        return stream_fields(stream, self._account.facts, now_ns, versioned=versioned, domain=domain)


def asked_to_create(request: ApiRequest) -> StreamConfigRequest:
    """The body of a STREAM.CREATE.

    Raises:
        ApiError: it makes no sense, whatever streams there are.
    """
    asked = bodies.decode(STREAM_CONFIG_REQUEST, request)
    name = request.names[0]
    if asked.name != name:
        raise TableError(table.STREAM_MISMATCH)
    if "/" in name or "\\" in name:
        raise TableError(table.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    if asked.sealed:
        raise invalid_config("stream configuration for create can not be sealed")
    if asked.mirror_direct and asked.mirror is None:
        raise invalid_config("stream has no mirror but does have mirror direct")
    return asked


def _prechecked(request: ApiRequest) -> Prechecked | None:
    found, request.checked = request.checked, None
    return found if isinstance(found, Prechecked) else None
