"""Streams that the configuration of a cluster's servers declares: whoever leads the cluster makes them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

pytest.importorskip("slipstream_raft")

from support.cluster_calls import call
from support.cluster_servers import Trio, trio
from support.clusters import until

DECLARED = """
jetstream { declared { streams {
  ORDERS { subjects: ["orders.>"], num_replicas: 3, consumers { billing { ack_wait: 30s } } }
  MANY { subjects: ["many"], num_replicas: 5 }
  ALONE { subjects: ["alone"] }
} } }
"""


async def test_who_leads_makes_what_is_declared(tmp_path: Path) -> None:
    async with trio(tmp_path, DECLARED) as servers:
        client = await nats.connect(servers.members[0].url)
        async with asyncio.timeout(20):
            while (await call(client, "STREAM.NAMES"))["streams"] != ["ALONE", "ORDERS"]:
                await asyncio.sleep(0.05)
        await until(lambda: _said(servers, "Created declared consumer ORDERS > billing") == 1, "its consumer is there")
        await until(lambda: _said(servers, "Created declared stream ALONE") == 1, "the other one is there")
        assert _said(servers, "Created declared stream ORDERS") == 1
        await until(lambda: _said(servers, "Declared stream MANY") > 0, "what cannot be is said")
        lines = [line for member in servers.members for line in member.lines if "Declared stream MANY" in line]
        assert len(lines) == len(set(lines))  # each reason once, however often it is tried
        info = await call(client, "STREAM.INFO.ORDERS")
        assert info["config"]["num_replicas"] == 3 and info["state"]["consumer_count"] == 1
        await client.close()


def _said(servers: Trio, text: str) -> int:
    """How many lines of all logs have this text."""
    return sum(text in line for member in servers.members for line in member.lines)
