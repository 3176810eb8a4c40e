"""The options of a read: parsed once on the driver, checked, frozen, and shipped to tasks as they are.

Names and meanings are in docs/spark.md; defaults are here. A write has its own in `sink_options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.limits import BULK_HOLD_NS_MAX
from slipstream.schemas.registered import RegisteredSchema
from slipstream.spark.runtime.errors import OptionError
from slipstream.spark.runtime.target import CONNECT_OPTIONS, TARGET_OPTIONS, Reach, Target, read_reach, read_target
from slipstream.spark.runtime.values import Values

__all__ = ["SOURCE_OPTIONS", "ReadLimits", "SourceOptions", "StartingPoint", "read_source_options"]

SOURCE_OPTIONS = [
    *CONNECT_OPTIONS,
    *TARGET_OPTIONS,
    "subjects",
    "starting",
    "startingSequence",
    "startingTime",
    "endingSequence",
    "endingTime",
    "outOfRange",
    "failOnDataLoss",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "numPartitions",
    "targetPartitionBytes",
    "minPartitionRows",
    "transport",
    "batchRows",
    "batchBytes",
    "archive",
    "durable",
    "hold",
    "holdTimeout",
    "headers",
    "columns",
    "payloadFormat",
    "payloadSchema",
    "payloadErrors",
    "pushdown",
    "readTimeout",
    "maxObjectBytes",
]
MIB = 1 << 20
_SECOND_NS = 1_000_000_000
_TRANSPORTS = ("auto", "bulk", "direct", "consumer")
_PARTITIONS_MAX = 10_000  # tasks of one read; more are planning cost and no speed


@dataclass(frozen=True)
class StartingPoint:
    """Where a new query begins; exactly one of the three counts, in this order."""

    seq: int | None = None
    time_ns: int | None = None
    latest: bool = False


@dataclass(frozen=True)
class ReadLimits:
    """What one micro-batch may hold; None is no limit."""

    max_messages: int | None = None
    max_bytes: int | None = None
    min_messages: int | None = None
    max_delay_ns: int | None = None  # after so long a batch is made even if it holds less than the least


@dataclass(frozen=True)
class SourceOptions:
    """Everything a reader has to know. Picklable, no secrets."""

    reach: Reach
    target: Target
    subjects: tuple[str, ...]  # empty: all
    start: StartingPoint
    end_seq: int | None  # last sequence of a batch read, itself included
    end_time_ns: int | None  # messages stored before
    adjust: bool  # a start before the first message moves there instead of failing
    fail_on_data_loss: bool
    limits: ReadLimits
    partitions: int | None
    target_bytes: int
    min_rows: int
    transport: str
    batch_rows: int
    batch_bytes: int
    durable: str | None
    hold: bool
    hold_timeout_ns: int
    headers: str  # map, raw or none
    columns: tuple[str, ...]  # empty: the default ones
    payload_format: str  # raw, string, json or schema
    payload_schema: str  # DDL, for json; the name of a registered one, for schema
    payload_errors_fail: bool
    pushdown: bool  # for one query; see `reader`
    read_timeout_ns: int
    max_object_bytes: int
    registered: RegisteredSchema | None = None  # for schema, once it is known
    archive: str = ""  # location of the stream's archive, for what the stream has no more


def read_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the options of a read.

    Args:
        options: as Spark has them; names in any case.
        streaming: whether the default start is the end of the stream, as it is for queries that go on.

    Raises:
        OptionError: an option is unknown or has no usable value.
    """
    values = Values(options)
    values.refuse_unknown(SOURCE_OPTIONS)
    target = read_target(values, several=True)
    subjects = values.words("subjects")
    if subjects and target.kind == "object":
        raise OptionError("subjects", "does not go with 'objectStore'")
    archive = values.text("archive")
    if archive and (target.kind == "object" or target.has_patterns or len(target.stream_names) != 1):
        raise OptionError("archive", "goes with reads of one stream or bucket")
    hold_timeout_ns = values.duration_ns("holdTimeout", 600 * _SECOND_NS) or 0
    if hold_timeout_ns > BULK_HOLD_NS_MAX:
        raise OptionError("holdTimeout", "is at most 24h; a hold is renewed while a query runs")
    payload_format = values.choice("payloadFormat", ("raw", "string", "json", "schema"), "raw")
    if payload_format == "schema":
        if target.kind == "object" or target.has_patterns or len(target.stream_names) != 1:
            raise OptionError("payloadFormat", "schema goes with reads of one stream or bucket")
    elif (payload_format == "json") != values.has("payloadSchema"):
        raise OptionError(
            "payloadSchema", "goes together with payloadFormat=json: a DDL such as 'id bigint, name string'"
        )
    return SourceOptions(
        reach=read_reach(values),
        target=target,
        subjects=() if ">" in subjects else _subjects(subjects, target),
        start=_start(values, streaming),
        end_seq=values.number("endingSequence", None),
        end_time_ns=values.time_ns("endingTime"),
        adjust=values.choice("outOfRange", ("error", "adjust"), "error") == "adjust",
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        limits=ReadLimits(
            max_messages=values.number("maxMessagesPerTrigger", None),
            max_bytes=values.size("maxBytesPerTrigger", None),
            min_messages=values.number("minMessagesPerTrigger", None),
            max_delay_ns=values.duration_ns("maxTriggerDelay", None),
        ),
        partitions=values.number("numPartitions", None, most=_PARTITIONS_MAX),
        target_bytes=values.size("targetPartitionBytes", 128 * MIB) or 128 * MIB,
        min_rows=values.count("minPartitionRows", 50_000),
        transport=values.choice("transport", _TRANSPORTS, "auto"),
        batch_rows=values.count("batchRows", 65_536, most=1_000_000),
        batch_bytes=values.size("batchBytes", 4 * MIB) or 4 * MIB,
        durable=values.text("durable") or None,
        hold=values.flag("hold", True),
        hold_timeout_ns=hold_timeout_ns,
        headers=values.choice("headers", ("map", "raw", "none"), "map"),
        columns=values.words("columns"),
        payload_format=payload_format,
        payload_schema=values.text("payloadSchema"),
        payload_errors_fail=values.choice("payloadErrors", ("null", "fail"), "null") == "fail",
        pushdown=values.flag("pushdown", False),
        read_timeout_ns=values.duration_ns("readTimeout", 60 * _SECOND_NS) or 0,
        max_object_bytes=values.size("maxObjectBytes", 256 * MIB) or 0,
        archive=archive,
    )


def _subjects(words: tuple[str, ...], target: Target) -> tuple[str, ...]:
    """Filters as the server takes them: for a bucket keys, or patterns of keys, will do."""
    if target.kind != "bucket":
        return words
    whole = [
        (word,) if word.startswith("$KV.") else tuple(f"$KV.{bucket}.{word}" for bucket in target.names)
        for word in words
    ]
    return tuple(dict.fromkeys(subject for subjects in whole for subject in subjects))


def _start(values: Values, streaming: bool) -> StartingPoint:
    given = [name for name in ("startingSequence", "startingTime", "starting") if values.has(name)]
    if len(given) > 1:
        raise OptionError(given[1], f"cannot be combined with {given[0]!r}")
    word = values.choice("starting", ("earliest", "latest"), "latest" if streaming else "earliest")
    seq = values.number("startingSequence", None)
    time_ns = values.time_ns("startingTime")
    return StartingPoint(seq, time_ns, word == "latest" and seq is None and time_ns is None)
