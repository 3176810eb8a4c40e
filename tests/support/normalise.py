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
# A commit is present only in builds that know theirs; the API level goes with the version.
_INFO_OPTIONAL = {"git_commit", "api_lvl"}

# What an importer's request carries: who asked, and a round trip time, so the sizes before it vary too.
_REQUEST_INFO = re.compile(rb"^(HMSG \S+ \S+ (?:\S+ )?)\d+ \d+\r\n(.*Nats-Request-Info: )(\{.*?\})\r\n", re.DOTALL)
_SERVICE_REPLY = re.compile(rb"\b_R_\.[A-Za-z0-9_.-]{13,}")
_REQUEST_VOLATILE = ("rtt", "start", "id", "server", "cluster", "ver")

# Maps whose keys go with the version.
_VERSION_MAPS = frozenset({"feature_flags"})

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$")


def normal_info(info: dict[str, Json]) -> dict[str, Json]:
    """INFO with volatile values replaced, keys sorted."""
    return {key: _normal_info_value(key, value) for key, value in sorted(info.items()) if key not in _INFO_OPTIONAL}


def normal_wire(frame: bytes) -> bytes:
    """One operation of a server with volatile parts of INFO and of request headers in normal form."""

    def normal_request(match: re.Match[bytes]) -> bytes:
        info = hide(json.loads(match[3]), *_REQUEST_VOLATILE)
        return match[1] + b"<sizes>\r\n" + match[2] + json.dumps(info).encode() + b"\r\n"

    if info_line := _INFO_LINE.fullmatch(frame):
        return b"INFO " + json.dumps(normal_info(json.loads(info_line[1]))).encode() + b" \r\n"
    return _REQUEST_INFO.sub(normal_request, _SERVICE_REPLY.sub(b"<service-reply>", frame), count=1)


def shape(value: Json, *, free: frozenset[str] = frozenset()) -> Json:
    """The form of a JSON value: keys and kinds, without the values; a build's commit is optional and left out.

    Args:
        value: What to look at.
        free: Keys whose values may be anything, for instance maps whose keys are data.
    """
    if isinstance(value, dict):
        return {
            key: "<any>" if key in free else shape(item, free=free)
            for key, item in sorted(value.items())
            if key != "git_commit"
        }
    if isinstance(value, list):
        forms = {json.dumps(form): form for item in value for form in [shape(item, free=free)]}
        return [forms[text] for text in sorted(forms)]
    return _kind(value)


def hide(value: Json, *keys: str) -> Json:
    """The JSON value with the values of the named keys replaced by their kinds, at any depth."""
    if isinstance(value, dict):
        return {
            key: shape(item, free=_VERSION_MAPS) if key in keys else hide(item, *keys)
            for key, item in sorted(value.items())
        }
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
