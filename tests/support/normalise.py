"""Replaces what differs between any two server runs by its form: ids, keys, ports, times, versions.

A value is replaced only when it has the form it must have, so a malformed id still shows as a difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_INFO_LINE = re.compile(rb"INFO (\{.*?\}) \r\n")
_FORMS = {
    "<server nkey>": re.compile(r"^N[A-Z2-7]{55}$"),
    "<account nkey>": re.compile(r"^A[A-Z2-7]{55}$"),
    "<x25519 key>": re.compile(r"^X[A-Z2-7]{55}$"),
    "<nonce>": re.compile(r"^[A-Za-z0-9_-]{15}$"),
    "<version>": re.compile(r"^2\.\d+\.\d+(-\w+)?$"),
    "<runtime>": re.compile(r"^\S.*$"),
}
_INFO_TEXT = {
    "server_id": "<server nkey>",
    "server_name": "<server nkey>",
    "xkey": "<x25519 key>",
    "nonce": "<nonce>",
    "version": "<version>",
    "go": "<runtime>",
}
_INFO_NUMBER = {"client_id", "port"}
# Present only in builds that know their commit.
_INFO_OPTIONAL = {"git_commit"}

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$")


def normal_info(info: dict[str, Json]) -> dict[str, Json]:
    """INFO with volatile values replaced, keys sorted."""
    return {key: _normal_info_value(key, value) for key, value in sorted(info.items()) if key not in _INFO_OPTIONAL}


def normal_wire(data: bytes) -> bytes:
    """Server output with each INFO line in normal form; everything else stays as it is."""

    def replace(match: re.Match[bytes]) -> bytes:
        return b"INFO " + json.dumps(normal_info(json.loads(match[1]))).encode() + b" \r\n"

    return _INFO_LINE.sub(replace, data)


def shape(value: Json, *, free: frozenset[str] = frozenset()) -> Json:
    """The form of a JSON value: keys and kinds, without the values.

    Args:
        value: What to look at.
        free: Keys whose values may be anything, for instance maps whose keys are data.
    """
    if isinstance(value, dict):
        return {key: "<any>" if key in free else shape(item, free=free) for key, item in sorted(value.items())}
    if isinstance(value, list):
        forms = [shape(item, free=free) for item in value]
        return [form for index, form in enumerate(forms) if form not in forms[:index]]
    return _kind(value)


def hide(value: Json, *keys: str) -> Json:
    """The JSON value with the values of the named keys replaced by their kinds, at any depth."""
    if isinstance(value, dict):
        return {key: shape(item) if key in keys else hide(item, *keys) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [hide(item, *keys) for item in value]
    return value


def replacing(*patterns: tuple[bytes, bytes]) -> Callable[[bytes], bytes]:
    """A function that rewrites bytes by regular expressions, for scenarios with volatile parts of their own."""
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in patterns]

    def rewrite(data: bytes) -> bytes:
        for expression, replacement in compiled:
            data = expression.sub(replacement, data)
        return data

    return rewrite


def _normal_info_value(key: str, value: Json) -> Json:
    if key in _INFO_NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return f"<{key}>"
    form = _INFO_TEXT.get(key)
    return form if form and isinstance(value, str) and _FORMS[form].match(value) else value


def _kind(value: Json) -> str:
    if isinstance(value, str):
        return "<time>" if _TIME.match(value) else "<text>"
    if isinstance(value, bool):
        return "<bool>"
    if isinstance(value, int | float):
        return "<number>"
    return "<null>"
