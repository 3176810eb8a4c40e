"""Streams in the browser: listed, made, changed, purged, deleted; their subjects as a tree."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

MANY = 1_000
VERY_MANY = 10_000


def dialog(page: Page) -> Locator:
    return page.locator("dialog")


def test_a_stream_is_made_changed_purged_and_deleted(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, "streams").page
    expect(page.get_by_text("There are no streams yet.")).to_be_visible()
    page.get_by_role("button", name="New stream").click()
    dialog(page).get_by_label("Name").fill("ORDERS")
    dialog(page).get_by_label("Subjects").fill("orders.>, returns.*")
    dialog(page).get_by_label("Most bytes").fill("10MiB")
    dialog(page).get_by_label("Oldest").fill("7d")
    dialog(page).get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="ORDERS")).to_be_visible()
    expect(page.get_by_text("Stores what is published to orders.>, returns.*.")).to_be_visible()
    expect(page.get_by_text("At most 10.0 MiB, an age of 7d; the oldest go first.")).to_be_visible()

    with connect(server.url) as client:
        jetstream = client.jetstream()
        for number in range(5):
            jetstream.publish(f"orders.{number % 2}", b"x")
        expect(page.locator('dt:text-is("Messages") + dd')).to_have_text("5")

        page.get_by_role("button", name="Change").click()
        dialog(page).get_by_label("Most messages").fill("4")
        dialog(page).get_by_role("button", name="JSON").click()
        expect(dialog(page).get_by_label("Configuration")).to_have_value(re.compile('"max_msgs": 4'))
        dialog(page).get_by_role("button", name="Settings").click()
        dialog(page).get_by_role("button", name="Save").click()
        expect(page.get_by_text("At most 4 messages, 10.0 MiB")).to_be_visible()
        config = jetstream.stream("ORDERS").info()["config"]
        assert (config["max_msgs"], config["max_bytes"], config["max_age"]) == (4, 10 << 20, 7 * 86400 * 10**9)

        page.get_by_role("button", name="Purge").click()
        dialog(page).get_by_label("Only subjects").fill("orders.1")
        expect(dialog(page).get_by_role("button", name="Purge")).to_be_disabled()
        dialog(page).get_by_label("Type ORDERS to confirm").fill("ORDER")
        expect(dialog(page).get_by_role("button", name="Purge")).to_be_disabled()
        dialog(page).get_by_label("Type ORDERS to confirm").fill("ORDERS")
        dialog(page).get_by_role("button", name="Purge").click()
        expect(page.get_by_text("2 messages purged")).to_be_visible()
        assert [message.subject for message in jetstream.stream("ORDERS").read()] == ["orders.0"] * 2

        page.get_by_role("button", name="Delete").click()
        dialog(page).get_by_label("Type ORDERS to confirm").fill("ORDERS")
        dialog(page).get_by_role("button", name="Delete").click()
        expect(page.get_by_text("There are no streams yet.")).to_be_visible()
        assert list(jetstream.streams()) == []


def test_what_the_server_refuses_is_said_in_the_form(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        client.jetstream().create_stream("ONE", subjects=["a.>"])
    page = dashboard(server, "streams").page
    page.get_by_role("button", name="New stream").click()
    dialog(page).get_by_label("Name").fill("TWO")
    dialog(page).get_by_label("Subjects").fill("a.b")
    dialog(page).get_by_role("button", name="Create").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("subjects overlap")
    dialog(page).get_by_label("Oldest").fill("a week")
    dialog(page).get_by_role("button", name="Create").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("a week is not a duration")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)


def test_subjects_are_a_tree(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream("S", subjects=["s.>"])
        for subject in ("s.eu.de", "s.eu.fr", "s.eu.fr", "s.us"):
            jetstream.publish(subject, b"x")
    page = dashboard(server, "stream/S/subjects").page
    rows = page.locator(".subjects .scroll .row")
    expect(rows).to_have_count(5)
    assert [row.inner_text().split()[1:3] for row in rows.all()][:2] == [["s", "4"], ["eu", "3"]]
    page.locator(".subjects .scroll .row", has_text="eu").first.click()
    expect(rows).to_have_count(3)
    page.get_by_label("Filter subjects").fill("FR")
    expect(rows).to_have_count(3)
    page.locator(".subjects .scroll .row", has_text="fr").get_by_text("Messages").click()
    expect(page.get_by_label("Subject", exact=True)).to_have_value("s.eu.fr")
    expect(page.locator(".messages .scroll .row")).to_have_count(2)


def make_streams(server: ServerThread, number: int) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        for index in range(number):
            jetstream.create_stream(f"S{index:05}", subjects=[f"s{index}.>"], storage="memory")


def scrolled_through(page: Page, number: int) -> None:
    expect(page.locator("h1 .note")).to_have_text(f"{number:,}", timeout=30_000)
    assert page.locator(".streams .scroll .row").count() < 80
    page.locator(".streams .scroll").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("row", name=f"S{number - 1:05}")).to_be_visible()
    page.get_by_label("Filter streams").fill(f"S{number - 2:05}")
    expect(page.locator(".streams .scroll .row")).to_have_count(1)
    page.get_by_label("Filter streams").fill("")
    expect(page.locator("h1 .note")).to_have_text(f"{number:,}")


def test_a_thousand_streams(server: ServerThread, dashboard: Opener) -> None:
    make_streams(server, MANY)
    scrolled_through(dashboard(server, "streams").page, MANY)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_thousand_streams(server: ServerThread, dashboard: Opener) -> None:
    make_streams(server, VERY_MANY)
    scrolled_through(dashboard(server, "streams").page, VERY_MANY)


def test_with_the_keyboard_alone(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        for name in ("ALPHA", "BETA", "GAMMA"):
            client.jetstream().create_stream(name, subjects=[name.lower()])
    page = dashboard(server).page
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.locator(".streams .scroll .row")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("a")
    page.keyboard.press("?")
    expect(page.get_by_label("Filter streams")).to_have_value("a?")
    page.keyboard.press("Backspace")
    page.locator(".streams .scroll").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="BETA")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Keys")).to_have_count(0)


@pytest.mark.parametrize(
    ("place", "words", "back"),
    [
        ("stream/NONE", "There is no stream called NONE.", "All streams"),
        ("stream/NONE/messages", "There is no stream called NONE.", "All streams"),
        ("kv/none", "There is no bucket called none.", "All buckets"),
        ("objects/none", "There is no object store called none.", "All object stores"),
    ],
)
def test_what_is_not_there_is_said_in_plain_words(
    server: ServerThread, dashboard: Opener, place: str, words: str, back: str
) -> None:
    page = dashboard(server, place).page
    expect(page.get_by_text(words)).to_be_visible()
    expect(page.get_by_text("Reading")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("link", name=back).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
