"""What an entry of a backup must be like to be stored: the rules a publish is held to, because it becomes one.

A backup comes from a client, so nothing in it is believed. A subject that could not have been published would break
the lines of other connections, a message larger than `max_payload` could not be sent to anybody, a time in the future
would stop the stream's clock, and a status line or `Nats-Request-Info` would speak for the server.

Each check raises `BadBackup` with a sentence that names the message; nothing here stores anything.

What this is not: conditions (`Nats-Expected-…`), duplicates and limits of the stream. They held when the messages were
published, and limits are applied when the stream comes to life.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.jetstream import headers
from slipstream.jetstream.backup.archive import ArchiveEntry
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.kernels.subjects.subject import is_valid_subscription, matches
from slipstream.limits import MAX_CONTROL_LINE_BYTES, STREAM_HEADER_BYTES_MAX

__all__ = ["SEQUENCE_MAX", "EntryRules", "check_bounds"]

# Sequences of a backup. Older formats use the two highest bits for something else, and what is left above this is
# enough for every message that could still follow.
SEQUENCE_MAX: Final = 1 << 62


class EntryRules:
    """What the messages of one stream must be like."""

    __slots__ = ("_grants", "_max_bytes", "_patterns", "_payload_bytes_max", "has_others")

    def __init__(self, config: StreamConfig, max_payload_bytes: int, grants: Callable[[bytes], bool]) -> None:
        """Judge for a stream of this configuration, on a server with this `max_payload`.

        `grants`: whether who restores may publish to a subject. A stream has messages under others than its own ones
        if its configuration was changed, before the backup or with the restore.
        """
        self._grants = grants
        self.has_others = False  # some message was under such a subject
        self._payload_bytes_max = max_payload_bytes
        self._max_bytes = config.max_msg_size
        # What is copied or transformed is stored under subjects that are nobody's to publish.
        others = config.mirror is not None or config.sources or config.subject_transform is not None
        self._patterns = () if others else tuple(subject.encode() for subject in config.subjects)

    def checked(self, entry: ArchiveEntry, last_seq: int, now_ns: int) -> ArchiveEntry:
        """The entry as it is to be stored behind `last_seq`.

        Raises:
            BadBackup: it cannot have been published.
        """
        seq, name = entry.seq, entry.name
        if entry.seq <= last_seq or seq > SEQUENCE_MAX:
            raise BadBackup(f"message sequence {seq} out of order")
        # Clients may publish to what looks like a wildcard; nothing else that is no subject gets through the parser.
        if len(name) > MAX_CONTROL_LINE_BYTES or not is_valid_subscription(name):
            raise BadBackup(f"message sequence {seq} has no valid subject")
        if self._patterns and not any(matches(pattern, name) for pattern in self._patterns):
            if not self._grants(name):
                raise BadBackup(f"message sequence {seq} has a subject that is not one of the stream's")
            self.has_others = True
        if 0 <= self._max_bytes < len(entry.headers) + len(entry.payload):
            raise BadBackup(f"message sequence {seq} exceeds maximum message size")
        if len(entry.payload) > self._payload_bytes_max:
            raise BadBackup(f"message sequence {seq} exceeds maximum payload")
        if len(entry.headers) > STREAM_HEADER_BYTES_MAX:
            raise BadBackup(f"message sequence {seq} exceeds maximum header size")
        if entry.ts_ns < 0:
            raise BadBackup(f"message sequence {seq} has a time before 1970")
        header = entry.headers
        if header:
            # As for a publish: any other bytes pass as they are.
            header = headers.remove(headers.without_status(header), b"Nats-Request-Info")
        # Times of a stream do not fall: one in the future would be that of everything published until then.
        return ArchiveEntry(name, min(entry.ts_ns, now_ns), seq, header, entry.payload)


def check_bounds(first_seq: int, last_seq: int, consumer_count: int) -> None:
    """What a backup says about itself.

    Raises:
        BadBackup: no stream can be like that.
    """
    if not (0 <= first_seq <= SEQUENCE_MAX and 0 <= last_seq <= SEQUENCE_MAX and consumer_count >= 0):
        raise BadBackup("error in state.json: a number is out of range")
