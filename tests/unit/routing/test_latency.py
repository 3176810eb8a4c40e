"""Service latency: what is measured and what is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats
import pytest
from nats.aio.client import Client

import slipstream
from slipstream.config.account_options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    UserOptions,
)
from slipstream.routing.latency import sampled_headers

ACCOUNTS = (
    AccountOptions(
        name="A",
        users=(UserOptions(user="a", password="p"),),
        exports=(
            ExportOptions(kind="service", subject="svc", latency=LatencyOptions("lat.svc")),
            ExportOptions(kind="service", subject="slow", latency=LatencyOptions("lat.slow"), response_threshold_ns=1),
            ExportOptions(kind="service", subject="traced", latency=LatencyOptions("lat.traced", 0)),
        ),
    ),
    AccountOptions(
        name="B",
        users=(UserOptions(user="b", password="p"),),
        imports=tuple(ImportOptions(kind="service", account="A", subject=name) for name in ("svc", "slow", "traced")),
    ),
)


async def connect(server: slipstream.Server, user: str) -> Client:
    return await nats.connect(server.url, user=user, password="p", name=user, allow_reconnect=False)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("X-B3-Sampled: 1", ["X-B3-Sampled"]),
        ("X-B3-Sampled: 0", []),
        ("X-B3-TraceId: abc", ["X-B3-TraceId"]),
        ("b3: 1-2-1", ["B3"]),
        ("b3: 1-2-d", ["B3"]),
        ("b3: 1-2-0", []),
        ("b3: 0", []),
        ("Uber-Trace-Id: a:b:c:3", ["Uber-Trace-Id"]),
        ("Uber-Trace-Id: a:b:c:2", []),
        ("Uber-Trace-Id: nonsense", []),
        ("traceparent: 00-a-b-01", ["Traceparent"]),
        ("traceparent: 00-a-b-00", []),
        ("traceparent: 00-a-b-zz", []),
        ("Other: 1", []),
    ],
)
def test_trace_headers_say_whether_a_request_is_sampled(header: str, names: list[str]) -> None:
    assert list(sampled_headers(f"NATS/1.0\r\n{header}\r\n\r\n".encode())) == names


async def test_answers_failures_and_departures_are_reported() -> None:
    async with slipstream.Server(host="127.0.0.1", port=0, accounts=ACCOUNTS) as server:
        owner, asker = await connect(server, "a"), await connect(server, "b")
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def note(message: Any) -> None:
            await events.put(json.loads(message.data))

        async def answer(message: Any) -> None:
            await message.respond(b"ok")

        await owner.subscribe("lat.>", cb=note)
        service = await owner.subscribe("svc", cb=answer)
        await owner.flush()

        assert (await asker.request("svc", b"?", timeout=2)).data == b"ok"
        event = await asyncio.wait_for(events.get(), 2)
        assert event["type"] == "io.nats.server.metric.v1.service_latency"
        assert event["status"] == 200
        assert event["requestor"]["acc"] == "B" and "name" not in event["requestor"]
        assert event["responder"]["name"] == "a"
        # On a fast loop the answer comes within the round trip that is taken off.
        assert event["total"] >= event["service"] >= 0

        await service.unsubscribe()
        await owner.flush()
        with pytest.raises(nats.errors.NoRespondersError):
            await asker.request("svc", b"?", timeout=2)
        assert (await asyncio.wait_for(events.get(), 2))["status"] == 503

        asked = await owner.subscribe("svc")
        await owner.flush()
        await asker.publish("svc", b"?", reply="nowhere")
        await asked.next_msg(timeout=2)
        await asker.close()
        assert (await asyncio.wait_for(events.get(), 2))["status"] == 408
        await owner.close()


async def test_a_late_service_is_reported_when_the_next_request_comes() -> None:
    async with slipstream.Server(host="127.0.0.1", port=0, accounts=ACCOUNTS) as server:
        owner, asker = await connect(server, "a"), await connect(server, "b")
        told = await owner.subscribe("lat.slow")
        asked = await owner.subscribe("slow")
        await owner.flush()
        for _ in range(2):
            await asker.publish("slow", b"?", reply="nowhere")
            await asker.flush()
            await asked.next_msg(timeout=2)
        event = json.loads((await told.next_msg(timeout=2)).data)
        assert (event["status"], event["description"]) == (504, "Service Timeout")
        await owner.close()
        await asker.close()


async def test_only_sampled_requests_are_measured_by_header() -> None:
    async with slipstream.Server(host="127.0.0.1", port=0, accounts=ACCOUNTS) as server:
        owner, asker = await connect(server, "a"), await connect(server, "b")
        told = await owner.subscribe("lat.traced")

        async def answer(message: Any) -> None:
            await message.respond(b"ok")

        await owner.subscribe("traced", cb=answer)
        await owner.flush()
        await asker.request("traced", b"", timeout=2)
        await asker.request("traced", b"", timeout=2, headers={"X-B3-Sampled": "1"})
        event = json.loads((await told.next_msg(timeout=2)).data)
        assert event["header"] == {"X-B3-Sampled": ["1"]}
        assert told.pending_msgs == 0
        await owner.close()
        await asker.close()
