"""Subject transforms: a source pattern and a destination that says where the wildcard tokens go.

    source      orders.*.>          destination   shop.{{wildcard(1)}}.{{partition(8,1)}}.>
    subject     orders.eu.a.b       becomes       shop.eu.5.a.b

A destination token is a literal, `$n`, or a function in double braces: wildcard(n), partition(n, i...), partition(n),
random(n), split(i, separator), splitFromLeft/splitFromRight(i, position), sliceFromLeft/sliceFromRight(i, size),
left/right(i, length). Spelling, argument rules and error texts are nats-server's (ADR-30).

What it is not: the choice between weighted destinations (`mapping`). It holds no state and rolls no dice itself: a
source of randomness is passed in.

Invariant: a valid subject that the source matches becomes one without empty tokens and without blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import is_subset, is_valid_subscription, partition_hash
from slipstream.limits import MAX_INT32

__all__ = ["InvalidTransform", "RandomBelow", "SubjectTransform", "transform_problem"]

# Gives a uniform number from 0 up to, and not including, its argument: `random.Random().randrange`.
RandomBelow = Callable[[int], int]

# One destination token: source tokens and randomness in, bytes out (split and slice give several tokens).
_Part = Callable[[Sequence[bytes], RandomBelow], bytes]


class InvalidTransform(ConfigError):
    """A source and destination that cannot be used; the text is nats-server's."""


class SubjectTransform:
    """A compiled transform."""

    __slots__ = ("_parts", "_tail_start", "destination", "is_random", "source")

    def __init__(self, source: bytes, destination: bytes, *, reversible: bool = False) -> None:
        """Compile; an empty source means everything.

        Args:
            source: pattern of the subjects to transform.
            destination: what they become.
            reversible: refuse everything but wildcard(n) and `$n`, and demand that each wildcard is used; for imports.

        Raises:
            InvalidTransform: with nats-server's text.
        """
        self.source = source or b">"
        self.destination = destination
        source_tokens, tokens = self.source.split(b"."), destination.split(b".")
        _check_destination(tokens)
        if (
            not is_valid_subscription(self.source)
            or b"*" in tokens
            or (source_tokens[-1] == b">") != (tokens[-1] == b">")
        ):
            raise InvalidTransform("invalid subject")

        wildcards = [index for index, token in enumerate(source_tokens) if token == b"*"]
        has_tail = tokens[-1] == b">"
        calls = [_parsed(token) for token in (tokens[:-1] if has_tail else tokens)]
        if reversible:
            _check_reversible(calls, destination, len(wildcards))
        has_wildcards = bool(wildcards) or has_tail
        self._parts = tuple(_compiled(call, wildcards, has_wildcards=has_wildcards) for call in calls)
        # First source token that `>` stands for, and whether the destination copies it from there.
        self._tail_start = len(source_tokens) - 1 if has_tail else None
        # Whether the same subject may become different ones.
        self.is_random = any(call.name == "random" for call in calls)

    def __repr__(self) -> str:
        return f"SubjectTransform({self.source!r}, {self.destination!r})"

    def matches(self, subject: bytes) -> bool:
        """Tell whether the transform applies to a subject."""
        return is_subset(subject, self.source)

    def find(self, subject: bytes, below: RandomBelow) -> bytes | None:
        """What the subject becomes, or None when the source does not match it."""
        return self.apply(subject, below) if self.matches(subject) else None

    def apply(self, subject: bytes, below: RandomBelow) -> bytes:
        """What a subject that the source matches becomes."""
        tokens = subject.split(b".")
        made = [part(tokens, below) for part in self._parts]
        if self._tail_start is not None:
            made += tokens[self._tail_start :]
        return b".".join(made)

    def reversed(self) -> SubjectTransform:
        """The transform that undoes this one, which has to be reversible.

        Raises:
            InvalidTransform: a wildcard of the source is lost on the way.
        """
        numbers: list[bytes] = []
        source = []
        for token in self.destination.split(b"."):
            call = _parsed(token)
            if call.name == "wildcard":
                numbers.append(b"%d" % call.wildcards[0])
                source.append(b"*")
            else:
                source.append(token)
        # The n-th wildcard of the source is found where the destination mentions n.
        places = {number: b"$%d" % place for place, number in enumerate(numbers, 1)}
        destination, count = [], 0
        for token in self.source.split(b"."):
            if token == b"*":
                count += 1
                token = places.get(b"%d" % count, b"*")
            destination.append(token)
        return SubjectTransform(b".".join(source), b".".join(destination), reversible=True)


def transform_problem(source: str, destination: str) -> str | None:
    """What is wrong with a transform, in nats-server's words, or None."""
    try:
        SubjectTransform(source.encode(), destination.encode())
    except InvalidTransform as problem:
        return problem.message
    return None


class _Call(NamedTuple):
    """One destination token, understood: a function, or `literal` (the text itself)."""

    text: bytes
    name: str = "literal"
    wildcards: tuple[int, ...] = ()  # numbers of source wildcards, the first is 1
    number: int = 0
    separator: bytes = b""


def _spellings(*words: str) -> list[str]:
    """nats-server takes the first letter of each word of a name in either case, and no other letter."""
    return ["".join(parts) for parts in product(*((word, word.capitalize()) for word in words))]


_NAMES = {
    spelling.encode(): words[0] + "".join(word.capitalize() for word in words[1:])
    for words in (
        ("wildcard",),
        ("partition",),
        ("random",),
        ("split",),
        ("split", "from", "left"),
        ("split", "from", "right"),
        ("slice", "from", "left"),
        ("slice", "from", "right"),
        ("left",),
        ("right",),
    )
    for spelling in _spellings(*words)
}
_FUNCTION = re.compile(rb"\{\{\s*([A-Za-z]+)\s*\((.*)\)\s*\}\}")
_COMMA = re.compile(rb",\s*")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")
_BLANKS = re.compile(rb"[\t\n\f\r \0]")


def _refusal(text: str, token: bytes) -> InvalidTransform:
    where = f" in {token.decode(errors='replace')}" if token else ""
    return InvalidTransform(f"invalid mapping destination: {text}{where}")


def _check_destination(tokens: list[bytes]) -> None:
    for index, token in enumerate(tokens):
        if not token or b">" in tokens[:index]:
            raise _refusal("invalid transform", token)
        if not _is_braced(token):
            if _BLANKS.search(token):
                raise _refusal("invalid transform", b"")
        elif not (found := _FUNCTION.fullmatch(token)) or found[1] not in _NAMES:
            raise _refusal("unknown function", token)


def _is_braced(token: bytes) -> bool:
    return len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")


def _parsed(token: bytes) -> _Call:
    """Understand one destination token."""
    if token.startswith(b"$") and _INTEGER.fullmatch(token, 1):
        return _Call(token, "wildcard", (int(token[1:]),))
    if not _is_braced(token):
        return _Call(token)
    found = _FUNCTION.fullmatch(token)
    assert found is not None, "checked with the destination"
    name, arguments = _NAMES[found[1]], _COMMA.split(found[2])
    if name == "wildcard":
        if arguments == [b""]:
            raise _refusal("not enough arguments passed to the function", token)
        _demand(token, arguments, 1)
        return _Call(token, name, (_integer(token, arguments[0]),))
    if name == "random":
        if len(arguments) != 1:
            raise _refusal("not enough arguments passed to the function", token)
        return _Call(token, name, (), _integer(token, arguments[0], maximum=MAX_INT32))
    if name == "partition":
        number = _integer(token, arguments[0], maximum=MAX_INT32)
        return _Call(token, name, tuple(_integer(token, argument) for argument in arguments[1:]), number)
    _demand(token, arguments, 2)
    wildcard = _integer(token, arguments[0])
    if name == "split":
        if b" " in arguments[1]:
            raise _refusal("function argument is invalid or in the wrong format", token)
        return _Call(token, name, (wildcard,), separator=arguments[1])
    return _Call(token, name, (wildcard,), _integer(token, arguments[1], minimum=-MAX_INT32 - 1, maximum=MAX_INT32))


def _demand(token: bytes, arguments: list[bytes], count: int) -> None:
    if len(arguments) < count:
        raise _refusal("not enough arguments passed to the function", token)
    if len(arguments) > count:
        raise _refusal("too many arguments passed to the function", token)


def _integer(token: bytes, argument: bytes, *, minimum: int = -(2**63), maximum: int = 2**63 - 1) -> int:
    text = argument.strip(b" ")
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not minimum <= number <= maximum:
        raise _refusal("function argument is invalid or in the wrong format", token)
    return number


def _check_reversible(calls: list[_Call], destination: bytes, wildcard_count: int) -> None:
    for call in calls:
        if call.name not in ("literal", "wildcard"):
            raise _refusal("the only mapping function allowed for import transforms is {{Wildcard()}}", call.text)
    if sum(call.name == "wildcard" for call in calls) < wildcard_count:
        raise _refusal("not using all of the token wildcard(s)", destination)


def _compiled(call: _Call, wildcards: list[int], *, has_wildcards: bool) -> _Part:
    """Turn a token into the function that makes it."""
    name, number = call.name, call.number
    if name == "literal":
        return lambda _tokens, _below: call.text
    if name == "random":
        return lambda _tokens, below: b"%d" % (below(abs(number)) if number else 0)
    if not has_wildcards:
        # There is nothing to refer to; a partition is then one of the whole subject.
        if name != "partition":
            raise _refusal("wildcard index out of range", call.text)
        return lambda tokens, _below: _partition(b".".join(tokens), number)
    indexes = [_source_index(call, wildcard, wildcards) for wildcard in call.wildcards]
    if name == "partition":
        if not indexes:
            return lambda tokens, _below: _partition(b".".join(tokens), number)
        return lambda tokens, _below: _partition(b"".join([tokens[index] for index in indexes]), number)
    index = indexes[0]
    if name == "wildcard":
        return lambda tokens, _below: tokens[index]
    if name == "split":
        return lambda tokens, _below: _split(tokens[index], call.separator)
    cut = _CUTS[name]
    # A token too short for the position, or a position that makes no sense, leaves the token whole.
    return lambda tokens, _below: cut(tokens[index], number) if 0 < number < len(tokens[index]) else tokens[index]


def _source_index(call: _Call, wildcard: int, wildcards: list[int]) -> int:
    if wildcard > len(wildcards):
        raise _refusal("wildcard index out of range", b"%s: [%d]" % (call.text, wildcard))
    # nats-server takes numbers below 1 for the first token of the subject, whether that is a wildcard or not.
    return wildcards[wildcard - 1] if wildcard > 0 else 0


def _partition(key: bytes, count: int) -> bytes:
    # A negative count is taken as nats-server's unsigned 32-bit number.
    return b"%d" % (partition_hash(key) % (count & 0xFFFFFFFF)) if count else b"0"


def _split(token: bytes, separator: bytes) -> bytes:
    if separator:
        parts = token.split(separator)
    else:
        parts = [letter.encode("utf-8", "surrogateescape") for letter in token.decode("utf-8", "surrogateescape")]
    # A token made of separators only stays whole: an empty token would make the subject invalid.
    return b".".join(part for part in parts if part) or token


def _chunks(token: bytes, size: int) -> bytes:
    return b".".join(token[start : start + size] for start in range(0, len(token), size))


def _chunks_from_right(token: bytes, size: int) -> bytes:
    rest = len(token) % size
    return (token[:rest] + b"." if rest else b"") + _chunks(token[rest:], size)


_CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "splitFromLeft": lambda token, position: token[:position] + b"." + token[position:],
    "splitFromRight": lambda token, position: token[:-position] + b"." + token[-position:],
    "sliceFromLeft": _chunks,
    "sliceFromRight": _chunks_from_right,
    "left": lambda token, length: token[:length],
    "right": lambda token, length: token[-length:],
}
