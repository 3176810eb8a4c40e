"""Options of the `jetstream` block.

Values only. One default differs from nats-server's on purpose: `sync_always`. An acknowledgement here means that the
message is on disk, unless the configuration asks for the interval policy.
"""

from __future__ import annotations

from typing import Literal

from slipstream.config.declared_options import DeclaredOptions
from slipstream.config.record import Record
from slipstream.limits import (
    API_REQUEST_QUEUE_LIMIT,
    AUDIT_MAX_BYTES,
    CONCURRENT_IO,
    STREAM_MAX_BUFFERED_BYTES,
    STREAM_MAX_BUFFERED_MSGS,
    SYNC_INTERVAL_NS,
)

__all__ = [
    "JetStreamAuditOptions",
    "JetStreamBatchLimitsOptions",
    "JetStreamLimitsOptions",
    "JetStreamOptions",
    "JetStreamTPMOptions",
]


class JetStreamAuditOptions(Record):
    """`jetstream.audit`: how much of the audit trail is kept."""

    max_age_ns: int = 0  # 0: for ever
    max_bytes: int = AUDIT_MAX_BYTES


class JetStreamBatchLimitsOptions(Record):
    """`jetstream.limits.batch`; 0 means the server's default."""

    max_inflight_per_stream: int = 0
    max_inflight_total: int = 0
    max_msgs: int = 0
    timeout_ns: int = 0


class JetStreamLimitsOptions(Record):
    """`jetstream.limits`: ceilings for every account; 0 means none."""

    max_ack_pending: int = 0
    max_ha_assets: int = 0
    max_request_batch: int = 0
    default_max_consumers: int = 0
    duplicate_window_ns: int = 0
    batch: JetStreamBatchLimitsOptions = JetStreamBatchLimitsOptions()


class JetStreamTPMOptions(
    Record,
    secret=(
        "encryption_password",
        "srk_password",
    ),
):
    """`jetstream.tpm`: the encryption key is sealed in a TPM."""

    keys_file: str = ""
    encryption_password: str = ""
    srk_password: str = ""
    pcr: int = 0


class JetStreamOptions(
    Record,
    secret=(
        "key",
        "prev_key",
    ),
):
    """The `jetstream` block, or the `-js` and `-sd` flags."""

    enabled: bool = False
    store_dir: str = ""  # empty: a directory below the system's temporary one
    max_memory_store: int = -1  # bytes; -1: a share of the machine's memory
    max_file_store: int = -1  # bytes; -1: a share of the free disk
    domain: str = ""
    key: str = ""  # encryption at rest
    key_file: str = ""
    key_command: str = ""  # program with arguments that writes the key
    prev_key: str = ""
    decrypt: bool = False  # stored data is to be plain; the keys are those that it may have
    cipher: Literal["", "chachapoly", "aes"] = ""  # empty: not said
    sync_always: bool = True  # fsync before every acknowledgement; False once `sync_interval` is a duration
    sync_interval_ns: int = SYNC_INTERVAL_NS
    strict: bool = True  # unknown fields in API requests are refused
    unique_tag: str = ""
    extension_hint: str = ""
    limits: JetStreamLimitsOptions = JetStreamLimitsOptions()
    tpm: JetStreamTPMOptions | None = None
    max_outstanding_catchup: int = 0  # bytes; 0: the server's default
    max_buffered_msgs: int = STREAM_MAX_BUFFERED_MSGS
    max_buffered_size: int = STREAM_MAX_BUFFERED_BYTES
    request_queue_limit: int = API_REQUEST_QUEUE_LIMIT
    info_queue_limit: int = API_REQUEST_QUEUE_LIMIT
    meta_compact: int = 0
    meta_compact_size: int = 0
    meta_compact_sync: bool = False
    max_concurrent_io: int = CONCURRENT_IO
    audit: JetStreamAuditOptions | None = None  # None: actions are not written down
    declared: DeclaredOptions | None = None  # of the account that all clients have on a server without accounts

    @property
    def encrypts(self) -> bool:
        """Whether stored data is to be encrypted."""
        return bool(self.key or self.key_file or self.key_command)
