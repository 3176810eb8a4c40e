"""Who reads in bulk and how far behind; what was done to the server, for those who may know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from slipstream.bulk import ConnectOptions
from slipstream.bulk import connect as connect_bulk
from slipstream.sync import connect
from slipstream.testing import ServerThread
from support.ports import free_port
from support.server_process import ServerProcess
from support.servers import server_binary
from ui.conftest import Opener
from ui.test_rights import log_in

MANY = 650  # streams: more than the page asks about in one go


def test_readers_and_their_lag(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, "pipeline").page
    expect(page.get_by_text("Nothing reads in bulk just now.")).to_be_visible()
    with connect(server.url) as client, connect_bulk(ConnectOptions(server.url)) as bulk:
        jetstream = client.jetstream()
        jetstream.create_stream("ORDERS", subjects=["orders"])
        for _ in range(12):
            jetstream.publish("orders", b"x")
        hold = bulk.hold("ORDERS", 3, by="table s3://lake/orders")
        row = page.get_by_role("row", name="table s3://lake/orders")
        expect(row).to_contain_text("ORDERS")
        expect(row.get_by_role("cell").nth(3)).to_have_text("10")
        assert bulk.hold("ORDERS", 13, hold_id=hold) == hold  # keeps its name
        expect(row.get_by_role("cell").nth(3)).to_have_text("0")
        bulk.release("ORDERS", hold)
        expect(row).to_have_count(0)


def test_a_reader_among_many_streams(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        for number in range(MANY):
            jetstream.create_stream(f"S{number:04}", subjects=[f"s.{number}"], storage="memory")
        jetstream.api(f"BULK.HOLD.S{MANY - 1:04}", {"first": 1, "by": "spark query last"})
    page = dashboard(server, "pipeline").page
    expect(page.get_by_role("row", name="spark query last")).to_be_visible()
    expect(page.get_by_text("1 reader", exact=True)).to_be_visible()


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[tuple[ServerProcess, str]]:
    """A server that keeps an audit trail, and the address of its dashboard."""
    port = free_port()
    config = f"""
        http: "127.0.0.1:{port}"
        jetstream {{ store_dir: "{tmp_path}/js", audit: true }}
        accounts {{
          SYS {{ users: [{{user: system, password: system-secret}}] }}
          A {{ jetstream: enabled, users: [{{user: a, password: a-secret}}] }}
        }}
        system_account: SYS
    """
    server = ServerProcess(server_binary("ours"), tmp_path, config=config)
    with server:
        yield server, f"http://127.0.0.1:{port}/ui/"


def test_the_audit_trail(audited: tuple[ServerProcess, str], dashboard: Opener) -> None:
    server, url = audited
    with connect(server.url, user="a", password="a-secret") as client:
        client.jetstream().create_stream("ORDERS", subjects=["orders"])
    page = dashboard(url, "overview").page
    log_in(page, "system")
    page.get_by_role("link", name="Audit", exact=True).click()
    row = page.get_by_role("row", name="stream.create")
    expect(row).to_contain_text("ORDERS")
    expect(row).to_contain_text("ok")
    with connect(server.url, user="a", password="a-secret") as client:
        client.jetstream().delete_stream("ORDERS")
    expect(page.get_by_role("row", name="stream.delete")).to_be_visible()
    page.get_by_label("Filter actions").fill("create")
    expect(page.get_by_role("row", name="stream.delete")).to_have_count(0)
    row.click()
    expect(page.locator(".detail pre")).to_contain_text('"user": "a"')


def test_others_do_not_see_it(audited: tuple[ServerProcess, str], dashboard: Opener) -> None:
    window = dashboard(audited[1], "overview")
    log_in(window.page, "a")
    expect(window.page.get_by_role("link", name="Pipeline")).to_be_visible()
    expect(window.page.get_by_role("link", name="Audit")).to_have_count(0)
    window.go("audit")
    expect(window.page.get_by_text("No audit trail is kept, or this user is not of the system account")).to_be_visible()
