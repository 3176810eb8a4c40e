"""Every page on a phone, a tablet and a desktop: nothing is cut off, nothing has to be scrolled sideways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from slipstream.bulk import ConnectOptions
from slipstream.bulk import connect as connect_bulk
from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1440, 900)}
LONG = "loader-of-the-warehouse-in-eu-central-1-that-somebody-generated"
# A page, what has to be there before it is looked at, and what is opened in it afterwards.
PLACES = [
    ("overview", ".list tr", ""),
    ("streams", ".streams .scroll .row", ""),
    ("stream/ORDERS", ".words li", ""),
    ("stream/ORDERS/subjects", ".subjects .scroll .row", ""),
    ("stream/ORDERS/messages", ".messages .scroll .row", ".messages .scroll .row"),
    ("stream/ORDERS/consumers", ".consumers .scroll .row", ".consumers .scroll .row"),
    ("kv", ".buckets .scroll .row", ""),
    ("kv/settings", ".keys-table .scroll .row", ".keys-table .scroll .row"),
    ("objects", ".stores .scroll .row", ""),
    ("objects/invoices", ".objects-table .scroll .row", ".objects-table .scroll .row"),
    ("dead", ".letters .scroll .row", ".letters .scroll .row"),
    ("connections", ".clients .scroll .row", ".clients .scroll .row"),
    ("connections/rights", ".facts", ""),
    ("pipeline", ".readers .scroll .row", ""),
]
# What ends outside of what it stands in: the window, or its table. Cells whose text does not fit end in an ellipsis.
CUT_OFF = """() => {
  const found = [];
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const look = (node, edge) => {
    const { width, height, right } = node.getBoundingClientRect();
    const name = `${node.tagName} ${node.className}`;
    if (width && height && right > edge + 1) found.push(`${name} ends at ${Math.round(right)} of ${Math.round(edge)}`);
  };
  const edge = (node) => node.getBoundingClientRect().right;
  for (const part of [".side :is(a, button)", "main :is(.head, .tile, .bar) *", "main .card", "dialog *"]) {
    for (const node of all(part)) look(node, innerWidth);
  }
  for (const frame of all("main .table, main .detail")) look(frame, innerWidth);
  for (const table of all(".table")) for (const cell of all(".cell", table)) look(cell, edge(table));
  for (const detail of all(".detail")) for (const node of all("*", detail)) look(node, edge(detail));
  for (const { textContent, scrollWidth, clientWidth } of all(".tile .note")) {
    if (scrollWidth > clientWidth) found.push(`${textContent} is cut`);
  }
  return found;
}"""


@pytest.fixture
def shop() -> Iterator[ServerThread]:
    """A server with something on every page."""
    here = {"http_host": "127.0.0.1", "http_port": -1}
    with (
        ServerThread(port=-1, jetstream=True, server_name="shop", **here) as server,
        connect(server.url, name=LONG) as client,
        connect_bulk(ConnectOptions(server.url)) as bulk,
    ):
        jetstream = client.jetstream()
        jetstream.create_stream("DEAD", subjects=["dead.>"])
        jetstream.create_stream(f"stream-{LONG}", subjects=[f"generated.{LONG}.>"])
        orders = jetstream.create_stream("ORDERS", subjects=["orders.>"], description="What customers ordered.")
        consumer = orders.create_consumer(LONG, metadata={"slipstream.dlq": "dead.orders"})
        for number in range(1200):
            jetstream.publish(
                f"orders.eu.{LONG}.{number % 3}", b'{"city": "oslo"}', headers={"Nats-Msg-Id": str(number)}
            )
        for message in consumer.fetch(3):
            message.term(f"refused by the {LONG}")
        jetstream.create_kv("settings", history=5)["feature.checkout"] = b"true"
        jetstream.create_objects("invoices").put(f"2026/11/{LONG}.pdf", b"x" * 70_000)
        bulk.hold("ORDERS", 3, by=f"table s3://{LONG}/orders")
        yield server


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_cut_off(shop: ServerThread, dashboard: Opener, size: str) -> None:
    width, height = SIZES[size]
    window = dashboard(shop, viewport={"width": width, "height": height})
    cut: list[str] = []
    for place, there, opened in PLACES:
        page = window.go(place)
        expect(page.locator(there).first).to_be_visible()
        cut += _cut_off(page, place)
        if opened:
            page.locator(opened).first.click()
            expect(page.locator(".detail")).to_be_visible()
            cut += _cut_off(page, f"{place}, opened")
    window.go("streams")
    page.get_by_role("button", name="New stream").click()
    cut += _cut_off(page, "a new stream")
    assert cut == []


def _cut_off(page: Page, place: str) -> list[str]:
    return [f"{place}: {what}" for what in page.evaluate(CUT_OFF)]


def test_a_copy_that_misses_what_came_just_now_is_not_behind(shop: ServerThread, dashboard: Opener) -> None:
    page = dashboard(shop).page
    expect(page.locator(".list tr").first).to_be_visible()
    said = page.evaluate("""async () => {
      const { trouble } = await import("./copies.js");
      const peers = [
        [{ current: true }], [{ current: false, lag: 1 }], [{ current: false, lag: 900 }, 1000],
        [{ current: false, lag: 900 }, 10], [{ current: false }], [{ current: false, offline: true, lag: 1 }],
      ];
      return peers.map(([peer, rate]) => trouble({ leader: "a", replicas: [{ name: "b", ...peer }] }, rate));
    }""")
    assert said == ["", "", "", "b behind", "b behind", "b offline"]
