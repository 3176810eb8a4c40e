"""Ack subjects, of both versions.

$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>                       9 tokens
$JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>[.…]
"""

from __future__ import annotations

import hashlib
import string

__all__ = ["account_hash", "ack_numbers"]

_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_HASH_LENGTH = 8
_TOKENS_V1 = 9
_TOKENS_V2 = 11
_DIGITS_MAX = 19


def ack_numbers(subject: bytes) -> tuple[int, int, int] | None:
    """`(stream sequence, consumer sequence, deliveries)` in an ack subject; None if they are not numbers."""
    tokens = subject.split(b".")
    if len(tokens) == _TOKENS_V1:
        deliveries, seq, dseq = tokens[4:7]
    elif len(tokens) >= _TOKENS_V2:
        deliveries, seq, dseq = tokens[6:9]
    else:
        return None
    if not (deliveries.isdigit() and seq.isdigit() and dseq.isdigit()):
        return None
    if len(deliveries) > _DIGITS_MAX or len(seq) > _DIGITS_MAX or len(dseq) > _DIGITS_MAX:
        return None
    return int(seq), int(dseq), int(deliveries)


def account_hash(account: str) -> str:
    """How an account is named in version 2 ack subjects."""
    digest = hashlib.sha256(account.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_HASH_LENGTH])
