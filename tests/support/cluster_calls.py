"""Calls of the JetStream API of a cluster, as clients make them that try again."""

from __future__ import annotations

import json
from typing import Any

import nats
from nats.aio.client import Client
from nats.js.errors import APIError


async def call(client: Client, subject: str, **body: Any) -> dict[str, Any]:
    """Ask, and again while nobody hears it: servers that were just started may not know yet who listens where."""
    payload = json.dumps(body).encode() if body else b""
    for attempts_left in range(8, -1, -1):
        try:
            answer = await client.request(f"$JS.API.{subject}", payload, timeout=2)
        except nats.errors.TimeoutError:
            if not attempts_left:
                raise
        else:
            found: dict[str, Any] = json.loads(answer.data)
            return found
    raise AssertionError


async def create(client: Client, name: str, replicas: int = 3, **more: Any) -> dict[str, Any]:
    return await call(client, f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], num_replicas=replicas, **more)


async def published(client: Client, subject: str, payload: bytes) -> int:
    """Publish until somebody leads the stream; the sequence."""
    found: list[int] = []

    async def attempt() -> bool:
        try:
            ack = await client.jetstream().publish(subject, payload, timeout=1)
        except (
            APIError,
            nats.errors.TimeoutError,
            nats.errors.NoRespondersError,
            nats.js.errors.NoStreamResponseError,
        ):
            return False
        found.append(ack.seq)
        return True

    while not await attempt():
        pass
    return found[0]
