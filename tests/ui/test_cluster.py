"""Who leads what in a cluster, who is behind, and another leader by a click."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from slipstream.testing import ServerThread
from support.ports import free_port
from support.server_process import ServerProcess
from support.three_servers import three_servers
from ui.conftest import Opener

pytest.importorskip("slipstream_raft")


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[dict[str, ServerProcess], str]]:
    """Servers of a cluster by their names, and the address of the first one's dashboard."""
    port = free_port()
    with three_servers(tmp_path, f'http: "127.0.0.1:{port}"') as servers:
        yield servers, f"http://127.0.0.1:{port}/ui/"


def test_leaders_and_those_behind(three: tuple[dict[str, ServerProcess], str], dashboard: Opener) -> None:
    servers, url = three
    page = dashboard(url, "cluster").page
    expect(page.locator(".meta")).to_contain_text("leader")
    expect(page.locator(".meta tbody tr")).to_have_count(3)
    assert sorted(page.locator(".meta tbody strong").all_inner_texts()) == sorted(servers)
    expect(page.get_by_text("No stream of this account has copies.")).to_be_visible()

    _show_before_it_was_founded(page)
    page.get_by_role("link", name="Streams", exact=True).click()
    page.get_by_role("button", name="New stream").click()
    page.get_by_label("Name").fill("ORDERS")
    page.get_by_label("Subjects").fill("orders")
    page.get_by_label("Copies").select_option("3")
    page.get_by_role("button", name="Create").click()
    rows = page.locator(".copies tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("leader")
    first = rows.first.locator("strong").inner_text()
    expect(page.locator(".copies").get_by_text("current")).to_have_count(2)

    page.get_by_role("button", name="Step down").click()
    page.get_by_role("dialog").get_by_role("button", name="Step down").click()
    expect(rows.first.locator("strong")).to_have_text(re.compile(f"n[^{first[1]}]"))
    expect(page.locator(".copies").get_by_text("current")).to_have_count(2)

    victim = next(name for name in servers if name not in {"n0", rows.first.locator("strong").inner_text()})
    servers[victim].kill()
    expect(page.locator(".copies").get_by_text("offline")).to_be_visible()
    page.get_by_role("link", name="Cluster", exact=True).click()
    row = page.get_by_role("table", name="Streams with copies").get_by_role("row", name="ORDERS")
    expect(row).to_contain_text(f"{victim} offline")


def _show_before_it_was_founded(page: Page) -> None:
    """As if the page had been opened before the servers agreed on anything."""

    def without_meta(route: Route) -> None:
        answer = route.fetch()
        jetstream = answer.json()["jetstream"]
        route.fulfill(response=answer, json={**answer.json(), "jetstream": {**jetstream, "meta": None}})

    page.route("**/varz", without_meta, times=1)
    with page.expect_response("**/varz"):
        page.reload()


def test_a_copy_that_misses_what_came_just_now_is_not_behind(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server).page
    expect(page.get_by_text("There are no streams yet.")).to_be_visible()
    said = page.evaluate("""async () => {
      const { trouble } = await import("./copies.js");
      const peers = [
        [{ current: true }], [{ current: false, lag: 1 }], [{ current: false, lag: 900 }, 1000],
        [{ current: false, lag: 900 }, 10], [{ current: false }], [{ current: false, offline: true, lag: 1 }],
      ];
      return peers.map(([peer, rate]) => trouble({ leader: "a", replicas: [{ name: "b", ...peer }] }, rate));
    }""")
    assert said == ["", "", "", "b behind", "b behind", "b offline"]
