"""The first page: figures that move, what happens as it happens; light, dark, on a phone; and quickly there."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener


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


@pytest.mark.parametrize("width", [360, 820, 1440])
def test_nothing_sticks_out_at_any_width(server: ServerThread, dashboard: Opener, width: int) -> None:
    with connect(server.url) as client:
        client.jetstream().create_stream("W" * 60, subjects=["w.>"], description="x" * 300)
        client.jetstream().publish("w.1", b"x" * 3000, headers={"Long": "y" * 500})
    window = dashboard(server, viewport={"width": width, "height": 740})
    page = window.page
    for place in ("overview", "streams", f"stream/{'W' * 60}", f"stream/{'W' * 60}/messages"):
        window.go(place)
        expect(page.locator("h1")).to_be_visible()
        if place.endswith("messages"):
            page.locator(".messages .scroll .row").click()
        expect(page.locator("main")).to_contain_text("W")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('main').scrollWidth") <= width


def test_all_of_the_first_page_is_small(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, "streams").page
    expect(page.get_by_text("There are no streams yet.")).to_be_visible()
    sizes = page.evaluate("performance.getEntriesByType('resource').map((each) => each.transferSize)")
    assert 0 < sum(sizes) < 250 * 1024
