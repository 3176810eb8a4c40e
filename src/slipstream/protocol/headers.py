"""Header blocks: `NATS/1.0` and lines of `Key: Value`, in front of a message's body.

The functions take and give `(header size, header and body)`, the form in which messages travel. Keys are compared
exactly, as nats-server does for its own; the first of several wins. A block that is not well formed is left as it is,
except by `strip_header`, which guards a key that only the server may write.
"""

from __future__ import annotations

import re

__all__ = ["find_header", "parse_headers", "remove_header", "set_header", "status_header", "strip_header"]

_VERSION = b"NATS/1.0"
_END = b"\r\n"
_ANY_END = re.compile(rb"\r\n|\r|\n")


def find_header(key: bytes, header: bytes) -> bytes | None:
    """The value of the first line with this key, blanks in front cut; None if there is none."""
    mark = _END + key + b":"
    at = header.find(mark)
    if at < 0:
        return None
    start = at + len(mark)
    end = header.find(_END, start)
    return header[start:end].lstrip(b" \t") if end >= 0 else None


def parse_headers(header: bytes) -> dict[str, list[str]]:
    """All lines of a block by key, for showing them; what is not a line is left out."""
    found: dict[str, list[str]] = {}
    for line in header.split(_END)[1:]:
        key, colon, value = line.partition(b":")
        if colon and key:
            found.setdefault(key.decode("utf-8", "replace"), []).append(value.strip().decode("utf-8", "replace"))
    return found


def remove_header(key: bytes, header_size: int, body: bytes) -> tuple[int, bytes]:
    """The message without any line of this key."""
    header = body[:header_size]
    mark = _END + key + b":"
    found = False
    at = header.find(mark)
    while at >= 0:
        end = header.find(_END, at + len(_END))
        if end < 0:
            break
        header = header[:at] + header[end:]
        found = True
        at = header.find(mark)
    if not found:
        return header_size, body
    if header == _VERSION + _END + _END:
        header = b""
    return len(header), header + body[header_size:]


def strip_header(key: bytes, header_size: int, body: bytes) -> tuple[int, bytes]:
    """The message without any line that some reader might take for one of this key.

    Readers differ: some ignore case or blanks, join folded lines, or end a line at a bare line feed. A block in which
    the key occurs at all is written anew.
    """
    wanted = key.lower()
    if wanted not in body[:header_size].lower():
        return header_size, body
    kept: list[bytes] = []
    stripping = False
    for line in _ANY_END.split(body[:header_size]):
        is_key = line.partition(b":")[0].strip().lower() == wanted
        stripping = is_key or (stripping and line[:1] in (b" ", b"\t"))
        if line and not stripping:
            kept.append(line)
    header = _END.join(kept) + _END + _END if kept and kept != [_VERSION] else b""
    return len(header), header + body[header_size:]


def set_header(key: bytes, value: bytes, header_size: int, body: bytes) -> tuple[int, bytes]:
    """The message with one more line at the end of its block."""
    block = body[:header_size] or _VERSION + _END + _END
    if not block.endswith(_END + _END):
        # The new line has to be a line, whatever the block was.
        block = block.rstrip(_END) + _END + _END
    header = block[: -len(_END)] + key + b": " + value + _END + _END
    return len(header), header + body[header_size:]


def status_header(code: int, text: str = "") -> bytes:
    """A block that carries only a status line."""
    words = f"{code} {text}".rstrip()
    return _VERSION + b" " + words.encode() + _END + _END
