"""Why the front of a stream moved: newer messages of the same subjects took the place of older ones, or a limit did.

The first is how buckets and streams with `max_msgs_per_subject` work, and no loss; the second is one. A server does not
say which it was, but STREAM.INFO has facts that decide:

- Replacement keeps the newest messages of each subject. A stream with fewer messages than the limit of one subject has
  replaced nothing.
- `max_msgs` and `max_bytes` remove only from a stream that is full, and only with `discard: old`.
- `max_age` removes nothing that is younger. So a place remembers how old the messages after it can be at most.
- With acknowledgements as the reason for removal (work queues, interest) there is no telling.

What stays unknown: whether somebody purged a part of such a stream, deleted its messages, or let them expire one by
one; and whether a stream was full that is so no more. Then replacement is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.jetstream.gojson.times import parse_time

__all__ = ["RetentionRisk", "read_retention"]


@dataclass(frozen=True)
class RetentionRisk:
    """What can remove messages of a stream, and how close it is to that; 0 is no limit."""

    per_subject: int = 0
    messages: int = 0
    bytes: int = 0
    max_messages: int = 0
    max_bytes: int = 0
    largest_bytes: int = 0  # of a message
    max_age_ns: int = 0
    until_acked: bool = False
    now_ns: int = 0

    def replaced(self, oldest_ns: int | None, quiet_ns: int | None = None) -> bool:
        """Whether replacement, and no limit, took the messages that are missing.

        Args:
            oldest_ns: none of them was stored before; None if their age does not matter.
            quiet_ns: so long ago none of them was there; None if that is not known.
        """
        if not 0 < self.per_subject <= self.messages or self.until_acked:
            return False
        if self.max_messages and self.messages >= self.max_messages:
            return False
        # A stream that was just trimmed is less than a message below its limit.
        if self.max_bytes and self.bytes + min(self.largest_bytes, self.max_bytes // 2) > self.max_bytes:
            return False
        if not self.max_age_ns or oldest_ns is None:
            return True
        return oldest_ns + self.max_age_ns > self.now_ns or (quiet_ns is not None and quiet_ns < self.max_age_ns)


def read_retention(info: dict[str, Any], max_payload: int, now_ns: int) -> RetentionRisk:
    """The facts in an answer to STREAM.INFO.

    Args:
        info: the answer.
        max_payload: what the server takes at most.
        now_ns: used if the server does not tell its time.
    """
    config, state = info["config"], info["state"]
    removes_old = config.get("discard", "old") == "old"

    def limit(name: str) -> int:
        return max(int(config.get(name) or 0), 0)

    return RetentionRisk(
        per_subject=limit("max_msgs_per_subject"),
        messages=int(state["messages"]),
        bytes=int(state["bytes"]),
        max_messages=limit("max_msgs") if removes_old else 0,
        max_bytes=limit("max_bytes") if removes_old else 0,
        largest_bytes=limit("max_msg_size") or max_payload,
        max_age_ns=limit("max_age"),
        until_acked=config.get("retention", "limits") != "limits",
        now_ns=parse_time(info["ts"]) if info.get("ts") else now_ns,
    )
