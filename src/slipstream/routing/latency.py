"""Service latency: how long a service of one account took to answer another account's request.

An export may ask for it: for a percentage of the requests, or for those whose trace headers (W3C, B3, Jaeger) say that
they are sampled. One event per request is published in the exporting account:

    status 200  answered           service: time between request and answer
    status 408  Request Timeout    the requester left before the answer
    status 503  Service Unavailable    nobody serves
    status 504  Service Timeout    no answer within the export's threshold

`total` adds the round trip times of both clients and `system`, the time spent in this server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slipstream.clock import rfc3339
from slipstream.protocol.headers import find_header, parse_headers

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.config.account_options import LatencyOptions

__all__ = ["LatencyProbe", "LatencyReporter", "sampled_headers"]

_TYPE = "io.nats.server.metric.v1.service_latency"
Info = Mapping[str, object]


class LatencyProbe:
    """One request that is measured."""

    __slots__ = ("header", "requestor", "sent_ns")

    def __init__(self, requestor: Info, header: dict[str, list[str]], sent_ns: int) -> None:
        self.requestor = requestor
        self.header = header  # the trace headers that asked for it; empty when chance did
        self.sent_ns = sent_ns  # wall clock at which the request was passed on


class LatencyReporter:
    """Measures the requests of one service import."""

    def __init__(
        self,
        options: LatencyOptions,
        exporter: Account,
        now_ns: Callable[[], int],
        roll: Callable[[int], int],
        new_id: Callable[[], str],
    ) -> None:
        self._options = options
        self._exporter = exporter
        self._now_ns = now_ns
        self._roll = roll
        self._new_id = new_id

    def probe(self, requestor: Info, header: bytes) -> LatencyProbe | None:
        """Start measuring this request, if it is one of those to be measured."""
        found: dict[str, list[str]] = {}
        if self._options.sampling == 0:
            found = sampled_headers(header)
            if not found:
                return None
        elif self._options.sampling < 100 and self._roll(100) >= self._options.sampling:
            return None
        return LatencyProbe(requestor, found, self._now_ns())

    def answered(self, probe: LatencyProbe, responder: Info) -> None:
        """The service answered."""
        now_ns = self._now_ns()
        service = max(0, now_ns - probe.sent_ns - _rtt(responder))
        system = max(0, self._now_ns() - now_ns)
        total = service + system + _rtt(probe.requestor) + _rtt(responder)
        self._report(probe, 200, "", responder, (service, system, total))

    def failed(self, probe: LatencyProbe, status: int, description: str) -> None:
        """There was no answer."""
        self._report(probe, status, description, None, (0, 0, 0))

    def _report(
        self, probe: LatencyProbe, status: int, description: str, responder: Info | None, times: tuple[int, int, int]
    ) -> None:
        event: dict[str, object] = {
            "type": _TYPE,
            "id": self._new_id(),
            "timestamp": rfc3339(self._now_ns()),
            "status": status,
        }
        if description:
            event["description"] = description
        event["requestor"] = probe.requestor
        if responder is not None:
            event["responder"] = responder
        if probe.header:
            event["header"] = probe.header
        event["start"] = rfc3339(probe.sent_ns - _rtt(probe.requestor))
        event["service"], event["system"], event["total"] = times
        import msgspec

        self._exporter.publish(self._options.subject.encode(), None, 0, msgspec.json.encode(event))


def _rtt(info: Info) -> int:
    rtt = info.get("rtt", 0)
    return rtt if isinstance(rtt, int) else 0


def sampled_headers(header: bytes) -> dict[str, list[str]]:
    """The trace headers by which a request says that it is sampled; empty when it does not."""
    found: dict[str, list[str]] = {}
    for name, decide in _SAMPLING.items():
        value = find_header(name.encode(), header)
        if value is None:
            continue
        if not decide(value.decode("utf-8", "replace").strip()):
            return {}
        family = _FAMILIES[name]
        for key, values in parse_headers(header).items():
            if key.lower().startswith(family):
                found[_canonical(key)] = values
        return found
    return found


def _jaeger(value: str) -> bool:
    return len(value.split(":")) == 4 and _odd(value.rsplit(":", 1)[1])


def _b3(value: str) -> bool:
    parts = value.split("-")
    # Without a state the decision is left to the receiver, which is us.
    return parts[2] in ("1", "d") if len(parts) > 2 else value not in ("0", "")


def _w3c(value: str) -> bool:
    return len(value.split("-")) == 4 and _odd(value.rsplit("-", 1)[1])


def _odd(flags: str) -> bool:
    try:
        return bool(int(flags, 16) & 1)
    except ValueError:
        return False


_SAMPLING: dict[str, Callable[[str], bool]] = {
    "Uber-Trace-Id": _jaeger,
    "X-B3-Sampled": lambda value: value == "1",
    "X-B3-TraceId": bool,
    "B3": _b3,
    "b3": _b3,
    "traceparent": _w3c,
    "Traceparent": _w3c,
}
_FAMILIES = {
    "Uber-Trace-Id": "uber",
    "X-B3-Sampled": "x-b3-",
    "X-B3-TraceId": "x-b3-",
    "B3": "b3",
    "b3": "b3",
    "traceparent": "trace",
    "Traceparent": "trace",
}


def _canonical(key: str) -> str:
    """A header name as Go writes it: each word with a capital, the rest as it is for names that have capitals."""
    return "-".join(word[:1].upper() + word[1:] for word in key.split("-"))
