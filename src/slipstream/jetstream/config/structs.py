"""Stream and consumer configuration as msgspec Structs, and their JSON tables.

A Struct holds what the server uses; the `GoStruct` beside it says how it looks on the wire: order, names, what is left
out when empty. Durations are nanoseconds and carry the suffix `_ns` here, not on the wire.

What this is not: rules. Defaults, limits and what may change are in `validate` and `update`.
"""

from __future__ import annotations

import msgspec

from slipstream.jetstream.config import enums
from slipstream.jetstream.config.enums import (
    AckPolicy,
    Compression,
    DeliverPolicy,
    DiscardPolicy,
    PersistMode,
    PriorityPolicy,
    ReplayPolicy,
    RetentionPolicy,
    StorageType,
)
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.bind import Field, GoList, GoMap, GoPointer, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, DURATION, INT, INT32, INT64, STRING, TIME, UINT64, GoType

__all__ = [
    "CONSUMER_CONFIG",
    "STREAM_CONFIG",
    "STREAM_CONFIG_REQUEST",
    "ConsumerConfig",
    "ConsumerLimits",
    "ExternalStream",
    "Placement",
    "RepublishConfig",
    "StreamConfig",
    "StreamConfigRequest",
    "StreamSource",
    "StreamSourceConsumer",
    "SubjectTransformConfig",
]


class Placement(msgspec.Struct, kw_only=True):
    """Where a stream should live in a cluster."""

    cluster: str = ""
    tags: list[str] = []
    preferred: str = ""


class ExternalStream(msgspec.Struct, kw_only=True):
    """Subject prefixes through which another account or domain is reached."""

    api: str = ""
    deliver: str = ""


class SubjectTransformConfig(msgspec.Struct, kw_only=True):
    """Subjects matching `src` are stored as `dest`."""

    src: str = ""
    dest: str = ""


class RepublishConfig(msgspec.Struct, kw_only=True):
    """Stored messages matching `src` are published again as `dest`."""

    src: str = ""
    dest: str = ""
    headers_only: bool = False
    outside: bool = False
    """For clients alone: who named `dest` may not publish there. Not part of the wire format."""


class StreamSourceConsumer(msgspec.Struct, kw_only=True):
    """A durable consumer to copy through, instead of one the server makes."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(msgspec.Struct, kw_only=True):
    """A stream to copy from."""

    name: str = ""
    opt_start_seq: int = 0
    opt_start_time_ns: int | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransformConfig] = []
    external: ExternalStream | None = None
    consumer: StreamSourceConsumer | None = None


class ConsumerLimits(msgspec.Struct, kw_only=True):
    """Defaults and ceilings for consumers of a stream."""

    inactive_threshold_ns: int = 0
    max_ack_pending: int = 0


class StreamConfig(msgspec.Struct, kw_only=True):
    """Everything a user may set on a stream. Compare with `==`: equal means nothing to do on a repeated create."""

    name: str = ""
    description: str = ""
    subjects: list[str] = []
    retention: RetentionPolicy = RetentionPolicy.LIMITS
    max_consumers: int = 0
    max_msgs: int = 0
    max_bytes: int = 0
    max_age_ns: int = 0
    max_msgs_per_subject: int = 0
    max_msg_size: int = 0
    discard: DiscardPolicy = DiscardPolicy.OLD
    storage: StorageType = StorageType.FILE
    num_replicas: int = 0
    no_ack: bool = False
    duplicate_window_ns: int = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource | None] = []
    compression: Compression = Compression.NONE
    first_seq: int = 0
    subject_transform: SubjectTransformConfig | None = None
    republish: RepublishConfig | None = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: bool = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: ConsumerLimits = msgspec.field(default_factory=ConsumerLimits)
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl_ns: int = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: dict[str, str] = {}

    def to_json(self) -> bytes:
        """The configuration as stored: every field nats-server would write, in its order."""
        return encode(STREAM_CONFIG.wire(self))

    @classmethod
    def from_json(cls, data: bytes) -> StreamConfig:
        """Read back what `to_json` wrote.

        Raises:
            JsonError: if it is not such a configuration.
        """
        return STREAM_CONFIG.decode(data)


class StreamConfigRequest(StreamConfig, kw_only=True):
    """The body of STREAM.CREATE and STREAM.UPDATE: a configuration and the wish not to have it corrected silently."""

    pedantic: bool = False

    def config(self) -> StreamConfig:
        """The configuration alone."""
        return StreamConfig(**{name: getattr(self, name) for name in StreamConfig.__struct_fields__})


class ConsumerConfig(msgspec.Struct, kw_only=True):
    """Everything a user may set on a consumer."""

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: int = 0
    opt_start_time_ns: int | None = None
    ack_policy: AckPolicy = AckPolicy.NONE
    ack_wait_ns: int = 0
    max_deliver: int = 0
    backoff_ns: list[int] = []
    filter_subject: str = ""
    filter_subjects: list[str] = []
    replay_policy: ReplayPolicy = ReplayPolicy.INSTANT
    rate_limit_bps: int = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires_ns: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat_ns: int = 0
    inactive_threshold_ns: int = 0
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = {}
    pause_until_ns: int | None = None
    priority_groups: list[str] = []
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout_ns: int = 0
    outside: bool = False
    """For clients alone: who named `deliver_subject` may not publish there. Not part of the wire format."""

    def to_json(self) -> bytes:
        """The configuration as stored: every field nats-server would write, in its order."""
        return encode(CONSUMER_CONFIG.wire(self))

    @classmethod
    def from_json(cls, data: bytes) -> ConsumerConfig:
        """Read back what `to_json` wrote.

        Raises:
            JsonError: if it is not such a configuration.
        """
        return CONSUMER_CONFIG.decode(data)


def _optional(name: str, go_type: GoType, attribute: str = "") -> Field:
    return Field(name, go_type, attribute=attribute, omit_empty=True)


STRINGS = GoList(STRING)

PLACEMENT = GoStruct(
    "Placement", Placement, [_optional("cluster", STRING), _optional("tags", STRINGS), _optional("preferred", STRING)]
)
EXTERNAL = GoStruct("ExternalStream", ExternalStream, [Field("api", STRING), Field("deliver", STRING)])
TRANSFORM = GoStruct("SubjectTransformConfig", SubjectTransformConfig, [Field("src", STRING), Field("dest", STRING)])
REPUBLISH = GoStruct(
    "RePublish", RepublishConfig, [_optional("src", STRING), Field("dest", STRING), _optional("headers_only", BOOL)]
)
SOURCE_CONSUMER = GoStruct(
    "StreamConsumerSource",
    StreamSourceConsumer,
    [_optional("name", STRING), _optional("deliver_subject", STRING)],
)
SOURCE = GoStruct(
    "StreamSource",
    StreamSource,
    [
        Field("name", STRING),
        _optional("opt_start_seq", UINT64),
        Field("opt_start_time", GoPointer(TIME), attribute="opt_start_time_ns"),
        _optional("filter_subject", STRING),
        _optional("subject_transforms", GoList(TRANSFORM)),
        Field("external", GoPointer(EXTERNAL)),
        Field("consumer", GoPointer(SOURCE_CONSUMER)),
    ],
)
CONSUMER_LIMITS = GoStruct(
    "StreamConsumerLimits",
    ConsumerLimits,
    [_optional("inactive_threshold", DURATION, "inactive_threshold_ns"), _optional("max_ack_pending", INT)],
)

_STREAM_FIELDS = [
    Field("name", STRING),
    _optional("description", STRING),
    _optional("subjects", STRINGS),
    Field("retention", enums.RETENTION),
    Field("max_consumers", INT),
    Field("max_msgs", INT64),
    Field("max_bytes", INT64),
    Field("max_age", DURATION, attribute="max_age_ns"),
    Field("max_msgs_per_subject", INT64),
    _optional("max_msg_size", INT32),
    Field("discard", enums.DISCARD),
    Field("storage", enums.STORAGE),
    Field("num_replicas", INT),
    _optional("no_ack", BOOL),
    _optional("duplicate_window", DURATION, "duplicate_window_ns"),
    Field("placement", GoPointer(PLACEMENT)),
    Field("mirror", GoPointer(SOURCE)),
    _optional("sources", GoList(GoPointer(SOURCE), "[]*server.StreamSource")),
    Field("compression", enums.COMPRESSION),
    _optional("first_seq", UINT64),
    Field("subject_transform", GoPointer(TRANSFORM)),
    Field("republish", GoPointer(REPUBLISH)),
    Field("allow_direct", BOOL),
    Field("mirror_direct", BOOL),
    _optional("discard_new_per_subject", BOOL),
    Field("sealed", BOOL),
    Field("deny_delete", BOOL),
    Field("deny_purge", BOOL),
    Field("allow_rollup_hdrs", BOOL),
    Field("consumer_limits", CONSUMER_LIMITS),
    Field("allow_msg_ttl", BOOL),
    _optional("subject_delete_marker_ttl", DURATION, "subject_delete_marker_ttl_ns"),
    _optional("allow_msg_counter", BOOL),
    _optional("allow_atomic", BOOL),
    _optional("allow_msg_schedules", BOOL),
    _optional("persist_mode", enums.PERSIST_MODE),
    _optional("allow_batched", BOOL),
    _optional("metadata", GoMap()),
]
STREAM_CONFIG = GoStruct("StreamConfig", StreamConfig, _STREAM_FIELDS)
STREAM_CONFIG_REQUEST = GoStruct(
    "StreamConfigRequest", StreamConfigRequest, [*_STREAM_FIELDS, _optional("pedantic", BOOL)]
)

CONSUMER_CONFIG = GoStruct(
    "ConsumerConfig",
    ConsumerConfig,
    [
        _optional("durable_name", STRING),
        _optional("name", STRING),
        _optional("description", STRING),
        Field("deliver_policy", enums.DELIVER_POLICY),
        _optional("opt_start_seq", UINT64),
        Field("opt_start_time", GoPointer(TIME), attribute="opt_start_time_ns"),
        Field("ack_policy", enums.ACK_POLICY),
        _optional("ack_wait", DURATION, "ack_wait_ns"),
        _optional("max_deliver", INT),
        _optional("backoff", GoList(DURATION), "backoff_ns"),
        _optional("filter_subject", STRING),
        _optional("filter_subjects", STRINGS),
        Field("replay_policy", enums.REPLAY_POLICY),
        _optional("rate_limit_bps", UINT64),
        _optional("sample_freq", STRING),
        _optional("max_waiting", INT),
        _optional("max_ack_pending", INT),
        _optional("flow_control", BOOL),
        _optional("headers_only", BOOL),
        _optional("max_batch", INT),
        _optional("max_expires", DURATION, "max_expires_ns"),
        _optional("max_bytes", INT),
        _optional("deliver_subject", STRING),
        _optional("deliver_group", STRING),
        _optional("idle_heartbeat", DURATION, "idle_heartbeat_ns"),
        _optional("inactive_threshold", DURATION, "inactive_threshold_ns"),
        Field("num_replicas", INT),
        _optional("mem_storage", BOOL),
        _optional("direct", BOOL),
        _optional("sourcing", BOOL),
        _optional("metadata", GoMap()),
        Field("pause_until", GoPointer(TIME), attribute="pause_until_ns"),
        _optional("priority_groups", STRINGS),
        _optional("priority_policy", enums.PRIORITY_POLICY),
        _optional("priority_timeout", DURATION, "priority_timeout_ns"),
    ],
)
