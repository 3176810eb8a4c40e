"""Protocol lines that a client sends, made and checked."""

from __future__ import annotations

import re

from slipstream.kernels.client.pubframes import encode_pubs

__all__ = ["joined_words", "message_frame"]

_NO_WORD = re.compile(r"[ \t\r\n\f]|^$")


def message_frame(subject: str, payload: bytes = b"", *, reply: str = "", header: bytes = b"") -> bytes:
    """The bytes that publish one message; those of many may be sent together.

    Raises:
        ValueError: for a subject that no PUB line can carry.
    """
    if not header:
        return encode_pubs(subject.encode(), payload, 1, reply.encode())
    words = joined_words(subject, reply) if reply else joined_words(subject)
    head = f"HPUB {words} {len(header)} {len(header) + len(payload)}\r\n"
    return b"".join((head.encode(), header, payload, b"\r\n"))


def joined_words(*words: str) -> str:
    """Join words of a protocol line, each checked to be one."""
    for word in words:
        if _NO_WORD.search(word):
            raise ValueError(f"empty or with blanks, so no subject or queue: {word!r}")
    return " ".join(words)
