"""The pictures of the documentation: `make pictures` takes them anew, from a server that is at work."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

PICTURES = Path(__file__).parents[2] / "docs" / "images"
CITIES = ("berlin", "lisbon", "oslo", "porto", "turin")
SIZE = {"width": 1280, "height": 760}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif("SLIPSTREAM_PICTURES" not in os.environ, reason="they are kept with the documentation"),
]


@pytest.fixture
def shop() -> Iterator[ServerThread]:
    """A server with orders that keep coming and consumers that nobody reads from."""
    stop = threading.Event()

    def work() -> None:
        with connect(server.url) as client:
            jetstream = client.jetstream()
            number = 0
            while not stop.wait(0.02):
                number += 1
                city = CITIES[number % len(CITIES)]
                order = {"id": number, "city": city, "item": "espresso machine", "cents": 12_900 + number}
                jetstream.publish(f"orders.{city}", json.dumps(order).encode(), headers={"Nats-Msg-Id": f"o-{number}"})

    here: Any = {"http_host": "127.0.0.1", "http_port": -1}
    with (
        ServerThread(port=-1, jetstream=True, server_name="demo", **here) as server,
        connect(server.url) as client,
    ):
        jetstream = client.jetstream()
        jetstream.create_stream("ORDERS", subjects=["orders.>"], description="What customers ordered, for a week.")
        jetstream.create_stream("PAYMENTS", subjects=["payments.>"], retention="workqueue")
        for name in ("billing", "shipping"):
            config = {"name": name, "durable_name": name, "ack_policy": "explicit"}
            body = json.dumps({"stream_name": "ORDERS", "config": config}).encode()
            client.request(f"$JS.API.CONSUMER.CREATE.ORDERS.{name}", body)
        worker = threading.Thread(target=work)
        worker.start()
        yield server
        stop.set()
        worker.join()


def test_pictures(shop: ServerThread, dashboard: Opener) -> None:
    PICTURES.mkdir(exist_ok=True)
    page = dashboard(shop, viewport=SIZE).page
    # So many that the charts have something to show.
    messages = page.get_by_role("row", name="ORDERS").get_by_role("cell").nth(2)
    expect(messages).to_have_text(re.compile(r"^[4-9]\d\d$|,"), timeout=60_000)
    page.screenshot(path=PICTURES / "overview.png")
    page = dashboard(shop, "stream/ORDERS/messages", viewport=SIZE).page
    page.locator(".messages .scroll .row").nth(2).click()
    expect(page.locator(".payload pre")).to_contain_text("espresso")
    page.screenshot(path=PICTURES / "messages.png")
    page = dashboard(shop, "stream/ORDERS/consumers", viewport=SIZE).page
    page.locator(".consumers .scroll .row").first.click()
    expect(page.locator(".why li").first).to_be_visible()
    page.screenshot(path=PICTURES / "consumers.png")
