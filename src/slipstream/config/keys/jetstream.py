"""The keys of the `jetstream` block of a server."""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, Kind, Reader, go_type, quote, read_map, refusal
from slipstream.config.jetstream_options import (
    JetStreamAuditOptions,
    JetStreamBatchLimitsOptions,
    JetStreamLimitsOptions,
    JetStreamOptions,
    JetStreamTPMOptions,
)
from slipstream.config.keys.declared import DECLARED
from slipstream.config.parser import Value
from slipstream.config.readers import BOOLEAN, INTEGER, STRING, duration, duration_text, storage_size, text
from slipstream.config.record import replace
from slipstream.limits import (
    API_REQUEST_QUEUE_LIMIT,
    AUDIT_MAX_AGE_MIN_NS,
    AUDIT_MAX_BYTES_MIN,
    CONCURRENT_IO_MAX,
    CONCURRENT_IO_MIN,
)

__all__ = ["AUDIT", "BATCH_LIMITS", "JETSTREAM", "JETSTREAM_LIMITS", "TPM", "jetstream"]


def jetstream(checker: Checker, value: Value, _key: str) -> JetStreamOptions:
    """`true`, `enabled`, or the block; a block is on unless it says otherwise."""
    data = value.data
    if isinstance(data, bool):
        return JetStreamOptions(enabled=data)
    if isinstance(data, str):
        if data.lower() not in ("enabled", "enable", "disabled", "disable"):
            raise refusal(value, f"Expected 'enabled' or 'disabled' for string value, got '{data}'")
        return JetStreamOptions(enabled=data.lower().startswith("enable"))
    if not isinstance(data, dict):
        raise refusal(value, f"Expected map, bool or string to define JetStream, got {go_type(value)}")
    fields = {"enabled": True, **read_map(checker, value, JETSTREAM)}
    options = JetStreamOptions(**fields)  # type: ignore[arg-type]  # the table names its fields
    requests = options.request_queue_limit if options.request_queue_limit > 0 else API_REQUEST_QUEUE_LIMIT
    infos = options.info_queue_limit if fields.get("info_queue_limit", 0) else requests
    return replace(options, request_queue_limit=requests, info_queue_limit=infos)


def _strict(_checker: Checker, value: Value, _key: str) -> bool:
    if not isinstance(value.data, bool):
        raise refusal(value, f"Expected 'true' or 'false' for bool value, got '{value.plain()}'")
    return value.data


def _sync_interval(checker: Checker, value: Value, key: str) -> dict[str, object]:
    if isinstance(value.data, str) and value.data.lower() == "always":
        return {"sync_always": True}
    return {"sync_always": False, "sync_interval_ns": duration()(checker, value, key)}


def _cipher(checker: Checker, value: Value, key: str) -> str:
    name = text(checker, value, key)
    ciphers = {"chacha": "chachapoly", "chachapoly": "chachapoly", "aes": "aes"}
    if name.lower() not in ciphers:
        raise refusal(value, f"Unknown cipher type: {quote(name)}")
    return ciphers[name.lower()]


def _unique_tag(checker: Checker, value: Value, key: str) -> str:
    return text(checker, value, key).strip().lower()


def _count(_checker: Checker, value: Value, key: str) -> int:
    if not isinstance(value.data, int) or isinstance(value.data, bool):
        raise refusal(value, f"Expected a parseable size for {quote(key)}, got {value.plain()}")
    return value.data


def _not_negative(read_number: Reader) -> Reader:
    def read(checker: Checker, value: Value, key: str) -> int:
        number = read_number(checker, value, key)
        if not isinstance(number, int) or number < 0:
            raise refusal(value, f"Expected an absolute size for {quote(key)}, got {value.plain()}")
        return number

    return read


def _meta_compact(_checker: Checker, value: Value, _key: str) -> object:
    # A boolean is an int for Python only.
    return None if isinstance(value.data, bool) else value.data


def _concurrent_io(_checker: Checker, value: Value, key: str) -> int:
    number = value.data
    if isinstance(number, bool) or not isinstance(number, int) or not CONCURRENT_IO_MIN <= number <= CONCURRENT_IO_MAX:
        message = f"Expected an absolute size for {quote(key)} between 4 and 8192, got {value.plain()}"
        raise refusal(value, message)
    return number


def _limits(checker: Checker, value: Value, _key: str) -> JetStreamLimitsOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected a map to define JetStreamLimits, got {go_type(value)}")
    return JetStreamLimitsOptions(**read_map(checker, value, JETSTREAM_LIMITS))  # type: ignore[arg-type]


def _batch_limits(checker: Checker, value: Value, _key: str) -> JetStreamBatchLimitsOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected a map to define batch limits, got {go_type(value)}")
    return JetStreamBatchLimitsOptions(**read_map(checker, value, BATCH_LIMITS))  # type: ignore[arg-type]


def _tpm(checker: Checker, value: Value, _key: str) -> JetStreamTPMOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected a map to define JetStreamLimits, got {go_type(value)}")
    fields = read_map(checker, value, TPM)
    fields.pop("cipher", None)  # the same as `cipher` of the block; the TPM itself is not there to use it
    return JetStreamTPMOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _audit(checker: Checker, value: Value, _key: str) -> JetStreamAuditOptions | None:
    if isinstance(value.data, bool):
        return JetStreamAuditOptions() if value.data else None
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected map or bool to define audit, got {go_type(value)}")
    return JetStreamAuditOptions(**read_map(checker, value, AUDIT))  # type: ignore[arg-type]


def _audit_age(checker: Checker, value: Value, key: str) -> int:
    age_ns = duration()(checker, value, key)
    if not isinstance(age_ns, int) or age_ns < 0 or 0 < age_ns < AUDIT_MAX_AGE_MIN_NS:
        raise refusal(value, f"Expected a duration of a second at least for {quote(key)}, got {value.plain()}")
    return age_ns


def _audit_size(checker: Checker, value: Value, key: str) -> int:
    size = storage_size()(checker, value, key)
    if not isinstance(size, int) or size < AUDIT_MAX_BYTES_MIN:
        raise refusal(value, f"Expected 1M at least for {quote(key)}, got {value.plain()}")
    return size


_SIZE: Final[Kind] = ("size", storage_size())

BATCH_LIMITS: Final = KeyTable(
    Key("max_inflight_per_stream", INTEGER, "Open batches of a stream."),
    Key("max_inflight_total", INTEGER, "Open batches of the server."),
    Key("max_msgs", INTEGER, "Messages of a batch."),
    Key("timeout", ("duration", duration_text), "Time between the messages of a batch.", field="timeout_ns"),
)

JETSTREAM_LIMITS: Final = KeyTable(
    Key("max_ack_pending", INTEGER, "Largest `max_ack_pending` of a consumer."),
    Key("max_ha_assets", INTEGER, "Replicated streams and consumers of the server."),
    Key("max_request_batch", INTEGER, "Largest `batch` of a pull request."),
    Key(
        "default_max_consumers",
        INTEGER,
        "Consumers of a stream where neither it nor its account has a limit; nats-server 2.15 has 1000 by default.",
    ),
    Key(
        "duplicate_window",
        ("duration", duration_text),
        "Largest duplicate window of a stream.",
        field="duplicate_window_ns",
    ),
    Key("batch", ("map", _batch_limits), "Limits of batch publishing."),
)

TPM: Final = KeyTable(
    Key("keys_file", STRING, "File with the sealed key."),
    Key("encryption_password", STRING, "Password of the key."),
    Key("srk_password", STRING, "Password of the storage root key."),
    Key("pcr", INTEGER, "Platform configuration register."),
    Key("cipher", ("`chachapoly` or `aes`", _cipher), "As in the block."),
)

AUDIT: Final = KeyTable(
    Key("max_age", ("duration", _audit_age), "Age at which records go; by default they stay.", field="max_age_ns"),
    Key("max_bytes", ("size", _audit_size), "Size of the trail: the oldest records go."),
)

JETSTREAM: Final = KeyTable(
    Key("enabled enable", BOOLEAN, "Turn JetStream on or off, keeping the other settings."),
    Key("store_dir storedir store", STRING, "Directory of the streams."),
    Key(
        "max_memory_store max_mem_store max_mem",
        ("size", storage_size("max_mem_store")),
        "Memory for streams; by default a share of the machine's.",
    ),
    Key(
        "max_file_store max_file",
        ("size", storage_size("max_file_store")),
        "Disk for streams; by default a share of what is free.",
    ),
    Key("domain", STRING, "Name of this JetStream among others behind leaf nodes."),
    Key(
        "key ek encryption_key",
        STRING,
        "Encrypt stored data with a key derived from this text.",
        reloadable=True,
    ),
    Key(
        "key_file",
        STRING,
        "File that holds the text for `key`, as secrets of containers are given.",
        reloadable=True,
    ),
    Key(
        "key_command",
        STRING,
        "Program with arguments that writes the text for `key`, run at the start and at a reload.",
        reloadable=True,
    ),
    Key(
        "prev_key prev_ek prev_encryption_key",
        STRING,
        "The key before `key`: data has `key` after the start, or the reload.",
        reloadable=True,
    ),
    Key(
        "decrypt",
        BOOLEAN,
        "Stored data is encrypted with the key that is given, and is to be plain: it is rewritten in the background.",
        reloadable=True,
    ),
    Key(
        "cipher",
        ("`chachapoly` or `aes`", _cipher),
        "Cipher of stored data, `chachapoly` unless said.",
        reloadable=True,
    ),
    Key(
        "sync_interval sync",
        ("duration or `always`", _sync_interval),
        "When data is forced to disk: before every acknowledgement (`always`, the default here), or at intervals.",
        field="",
    ),
    Key("strict", ("boolean", _strict), "Refuse API requests with unknown fields."),
    Key("unique_tag", ("string", _unique_tag), "Prefix of server tags that replicas of a stream must differ in."),
    Key("extension_hint", STRING, "Whether this JetStream extends that of a leaf node's hub."),
    Key("limits", ("map", _limits), "Ceilings for all accounts."),
    Key("tpm", ("map", _tpm), "Take the encryption key from a TPM. **Refused.**"),
    Key("max_outstanding_catchup", _SIZE, "Bytes in flight to replicas that catch up."),
    Key("max_buffered_msgs", ("integer", _count), "Messages waiting to be stored in a stream."),
    Key("max_buffered_size", _SIZE, "Bytes waiting to be stored in a stream."),
    Key("request_queue_limit", ("integer", _count), "API requests waiting."),
    Key("info_queue_limit", ("integer", _count), "API info requests waiting."),
    Key("meta_compact", ("integer", _not_negative(_meta_compact)), "Entries after which the meta log is compacted."),
    Key("meta_compact_size", ("size", _not_negative(storage_size())), "Bytes after which the meta log is compacted."),
    Key("meta_compact_sync", BOOLEAN, "Compact the meta log before going on."),
    Key("max_concurrent_io", ("integer", _concurrent_io), "File operations at the same time, 4 to 8192."),
    Key(
        "declared",
        DECLARED,
        "Streams, consumers and buckets that there should be; see [declared streams](features/declared.md).",
        reloadable=True,
    ),
    Key(
        "audit",
        ("boolean or map", _audit),
        "Write administrative actions down in the stream `SLIPSTREAM_AUDIT` of the system account.",
    ),
)
