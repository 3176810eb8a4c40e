"""The plain model of subjects: lists of tokens and recursion, the specification the kernel is held against.

Subset and overlap are also stated by their definitions, over all literals of a small universe: slow, but there is
nothing to get wrong in them.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import product

FORBIDDEN = b" \t\r\n\f\0"


def tokens(subject: bytes) -> list[bytes]:
    return subject.split(b".")


def well_formed(subject: bytes) -> bool:
    return all(tokens(subject))


def is_valid_subscription(subject: bytes) -> bool:
    parts = tokens(subject)
    return all(parts) and b">" not in parts[:-1] and not any(byte in FORBIDDEN for byte in subject)


def is_literal(subject: bytes) -> bool:
    return not {b"*", b">"} & set(tokens(subject))


def is_valid_publish(subject: bytes) -> bool:
    return is_valid_subscription(subject) and is_literal(subject)


def matches(pattern: bytes, literal: bytes) -> bool:
    return well_formed(pattern) and well_formed(literal) and _matches(tokens(pattern), tokens(literal))


def _matches(pattern: list[bytes], literal: list[bytes]) -> bool:
    if pattern == [b">"]:
        return len(literal) >= 1
    if not pattern or not literal:
        return pattern == literal
    return pattern[0] in (b"*", literal[0]) and _matches(pattern[1:], literal[1:])


def token_count(subject: bytes) -> int:
    return len(tokens(subject)) if subject else 0


def universe(*patterns: bytes) -> Iterator[bytes]:
    """Every literal that can tell these patterns apart: their own tokens and a strange one, one token longer."""
    words = {word for pattern in patterns for word in tokens(pattern)} - {b"*", b">", b""} | {b"strange"}
    longest = max(len(tokens(pattern)) for pattern in patterns) + 1
    for length in range(1, longest + 1):
        yield from (b".".join(parts) for parts in product(sorted(words), repeat=length))


def is_subset(narrow: bytes, wide: bytes) -> bool:
    return well_formed(narrow) and well_formed(wide) and all(_covered(narrow, wide))


def _covered(narrow: bytes, wide: bytes) -> Iterable[bool]:
    return (matches(wide, literal) for literal in universe(narrow, wide) if matches(narrow, literal))


def overlaps(a: bytes, b: bytes) -> bool:
    return any(matches(a, literal) and matches(b, literal) for literal in universe(a, b))


def partition_hash(key: bytes) -> int:
    """FNV-1a, 32 bits: offset basis and prime as published by its authors."""
    return reduce(lambda value, byte: (value ^ byte) * 0x01000193 % 2**32, key, 0x811C9DC5)
