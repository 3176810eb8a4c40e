"""A web application on JetStream: an order that was answered with 202 is stored, whatever happens afterwards.

pip install fastapi httpx
python examples/integrations/fastapi_orders.py

The application (`app`) is what you would give to uvicorn, with NATS_URL in its environment; `main` plays its clients.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from nats.js.errors import KeyNotFoundError

from slipstream.testing import ServerThread


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One connection for all requests of this process."""
    client = await nats.connect(os.environ["NATS_URL"])
    app.state.jetstream = client.jetstream()
    await app.state.jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
    app.state.orders = await app.state.jetstream.create_key_value(bucket="order-states")
    yield
    await client.drain()


app = FastAPI(lifespan=lifespan)


@app.put("/orders/{number}", status_code=202)
async def put_order(number: str, order: dict[str, Any]) -> dict[str, int]:
    """Store an order; a request that is sent again does not store it twice."""
    body = json.dumps(order).encode()
    ack = await app.state.jetstream.publish(f"orders.{number}", body, headers={"Nats-Msg-Id": number})
    if not ack.duplicate:
        await app.state.orders.put(number, b"received")
    return {"seq": ack.seq}


@app.get("/orders/{number}")
async def get_order(number: str) -> dict[str, str]:
    """What became of an order."""
    try:
        entry = await app.state.orders.get(number)
    except KeyNotFoundError:
        raise HTTPException(404, "no such order") from None
    return {"state": (entry.value or b"").decode()}


def main() -> None:
    """A server, the application, and a client that sends one of its requests twice."""
    with ServerThread(port=-1, jetstream=True) as server:
        os.environ["NATS_URL"] = server.url
        with TestClient(app) as client:
            first = client.put("/orders/17", json={"tea": 2}).json()
            again = client.put("/orders/17", json={"tea": 2}).json()
            other = client.put("/orders/18", json={"tea": 1}).json()
            print("stored as", first, again, other)
            assert first == again == {"seq": 1} and other == {"seq": 2}
            assert client.get("/orders/17").json() == {"state": "received"}
            assert client.get("/orders/99").status_code == 404


if __name__ == "__main__":
    main()
