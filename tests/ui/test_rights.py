"""The user's rights are the page's rights, and nothing that anybody stores is run."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from slipstream.config.account_options import (
    AuthorizationOptions,
    PermissionsOptions,
    SubjectPermissionOptions,
    UserOptions,
)
from slipstream.sync import connect
from slipstream.testing import ServerThread
from support.server_process import ServerProcess
from support.servers import server_binary
from ui.conftest import Opener

READS = (
    *("$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.*"),
    *("$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.INFO.>"),
    *("$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>", "$SYS.REQ.USER.INFO"),
)
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'><svg/onload=alert(3)>{{7*7}}"
# Names cannot have blanks, dots, slashes or wildcards, and `>` is one.
EVIL_NAME = "<svg\"onload=alert(1)'&lt;img&gt;{{7}}<!--"


def rights(publish: tuple[str, ...], subscribe: tuple[str, ...]) -> PermissionsOptions:
    return PermissionsOptions(SubjectPermissionOptions(allow=publish), SubjectPermissionOptions(allow=subscribe))


@pytest.fixture
def guarded() -> Iterator[ServerThread]:
    """A server with an administrator, a reader and somebody who may do nothing."""
    users = (
        UserOptions("admin", "admin-secret"),
        UserOptions("reader", "reader-secret", permissions=rights(READS, ("_INBOX.>",))),
        UserOptions("none", "none-secret", permissions=rights(("nothing",), ("_INBOX.>",))),
    )
    options = {"http_host": "127.0.0.1", "http_port": -1, "jetstream": True}
    with ServerThread(port=-1, authorization=AuthorizationOptions(users=users), **options) as server:
        with connect(server.url, user="admin", password="admin-secret") as client:
            jetstream = client.jetstream()
            jetstream.create_stream("ORDERS", subjects=["orders.>"])
            jetstream.publish("orders.1", b"one")
        yield server


def log_in(page: Page, user: str, password: str = "") -> None:
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password").fill(password or f"{user}-secret")
    page.get_by_role("button", name="Log in").click()


def test_who_is_not_known_does_not_get_in(guarded: ServerThread, dashboard: Opener) -> None:
    page = dashboard(guarded, "streams").page
    log_in(page, "admin", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("does not know this user")
    expect(page.get_by_label("Password")).to_have_value("")
    log_in(page, "admin")
    expect(page.get_by_role("row", name="ORDERS")).to_be_visible()
    # Nothing of it is stored in the browser.
    stored = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert "admin" not in stored and "secret" not in stored
    page.get_by_role("button", name="Log out admin").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_reader_sees_everything_and_changes_nothing(guarded: ServerThread, dashboard: Opener) -> None:
    page = dashboard(guarded, "streams").page
    log_in(page, "reader")
    page.get_by_role("row", name="ORDERS").click()
    expect(page.get_by_text("Stores what is published to orders.>.")).to_be_visible()
    form = page.locator("dialog")
    denied = "This user may not publish to $JS.API.STREAM.{}.ORDERS."

    page.get_by_role("button", name="Change").click()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text(denied.format("UPDATE"))
    page.keyboard.press("Escape")
    for verb in ("Purge", "Delete"):
        page.get_by_role("button", name=verb).click()
        form.get_by_label("Type ORDERS to confirm").fill("ORDERS")
        form.get_by_role("button", name=verb).click()
        expect(form.get_by_role("alert")).to_have_text(denied.format(verb.upper()))
        page.keyboard.press("Escape")
    page.get_by_role("button", name="Publish").click()
    form.get_by_label("Subject").fill("orders.2")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("alert")).to_have_text("This user may not publish to orders.2.")
    page.keyboard.press("Escape")

    page.get_by_role("link", name="Messages").click()
    page.locator(".messages .scroll .row").click()
    expect(page.get_by_label("Message 1").locator("pre")).to_have_text("one")
    page.get_by_label("Message 1").get_by_role("button", name="Delete").click()
    form.get_by_label("Type 1 to confirm").fill("1")
    form.get_by_role("button", name="Delete").click()
    expect(form.get_by_role("alert")).to_contain_text("may not publish to $JS.API.STREAM.MSG.DELETE.ORDERS")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("This user may not subscribe to $JS.EVENT.ADVISORY")).to_be_visible()
    with connect(guarded.url, user="admin", password="admin-secret") as client:
        assert [message.data for message in client.jetstream().stream("ORDERS").read()] == [b"one"]


def test_a_reader_changes_no_consumer_key_object_or_letter(guarded: ServerThread, dashboard: Opener) -> None:
    with connect(guarded.url, user="admin", password="admin-secret") as client:
        jetstream = client.jetstream()
        orders = jetstream.stream("ORDERS")
        jetstream.create_stream("DEAD", subjects=["dead.>"])
        orders.create_consumer("c", metadata={"slipstream.dlq": "dead.c"}).fetch(1)[0].term("why not")
        jetstream.create_kv("b")["k"] = b"v"
        jetstream.create_objects("o").put("f", b"content")
    window = dashboard(guarded, "stream/ORDERS/consumers")
    page = window.page
    form, refused = page.locator("dialog"), page.locator("dialog").get_by_role("alert")
    log_in(page, "reader")
    page.locator(".consumers .scroll .row").click()
    for verb, said in (("Pause", "PAUSE"), ("Reset", "RESET"), ("Delete", "DELETE")):
        page.locator(".detail").get_by_role("button", name=verb).click()
        if verb != "Pause":
            form.get_by_label("Type c to confirm").fill("c")
        form.get_by_role("button", name=verb).click()
        expect(refused).to_have_text(f"This user may not publish to $JS.API.CONSUMER.{said}.ORDERS.c.")
        page.keyboard.press("Escape")

    window.go("kv/b")
    page.locator(".keys-table .scroll .row").click()
    page.get_by_role("button", name="Edit").click()
    form.get_by_label("Value").fill("changed")
    form.get_by_role("button", name="Save").click()
    expect(refused).to_have_text("This user may not publish to $KV.b.k.")
    page.keyboard.press("Escape")
    page.locator(".detail").get_by_role("button", name="Delete").click()
    expect(page.locator(".toasts")).to_contain_text("This user may not publish to $KV.b.k.")

    window.go("dead")
    page.locator(".letters .scroll .row").click()
    page.locator(".detail").get_by_role("button", name="Redrive").click()
    form.get_by_role("button", name="Redrive").click()
    expect(refused).to_have_text("This user may not publish to orders.1.")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Redrive all shown").click()
    form.get_by_label("Type 1 to confirm").fill("1")
    form.get_by_role("button", name="Redrive").click()
    expect(refused).to_have_text("This user may not publish to orders.1.")
    page.keyboard.press("Escape")
    page.locator(".detail").get_by_role("button", name="Delete").click()
    form.get_by_label("Type 1 to confirm").fill("1")
    form.get_by_role("button", name="Delete").click()
    expect(refused).to_have_text("This user may not publish to $JS.API.STREAM.MSG.DELETE.DEAD.")
    page.keyboard.press("Escape")

    window.go("pipeline")
    expect(page.get_by_role("alert")).to_have_text(re.compile("This user may not publish to .*BULK.INFO."))

    window.go("objects/o")
    page.get_by_label("Upload").set_input_files({"name": "g", "mimeType": "text/plain", "buffer": b"x"})
    expect(page.locator(".toasts")).to_contain_text("This user may not publish to $O.o.C.")
    with connect(guarded.url, user="admin", password="admin-secret") as client:
        jetstream = client.jetstream()
        assert jetstream.kv("b").get("k").value == b"v"
        assert [each.name for each in jetstream.objects("o").list()] == ["f"]
        assert [each.name for each in jetstream.stream("ORDERS").consumers()] == ["c"]
        assert [message.data for message in jetstream.stream("ORDERS").read()] == [b"one"]
        assert len(list(jetstream.stream("DEAD").read())) == 1


def test_who_may_nothing_is_told_so(guarded: ServerThread, dashboard: Opener) -> None:
    page = dashboard(guarded, "streams").page
    log_in(page, "none")
    expect(page.get_by_role("alert")).to_have_text("This user may not publish to $JS.API.STREAM.LIST.")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("This user may not publish to $JS.API.INFO.")).to_be_visible()


def test_a_token_and_a_seed(dashboard: Opener) -> None:
    options = {"http_host": "127.0.0.1", "http_port": -1, "jetstream": True}
    with ServerThread(port=-1, authorization=AuthorizationOptions(token="s3cret"), **options) as server:
        page = dashboard(server, "streams").page
        page.get_by_role("button", name="Token").click()
        page.get_by_label("Token").fill("s3cret")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("There are no streams yet.")).to_be_visible()
        page.close()

    import nkeys

    pair = nkeys.from_seed(b"SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY")
    users = (UserOptions(nkey=pair.public_key.decode()),)
    with ServerThread(port=-1, authorization=AuthorizationOptions(users=users), **options) as server:
        page = dashboard(server, "streams").page
        page.get_by_role("button", name="Credentials file").click()
        page.get_by_label("or its text").fill("SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GA")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("cut or mistyped")
        page.get_by_label("or its text").fill(pair.seed.decode())
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("There are no streams yet.")).to_be_visible()
        page.close()


def test_markup_in_every_field_is_text(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        name = EVIL_NAME
        metadata = {EVIL: EVIL, "slipstream.dlq": "dead.letters"}
        jetstream.create_stream(name, subjects=[f"{name}.>"], description=EVIL, metadata=metadata)
        jetstream.publish(f"{name}.{name}", EVIL.encode(), headers={"X-Evil": EVIL})
        window = dashboard(server, "overview")
        page = window.page
        expect(page.get_by_role("link", name=name)).to_be_visible()
        jetstream.stream(name).create_consumer("<svg-onload=alert(4)")
        expect(page.locator(".events li")).to_contain_text("<svg-onload=alert(4)")
        client.publish(
            "$JS.EVENT.ADVISORY.STREAM.X", b'{"type":"x.stream_action","stream":"<b onclick=alert(5)>{{7*7}}</b>"}'
        )
        expect(page.locator(".events li")).to_have_count(2)
        page.get_by_role("link", name=name).click()
        expect(page.get_by_text(EVIL).first).to_be_visible()
        page.get_by_role("button", name="Delete").click()
        expect(page.get_by_label(f"Type {name} to confirm")).to_be_visible()
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Subjects").click()
        expect(page.locator(".subjects .scroll .row")).to_have_count(2)
        page.get_by_role("link", name="Messages", exact=True).first.click()
        page.locator(".messages .scroll .row").first.click()
        expect(page.get_by_label("Message 1").locator("pre")).to_have_text(EVIL)
        expect(page.get_by_label("Message 1").locator(".headers td")).to_have_text(EVIL)
        window.go("streams")
        expect(page.get_by_role("row", name=name)).to_be_visible()
        assert page.locator("main img, main script, main [onload], main [onerror]").count() == 0


def test_it_comes_back_after_the_server_was_killed(dashboard: Opener, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = f'http: "127.0.0.1:{port}"\njetstream {{ store_dir: "{tmp_path}/js" }}\n'
    server = ServerProcess(server_binary("ours"), tmp_path, config=config)
    try:
        server.start()
        with connect(server.url) as client:
            client.jetstream().create_stream("KEPT", subjects=["kept.>"])
            client.jetstream().publish("kept.1", b"before")
        window = dashboard(f"http://127.0.0.1:{port}/ui/", "stream/KEPT/messages")
        page = window.page
        page.get_by_role("button", name="Live").click()
        expect(page.get_by_text("Waiting for messages")).to_be_visible()
        server.kill()
        expect(page.get_by_text("The connection was lost")).to_be_visible()
        server.start()
        expect(page.get_by_text("The connection was lost")).to_have_count(0)
        with connect(server.url) as client:
            client.jetstream().publish("kept.2", b"after")
        expect(page.locator(".messages .scroll .row")).to_have_count(1)
        expect(page.locator(".messages .scroll .row")).to_contain_text("after")
        # The browser itself complains about an address where nobody was.
        window.faults[:] = [fault for fault in window.faults if "ERR_CONNECTION_REFUSED" not in fault]
    finally:
        server.end()
