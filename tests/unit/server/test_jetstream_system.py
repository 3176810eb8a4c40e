"""What the system account hears of JetStream: dropped calls, and the end of an account's streams."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats

import slipstream
from support.config_loading import options


async def test_dropped_calls_are_advised_in_the_system_account(tmp_path: Path) -> None:
    text = f"""
    jetstream {{ store_dir: "{tmp_path}", request_queue_limit: 1 }}
    accounts {{
      A {{ jetstream: enabled, users: [{{ user: a, password: a }}] }}
      $SYS {{ users: [{{ user: s, password: s }}] }}
    }}
    """
    async with slipstream.Server(options(text), port=0) as server:
        system = await nats.connect(server.url, user="s", password="s")
        advisories = await system.subscribe("$JS.EVENT.ADVISORY.API.LIMIT_REACHED")
        await system.flush()
        client = await nats.connect(server.url, user="a", password="a")
        # In one write, so that they arrive in one turn: making the first takes a thread.
        for number in range(5):
            body = json.dumps({"name": f"N{number}"}).encode()
            await client.publish(f"$JS.API.STREAM.CREATE.N{number}", body, reply=f"made.{number}")
        await client.flush()
        told = 0
        while told < 4:
            message = await advisories.next_msg(timeout=5)
            advisory = json.loads(message.data)
            assert advisory["type"] == "io.nats.jetstream.advisory.v1.api_limit_reached"
            assert advisory["server"] == server.identity.name
            told += advisory["dropped"]
        assert told == 4
        await asyncio.gather(client.close(), system.close())


async def test_a_full_disk_is_advised_in_the_system_account(tmp_path: Path) -> None:
    text = f"""
    jetstream {{ store_dir: "{tmp_path}" }}
    accounts {{
      A {{ jetstream: enabled, users: [{{ user: a, password: a }}] }}
      $SYS {{ users: [{{ user: s, password: s }}] }}
    }}
    """
    async with slipstream.Server(options(text), port=0) as server:
        system = await nats.connect(server.url, user="s", password="s")
        advisories = await system.subscribe("$JS.EVENT.ADVISORY.SERVER.OUT_OF_STORAGE")
        await system.flush()
        assert server.jetstream is not None and server.jetstream.shared.on_full is not None
        server.jetstream.shared.on_full("ORDERS")
        advisory = json.loads((await advisories.next_msg(timeout=5)).data)
        assert advisory["type"] == "io.nats.jetstream.advisory.v1.server_out_of_space"
        assert (advisory["stream"], advisory["server_id"]) == ("ORDERS", server.identity.id)
        await system.close()
