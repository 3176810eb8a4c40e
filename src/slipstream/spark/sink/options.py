"""The options of a write: parsed and checked on the driver, shipped to tasks as they are."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.limits import BULK_STAGE_NS, BULK_STAGE_NS_MIN
from slipstream.spark.runtime.errors import OptionError
from slipstream.spark.runtime.target import CONNECT_OPTIONS, Reach, Target, read_reach, read_target
from slipstream.spark.runtime.values import Values

__all__ = ["MODES", "SINK_OPTIONS", "SinkOptions", "read_sink_options"]

MODES = ("auto", "transaction", "atomic", "msgid", "append")
SINK_OPTIONS = [
    *CONNECT_OPTIONS,
    "stream",
    "bucket",
    "objectStore",
    "mode",
    "subject",
    "idColumn",
    "deterministic",
    "onChangedBatch",
    "onError",
    "dlqSubject",
    "maxInFlight",
    "createStream",
    "streamSubjects",
    "txnId",
    "writeTimeout",
    "stageTimeout",
    "chunkBytes",
]
_SECOND_NS = 1_000_000_000
_TXN_ID = re.compile(r"[-_A-Za-z0-9:=+/]{1,128}")


@dataclass(frozen=True)
class SinkOptions:
    """Everything a writer has to know. Picklable, no secrets."""

    reach: Reach
    target: Target
    mode: str
    subject: str | None  # of every row; else the column says
    id_column: str | None
    deterministic: bool
    skips_changed: bool  # a repeated batch that is not what it was is taken for written
    to_dlq: bool
    dlq_subject: str | None
    max_in_flight: int
    create_stream: bool
    stream_subjects: tuple[str, ...]
    txn_id: str  # of a batch write
    txn_is_named: bool  # by the user, who may write it again at any time
    write_timeout_ns: int
    chunk_bytes: int  # of objects
    stage_keep_s: int | None = None  # how long the server keeps staged rows that nobody commits; None for its default


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write.

    Raises:
        OptionError: an option is unknown or has no usable value.
    """
    values = Values(options)
    values.refuse_unknown(SINK_OPTIONS)
    target = read_target(values, several=False)
    mode = values.choice("mode", MODES, "auto")
    to_dlq = values.choice("onError", ("fail", "dlq"), "fail") == "dlq"
    if to_dlq != values.has("dlqSubject"):
        raise OptionError("dlqSubject", "goes together with onError=dlq: where rows go that cannot be messages")
    if values.has("subject") and target.kind != "stream":
        raise OptionError("subject", "goes with 'stream'; buckets and object stores have their own subjects")
    if target.kind == "object" and mode in ("atomic", "msgid"):
        raise OptionError("mode", f"{mode!r} does not go with 'objectStore'; use transaction or append")
    if values.has("createStream") and target.kind != "stream":
        raise OptionError("createStream", "goes with 'stream'; create buckets and object stores with a client")
    txn_id = values.text("txnId") or uuid.uuid4().hex
    if not _TXN_ID.fullmatch(txn_id):
        raise OptionError("txnId", "is up to 128 letters, digits and -_:=+/")
    return SinkOptions(
        reach=read_reach(values),
        target=target,
        mode=mode,
        subject=values.text("subject") or None,
        id_column=values.text("idColumn") or None,
        deterministic=values.flag("deterministic", False),
        skips_changed=values.choice("onChangedBatch", ("fail", "skip"), "fail") == "skip",
        to_dlq=to_dlq,
        dlq_subject=values.text("dlqSubject") or None,
        max_in_flight=values.count("maxInFlight", 4096, most=65_536),
        create_stream=values.flag("createStream", False),
        stream_subjects=values.words("streamSubjects"),
        txn_id=txn_id,
        txn_is_named=values.has("txnId"),
        write_timeout_ns=values.duration_ns("writeTimeout", 60 * _SECOND_NS) or 0,
        chunk_bytes=values.size("chunkBytes", 128 << 10) or 0,
        stage_keep_s=_stage_keep_s(values),
    )


def _stage_keep_s(values: Values) -> int | None:
    timeout_ns = values.duration_ns("stageTimeout", None)
    if timeout_ns is None:
        return None
    if not BULK_STAGE_NS_MIN <= timeout_ns <= BULK_STAGE_NS:
        raise OptionError("stageTimeout", f"{values.text('stageTimeout')!r} is not from 1m to 24h")
    return -(-timeout_ns // _SECOND_NS)
