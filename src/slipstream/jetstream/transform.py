"""Subject transforms: a source pattern, a destination template with mapping functions, and the rules between them.

`orders.*.>` to `o.{{wildcard(1)}}.>` is one. A destination token may be a literal, `$2`, or a function in braces:
wildcard, partition, split, splitFromLeft, splitFromRight, sliceFromLeft, sliceFromRight, left, right, random.

What this is not: weighted account mappings, nor a table of many transforms.

A transform is built once (`SubjectTransform.create`, which also is the check of its rules) and then applied to literal
subjects. Applying never fails: a subject that does not match gives None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from slipstream.errors import SlipstreamError
from slipstream.kernels.subject import is_valid_publish, matches

__all__ = ["SubjectTransform", "TransformError", "validate_mapping"]

BAD_SUBJECT: Final = "invalid subject"
_BAD_DESTINATION: Final = "invalid mapping destination"
_INVALID: Final = f"{_BAD_DESTINATION}: invalid transform"
_UNKNOWN: Final = f"{_BAD_DESTINATION}: unknown function"
_OUT_OF_RANGE: Final = f"{_BAD_DESTINATION}: wildcard index out of range"
_TOO_FEW: Final = f"{_BAD_DESTINATION}: not enough arguments passed to the function"
_BAD_ARGUMENT: Final = f"{_BAD_DESTINATION}: function argument is invalid or in the wrong format"
_TOO_MANY: Final = f"{_BAD_DESTINATION}: too many arguments passed to the function"

_INT32_MAX: Final = 2**31 - 1


class TransformError(SlipstreamError):
    """A transform that cannot be made; the text is part of API error 10155, 10156 and their like."""

    def __init__(self, text: str, token: str = "") -> None:
        """Say what is wrong and in which token of the destination."""
        super().__init__(f"{text} in {token}" if token else text)


# A step turns the tokens of the subject into one piece of the result.
Step = Callable[[list[bytes]], bytes]
RandomBelow = Callable[[int], int]


def _no_random(bound: int) -> int:
    raise AssertionError(f"random({bound}) in a transform made without a source of randomness")


class SubjectTransform:
    """A checked transform. `apply` is pure, but for random()."""

    __slots__ = ("_keep_rest", "_source", "_source_tokens", "_steps", "destination", "source")

    def __init__(self, source: str, destination: str, steps: list[Step]) -> None:
        """Use `create`."""
        self.source = source
        self.destination = destination
        self._source = source.encode()
        self._source_tokens = source.count(".") + 1
        self._steps = steps
        self._keep_rest = destination == ">" or destination.endswith(".>")

    @classmethod
    def create(cls, source: str, destination: str, random_below: RandomBelow = _no_random) -> SubjectTransform | None:
        """Build a transform; None when the destination is empty, which means "no change".

        Args:
            source: pattern with wildcards; empty means everything.
            destination: template.
            random_below: gives a number in `[0, bound)`, for random().

        Raises:
            TransformError: if the two do not fit together.
        """
        if not destination:
            return None
        source = source or ">"
        source_tokens = _tokens(source)
        destination_tokens = _tokens(destination)
        if source_tokens is None or destination_tokens is None or "*" in destination_tokens:
            raise TransformError(BAD_SUBJECT)
        has_rest = source_tokens[-1] == ">"
        if has_rest != (destination_tokens[-1] == ">"):
            raise TransformError(BAD_SUBJECT)
        wildcards = [index for index, token in enumerate(source_tokens) if token == "*"]
        plain = not wildcards and not has_rest
        steps = [
            _step(token, wildcards, random_below, literal_source=plain) for token in destination_tokens if token != ">"
        ]
        return cls(source, destination, steps)

    def apply(self, subject: bytes) -> bytes | None:
        """The transformed subject, or None if the source does not match."""
        if self.source == ">" and self.destination == ">":
            return subject
        if not is_valid_publish(subject) or not matches(self._source, subject):
            return None
        tokens = subject.split(b".")
        result = [step(tokens) for step in self._steps]
        if self._keep_rest:
            result += tokens[self._source_tokens - 1 :]
        return b".".join(result)


def validate_mapping(source: str, destination: str) -> None:
    """Check a pair as stream configurations are checked.

    Raises:
        TransformError: with nats-server's text.
    """
    if not destination:
        return
    ended = False
    for token in destination.split("."):
        if not token or ended:
            raise TransformError(_INVALID, token)
        if _is_function(token):
            if _FUNCTION.fullmatch(token) is None:
                raise TransformError(_UNKNOWN, token)
        elif token == ">":
            ended = True
        elif any(char in token for char in "\t\n\f\r "):
            raise TransformError(_INVALID)
    SubjectTransform.create(source, destination)


def _tokens(subject: str) -> list[str] | None:
    """The tokens, or None if one is empty or `>` is not last."""
    tokens = subject.split(".")
    return None if not all(tokens) or ">" in tokens[:-1] else tokens


_FUNCTION = re.compile(
    r"\{\{\s*(wildcard|partition|splitfromleft|splitfromright|slicefromleft|slicefromright|split|left|right|random)"
    r"\s*\((.*)\)\s*\}\}",
    re.IGNORECASE,
)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _is_function(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def _step(token: str, wildcards: list[int], random_below: RandomBelow, *, literal_source: bool) -> Step:
    """What one destination token does."""
    if len(token) > 1 and token[0] == "$" and _INTEGER.fullmatch(token[1:]):
        return _picked(_resolve([int(token[1:])], wildcards, token, literal_source)[0])
    if not _is_function(token):
        literal = token.encode()
        return lambda _: literal
    match = _FUNCTION.fullmatch(token)
    if match is None:
        raise TransformError(_UNKNOWN, token)
    name = match.group(1).lower()
    arguments = re.split(r",\s*", match.group(2))
    if name == "wildcard":
        if arguments == [""]:
            raise TransformError(_TOO_FEW, token)
        if len(arguments) > 1:
            raise TransformError(_TOO_MANY, token)
        return _picked(_resolve([_number(arguments[0], token)], wildcards, token, literal_source)[0])
    if name == "partition":
        buckets = _number(arguments[0], token, high=_INT32_MAX)
        positions = [_number(argument, token) for argument in arguments[1:]]
        if literal_source:
            positions = []
        return _partitioned(buckets, _resolve(positions, wildcards, token, False))
    if name == "random":
        if len(arguments) != 1:
            raise TransformError(_TOO_FEW, token)
        bound = _number(arguments[0], token, high=_INT32_MAX)
        return lambda _: b"%d" % random_below(bound) if bound > 0 else b"0"
    if len(arguments) < 2:
        raise TransformError(_TOO_FEW, token)
    if len(arguments) > 2:
        raise TransformError(_TOO_MANY, token)
    position = _number(arguments[0], token)
    if name == "split":
        if " " in arguments[1] or "." in arguments[1]:
            raise TransformError(_BAD_ARGUMENT, token)
        index = _resolve([position], wildcards, token, literal_source)[0]
        return _on_token(index, _splitter(arguments[1].encode()))
    size = _number(arguments[1], token, high=_INT32_MAX)
    index = _resolve([position], wildcards, token, literal_source)[0]
    return _on_token(index, _CUTS[name](size))


def _number(text: str, token: str, high: int | None = None) -> int:
    text = text.strip(" ")
    if not _INTEGER.fullmatch(text) or len(text) > 20 or (high is not None and int(text) > high):
        raise TransformError(_BAD_ARGUMENT, token)
    return int(text)


def _resolve(positions: list[int], wildcards: list[int], token: str, literal_source: bool) -> list[int]:
    """From "the nth wildcard" to the index of the token it stands for."""
    if literal_source and positions:
        raise TransformError(_OUT_OF_RANGE, token)
    for position in positions:
        if not 1 <= position <= len(wildcards):
            raise TransformError(_OUT_OF_RANGE, f"{token}: [{position}]")
    return [wildcards[position - 1] for position in positions]


def _picked(index: int) -> Step:
    return lambda tokens: tokens[index]


def _partitioned(buckets: int, indexes: list[int]) -> Step:
    def step(tokens: list[bytes]) -> bytes:
        key = b"".join(tokens[index] for index in indexes) if indexes else b".".join(tokens)
        return b"%d" % (_fnv1a(key) % buckets) if buckets > 0 else b"0"

    return step


def _fnv1a(key: bytes) -> int:
    """The 32-bit FNV-1a hash; its value decides the partition, so it may never change."""
    value = 0x811C9DC5
    for byte in key:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def _on_token(index: int, cut: Callable[[bytes], bytes]) -> Step:
    return lambda tokens: cut(tokens[index])


def _splitter(delimiter: bytes) -> Callable[[bytes], bytes]:
    def cut(token: bytes) -> bytes:
        return b".".join(part for part in (token.split(delimiter) if delimiter else [token]) if part)

    return cut


def _split_from_left(size: int) -> Callable[[bytes], bytes]:
    return lambda token: token[:size] + b"." + token[size:] if 0 < size < len(token) else token


def _split_from_right(size: int) -> Callable[[bytes], bytes]:
    return lambda token: token[:-size] + b"." + token[-size:] if 0 < size < len(token) else token


def _slice_from_left(size: int) -> Callable[[bytes], bytes]:
    def cut(token: bytes) -> bytes:
        if not 0 < size < len(token):
            return token
        return b".".join(token[at : at + size] for at in range(0, len(token), size))

    return cut


def _slice_from_right(size: int) -> Callable[[bytes], bytes]:
    def cut(token: bytes) -> bytes:
        if not 0 < size < len(token):
            return token
        rest = len(token) % size
        parts = [token[:rest]] if rest else []
        parts += [token[at : at + size] for at in range(rest, len(token), size)]
        return b".".join(parts)

    return cut


def _left(size: int) -> Callable[[bytes], bytes]:
    return lambda token: token[:size] if 0 < size < len(token) else token


def _right(size: int) -> Callable[[bytes], bytes]:
    return lambda token: token[-size:] if 0 < size < len(token) else token


_CUTS: Final = {
    "splitfromleft": _split_from_left,
    "splitfromright": _split_from_right,
    "slicefromleft": _slice_from_left,
    "slicefromright": _slice_from_right,
    "left": _left,
    "right": _right,
}
