"""The trace event of a message as spans: one for its way through a server, one below it for each hop.

A message that carries `traceparent` is part of the trace it names, below the span that published it. Spans of one
message have ids made from what all servers see of it, so the spans of several servers meet: the hop with which one
server sends it on is the parent of the span of the next.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Final

from slipstream.otel.values import SCOPE, Json, attributes

__all__ = ["spans_of", "trace_request"]

_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_INTERNAL, _SERVER, _PRODUCER = 1, 2, 4
_ERROR = 2
_HOP_HEADER: Final = "Nats-Trace-Hop"
_NAMES: Final = {"sm": "map", "se": "export", "si": "import", "js": "store", "eg": "deliver"}
_KINDS: Final = {"eg": _PRODUCER}
_EVENTS_MAX: Final = 10_000  # of one message
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def spans_of(event: Any) -> tuple[Json, list[Json]]:
    """The resource and the spans of one trace event.

    Raises:
        ValueError: it is no trace event.
    """
    try:
        return _spans_of(event)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"no trace event: {error!r}") from error


def trace_request(found: list[tuple[Json, list[Json]]]) -> Json:
    """What a collector is sent: spans by the server they are of."""
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": SCOPE, "spans": spans}]} for resource, spans in found
        ]
    }


def _spans_of(event: Any) -> tuple[Json, list[Json]]:
    server, hops = event["server"], event["events"][:_EVENTS_MAX]
    header = {str(name): values[0] for name, values in (event["request"].get("header") or {}).items() if values}
    entered = hops[0]
    if entered["type"] != "in":
        raise ValueError("no trace event: it does not begin where the message came in")
    hop = header.pop(_HOP_HEADER, "")
    parent = next((value for name, value in header.items() if name.lower() == "traceparent"), "")
    known = _PARENT.fullmatch(parent)
    seed = repr((sorted(header.items()), event["request"].get("msgsize"))) + ("" if known else entered["ts"])
    trace_id = known[1] if known else hashlib.sha256(seed.encode()).hexdigest()[:32]
    root = _span_id(trace_id, seed, "in", hop)
    above = _span_id(trace_id, seed, "eg", hop) if hop else known[2] if known else ""
    times = [_nanoseconds(one["ts"]) for one in hops]
    spans = [
        {
            "traceId": trace_id,
            "spanId": root,
            **({"parentSpanId": above} if above else {}),
            "name": f"publish {entered['subj']}",
            "kind": _SERVER,
            "startTimeUnixNano": str(min(times)),
            "endTimeUnixNano": str(max(times)),
            "attributes": attributes(
                {
                    "messaging.system": "nats",
                    "messaging.operation.name": "publish",
                    "messaging.destination.name": entered["subj"],
                    "messaging.message.envelope.size": event["request"].get("msgsize"),
                    "messaging.client.id": entered.get("name"),
                    "nats.account": entered.get("acc"),
                    "nats.client.cid": entered.get("cid"),
                }
            ),
            **_status(entered),
        }
    ]
    for number, (one, time_ns) in enumerate(zip(hops[1:], times[1:], strict=True)):
        kind = one["type"]
        place = one.get("hop") or f"{hop}#{number}"
        spans.append(
            {
                "traceId": trace_id,
                "spanId": _span_id(trace_id, seed, kind, place),
                "parentSpanId": root,
                "name": _name(one),
                "kind": _KINDS.get(kind, _INTERNAL),
                "startTimeUnixNano": str(times[0]),
                "endTimeUnixNano": str(time_ns),
                "attributes": attributes(
                    {
                        "messaging.system": "nats",
                        "messaging.operation.name": _NAMES.get(kind, kind),
                        "messaging.destination.name": one.get("subject") or one.get("to") or one.get("sub"),
                        "messaging.consumer.group.name": one.get("queue"),
                        "messaging.client.id": one.get("name"),
                        "nats.account": one.get("acc"),
                        "nats.client.cid": one.get("cid"),
                        "nats.stream": one.get("stream"),
                        "nats.no_interest": one.get("nointerest"),
                    }
                ),
                **_status(one),
            }
        )
    resource = attributes(
        {
            "service.name": "nats-server",
            "service.instance.id": server.get("id"),
            "service.version": server.get("ver"),
            "server.address": server.get("host"),
            "nats.server.name": server.get("name"),
            "nats.cluster": server.get("cluster"),
        }
    )
    return {"attributes": resource}, spans


def _name(one: Any) -> str:
    """What happens there, with a word that does not differ from message to message."""
    what = _NAMES.get(one["type"], str(one["type"]))
    where = one.get("stream") or one.get("acc") if one["type"] != "eg" else one.get("queue") or one.get("name")
    return f"{what} {where}" if where else what


def _status(one: Any) -> Json:
    return {"status": {"code": _ERROR, "message": str(one["error"])}} if one.get("error") else {}


def _span_id(trace_id: str, seed: str, kind: str, place: str) -> str:
    return hashlib.sha256(f"{trace_id} {seed} {kind} {place}".encode()).hexdigest()[:16]


def _nanoseconds(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"no trace event: {text!r} is no time")
    seconds = datetime.fromisoformat(found[1] + ("+00:00" if found[3] == "Z" else found[3])).astimezone(UTC)
    return int(seconds.timestamp()) * 1_000_000_000 + int((found[2] or "0").ljust(9, "0"))
