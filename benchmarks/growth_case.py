"""What a case of the growth family is, and what cases have in common: questions to the API, many streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.scenario import Scale
from slipstream.client.js_requests import Asking
from slipstream.client.options import ClientError, WireOptions
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together
from slipstream.units import SECOND_NS

__all__ = ["JETSTREAM", "PATIENT", "Action", "Case", "call", "make_streams"]

JETSTREAM = ("-js", "-sd", "data")
PATIENT = WireOptions(timeout_ns=300 * SECOND_NS)  # a server may freeze for minutes: that is what is measured
_WINDOW = 64  # streams in the making at once


@dataclass(frozen=True)
class Action:
    """Something a client does while another one watches."""

    what: str  # after "longest PING while": a clause
    act: Callable[[WireClient, Scale], None]


@dataclass(frozen=True)
class Case:
    """Actions on one server."""

    name: str
    prepare: Callable[[str, Scale], None]  # gets the server's URL; nobody watches
    actions: tuple[Action, ...]
    flags: tuple[str, ...] = JETSTREAM


def call(client: WireClient, subject: str, body: object = None) -> dict[str, Any]:
    """One request to the JetStream API.

    Raises:
        ClientError: the server refused.
    """
    payload = json.dumps(body).encode() if body is not None else b""
    answer: dict[str, Any] = json.loads(client.request(f"$JS.API.{subject}", payload).payload)
    if "error" in answer:
        raise ClientError(f"{subject}: {answer['error'].get('description')}")
    return answer


def make_streams(url: str, numbers: Iterable[int], storage: str = "file") -> None:
    """Make streams S<number> on `S<number>.>`, many at once."""
    requests = []
    for number in numbers:
        config = {"name": f"S{number}", "subjects": [f"S{number}.>"], "storage": storage}
        requests.append((f"$JS.API.STREAM.CREATE.S{number}", json.dumps(config).encode()))
    run_together([Asking(url=url, requests=tuple(requests), messages=len(requests), window=_WINDOW)])
