"""Reply subjects of fast batches in plain Python, and which message of an open batch is stored without a word."""

from __future__ import annotations

import re
from dataclasses import dataclass

SUFFIX = b".$FI"
START, APPEND, COMMIT, END, PING = range(5)
_NUMBER = re.compile(rb"[0-9]{1,20}")

Reply = tuple[bytes, int, bool, int, int]
"""Batch id, flow, gap is ok, sequence, operation."""


def parse_reply(reply: bytes) -> Reply | None:
    """What a reply subject says; None if it is none of a fast batch, or malformed."""
    if not reply.endswith(SUFFIX):
        return None
    parts = reply[: -len(SUFFIX)].rsplit(b".", 5)
    if len(parts) != 6:
        return None
    _prefix, batch_id, flow_text, gap, seq_text, kind_text = parts
    kind = int(kind_text) if _NUMBER.fullmatch(kind_text) else -1
    seq = int(seq_text) if _NUMBER.fullmatch(seq_text) else 0
    if not START <= kind <= PING or not 0 < seq < 2**64 - 1 or gap not in (b"ok", b"fail"):
        return None
    if (seq == 1 and kind in (END, APPEND)) or (seq != 1 and kind == START):
        return None
    flow = int(flow_text) if _NUMBER.fullmatch(flow_text) else 0
    return batch_id, min(flow, 2**16 - 1) or 10, gap == b"ok", seq, kind


@dataclass
class Batch:
    """One open batch, as far as the intake knows it."""

    ack_at: int
    seq: int = 1
    stored: int = 1
    stream_seq: int = 0
    last_active_ns: int = 0

    def is_next(self, found: Reply) -> bool:
        """Whether the message is stored and nothing else happens."""
        return found[4] == APPEND and found[3] == self.seq + 1 and found[3] < self.ack_at
