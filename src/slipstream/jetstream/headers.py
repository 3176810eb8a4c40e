"""Header blocks as bytes: find, add, replace and remove lines without building a dictionary.

The server looks its own keys up exactly: same case, at the beginning of a line, directly followed by a colon; the
first occurrence wins; blanks before the value are skipped. A block is `NATS/1.0[ status]CRLF`, lines, `CRLF`; what
clients send is not validated, so every function accepts any bytes.
"""

from __future__ import annotations

__all__ = ["HEADER_LINE", "append", "find", "put", "remove", "remove_prefixed", "without_status"]

HEADER_LINE = b"NATS/1.0\r\n"
_EMPTY_BLOCK = b"NATS/1.0\r\n\r\n"


def find(block: bytes, key: bytes) -> bytes | None:
    """The value of `key`; None if there is no such line, or it has no end."""
    at = block.find(b"\r\n" + key + b":")
    if at < 0:
        return None
    start = at + 3 + len(key)
    end = block.find(b"\r\n", start)
    return None if end < 0 else block[start:end].lstrip(b" ")


def append(block: bytes, key: bytes, value: bytes) -> bytes:
    """The block with one more line at its end; a new block if there was none."""
    if not block:
        return b"NATS/1.0\r\n%b: %b\r\n\r\n" % (key, value)
    # The last CRLF is the empty line.
    return b"%b%b: %b\r\n\r\n" % (block[:-2], key, value)


def remove(block: bytes, key: bytes) -> bytes:
    """The block without the first line of `key`; `b""` if no other line is left."""
    at = block.find(b"\r\n" + key + b":")
    if at < 0:
        return block
    end = block.find(b"\r\n", at + 2)
    if end < 0:
        return block
    rest = block[:at] + block[end:]
    return b"" if rest == _EMPTY_BLOCK else rest


def put(block: bytes, key: bytes, value: bytes) -> bytes:
    """The block with the first line of `key` replaced, or one added."""
    at = block.find(b"\r\n" + key + b":")
    end = block.find(b"\r\n", at + 2) if at >= 0 else -1
    if end < 0:
        return append(block, key, value)
    return b"%b\r\n%b: %b%b" % (block[:at], key, value, block[end:])


def without_status(block: bytes) -> bytes:
    """The block with an inline status (`NATS/1.0 503`) removed; `b""` if nothing else was in it."""
    if not block.startswith(b"NATS/1.0 "):
        return block
    end = block.find(b"\r\n")
    if end < 0:
        return block
    rest = b"NATS/1.0" + block[end:]
    return b"" if rest == _EMPTY_BLOCK else rest


def remove_prefixed(block: bytes, prefix: bytes) -> bytes:
    """The block without any line whose key begins like this; `b""` if no other line is left."""
    start = b"\r\n" + prefix
    at = block.find(start)
    while at >= 0:
        end = block.find(b"\r\n", at + 2)
        if end < 0:
            return block
        block = block[:at] + block[end:]
        at = block.find(start, at)
    return b"" if block == _EMPTY_BLOCK else block
