"""What a stream's settings and the room it has let in, and as what: sizes, resources, interest, transform, counting.

The questions that every way in asks alike: publishes (`ingest`), copies (`copy_in`) and batches (`staging`). Each
check gives the error to answer with, or None.

What this is not: conditions a publisher states in headers (`conditions`), or anything that depends on the messages
already there but a counter's total.
"""

from __future__ import annotations

import sys

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import DiscardPolicy, RetentionPolicy
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.ingest_ports import IngestOwner, Resources
from slipstream.jetstream.stream.features.counters import Counter
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.limits import STREAM_HEADER_BYTES_MAX
from slipstream.subjects.transform import SubjectTransform

__all__ = ["Admission"]


class Admission:
    """What one stream lets in. `configure` must be called before anything is asked."""

    __slots__ = (
        "_owner",
        "_ports",
        "_store",
        "_transform",
        "config",
        "counter",
        "discards_new",
        "interest_only",
        "is_plain",
        "max_msg_size",
        "max_payload_bytes",
        "resources",
    )

    def __init__(
        self, store: Store, ports: Ports, owner: IngestOwner, resources: Resources, max_payload_bytes: int
    ) -> None:
        """Ask about `store`; a counter may grow up to `max_payload_bytes`, beyond what a client may send."""
        self._store = store
        self._ports = ports
        self._owner = owner
        self.resources = resources
        self.max_payload_bytes = max_payload_bytes

    def configure(self, config: StreamConfig, *, republishes: bool) -> None:
        """Take over a (new) configuration."""
        self.config = config
        self.max_msg_size = config.max_msg_size if config.max_msg_size >= 0 else sys.maxsize
        self.interest_only = config.retention is RetentionPolicy.INTEREST
        self.discards_new = config.discard is DiscardPolicy.NEW and (
            config.max_msgs > 0 or config.max_bytes > 0 or config.max_msgs_per_subject > 0
        )
        transform = config.subject_transform
        self._transform = (
            SubjectTransform(transform.src.encode(), transform.dest.encode()) if transform and transform.dest else None
        )
        self.counter = Counter(self._store) if config.allow_msg_counter else None
        # Whether a message without headers needs no look but at its size and at the resources.
        self.is_plain = not (
            config.sealed
            or self.interest_only
            or self.discards_new
            or self._transform is not None
            or republishes
            or config.allow_msg_counter
            or config.allow_msg_schedules
        )

    def closed_or_too_large(self, header_size: int, payload_size: int) -> ApiError | None:
        """Why no message of these sizes is taken."""
        if self.config.sealed:
            return TableError(table.STREAM_SEALED)
        if header_size + payload_size > self.max_msg_size:
            return TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        if header_size > STREAM_HEADER_BYTES_MAX:
            return TableError(table.STREAM_HEADER_EXCEEDS_MAXIMUM)
        return None

    def no_resources(self, size_bytes: int) -> ApiError | None:
        """Why the server or the account has no room for this much."""
        if self.resources.server_exceeded:
            return TableError(table.INSUFFICIENT_RESOURCES)
        if self.resources.limited and self.resources.would_exceed(size_bytes):
            return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)
        return None

    def is_wanted(self, subject: bytes) -> bool:
        """Whether a message under this subject is stored at all."""
        return not self.interest_only or self._owner.has_interest(subject)

    def transformed(self, subject: bytes) -> bytes:
        """The subject it is stored under. One with wildcards, which clients may publish to, stays what it is."""
        if self._transform is None or not is_valid_publish(subject):
            return subject
        return self._transform.find(subject, self._ports.random_below) or subject

    def counted(self, subject: bytes, header: bytes, payload: bytes) -> tuple[bytes, bytes, bytes] | ApiError:
        """Header and body of a message that counts, and what its ack says about it."""
        assert self.counter is not None
        counted = self.counter.counted(subject, header, payload)
        if isinstance(counted, ApiError):
            return counted
        if len(counted.header) + len(counted.payload) > self.max_payload_bytes:
            return TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        refusal = self.closed_or_too_large(len(counted.header), len(counted.payload))
        return refusal or (counted.header, counted.payload, b"," + counted.payload[1:-1])
