"""Protocol traces for the log, as `-V` shows them: what came in, what went out, payloads cut to a length.

Names are shown as they came; the log itself escapes what is not printable. Payloads are quoted as Go's `%q` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slipstream.protocol.texts import quoted

if TYPE_CHECKING:
    from slipstream.config.options import Options

__all__ = ["connect_line", "message_line", "operation_line", "payload_line", "refused_line"]

_HEADER_END = b"\r\n\r\n"  # not shown
_SECRET_FIELDS = frozenset({"password", "auth_token", "sig", "jwt", "proxy_sig"})
_SECRETS = re.compile(rb'("(?:pass|auth_token|sig|jwt|proxy_sig)"\s*:\s*)"[^"]*"', re.IGNORECASE)


def connect_line(connect: bytes) -> str:
    """CONNECT without anything secret.

    It is shown as it came when its secrets can be seen for sure: it is what it should be and nothing in it is escaped.
    Else only what was understood is shown, or nothing.
    """
    import msgspec

    from slipstream.protocol.info import decode_connect

    options = decode_connect(connect)
    if options is None:
        shown = "[REDACTED]"
    elif b"\\" in connect:
        fields = msgspec.structs.asdict(options).items()
        known = {name: value for name, value in fields if value is not None and name not in _SECRET_FIELDS}
        shown = msgspec.json.encode(known).decode()
    else:
        shown = _SECRETS.sub(rb'\1"[REDACTED]"', connect).decode("utf-8", "backslashreplace")
    return f"<<- [CONNECT {shown}]"


def refused_line(line: bytes) -> str:
    """A line that makes no sense, for the log: of what may have been a CONNECT only the verb."""
    if line[:1] in (b"c", b"C"):
        line = re.split(rb"[^A-Za-z]", line, maxsplit=1)[0]
    return line.decode("utf-8", "backslashreplace")


def operation_line(verb: str, *words: bytes | int | None) -> str:
    """An operation of the client."""
    return f"<<- [{' '.join([verb, *(_shown(word) for word in words if word is not None)])}]"


def message_line(subject: bytes, sid: bytes, reply: bytes | None, header_size: int, size: int) -> str:
    """A message to the client."""
    words = [subject, sid, reply, header_size or None, size]
    verb = "HMSG" if header_size else "MSG"
    return f"->> [{' '.join([verb, *(_shown(word) for word in words if word is not None)])}]"


def payload_line(arrow: str, header_size: int, body: bytes, options: Options) -> str | None:
    """Header and payload of a message, or the header alone, as the options say; None when there is nothing to show.

    `max_traced_msg_len` cuts it to so many bytes, if it is not 0.
    """
    length_max = options.max_traced_msg_len
    if options.trace_headers:
        body = body[: max(0, header_size - len(_HEADER_END))]
    if not body:
        return None
    text = quoted(body[:length_max] if length_max > 0 else body)
    if 0 < length_max < len(body):
        text = f'{text[:-1]}..."'
    return f"{arrow} MSG_PAYLOAD: [{text}]"


def _shown(word: bytes | int) -> str:
    return str(word) if isinstance(word, int) else word.decode("utf-8", "backslashreplace")
