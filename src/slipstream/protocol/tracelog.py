"""Protocol traces for the log, as `-V` shows them: what came in, what went out, payloads cut to a length.

Everything a peer sent is quoted as Go's `%q` does, so a log line is one line whatever it holds.
"""

from __future__ import annotations

import re

from slipstream.protocol.texts import quoted

__all__ = ["connect_line", "message_line", "operation_line", "payload_line"]

_SECRETS = re.compile(rb'("(?:pass|auth_token|sig|jwt)"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE)


def connect_line(connect: bytes) -> str:
    """CONNECT without anything secret."""
    shown = _SECRETS.sub(rb'\1"[REDACTED]"', connect).decode("utf-8", "backslashreplace")
    return f"<<- [CONNECT {shown}]"


def operation_line(verb: str, *words: bytes | int | None) -> str:
    """An operation of the client."""
    return f"<<- [{' '.join([verb, *(_shown(word) for word in words if word is not None)])}]"


def message_line(subject: bytes, sid: bytes, reply: bytes | None, header_size: int, size: int) -> str:
    """A message to the client."""
    words = [subject, sid, reply, header_size or None, size]
    verb = "HMSG" if header_size else "MSG"
    return f"->> [{' '.join([verb, *(_shown(word) for word in words if word is not None)])}]"


def payload_line(arrow: str, body: bytes, length_max: int) -> str | None:
    """Header and payload of a message, cut to `length_max` bytes if that is not 0; None for an empty one."""
    if not body:
        return None
    text = quoted(body[:length_max] if length_max > 0 else body)
    if 0 < length_max < len(body):
        text = f'{text[:-1]}..."'
    return f"{arrow} MSG_PAYLOAD: [{text}]"


def _shown(word: bytes | int) -> str:
    return str(word) if isinstance(word, int) else word.decode("utf-8", "backslashreplace")
