# cython: annotation_typing=False, language_level=3
"""Subjects as bytes: validity, wildcard matching, subset and overlap of patterns.

A subject is one or more non-empty tokens joined by dots. A token that is exactly `*` stands for any one token;
a last token that is exactly `>` stands for one or more tokens. Inside a longer token both are ordinary bytes:
`foo*` and `a.>b` are literals.

What it is not: an index over many patterns (that is the subscription table), nor a policy (who may use a subject).

Every walk is one pass over the bytes, keeps no state and allocates nothing. A subject with an empty token is matched
by nothing, is a subset of nothing and overlaps nothing, because no valid literal can correspond to it.

This file is plain Python; `subject.pxd` beside it adds C types when it is compiled. The `*_span` functions take the
length explicitly because, compiled, their first argument is a bare pointer.
"""

__all__ = [
    "is_literal",
    "is_subset",
    "is_valid_publish",
    "is_valid_subscription",
    "matches",
    "overlaps",
    "partition_hash",
    "token_count",
]

# The byte values below are written as numbers in the loops' comparisons so that the compiled code compares constants:
#   46 `.`   42 `*`   62 `>`   and what may never occur in a subject: 0 NUL, 9 TAB, 10 LF, 12 FF, 13 CR, 32 SP


def is_valid_subscription(subject: bytes) -> bool:
    """Tell whether a client may subscribe to this subject: non-empty tokens, `>` last, no blanks or NUL."""
    return valid_span(subject, len(subject))


def is_valid_publish(subject: bytes) -> bool:
    """Tell whether the subject is valid and has no wildcard token; asked of pedantic publishers."""
    n = len(subject)
    return valid_span(subject, n) and literal_span(subject, n)


def is_literal(subject: bytes) -> bool:
    """Tell whether no token is a wildcard; says nothing about validity."""
    return literal_span(subject, len(subject))


def matches(pattern: bytes, literal: bytes) -> bool:
    """Tell whether a message published to `literal` reaches a subscription on `pattern`.

    The second argument is taken as published: a token `*` or `>` in it is just that byte.
    """
    return match_span(pattern, len(pattern), literal, len(literal))


def is_subset(narrow: bytes, wide: bytes) -> bool:
    """Tell whether every literal that `narrow` matches is matched by `wide` too."""
    return subset_span(narrow, len(narrow), wide, len(wide))


def overlaps(a: bytes, b: bytes) -> bool:
    """Tell whether some literal is matched by both patterns."""
    return overlap_span(a, len(a), b, len(b))


def token_count(subject: bytes) -> int:
    """Count the tokens, empty ones included; an empty subject has none."""
    s = subject
    n = len(subject)
    if n == 0:
        return 0
    count = 1
    for i in range(n):
        if s[i] == 46:
            count += 1
    return count


def partition_hash(key: bytes) -> int:
    """FNV-1a of 32 bits, which decides the partition of a subject as nats-server does."""
    s = key
    n = len(key)
    mask = 0xFFFFFFFF  # a typed variable: as a literal it would be a Python number in the compiled loop
    h = 2166136261
    for i in range(n):
        h = ((h ^ s[i]) * 16777619) & mask
    return h


def valid_span(s: bytes, n: int) -> bool:
    """Validity of a subscription subject of `n` bytes."""
    start = 0  # where the current token begins
    for i in range(n):
        c = s[i]
        if c == 46:
            # A token ends here: it must not be empty, nor the full wildcard, which has to be last.
            if i == start or (i == start + 1 and s[start] == 62):
                return False
            start = i + 1
        elif c <= 32 and (c == 32 or c == 0 or c == 9 or c == 10 or c == 12 or c == 13):
            return False
    return start < n


def literal_span(s: bytes, n: int) -> bool:
    """Absence of whole-token wildcards in `n` bytes."""
    for i in range(n):
        c = s[i]
        if (c == 42 or c == 62) and (i == 0 or s[i - 1] == 46) and (i + 1 == n or s[i + 1] == 46):
            return False
    return True


def match_span(p: bytes, pn: int, s: bytes, sn: int) -> bool:
    """Match the literal `s` against the pattern `p`."""
    i = 0
    j = 0
    while True:
        # Invariant: a token begins at p[i] and one at s[j], and everything before them matched.
        if i < pn and p[i] == 42 and (i + 1 == pn or p[i + 1] == 46):
            start = j
            while j < sn and s[j] != 46:
                j += 1
            if j == start:
                return False
            i += 1
        elif i + 1 == pn and p[i] == 62:
            return whole_tokens(s, j, sn)
        else:
            start = i
            while i < pn and p[i] != 46:
                if j >= sn or s[j] != p[i]:
                    return False
                i += 1
                j += 1
            if i == start or (j < sn and s[j] != 46):
                return False
        if i == pn or j == sn:
            return i == pn and j == sn
        i += 1
        j += 1


def subset_span(a: bytes, an: int, b: bytes, bn: int) -> bool:
    """Subset test of pattern `a` against pattern `b`.

    Differs from a match in one place: `*` in `b` does not cover a final `>` in `a`. A literal token of `b` needs the
    same bytes in `a`, so it can never cover a wildcard.
    """
    i = 0
    j = 0
    while True:
        if j < bn and b[j] == 42 and (j + 1 == bn or b[j + 1] == 46):
            if i + 1 == an and a[i] == 62:
                return False
            start = i
            while i < an and a[i] != 46:
                i += 1
            if i == start:
                return False
            j += 1
        elif j + 1 == bn and b[j] == 62:
            return whole_tokens(a, i, an)
        else:
            start = j
            while j < bn and b[j] != 46:
                if i >= an or a[i] != b[j]:
                    return False
                i += 1
                j += 1
            if j == start or (i < an and a[i] != 46):
                return False
        if i == an or j == bn:
            return i == an and j == bn
        i += 1
        j += 1


def overlap_span(a: bytes, an: int, b: bytes, bn: int) -> bool:
    """Overlap test of two patterns; symmetric."""
    i = 0
    j = 0
    while True:
        if (i + 1 == an and a[i] == 62) or (j + 1 == bn and b[j] == 62):
            # One side takes any tail, so the other only has to have one.
            return whole_tokens(a, i, an) and whole_tokens(b, j, bn)
        if (i < an and a[i] == 42 and (i + 1 == an or a[i + 1] == 46)) or (
            j < bn and b[j] == 42 and (j + 1 == bn or b[j + 1] == 46)
        ):
            start = i
            while i < an and a[i] != 46:
                i += 1
            if i == start:
                return False
            start = j
            while j < bn and b[j] != 46:
                j += 1
            if j == start:
                return False
        else:
            start = i
            while i < an and a[i] != 46:
                if j >= bn or b[j] != a[i]:
                    return False
                i += 1
                j += 1
            if i == start or (j < bn and b[j] != 46):
                return False
        if i == an or j == bn:
            return i == an and j == bn
        i += 1
        j += 1


def whole_tokens(s: bytes, start: int, n: int) -> bool:
    """Tell whether s[start:n] is at least one token and none of its tokens is empty."""
    if start >= n or s[start] == 46 or s[n - 1] == 46:
        return False
    for i in range(start + 1, n):  # noqa: SIM110 a generator here would not compile to a C loop
        if s[i] == 46 and s[i - 1] == 46:
            return False
    return True
