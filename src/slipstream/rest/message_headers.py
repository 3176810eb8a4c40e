"""HTTP headers to NATS headers and back.

Names in HTTP have no case, those in NATS do: what the server knows gets its spelling, everything else capitals after
hyphens. `Nats-*` and the headers of distributed traces travel as they are. Any other name needs the prefix `X-Nats-`,
in both directions: a message must not set a cookie, and a proxy's headers are no business of subscribers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slipstream.protocol.headers import parse_headers
from slipstream.rest.limits import HEADERS_MAX
from slipstream.rest.steps import HttpProblem

__all__ = ["from_http", "header_block", "to_http"]

_PREFIX = "x-nats-"
_TRACES = ("traceparent", "tracestate")
_SPELT = {"nats-ttl": "Nats-TTL", "traceparent": "traceparent", "tracestate": "tracestate"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?|")


def header_block(lines: Iterable[tuple[str, str]]) -> bytes:
    """A block of lines as a message carries it; empty without lines."""
    text = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"NATS/1.0\r\n{text}\r\n".encode() if text else b""


def from_http(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The NATS headers that an HTTP request asks for.

    Args:
        headers: names in lower case.

    Raises:
        HttpProblem: there are too many.
    """
    found = []
    for name, value in headers:
        if name.startswith(_PREFIX):
            found.append((_spelt(name.removeprefix(_PREFIX)), value))
        elif name.startswith("nats-") or name in _TRACES:
            found.append((_spelt(name), value))
    if len(found) > HEADERS_MAX:
        raise HttpProblem(431, f"more than {HEADERS_MAX} headers for the message")
    return found


def to_http(block: bytes) -> tuple[tuple[str, str], ...]:
    """The headers of a message as an HTTP response can carry them; what it cannot is left out."""
    found = []
    for name, values in parse_headers(block).items():
        shown = name if name.lower().startswith("nats-") or name.lower() in _TRACES else f"X-Nats-{name}"
        if _TOKEN.fullmatch(name):
            found += [(shown, value) for value in values if _VALUE.fullmatch(value)]
    return tuple(found[:HEADERS_MAX])


def _spelt(name: str) -> str:
    return _SPELT.get(name) or "-".join(part.capitalize() for part in name.split("-"))
