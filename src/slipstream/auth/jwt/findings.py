"""What can be wrong with a token, as values, and the findings that several kinds of tokens share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from slipstream.config.checker import quote as _quoted

__all__ = ["Finding", "blocks", "has_wildcards", "info_findings", "is_contained", "subject_findings"]

_INFO_LENGTH_MAX: Final = 8 * 1024  # characters of a description or its address


class Finding(NamedTuple):
    """One thing that is wrong."""

    text: str
    blocking: bool = True
    of_time: bool = False


def blocks(findings: Iterable[Finding], *, with_time: bool) -> bool:
    """Whether a token with these findings must not be used."""
    return any(finding.blocking or (with_time and finding.of_time) for finding in findings)


def info_findings(description: str, url: str) -> Iterator[Finding]:
    """What is wrong with a description and its address."""
    if len(description) > _INFO_LENGTH_MAX:
        yield Finding("Description is too long")
    if url:
        if len(url) > _INFO_LENGTH_MAX:
            yield Finding("Info URL is too long")
        try:
            parts = urlsplit(url)
            wrong = "" if parts.scheme and parts.hostname else "no hostname or scheme"
        except ValueError as error:
            wrong = str(error)
        if wrong:
            yield Finding(f"error parsing info url: {wrong}")


def subject_findings(subject: str) -> Iterator[Finding]:
    """What is wrong with a subject."""
    if not subject:
        yield Finding("subject cannot be empty")
        return
    if " " in subject:
        yield Finding(f"subject {_quoted(subject)} cannot have spaces")
    if subject[0] == "." or subject[-1] == ".":
        yield Finding(f"subject {_quoted(subject)} cannot start or end with a `.`")
    if ".." in subject:
        yield Finding(f"subject {_quoted(subject)} cannot contain consecutive `.`")


def has_wildcards(subject: str) -> bool:
    """Whether it stands for more than one subject."""
    tokens = subject.split(".")
    return "*" in tokens or tokens[-1] == ">"


def is_contained(narrow: str, wide: str) -> bool:
    """Whether all that `narrow` stands for is in `wide`."""
    mine, others = narrow.split("."), wide.split(".")
    if len(mine) < len(others) or (len(mine) > len(others) and others[-1] != ">"):
        return False
    for index, token in enumerate(others):
        if index == len(others) - 1 and token == ">":
            return True
        if token not in (mine[index], "*"):
            return False
    return True
