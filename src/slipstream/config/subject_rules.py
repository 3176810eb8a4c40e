"""The rules of subjects and public keys that a configuration is checked by.

Plain and slow on purpose: these run once a key when a file is read, and must not load the matching kernels for it.
"""

from __future__ import annotations

import binascii
from typing import Final

__all__ = [
    "ACCOUNT_KEY",
    "CURVE_KEY",
    "OPERATOR_KEY",
    "USER_KEY",
    "is_literal",
    "is_public_key",
    "is_subset",
    "is_user_seed",
    "is_valid_subject",
    "subjects_collide",
    "wildcards_to_markers",
]

_BLANKS: Final = frozenset("\t\n\f\r ")


def is_valid_subject(subject: str) -> bool:
    """Whether it can be subscribed to: no empty token, no blank, `>` only at the end."""
    tokens = subject.split(".")
    return all(tokens) and ">" not in tokens[:-1] and not _BLANKS.intersection(subject)


def is_literal(subject: str) -> bool:
    """Whether no token is a wildcard."""
    tokens = subject.split(".")
    return "*" not in tokens and ">" not in tokens


def is_subset(subject: str, pattern: str) -> bool:
    """Whether everything `subject` matches is matched by `pattern`, too."""
    tokens, pattern_tokens = subject.split("."), pattern.split(".")
    for index, wanted in enumerate(pattern_tokens):
        if index >= len(tokens):
            return False
        if wanted == ">":
            return True
        token = tokens[index]
        if token == ">" or (token != wanted and (wanted != "*")):
            return False
    return len(tokens) == len(pattern_tokens)


def subjects_collide(first: str, second: str) -> bool:
    """Whether some literal subject is matched by both."""
    tokens, others = first.split("."), second.split(".")
    for token, other in zip(tokens, others, strict=False):
        if token == ">" or other == ">":
            return True
        if token != other and token != "*" and other != "*":
            return False
    return len(tokens) == len(others)


def wildcards_to_markers(subject: str) -> str:
    """`foo.*.*` as the destination of a transform: `foo.$1.$2`."""
    tokens, count = [], 0
    for token in subject.split("."):
        if token == "*":
            count += 1
            token = f"${count}"
        tokens.append(token)
    return ".".join(tokens)


# First byte of a decoded public key.
OPERATOR_KEY: Final = 14 << 3
ACCOUNT_KEY: Final = 0
USER_KEY: Final = 20 << 3
SERVER_KEY: Final = 13 << 3
CLUSTER_KEY: Final = 2 << 3
CURVE_KEY: Final = 23 << 3
_SEED: Final = 18 << 3
_PUBLIC: Final = frozenset({OPERATOR_KEY, ACCOUNT_KEY, USER_KEY, SERVER_KEY, CLUSTER_KEY, CURVE_KEY})
_KEY_BYTES: Final = 35  # prefix, 32 bytes of key, checksum


def is_public_key(text: str, prefix: int | None = None) -> bool:
    """Whether it is an encoded public key, of one kind or of any."""
    raw = _decoded(text)
    if raw is None or len(raw) != _KEY_BYTES - 2:
        return False
    return raw[0] in _PUBLIC if prefix is None else raw[0] == prefix


def is_user_seed(text: str) -> bool:
    """Whether it is the seed of a user key."""
    raw = _decoded(text)
    if raw is None or len(raw) != _KEY_BYTES - 1:
        return False
    return raw[0] & 0xF8 == _SEED and (raw[0] & 7) << 5 | raw[1] >> 3 == USER_KEY


def _decoded(text: str) -> bytes | None:
    """The bytes of a key without their checksum, or None if it does not fit."""
    if not 0 < len(text) <= 64 or not text.isascii() or text != text.upper() or not text.isalnum():
        return None
    # base64.b32decode would do; importing it costs more than a start should pay for a check.
    bits = 0
    for char in text:
        digit = _BASE32.find(char)
        if digit < 0:
            return None
        bits = bits << 5 | digit
    spare = len(text) * 5 % 8
    raw = (bits >> spare).to_bytes(len(text) * 5 // 8, "big")
    body, checksum = raw[:-2], int.from_bytes(raw[-2:], "little")
    return body if binascii.crc_hqx(body, 0) == checksum else None


_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
