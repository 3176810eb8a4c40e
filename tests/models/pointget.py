"""Answers to requests for one message in plain Python."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_BODY = re.compile(rb'\{"seq": ?([1-9][0-9]{0,17})\}')


def key_of(key_at: int, subject: bytes, header: bytes, payload: bytes) -> bytes | int | None:
    """What a request asks for; None when it is not a plain question."""
    if header:
        return None
    if key_at:
        key = subject[key_at:]
        return key if key and not payload and b"*" not in key and b">" not in key else None
    found = _BODY.fullmatch(payload)
    return int(found[1]) if found else None


def answer(stream: bytes, seq: int, time_ns: int, subject: bytes, header: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """Header block and payload."""
    seconds, nanos = divmod(time_ns, 10**9)
    time = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").encode()
    if nanos:
        time += (b".%09d" % nanos).rstrip(b"0")
    lines = b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %bZ\r\n\r\n"
    return (header[:-2] or b"NATS/1.0\r\n") + lines % (stream, subject, seq, time), payload
