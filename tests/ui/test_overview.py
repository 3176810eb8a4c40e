"""The first page: figures that move, what happens as it happens; light, dark, on a phone; and quickly there."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

LONG = "W" * 60
PICTURES = Path(__file__).parents[2] / "build" / "screens"


def test_figures_and_events(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server).page
    tile = '[data-tile="{}"] strong'
    expect(page.locator(tile.format("Streams"))).to_have_text("0")
    with connect(server.url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream("BUSY", subjects=["busy"])
        expect(page.locator(".events li").first).to_contain_text("Stream BUSY: create")
        expect(page.locator(tile.format("Streams"))).to_have_text("1")
        for _ in range(500):
            jetstream.publish("busy", bytes(1000))
        expect(page.locator(tile.format("Messages in"))).to_contain_text("/s")
        expect(page.locator(tile.format("Round trip"))).to_contain_text("s")
        expect(page.locator(tile.format("Connections"))).to_have_text("2")
        expect(page.get_by_role("row", name="BUSY")).to_contain_text("500")
        expect(page.locator(tile.format("Stored"))).to_have_text("505 KiB")
        expect(page.locator(tile.format("Sync"))).to_contain_text("s")
        expect(page.locator('[data-tile="Sync"] .note')).to_contain_text("syncs")
        jetstream.delete_stream("BUSY")
        expect(page.locator(".events li").first).to_contain_text("Stream BUSY: delete")


def test_light_and_dark(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, color_scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    dark = page.evaluate(ground)
    for theme, same in (("dark", True), ("light", False)):
        page.get_by_title("Light, dark or as the system").click()
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert (page.evaluate(ground) == dark) is same
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


# Page, what is clicked in it, and what is seen then.
SCREENS = (
    ("overview", "", ".list a"),
    ("streams", "", ".streams .scroll .row"),
    (f"stream/{LONG}", "", ".words li"),
    (f"stream/{LONG}/messages", ".messages .scroll .row", ".payload pre"),
    (f"stream/{LONG}/subjects", "", ".subjects .scroll .row"),
    (f"stream/{LONG}/consumers", ".consumers .scroll .row", ".why li"),
    ("kv", "", ".buckets .scroll .row"),
    (f"kv/{LONG}", ".keys-table .scroll .row", ".history td"),
    ("objects", "", ".stores .scroll .row"),
    (f"objects/{LONG}", ".objects-table .scroll .row", ".detail dd"),
    ("dead", ".letters .scroll .row", ".payload pre"),
    ("connections", ".clients .scroll .row", ".detail dd"),
    ("connections/accounts", "", "tbody td"),
    ("connections/services", "", ".empty"),
    ("connections/rights", "", ".card"),
    ("pipeline", "", ".readers .scroll .row"),
    ("audit", "", ".empty"),
    ("cluster", "", "tbody td"),
)

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
  for (const detail of all(".detail")) for (const node of all(":scope > *, button", detail)) look(node, edge(detail));
  for (const { textContent, scrollWidth, clientWidth } of all(".tile .note, .tile .label")) {
    if (scrollWidth > clientWidth) found.push(`${textContent} is cut`);
  }
  return found;
}"""


def fill(server: ServerThread) -> None:
    """Everything there is to see, with names as long as they may get."""
    with connect(server.url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream("DEAD", subjects=["dead.>"])
        long = jetstream.create_stream(LONG, subjects=["w.>"], description="x" * 300)
        worker = long.create_consumer(LONG, metadata={"slipstream.dlq": f"dead.{LONG}"})
        jetstream.publish(f"w.{LONG}", b"x" * 3000, headers={"Long": "y" * 500})
        worker.fetch(1)[0].term("z" * 300)
        bucket = jetstream.create_kv(LONG, history=5)
        bucket[LONG] = b"v" * 1000
        bucket[LONG] = b"w" * 1000
        jetstream.create_objects(LONG).put(LONG, b"o" * 1000)
        jetstream.api(f"BULK.HOLD.{LONG}", {"first": 1, "by": f"table s3://{LONG}/{LONG}"})


@pytest.mark.parametrize("width", [360, 820, 1280, 1440])
def test_nothing_sticks_out_at_any_width(server: ServerThread, dashboard: Opener, width: int) -> None:
    """It leaves a picture of each screen in build/screens."""
    fill(server)
    window = dashboard(server, viewport={"width": width, "height": 740})
    page = window.page
    for place, clicked, seen in SCREENS:
        window.go(place)
        if clicked:
            expect(page.locator(clicked).first).to_be_visible()
            assert page.evaluate(CUT_OFF) == [], place
            page.locator(clicked).first.click()
        expect(page.locator(seen).first).to_be_visible()
        page.screenshot(path=PICTURES / f"{place.replace(LONG, 'long').replace('/', '-')}-{width}.png")
        assert page.evaluate(CUT_OFF) == [], place
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        assert page.evaluate("document.querySelector('main').scrollWidth") <= width, place


def test_all_of_the_first_page_is_small(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, "streams").page
    expect(page.get_by_text("There are no streams yet.")).to_be_visible()
    sizes = page.evaluate("performance.getEntriesByType('resource').map((each) => each.transferSize)")
    assert 0 < sum(sizes) < 250 * 1024
