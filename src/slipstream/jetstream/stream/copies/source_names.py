"""Names around copying: what tells two sources apart, what their consumers are called, and where a message came from.

    Nats-Stream-Source: <stream[:hash][:C=hash]> <sequence> <filter> <destination> <subject>

The first, third and fourth word together are the source's index name; several transforms are joined by form feeds. The
header is how the place in a source is found again after a restart (`source_positions`). Older servers wrote only the
first two words, or a whole ack subject; newer ones add a sixth.
"""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.ack_subjects import account_hash as hashed
from slipstream.jetstream.config.structs import StreamSource

__all__ = ["SOURCE_HEADER", "consumer_name", "index_name", "origin_of", "source_words", "stable_id"]

SOURCE_HEADER: Final = b"Nats-Stream-Source"
_ALL: Final = ">"
_JOINED: Final = "\f"
_ACK_PREFIX: Final = b"$JS.ACK."
_TOKENS_V1: Final = 9
_TOKENS_V2: Final = 11
_WORDS_WITH_INDEX: Final = 4
_DIGITS_MAX: Final = 19


def index_name(source: StreamSource) -> str:
    """What tells a source from all others of its stream."""
    name = source.name
    if source.external is not None:
        name += ":" + hashed(source.external.api)
    if source.consumer is not None:
        name += ":C=" + hashed(source.consumer.name)
    if not source.subject_transforms:
        return f"{name} {source.filter_subject or _ALL} {_ALL}"
    sources = _JOINED.join(transform.src or _ALL for transform in source.subject_transforms)
    destinations = _JOINED.join(transform.dest or _ALL for transform in source.subject_transforms)
    return f"{name} {sources} {destinations}"


def stable_id(stream: str, account: str, domain: str) -> str:
    """The same for every attempt of one stream to copy, so that a lasting consumer is found again."""
    return hashed(f"{stream} {account} {domain}" if domain else f"{stream} {account}")


def consumer_name(index: str, base: str, *, alone: bool) -> str:
    """What the consumer of a source is to be called.

    Args:
        index: `index_name` of a source of some stream.
        base: that stream's `stable_id`.
        alone: whether it has no other source of the same name.
    """
    identity = base if alone else f"{base} {index}"
    return f"JS_SRC_{hashed(identity)}"


def source_words(index: str) -> tuple[bytes, bytes]:
    """What stands in the header before the sequence, and between it and the subject."""
    name, _, filters = index.encode().partition(b" ")
    return name, filters


def origin_of(value: bytes) -> tuple[str, str, int] | None:
    """`(stream, index name, sequence)` of a header; the index name is empty in old ones. None: it says nothing."""
    if value.startswith(_ACK_PREFIX):
        return _origin_of_ack(value)
    words = value.split(b" ")
    if len(words) != 2 and len(words) < _WORDS_WITH_INDEX:
        return None
    seq = _number(words[1])
    if seq is None:
        return None
    index = b" ".join((words[0], words[2], words[3])) if len(words) >= _WORDS_WITH_INDEX else b""
    return words[0].decode("utf-8", "replace"), index.decode("utf-8", "replace"), seq


def _origin_of_ack(value: bytes) -> tuple[str, str, int] | None:
    tokens = value.split(b".")
    if len(tokens) != _TOKENS_V1 and len(tokens) < _TOKENS_V2:
        return None
    at = 2 if len(tokens) == _TOKENS_V1 else 4
    seq = _number(tokens[at + 3])
    return None if seq is None else (tokens[at].decode("utf-8", "replace"), "", seq)


def _number(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else None
