"""Keys and values, and objects, in the browser; what it writes is what clients read, and the other way round."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from playwright.sync_api import expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

EVIL_KEY = "a/b=-_.c"
EVIL = "<script>alert(1)</script>"


def test_keys_are_made_edited_watched_deleted_and_purged(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        page = dashboard(server, "kv").page
        form = page.locator("dialog")
        page.get_by_role("button", name="New bucket").click()
        form.get_by_label("Name").fill("settings")
        form.get_by_label("Values kept of a key").fill("5")
        form.get_by_role("button", name="Create").click()
        expect(page.get_by_text("There are no keys.")).to_be_visible()
        bucket = jetstream.kv("settings")

        page.get_by_role("button", name="New key").click()
        form.get_by_label("Key").fill("colour")
        form.get_by_label("Value").fill(EVIL)
        form.get_by_role("button", name="Save").click()
        detail = page.get_by_label("Key colour")
        expect(detail.locator("pre")).to_have_text(EVIL)
        assert bucket.get("colour").value == EVIL.encode()

        # What others write appears; and an edit over what they wrote meanwhile is refused.
        bucket["colour"] = b"green"
        expect(detail.locator("pre")).to_have_text("green")
        expect(detail.locator(".history")).to_contain_text(EVIL)
        detail.get_by_role("button", name="Edit").click()
        expect(form.get_by_label("Value")).to_have_value("green")
        bucket["colour"] = b"red"
        form.get_by_label("Value").fill("blue")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text("wrong last sequence")
        page.keyboard.press("Escape")
        expect(detail.locator("pre")).to_have_text("red")
        detail.get_by_role("button", name="Edit").click()
        form.get_by_label("Value").fill("blue")
        form.get_by_role("button", name="Save").click()
        expect(detail.locator("pre")).to_have_text("blue")
        assert bucket.get("colour").value == b"blue"

        bucket[EVIL_KEY] = b"x"
        expect(page.get_by_role("row", name=EVIL_KEY)).to_be_visible()
        page.get_by_label("Filter keys").fill("colo")
        expect(page.locator(".keys-table .scroll .row")).to_have_count(1)

        page.get_by_role("button", name="New key").click()
        form.get_by_label("Key").fill("colour")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text("colour is there already")
        form.get_by_label("Key").fill("not a key")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text("A key has letters")
        page.keyboard.press("Escape")

        detail.get_by_role("button", name="Delete").click()
        expect(detail.get_by_text("deleted")).to_be_visible()
        assert bucket.keys() == [EVIL_KEY]
        detail.get_by_role("button", name="Purge").click()
        form.get_by_label("Type colour to confirm").fill("colour")
        form.get_by_role("button", name="Purge").click()
        expect(detail.locator(".history")).to_have_count(0)
        assert [entry.operation for entry in bucket.history("colour")] != []

        page.get_by_role("button", name="Delete bucket").click()
        form.get_by_label("Type settings to confirm").fill("settings")
        form.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("There are no buckets.")).to_be_visible()


def test_objects_go_up_and_come_down(server: ServerThread, dashboard: Opener, tmp_path: Path) -> None:
    content = os.urandom(700_001)
    given = tmp_path / "<img src=x onerror=alert(1)>.bin"
    given.write_bytes(content)
    with connect(server.url) as client:
        jetstream = client.jetstream()
        page = dashboard(server, "objects").page
        form = page.locator("dialog")
        page.get_by_role("button", name="New store").click()
        form.get_by_label("Name").fill("files")
        form.get_by_role("button", name="Create").click()
        expect(page.get_by_text("There are no objects.")).to_be_visible()
        store = jetstream.objects("files")

        page.get_by_label("Upload").set_input_files(given)
        page.get_by_role("row", name=given.name).click()
        expect(page.get_by_label(f"Object {given.name}")).to_contain_text("684 KiB")
        assert store.get(given.name) == content

        with page.expect_download() as downloading:
            page.get_by_role("button", name="Download").click()
        assert hashlib.sha256(downloading.value.path().read_bytes()).digest() == hashlib.sha256(content).digest()

        # Another of the same name takes its place, and the pieces of the first go.
        given.write_bytes(b"short")
        page.get_by_label("Upload").set_input_files(given)
        expect(page.get_by_label(f"Object {given.name}")).to_contain_text("5 B")
        assert store.get(given.name) == b"short"
        assert jetstream.stream("OBJ_files").info()["state"]["messages"] == 2

        store.put("by-client", b"y" * 300_000)
        page.get_by_role("row", name="by-client").click()
        with page.expect_download() as downloading:
            page.get_by_role("button", name="Download").click()
        assert downloading.value.path().read_bytes() == b"y" * 300_000
        # One whose piece is gone is not saved as if it were whole.
        broken = jetstream.stream("OBJ_files").last("$O.files.C.>")
        jetstream.api("STREAM.MSG.DELETE.OBJ_files", {"seq": broken.seq})
        page.get_by_role("button", name="Download").click()
        expect(page.get_by_text("by-client is not whole")).to_be_visible()

        page.get_by_role("button", name="Delete", exact=True).click()
        form.get_by_label("Type by-client to confirm").fill("by-client")
        form.get_by_role("button", name="Delete").click()
        expect(page.locator(".objects-table .scroll .row")).to_have_count(1)
        assert [each.name for each in store.list()] == [given.name]

        page.get_by_role("button", name="Delete store").click()
        form.get_by_label("Type files to confirm").fill("files")
        form.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("There are no object stores.")).to_be_visible()
