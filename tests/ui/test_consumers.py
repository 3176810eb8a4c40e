"""Consumers in the browser: why nothing comes, pause, reset, make, change, delete."""

from __future__ import annotations

from playwright.sync_api import expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener


def test_a_consumer_is_made_watched_paused_reset_changed_and_deleted(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("WORK", subjects=["work.>"])
        for number in range(10):
            jetstream.publish(f"work.{number % 2}", b"%d" % number)
        page = dashboard(server, "stream/WORK/consumers").page
        form = page.locator("dialog")
        expect(page.get_by_text("There are no consumers.")).to_be_visible()
        page.get_by_role("button", name="New consumer").click()
        form.get_by_label("Name").fill("billing")
        form.get_by_label("Only subjects").fill("work.1")
        form.get_by_label("Most in flight").fill("2")
        form.get_by_label("Deliveries").fill("5")
        form.get_by_role("button", name="Create").click()
        row = page.get_by_role("row", name="billing")
        expect(row).to_contain_text("stuck")
        row.click()
        detail = page.get_by_label("Consumer billing")
        expect(detail.locator(".why")).to_contain_text(
            "No client asks: 5 messages could be delivered to a pull request."
        )
        expect(detail).to_contain_text("Gets work.1, from the first message on.")
        expect(detail).to_contain_text("Given up after 5 deliveries.")

        consumer = stream.consumer("billing")
        held = consumer.fetch(2)
        expect(detail.locator(".why")).to_contain_text("2 messages of at most 2 (max_ack_pending) wait for an ack.")
        expect(detail).to_contain_text("in flight 2")
        for message in held:
            message.ack(wait=True)
        expect(detail).to_contain_text("up to 4 ·")

        detail.get_by_role("button", name="Pause").click()
        form.get_by_label("For how long").fill("soon")
        form.get_by_role("button", name="Pause").click()
        expect(form.get_by_role("alert")).to_contain_text("soon is not a duration")
        form.get_by_label("For how long").fill("2h")
        form.get_by_role("button", name="Pause").click()
        expect(detail.locator(".why")).to_contain_text("The consumer is paused until")
        assert stream.consumer("billing").info()["paused"]
        detail.get_by_role("button", name="Resume").click()
        expect(detail.locator(".why")).not_to_contain_text("paused")

        detail.get_by_role("button", name="Reset").click()
        form.get_by_label("From sequence").fill("2")
        form.get_by_label("Type billing to confirm").fill("billing")
        form.get_by_role("button", name="Reset").click()
        expect(detail).to_contain_text("behind 5")
        assert [message.data for message in consumer.fetch(1)] == [b"1"]

        detail.get_by_role("button", name="Change").click()
        expect(form.get_by_label("Only subjects")).to_have_value("work.1")
        form.get_by_label("Most in flight").fill("50")
        form.get_by_label("Dead letters go to").fill("dead.work")
        form.get_by_role("button", name="JSON").click()
        form.get_by_role("button", name="Save").click()
        expect(detail).to_contain_text("What it gives up goes to dead.work.")
        config = stream.consumer("billing").info()["config"]
        assert (config["max_ack_pending"], config["max_deliver"]) == (50, 5)

        detail.get_by_role("button", name="Delete").click()
        form.get_by_label("Type billing to confirm").fill("billing")
        form.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("There are no consumers.")).to_be_visible()
        assert list(stream.consumers()) == []


def test_a_push_consumer_without_a_subscriber(server: ServerThread, dashboard: Opener) -> None:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        stream = jetstream.create_stream("PUSHED", subjects=["p"])
        stream.create_consumer("<b-evil", deliver_subject="to.me", ack_policy="none")
        jetstream.publish("p", b"x")
        page = dashboard(server, "stream/PUSHED/consumers").page
        page.get_by_role("row", name="<b-evil").click()
        detail = page.get_by_label("Consumer <b-evil")
        expect(detail.locator(".why")).to_have_text("Nobody is subscribed to to.me.")
        with client.subscribe("to.me") as pushed:
            assert pushed.next(timeout=5).data == b"x"
            expect(detail.locator(".why")).to_have_text("All that it wants was delivered, up to sequence 1.")
