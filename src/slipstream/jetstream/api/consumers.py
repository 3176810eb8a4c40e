"""CONSUMER.CREATE, DURABLE.CREATE, NAMES, LIST, INFO, DELETE, PAUSE, RESET and UNPIN.

CONSUMER.MSG.NEXT is not here: consumers subscribe to theirs, so that a missing one is "no responders".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.ack_subjects import account_hash
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.limits import API_LIST_MAX, API_NAMES_MAX
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.rights import judge_consumer
from slipstream.jetstream.config.enums import AckPolicy, RetentionPolicy
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, ConsumerConfig
from slipstream.jetstream.consumer.config import is_group_name
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.consumer.filters import Filters, subjects_of
from slipstream.jetstream.consumer.info import consumer_fields
from slipstream.jetstream.consumer.requests import unmarshal
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, INT, STRING, TIME, UINT64, GoEnum
from slipstream.jetstream.gojson.scan import JsonError
from slipstream.jetstream.gojson.times import DURATION_MAX_NS, ZERO_TIME_NS, format_time
from slipstream.jetstream.limits import CONSUMER_FILTERS_MAX
from slipstream.jetstream.stream.stream import Stream

__all__ = ["FILTER_SLICE_SUBJECTS", "ConsumerApi"]

FILTER_SLICE_SUBJECTS: Final = 20_000
"""Subjects that a new consumer's filters are asked about in one turn: about 3 ms."""

Fields = Mapping[str, object]
_PAGING: Final = {"total": 0, "offset": 0, "limit": 0}


class _Create(msgspec.Struct, kw_only=True):
    stream_name: str = ""
    config: ConsumerConfig = msgspec.field(default_factory=ConsumerConfig)
    action: str = ""
    pedantic: bool = False


class _Paged(msgspec.Struct, kw_only=True):
    offset: int = 0


class _Pause(msgspec.Struct, kw_only=True):
    pause_until_ns: int = ZERO_TIME_NS


class _Unpin(msgspec.Struct, kw_only=True):
    group: str = ""


class _Reset(msgspec.Struct, kw_only=True):
    seq: int = 0


_ACTION = GoEnum(
    "server.ConsumerAction",
    {'"create"': "create", '"update"': "update", '""': ""},
    lambda raw: f"unknown consumer action: {raw.decode('utf-8', 'replace')}",
)
_CREATE = GoStruct(
    "CreateConsumerRequest",
    _Create,
    [
        Field("stream_name", STRING),
        Field("config", CONSUMER_CONFIG),
        Field("action", _ACTION),
        Field("pedantic", BOOL),
    ],
)
_PAGED = GoStruct("JSApiConsumersRequest", _Paged, [Field("offset", INT)])
_PAUSE = GoStruct("JSApiConsumerPauseRequest", _Pause, [Field("pause_until", TIME, attribute="pause_until_ns")])
_UNPIN = GoStruct("JSApiConsumerUnpinRequest", _Unpin, [Field("group", STRING)])
_RESET = GoStruct("JSApiConsumerResetRequest", _Reset, [Field("seq", UINT64)])


class ConsumerApi:
    """Handlers about consumers, and the consumers of each stream as streams come and go."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register the handlers, and give every stream its consumers."""
        self._account = account
        account.on_started.append(self._attach)
        register = api.register
        for pattern, create in (
            ("CREATE.*", self.create),
            ("CREATE.*.>", self.create_named),
            ("DURABLE.CREATE.*.>", self.create_durable),
        ):
            prepare = partial(bodies.prepare, _CREATE)
            register(f"CONSUMER.{pattern}", "consumer_create_response", create, prepare=prepare)
        register("CONSUMER.NAMES.*", "consumer_names_response", self.names, error_fields={**_PAGING, "consumers": []})
        register("CONSUMER.LIST.*", "consumer_list_response", self.list, error_fields={**_PAGING, "consumers": []})
        register("CONSUMER.INFO.*.*", "consumer_info_response", self.info)
        register("CONSUMER.DELETE.*.*", "consumer_delete_response", self.delete)
        paused = {"paused": False, "pause_until": format_time(ZERO_TIME_NS)}
        register("CONSUMER.PAUSE.*.*", "consumer_pause_response", self.pause, error_fields=paused)
        register("CONSUMER.RESET.*.*", "consumer_reset_response", self.reset, error_fields={"reset_seq": 0})
        register("CONSUMER.UNPIN.*.*", "consumer_unpin_response", self.unpin)

    def _attach(self, stream: Stream) -> None:
        consumers = Consumers(stream, self._account)
        stream.serve(consumers)
        consumers.start()

    # --- making ---

    def create(self, request: ApiRequest) -> None:
        """The old way: a name only in the body, or none."""
        asked = bodies.decode(_CREATE, request)
        self._check_stream(request, asked)
        self._check_separators(asked.config.name)
        if asked.config.durable_name:
            raise TableError(table.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME)
        self._create(request, asked)

    def create_named(self, request: ApiRequest) -> None:
        """The name, and perhaps the filter, in the subject."""
        asked = bodies.decode(_CREATE, request)
        self._check_stream(request, asked)
        name, filter_subject = request.names[1], ".".join(request.names[2:])
        self._check_separators(name)
        config = asked.config
        if config.durable_name and config.durable_name != name:
            raise TableError(table.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
        config.name = name
        if filter_subject and config.filter_subjects:
            raise TableError(table.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED)
        if filter_subject and config.filter_subject != filter_subject:
            raise TableError(table.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH)
        self._create(request, asked)

    def create_durable(self, request: ApiRequest) -> None:
        """The old way for durables."""
        asked = bodies.decode(_CREATE, request)
        if len(request.names) != 2:
            raise TableError(table.CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT)
        self._check_stream(request, asked)
        name = request.names[1]
        self._check_separators(name)
        if not asked.config.durable_name:
            raise TableError(table.CONSUMER_DURABLE_NAME_NOT_SET)
        if asked.config.durable_name != name:
            raise TableError(table.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
        asked.config.name = name
        self._create(request, asked)

    def _check_stream(self, request: ApiRequest, asked: _Create) -> None:
        if request.names[0] != asked.stream_name:
            raise TableError(table.STREAM_MISMATCH)

    def _check_separators(self, name: str) -> None:
        if "/" in name or "\\" in name:
            raise TableError(table.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS)

    def _create(self, request: ApiRequest, asked: _Create, *, slices: int = 1) -> None:
        """Make or change a consumer; `slices`: the turns that looking at subjects took, this one included."""
        if asked.config.num_replicas > 1 and self._account.server.cluster is None:
            raise TableError(table.STREAM_REPLICAS_NOT_SUPPORTED)
        consumers = self._consumers(asked.stream_name)
        # Too many filters are refused below, and not looked at here.
        wanted = subjects_of(asked.config)[: CONSUMER_FILTERS_MAX + 1]
        filters = Filters(wanted, consumers.stream.known_subjects).for_store
        store = consumers.stream.store
        # What was learned about subjects may be forgotten again under many filters: no reason to go on for ever.
        slices_max = 1 + store.num_subjects // FILTER_SLICE_SUBJECTS
        if not store.prepare(filters, FILTER_SLICE_SUBJECTS) and slices < slices_max:
            # Others have their turn before the rest of the subjects is looked at.
            go_on = partial(self._create, request, asked, slices=slices + 1)
            self._account.ports.call_soon(partial(request.attempt, go_on))
            return
        # Where it begins is decided by what its maker could know to be there.
        consumers.stream.after_received(
            lambda: request.attempt(lambda: self._make(request, asked, consumers)), gone=request.fail
        )

    def _make(self, request: ApiRequest, asked: _Create, consumers: Consumers) -> None:
        if asked.config.direct and asked.config.sourcing and asked.config.name:
            asked.config = self._for_reader(asked.config, consumers)
        existing = consumers.consumers.get(asked.config.durable_name or asked.config.name)
        existed = existing is not None
        judge_consumer(request, asked.config, existing.config if existing is not None else None)

        def done(outcome: Consumer | ApiError) -> None:
            if isinstance(outcome, ApiError):
                request.fail(outcome)
                return
            request.respond(initial)
            if not existed:
                self._account.consumer_made(consumers.stream, outcome.name)
                outcome.events.created()
            if outcome.is_paused():
                outcome.events.paused(outcome.config.pause_until_ns)

        initial: dict[str, object] = {}
        consumer = consumers.create(asked.config, asked.action, done, pedantic=asked.pedantic)
        # Shown as it is before anything is delivered, whatever happens until the answer may leave.
        if asked.config.sourcing and existed:
            consumers.reset(consumer, 0, lambda _: None)
        initial.update(self._fields(consumer))

    def _for_reader(self, config: ConsumerConfig, consumers: Consumers) -> ConsumerConfig:
        """What another stream that copies this one gets: a name of its own each time, as its old one is not gone yet.

        Where messages stay only until they are acknowledged, it is a durable one instead, and finds its place again.
        """
        if consumers.stream.config.retention is RetentionPolicy.LIMITS:
            return msgspec.structs.replace(config, name=f"{config.name}-{account_hash(self._account.ports.new_nuid())}")
        config = msgspec.structs.replace(
            config,
            direct=False,
            durable_name=config.name,
            ack_policy=AckPolicy.FLOW_CONTROL,
            ack_wait_ns=0,
            max_deliver=0,
            inactive_threshold_ns=0,
        )
        existing = consumers.consumers.get(config.name)
        if existing is not None:
            for attribute in ("deliver_policy", "opt_start_seq", "opt_start_time_ns"):
                setattr(config, attribute, getattr(existing.config, attribute))
        return config

    # --- asking ---

    def names(self, request: ApiRequest) -> Fields:
        """A page of names."""
        asked = bodies.decode_optional(_PAGED, request)
        names = _listed(self._consumers(request.names[0]))
        offset = min(max(asked.offset, 0), len(names))
        page = names[offset : offset + API_NAMES_MAX]
        return {"total": len(names), "offset": offset, "limit": API_NAMES_MAX, "consumers": page}

    def list(self, request: ApiRequest) -> Fields | None:
        """A page of consumers; in a cluster an empty one of a stream that is not there."""
        asked = bodies.decode_optional(_PAGED, request)
        if self._account.server.cluster is not None and request.names[0] not in self._account.streams:
            return {"total": 0, "offset": 0, "limit": API_LIST_MAX, "consumers": []}
        consumers = self._consumers(request.names[0])
        consumers.stream.after_received(lambda: self._list(request, asked.offset, consumers), gone=request.fail)
        return None

    def _list(self, request: ApiRequest, offset: int, consumers: Consumers) -> None:
        names = _listed(consumers)
        offset = min(max(offset, 0), len(names))
        running = [name for name in names[offset : offset + API_LIST_MAX] if name in consumers.consumers]
        fields: dict[str, object] = {
            "total": len(names),
            "offset": offset,
            "limit": API_LIST_MAX,
            "consumers": [self._fields(consumers.consumers[name], versioned=False) for name in running],
        }
        if consumers.offline:
            fields["offline"] = dict(sorted(consumers.offline.items()))
        consumers.stream.after_commit(request.settle(fields))

    def info(self, request: ApiRequest) -> None:
        """One consumer."""
        if not bodies.is_empty(request.body):
            raise TableError(table.NOT_EMPTY_REQUEST)
        consumers = self._consumers(request.names[0])

        def shown() -> None:
            fields = self._fields(consumers.get(request.names[1]))
            # Held back until what it shows is committed.
            consumers.stream.after_commit(request.settle(fields))

        consumers.stream.after_received(lambda: request.attempt(shown), gone=request.fail)

    # --- changing ---

    def delete(self, request: ApiRequest) -> None:
        """Remove a consumer."""
        if not bodies.is_empty(request.body):
            raise TableError(table.NOT_EMPTY_REQUEST)
        consumers = self._consumers(request.names[0])
        consumers.delete(request.names[1], request.settle({"success": True}))

    def pause(self, request: ApiRequest) -> None:
        """Pause until a time, or resume."""
        asked = bodies.decode_optional(_PAUSE, request)
        consumers = self._consumers(request.names[0])
        consumer = consumers.get(request.names[1])
        until_ns = asked.pause_until_ns
        now_ns = self._account.ports.now_ns()
        fields: dict[str, object] = {"paused": until_ns > now_ns, "pause_until": format_time(until_ns)}
        if until_ns > now_ns:
            fields["pause_remaining"] = min(until_ns - now_ns, DURATION_MAX_NS)
        consumers.pause(consumer, until_ns if until_ns != ZERO_TIME_NS else None, request.settle(fields))

    def reset(self, request: ApiRequest) -> None:
        """Go back to the ack floor, or to a sequence. Answered by the consumer itself, and so not audited."""
        stream = self._account.streams.get(request.names[0])
        consumers = stream.interest if stream is not None else None
        if not isinstance(consumers, Consumers) or request.names[1] not in consumers.consumers or not request.reply:
            return
        consumer = consumers.consumers[request.names[1]]

        def answer(error: ApiError | None) -> None:
            if error is not None:
                request.fail(error, audited=False)
            else:
                request.respond({**self._fields(consumer), "reset_seq": seq}, audited=False)

        try:
            asked = unmarshal(_RESET, request.body) if request.body else _Reset()
            seq = consumers.reset(consumer, asked.seq, answer)
        except JsonError as error:
            request.fail(TableError(table.INVALID_JSON, err=error), audited=False)
        except ApiError as error:
            request.fail(error, audited=False)

    def unpin(self, request: ApiRequest) -> Fields:
        """Let another client of the group have its turn."""
        try:
            asked = unmarshal(_UNPIN, request.body)
        except JsonError as error:
            raise TableError(table.INVALID_JSON, err=error) from None
        if not asked.group:
            raise TableError(table.INVALID_JSON, err="consumer group not specified")
        if not is_group_name(asked.group):
            raise TableError(table.CONSUMER_INVALID_GROUP_NAME)
        consumer = self._consumers(request.names[0]).get(request.names[1])
        if asked.group not in consumer.config.priority_groups:
            raise TableError(table.CONSUMER_INVALID_PRIORITY_GROUP)
        consumer.groups.unpin(asked.group, "admin")
        return {}

    # --- helpers ---

    def _consumers(self, stream_name: str) -> Consumers:
        interest = self._account.get_stream(stream_name).interest
        assert isinstance(interest, Consumers)
        return interest

    def _fields(self, consumer: Consumer, *, versioned: bool = True) -> dict[str, object]:
        version = self._account.facts.version if versioned else None
        cluster = self._account.cluster_block(consumer.stream.name)
        return consumer_fields(consumer, self._account.ports.now_ns(), version=version, cluster=cluster)


def _listed(consumers: Consumers) -> list[str]:
    return sorted([*consumers.visible, *consumers.offline])
