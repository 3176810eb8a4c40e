"""Connections, accounts, services, rights and clusters in the browser."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from slipstream.config.account_options import (
    AccountOptions,
    AuthorizationOptions,
    PermissionsOptions,
    SubjectPermissionOptions,
    UserOptions,
)
from slipstream.config.listener_options import ClusterOptions
from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

HTTP = {"port": -1, "http_host": "127.0.0.1", "http_port": -1}
EVIL = "<img src=x onerror=alert(1)>"
ROWS = ".clients .scroll .row"


def log_in(page: Page, user: str) -> None:
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password").fill(f"{user}-secret")
    page.get_by_role("button", name="Log in").click()


def test_a_user_sees_its_account_and_the_system_sees_all(dashboard: Opener) -> None:
    accounts = tuple(
        AccountOptions(name, users=(UserOptions(name.lower(), f"{name.lower()}-secret"),)) for name in ("A", "B", "SYS")
    )
    with (
        ServerThread(accounts=accounts, system_account="SYS", **HTTP) as server,
        connect(server.url, user="a", password="a-secret", name=EVIL) as one,
        connect(server.url, user="b", password="b-secret", name="of B"),
        one.subscribe(f"s.{EVIL.replace(' ', '_')[:-1]}"),
    ):
        one.flush()
        window = dashboard(server, "connections")
        page = window.page
        log_in(page, "a")
        expect(page.locator(ROWS)).to_have_count(2)
        expect(page.get_by_text("2 connections of this account")).to_be_visible()
        page.get_by_role("row", name=EVIL).click()
        expect(page.locator(".detail")).to_contain_text("s.<img_src=x_onerror=alert(1)")
        expect(page.locator(".detail dt", has_text="User").locator("+ dd")).to_have_text("a")  # not its account
        page.get_by_label("Filter connections").fill("dashboard")
        expect(page.locator(ROWS)).to_have_count(1)
        window.go("connections/accounts")
        expect(page.locator("tbody tr")).to_have_count(4)
        page.get_by_role("button", name="Log out a").click()

        window.go("connections")
        log_in(page, "sys")
        expect(page.get_by_text("3 connections of all accounts")).to_be_visible()
        expect(page.locator(ROWS, has_text="of B")).to_be_visible()


@pytest.mark.parametrize(
    ("verb", "subject", "answer", "why"),
    [
        ("Publish", "orders.eu", "yes", "allowed by orders.>"),
        ("Publish", "orders.secret", "no", "denied by orders.secret"),
        ("Publish", "other", "no", "not in the list of what is allowed"),
        ("Publish", "orders.*", "", "That is no subject for this."),
        ("Subscribe", "orders.>", "yes", "allowed by >, without what orders.secret denies"),
        ("Subscribe", "orders.secret", "no", "denied by orders.secret"),
    ],
)
def test_may_i(dashboard: Opener, verb: str, subject: str, answer: str, why: str) -> None:
    permissions = PermissionsOptions(
        SubjectPermissionOptions(allow=("orders.>", "$SYS.REQ.USER.INFO"), deny=("orders.secret",)),
        SubjectPermissionOptions(allow=(">",), deny=("orders.secret",)),
    )
    users = (UserOptions("ann", "ann-secret", permissions=permissions),)
    with ServerThread(authorization=AuthorizationOptions(users=users), **HTTP) as server:
        page = dashboard(server, "connections/rights").page
        log_in(page, "ann")
        expect(page.get_by_text("May publish to")).to_be_visible()
        page.get_by_role("button", name=verb, exact=True).click()
        page.get_by_label("Subject").fill(subject)
        card = page.locator(".card").first
        expect(card).to_contain_text(why)
        if answer:
            expect(card.locator(".badge")).to_have_text(answer)
        page.close()


def test_services(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client, client.subscribe("$SRV.INFO") as asked:
        page = dashboard(server, "connections/services").page
        info = {"name": EVIL, "version": "1.2.3", "id": "x1", "endpoints": [{"subject": "svc.add"}]}
        request = asked.next(timeout=10)
        client.publish(request.reply, json.dumps(info).encode())
        expect(page.get_by_role("row", name="1.2.3")).to_contain_text(EVIL)
        expect(page.get_by_role("row", name="1.2.3")).to_contain_text("svc.add")


def test_a_cluster_has_a_page(dashboard: Opener) -> None:
    here = "127.0.0.1"
    with ServerThread(server_name="n1", cluster=ClusterOptions(name="c", host=here, port=-1), **HTTP) as one:
        assert one.server.routes is not None
        routes = (f"nats-route://{here}:{one.server.routes.port}",)
        cluster = ClusterOptions(name="c", host=here, port=-1, routes=routes)
        with ServerThread(server_name="n2", cluster=cluster, **HTTP) as other:
            page = dashboard(other).page
            page.get_by_role("link", name="Cluster").click()
            expect(page.get_by_role("row", name="n2")).to_contain_text("this one")
            expect(page.get_by_role("row", name="n1")).to_be_visible()
            expect(page.get_by_text("2 servers")).to_be_visible()
            page.close()


def test_a_server_alone_has_none(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, "connections").page
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.get_by_role("link", name="Cluster")).to_have_count(0)
