"""What a feed asks of an origin: a consumer there, which sends its messages here; and what it is answered.

Names and settings are those of nats-server, so that either side may be one.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.enums import AckPolicy, DeliverPolicy
from slipstream.jetstream.config.structs import ConsumerConfig, StreamSource
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.stream.limits import SOURCE_ACK_WAIT_NS, SOURCE_SILENCE_NS
from slipstream.units import SECOND_NS

__all__ = [
    "ANSWER",
    "FeedKind",
    "OriginAnswer",
    "OriginReader",
    "Start",
    "api_subject",
    "consumer_config",
    "deliver_subject",
]

_API = "$JS.API"


@dataclass(frozen=True, slots=True)
class FeedKind:
    """How mirrors and sources differ in what they ask for."""

    letter: str
    """Names the deliver subject: `$JS.<letter>.<id>`."""
    metadata: str
    """Beginning of the metadata keys that tell the origin who reads."""
    setup_failed: ErrorSpec
    requires_flow_acks: ErrorSpec


@dataclass(frozen=True, slots=True)
class Start:
    """Where a consumer is to begin: at a sequence, at a time, or with everything."""

    seq: int = 0
    time_ns: int | None = None


@dataclass(frozen=True, slots=True)
class OriginReader:
    """Who reads: what the origin is told about that."""

    consumer: str
    """Name of the consumer at the origin."""
    account: str
    stream: str
    domain: str


class _Info(msgspec.Struct):
    deliver_subject: str = ""
    ack_policy: str = ""


_Sequence = Annotated[int, msgspec.Meta(ge=0)]


class _Delivered(msgspec.Struct):
    stream_seq: _Sequence = 0


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class OriginAnswer(msgspec.Struct):
    """What an origin says to that."""

    name: str = ""
    config: _Info | None = None
    delivered: _Delivered = msgspec.field(default_factory=_Delivered)
    error: _Error | None = None


ANSWER: Final = msgspec.json.Decoder(OriginAnswer)


def consumer_config(
    source: StreamSource, kind: FeedKind, start: Start, reader: OriginReader, deliver_to: str
) -> ConsumerConfig:
    """The consumer that is asked for."""
    policy = DeliverPolicy.ALL
    if start.time_ns is not None:
        policy = DeliverPolicy.BY_START_TIME
    elif start.seq:
        policy = DeliverPolicy.BY_START_SEQUENCE
    metadata = {f"{kind.metadata}.acc": reader.account, f"{kind.metadata}.stream": reader.stream}
    if reader.domain:
        metadata[f"{kind.metadata}.domain"] = reader.domain
    filters = [source.filter_subject] if source.filter_subject else []
    filters += [transform.src for transform in source.subject_transforms if transform.src]
    return ConsumerConfig(
        name=reader.consumer,
        deliver_subject=deliver_to,
        deliver_policy=policy,
        opt_start_seq=start.seq if start.time_ns is None else 0,
        opt_start_time_ns=start.time_ns,
        ack_policy=AckPolicy.NONE,
        ack_wait_ns=SOURCE_ACK_WAIT_NS,
        max_deliver=1,
        filter_subject=filters[0] if len(filters) == 1 else "",
        filter_subjects=filters if len(filters) > 1 else [],
        idle_heartbeat_ns=SECOND_NS,
        flow_control=True,
        direct=True,
        sourcing=True,
        inactive_threshold_ns=SOURCE_SILENCE_NS,
        metadata=dict(sorted(metadata.items())),
    )


def deliver_subject(source: StreamSource, kind: FeedKind, id_: str) -> str:
    """Where its messages are sent."""
    prefix = source.external.deliver if source.external is not None and source.external.deliver else "$JS"
    return f"{prefix}.{kind.letter}.{id_}".replace("..", ".")


def api_subject(source: StreamSource, path: str) -> bytes:
    """Where the origin's API is called."""
    prefix = source.external.api if source.external is not None and source.external.api else _API
    return f"{prefix}.{path}".replace("..", ".").encode()
