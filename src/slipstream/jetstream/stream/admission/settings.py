"""What the rules need to know of a stream's configuration, worked out once."""

from __future__ import annotations

import sys

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.enums import DiscardPolicy, RetentionPolicy
from slipstream.jetstream.config.schemed import letters_of, schema_checks
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.schemas.payloads import SchemaChecks
from slipstream.subjects.transform import RandomBelow, SubjectTransform
from slipstream.units import SECOND_NS

__all__ = ["StreamSettings"]


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """A configuration as the way in sees it. Replaced as a whole when the configuration changes."""

    config: StreamConfig
    max_payload_bytes: int
    """Largest message of the server: a counter may grow up to it, beyond what a client may send."""
    name: bytes
    max_msg_size: int
    allows_ttl: bool
    interest_only: bool
    discards_new: bool
    """Whether a limit refuses new messages."""
    can_roll_up: bool
    marker_ttl: int
    """Seconds that a message has to live at least beside delete markers, 0 for any time."""
    is_watched: bool
    """Whether limits or age have to be looked at after an append."""
    republishes: bool
    transform: SubjectTransform | None
    schemas: SchemaChecks | None
    """What payloads are held to; None: nothing."""
    letters: bytes
    """Under which subject messages are kept that do not fit; empty: they are refused."""

    @classmethod
    def of(cls, config: StreamConfig, max_payload_bytes: int) -> StreamSettings:
        """Those of a configuration that was checked."""
        is_limited = config.max_msgs > 0 or config.max_bytes > 0 or config.max_msgs_per_subject > 0
        transform = config.subject_transform
        return cls(
            config=config,
            max_payload_bytes=max_payload_bytes,
            name=config.name.encode(),
            max_msg_size=config.max_msg_size if config.max_msg_size >= 0 else sys.maxsize,
            allows_ttl=config.allow_msg_ttl,
            interest_only=config.retention is RetentionPolicy.INTEREST,
            discards_new=config.discard is DiscardPolicy.NEW and is_limited,
            can_roll_up=config.allow_rollup_hdrs and not config.deny_purge,
            # One that is alone on its subject is replaced by the marker, and cannot outlive it.
            marker_ttl=0 if config.max_msgs_per_subject == 1 else config.subject_delete_marker_ttl_ns // SECOND_NS,
            is_watched=is_limited or config.max_age_ns > 0,
            republishes=config.republish is not None,
            transform=SubjectTransform(transform.src.encode(), transform.dest.encode())
            if transform and transform.dest
            else None,
            schemas=schema_checks(config),
            letters=letters_of(config),
        )

    def stored_under(self, subject: bytes, random_below: RandomBelow) -> bytes:
        """What a subject becomes. One with wildcards, which clients may publish to, stays what it is."""
        if self.transform is None or not is_valid_publish(subject):
            return subject
        return self.transform.find(subject, random_below) or subject
