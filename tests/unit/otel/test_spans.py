"""Trace events as spans."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.otel.spans import spans_of

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TIME = "2026-01-02T03:04:05.000000006Z"


def event(hops: list[dict[str, Any]], **header: str) -> dict[str, Any]:
    return {
        "server": {"id": "N1", "name": "n", "ver": "2"},
        "request": {"header": {name.replace("_", "-"): [value] for name, value in header.items()}, "msgsize": 9},
        "events": hops,
    }


def entered(**fields: Any) -> dict[str, Any]:
    return {"type": "in", "ts": TIME, "cid": 3, "acc": "A", "subj": "orders.new", **fields}


def test_a_message_is_part_of_the_trace_it_names() -> None:
    stored = {"type": "js", "ts": "2026-01-02T03:04:06Z", "stream": "ORDERS", "subject": "orders.new"}
    sent = {
        "type": "eg",
        "ts": "2026-01-02T04:04:05.5+01:00",
        "cid": 4,
        "name": "worker",
        "queue": "q",
        "sub": "orders.*",
    }
    resource, spans = spans_of(event([entered(), stored, sent], traceparent=f"00-{TRACE}-{PARENT}-01"))
    assert {"key": "service.instance.id", "value": {"stringValue": "N1"}} in resource["attributes"]
    root, js, eg = spans
    assert {span["traceId"] for span in spans} == {TRACE}
    assert root["parentSpanId"] == PARENT
    assert (root["name"], js["name"], eg["name"]) == ("publish orders.new", "store ORDERS", "deliver q")
    assert js["parentSpanId"] == eg["parentSpanId"] == root["spanId"]
    assert root["startTimeUnixNano"] == "1767323045000000006"
    assert root["endTimeUnixNano"] == js["endTimeUnixNano"] == "1767323046000000000"
    assert eg["endTimeUnixNano"] == "1767323045500000000"
    assert len({span["spanId"] for span in spans}) == 3


def test_spans_of_several_servers_meet() -> None:
    header = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    hop = {"type": "eg", "ts": TIME, "kind": 1, "name": "other server", "hop": "1"}
    _, (_, over) = spans_of(event([entered(), hop], **header))
    _, (there,) = spans_of(event([entered(kind=1)], **header, Nats_Trace_Hop="1"))
    assert there["parentSpanId"] == over["spanId"]
    assert there["spanId"] != over["spanId"]


def test_without_a_trace_the_message_is_one_of_its_own() -> None:
    _, (root,) = spans_of(event([entered(error="no")]))
    assert "parentSpanId" not in root
    assert root["status"] == {"code": 2, "message": "no"}
    _, (again,) = spans_of(event([entered(ts="2026-01-02T03:04:06Z")]))
    assert again["traceId"] != root["traceId"]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"server": {}, "request": {}, "events": []},
        {"server": {}, "request": {"header": {"a": "b"}}, "events": [{"type": "eg", "ts": TIME}]},
        {"server": {}, "request": {}, "events": [{"type": "in", "ts": "now", "subj": "x"}]},
        {"server": {}, "request": {}, "events": [{"type": "in", "ts": 5, "subj": "x"}]},
    ],
)
def test_what_is_no_trace_event(wrong: Any) -> None:
    with pytest.raises(ValueError, match="no trace event"):
        spans_of(wrong)
