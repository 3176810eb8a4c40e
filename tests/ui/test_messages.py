"""Messages in the browser: found, read, tailed, published, deleted, hidden."""

from __future__ import annotations

import base64
import re

import pytest
from playwright.sync_api import Page, expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

ROWS = ".messages .scroll .row"


def sequences(page: Page) -> list[int]:
    return [int(cell.inner_text().replace(",", "")) for cell in page.locator(f"{ROWS} .seq").all()]


@pytest.mark.parametrize("direct", [True, False])
def test_found_by_sequence_time_and_subject(server: ServerThread, dashboard: Opener, direct: bool) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("M", subjects=["m.>"], allow_direct=direct)
        for number in range(1, 251):
            jetstream.publish(f"m.{number % 5}", b"%d" % number)
        page = dashboard(server, "stream/M/messages").page
        expect(page.get_by_text("100 messages")).to_be_visible()
        assert sequences(page)[:3] == [250, 249, 248]
        page.get_by_role("button", name="Older").click()
        expect(page.get_by_text("200 messages")).to_be_visible()

        page.get_by_role("button", name="From sequence").click()
        page.get_by_label("Sequence").fill("7")
        page.keyboard.press("Enter")
        expect(page.locator(f"{ROWS} .seq").first).to_have_text("7")
        page.get_by_role("button", name="More").click()
        expect(page.get_by_text("200 messages")).to_be_visible()

        page.get_by_label("Subject", exact=True).fill("m.3")
        page.keyboard.press("Enter")
        expect(page.get_by_text("49 messages")).to_be_visible()
        assert sequences(page)[:2] == [8, 13]

        page.get_by_role("button", name="Newest").click()
        expect(page.get_by_text("50 messages")).to_be_visible()
        assert sequences(page)[:2] == [248, 243]

        page.get_by_label("Subject", exact=True).fill("")
        page.get_by_role("button", name="From time").click()
        page.get_by_label("Time").evaluate(
            """(field, time) => {
                const local = new Date(time - new Date(time).getTimezoneOffset() * 60000);
                field.value = local.toISOString().slice(0, 19);
                field.dispatchEvent(new Event("input"));
            }""",
            stream.get(1).time.timestamp() // 1 * 1000,
        )
        page.get_by_role("button", name="Read", exact=True).click()
        expect(page.locator(f"{ROWS} .seq").first).to_have_text("1")


def test_one_message_with_headers_in_every_form(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("M", subjects=["m.>"])
        jetstream.publish("m.json", b'{"b":[1,2]}', headers={"Trace": "abc"})
        jetstream.publish("m.bytes", bytes(range(256)))
        window = dashboard(server, "stream/M/messages")
        page = window.page
        page.locator(ROWS, has_text="m.json").click()
        detail = page.get_by_label("Message 1")
        expect(detail.locator("pre")).to_have_text('{\n  "b": [\n    1,\n    2\n  ]\n}')
        expect(detail.locator(".headers")).to_have_text("Traceabc")
        for form, shown in (("Hex", "7b 22 62"), ("Text", '{"b":[1,2]}'), ("Base64", "eyJiIjpbMSwyXX0=")):
            detail.get_by_role("button", name=form).click()
            expect(detail.locator("pre")).to_contain_text(shown)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        detail.get_by_role("button", name="Copy").click()
        expect(page.get_by_text("Copied")).to_be_visible()
        assert base64.b64decode(page.evaluate("navigator.clipboard.readText()")) == b'{"b":[1,2]}'

        page.locator(ROWS, has_text="m.bytes").click()
        detail = page.get_by_label("Message 2")
        detail.get_by_role("button", name="Hex").click()
        expect(detail.locator("pre")).to_contain_text("00 01 02 03")
        expect(detail.get_by_role("button", name="JSON")).to_have_count(0)

        page.get_by_label("Find in these").fill("trace: a")
        expect(page.locator(ROWS)).to_have_count(1)
        page.get_by_label("Find in these").fill("")

        page.locator(".payload-switch").click()
        expect(page.get_by_text("256 B of payload, hidden.")).to_be_visible()
        assert '"b"' not in page.locator("main").inner_text()
        page.reload()
        expect(page.locator(ROWS)).to_have_count(2)
        expect(page.locator(f"{ROWS} .text").first).to_have_text("hidden")

        page.locator(ROWS, has_text="m.bytes").click()
        page.get_by_label("Message 2").get_by_role("button", name="Delete").click()
        page.get_by_label("Type 2 to confirm").fill("2")
        page.locator("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(ROWS)).to_have_count(1)
        assert [message.seq for message in stream.read()] == [1]


def test_published_and_seen_live(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("M", subjects=["m.>"])
        jetstream.publish("m.old", b"before")
        page = dashboard(server, "stream/M/messages").page
        expect(page.locator(ROWS)).to_have_count(1)
        page.get_by_role("button", name="Live").click()
        expect(page.get_by_text("Waiting for messages")).to_be_visible()
        page.get_by_role("button", name="Publish", exact=True).click()
        form = page.locator("dialog")
        form.get_by_label("Subject").fill("m.new")
        form.get_by_label("Headers").fill("Kind: test\nOther: x: y")
        form.get_by_label("Payload").fill("hello ☃")
        form.get_by_role("button", name="Publish").click()
        expect(page.get_by_text("Stored in M as 2")).to_be_visible()
        expect(page.locator(ROWS)).to_have_count(1)
        expect(page.locator(ROWS)).to_contain_text("hello ☃")
        message = stream.get(2)
        assert (message.subject, message.data) == ("m.new", "hello ☃".encode())
        assert (message.header("Kind"), message.header("Other")) == ("test", "x: y")

        page.get_by_role("button", name="Publish", exact=True).click()
        form.get_by_label("Subject").fill("nowhere.at.all")
        form.get_by_role("button", name="Publish").click()
        expect(form.get_by_role("alert")).to_contain_text("nobody answers on nowhere.at.all")
        page.keyboard.press("Escape")

        # More than is shown at once: the newest stay, and what was passed over is counted.
        for number in range(3000):
            client.publish("m.flood", b"%d" % number)
        client.flush()
        expect(page.get_by_text(re.compile(r"messages?, [\d,]+ passed over|2,000 messages"))).to_be_visible()
        assert page.locator(ROWS).count() < 80
