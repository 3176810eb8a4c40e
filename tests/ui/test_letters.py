"""Dead letters in the browser: found by cause, redriven, deleted."""

from __future__ import annotations

from playwright.sync_api import expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener

EVIL = "<img src=x onerror=alert(1)>"
ROWS = ".letters .scroll .row"


def test_letters_are_found_by_cause_redriven_and_deleted(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream("DEAD", subjects=["dead.>"])
        jobs = jetstream.create_stream("JOBS", subjects=["jobs.*"], retention="workqueue")
        workers = jobs.create_consumer("workers", metadata={"slipstream.dlq": "dead.jobs"})
        for number in range(6):
            jetstream.publish(f"jobs.{number}", b"job %d" % number, headers={"Kind": EVIL})
        for message in workers.fetch(6):
            message.term(EVIL if message.data == b"job 5" else "not a picture")
        page = dashboard(server, "dead").page
        form = page.locator("dialog")
        expect(page.locator(ROWS)).to_have_count(6)
        expect(page.locator(".cause").first).to_contain_text("5terminated: not a picture")
        page.locator(".cause", has_text=EVIL).click()
        expect(page.locator(ROWS)).to_have_count(1)
        page.locator(ROWS).click()
        detail = page.locator(".detail")
        expect(detail).to_contain_text("JOBS, message 6")
        expect(detail.locator(".headers")).to_have_text(f"Kind{EVIL}")
        expect(detail.locator("pre")).to_have_text("job 5")

        detail.get_by_role("button", name="Redrive").click()
        form.get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("Stored in JOBS as 7")).to_be_visible()
        (again,) = workers.fetch(1)
        assert (again.subject, again.data, again.header("Kind")) == ("jobs.5", b"job 5", EVIL)
        assert not again.header("Slipstream-Dlq-Stream")
        again.ack(wait=True)

        page.locator(".cause", has_text="not a picture").click()
        expect(page.locator(ROWS)).to_have_count(5)
        page.locator(ROWS).last.click()
        detail.get_by_role("button", name="Delete").click()
        form.get_by_label("Type 1 to confirm").fill("1")
        form.get_by_role("button", name="Delete").click()
        expect(page.locator(ROWS)).to_have_count(4)

        page.get_by_role("button", name="Redrive all shown").click()
        form.get_by_label("Type 4 to confirm").fill("4")
        form.get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("No message was given up.")).to_be_visible()
        assert [message.data for message in workers.fetch(4)] == [b"job %d" % number for number in (1, 2, 3, 4)]
        assert jetstream.stream("DEAD").info()["state"]["messages"] == 0


def test_letters_that_nobody_keeps_are_told_of(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server, "dead").page
    expect(page.get_by_text("No stream or consumer says where its dead letters go")).to_be_visible()
    with connect(server.url) as client:
        client.jetstream().create_stream("S", subjects=["s"], metadata={"slipstream.dlq": "nobody.keeps"})
    expect(page.get_by_text("No stream stores nobody.keeps: those dead letters are not kept.")).to_be_visible()
