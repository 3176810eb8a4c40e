"""The closed sets of stream and consumer configuration, with their JSON spellings."""

from __future__ import annotations

from enum import Enum

from slipstream.jetstream.gojson.parse import Unusual
from slipstream.jetstream.gojson.scalars import GoEnum, Path, cannot_unmarshal, is_null, kind_of, mismatch, text_of
from slipstream.jetstream.gojson.scan import JsonError

__all__ = [
    "AckPolicy",
    "Compression",
    "DeliverPolicy",
    "DiscardPolicy",
    "PersistMode",
    "PriorityPolicy",
    "ReplayPolicy",
    "RetentionPolicy",
    "StorageType",
]


class RetentionPolicy(Enum):
    """When a message may go."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORK_QUEUE = "workqueue"


class DiscardPolicy(Enum):
    """Who gives way at a limit: the oldest messages or the new one."""

    OLD = "old"
    NEW = "new"


class StorageType(Enum):
    """Where messages live."""

    FILE = "file"
    MEMORY = "memory"


class Compression(Enum):
    """How stored blocks are compressed."""

    NONE = "none"
    S2 = "s2"


class PersistMode(Enum):
    """Whether an ack waits for the disk."""

    DEFAULT = "default"
    ASYNC = "async"

    def __bool__(self) -> bool:
        """The default is left out of JSON."""
        return self is not PersistMode.DEFAULT


class DeliverPolicy(Enum):
    """Where a consumer begins."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(Enum):
    """What acknowledges a delivery."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(Enum):
    """How fast stored messages are delivered."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(Enum):
    """How pull requests of a group compete."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"

    def __bool__(self) -> bool:
        """The default is left out of JSON."""
        return self is not PriorityPolicy.NONE


def _spelled(members: type[Enum]) -> dict[str, object]:
    return {f'"{member.value}"': member for member in members}


class _GoDiscard(GoEnum):
    """The one enum nats-server compares without regard to case."""

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        raw = data[start:end]
        lowered = raw.lower()
        if lowered.decode("utf-8", "replace") not in self.words:
            raise JsonError(cannot_unmarshal(raw))
        return super().bind(lowered, 0, len(lowered), current, path)


class _GoCompression:
    """Read as a string first, so escapes are fine and the complaints differ from the other enums'."""

    name = "string"

    def bind(self, data: bytes, start: int, end: int, current: object, path: Path) -> object:
        text = ""
        if not is_null(data, start):
            if data[start] != ord('"'):
                raise mismatch(kind_of(data, start), ("",), self.name)
            text = text_of(data[start:end])
        for member in Compression:
            if member.value == text:
                return member
        raise JsonError("unknown compression algorithm")

    def take(self, value: object, current: object) -> object:
        for member in Compression:
            if member.value == (value or ""):
                return member
        raise Unusual

    def wire(self, value: object) -> object:
        assert isinstance(value, Compression)
        return value.value


RETENTION = GoEnum("server.RetentionPolicy", _spelled(RetentionPolicy), cannot_unmarshal)
DISCARD = _GoDiscard("server.DiscardPolicy", _spelled(DiscardPolicy), cannot_unmarshal)
STORAGE = GoEnum("server.StorageType", _spelled(StorageType), cannot_unmarshal)
COMPRESSION = _GoCompression()
PERSIST_MODE = GoEnum("server.PersistModeType", {**_spelled(PersistMode), '""': PersistMode.DEFAULT}, cannot_unmarshal)
DELIVER_POLICY = GoEnum(
    "server.DeliverPolicy", {**_spelled(DeliverPolicy), '"undefined"': DeliverPolicy.ALL}, cannot_unmarshal
)
ACK_POLICY = GoEnum("server.AckPolicy", _spelled(AckPolicy), cannot_unmarshal)
REPLAY_POLICY = GoEnum("server.ReplayPolicy", _spelled(ReplayPolicy), cannot_unmarshal)
PRIORITY_POLICY = GoEnum(
    "server.PriorityPolicy",
    _spelled(PriorityPolicy),
    lambda raw: f"unknown priority policy: {raw.decode('utf-8', 'replace')}",
)
