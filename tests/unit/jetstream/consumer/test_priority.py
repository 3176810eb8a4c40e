"""Priority groups: overflow, pinned clients, priorities."""

import json
from typing import Any

from slipstream.jetstream import headers
from support.consumer_world import SECOND_NS, ConsumerWorld, status


def world(policy: str, count: int = 0, **config: Any) -> ConsumerWorld:
    w = ConsumerWorld()
    w.stream()
    w.fill(count)
    w.add(priority_policy=policy, priority_groups=["g"], **config)
    return w


def test_overflow_serves_when_enough_is_pending() -> None:
    w = world("overflow", 3)
    inbox = w.pull({"batch": 10, "group": "g", "min_pending": 5})
    assert inbox.take() == []
    w.fill(2)
    assert inbox.seqs() == [1], "then four are left, and that is too few again"


def test_overflow_serves_when_much_is_unacknowledged() -> None:
    w = world("overflow", 5)
    inbox = w.pull({"batch": 10, "group": "g", "min_ack_pending": 2})
    assert inbox.take() == []
    w.pull({"batch": 2, "group": "g"})
    assert inbox.seqs() == [3, 4, 5]


def test_who_does_not_wait_hears_that_others_have_a_claim() -> None:
    w = world("overflow", 3)
    for condition in ({"min_pending": 5}, {"min_ack_pending": 1}):
        asked = w.pull({"batch": 2, "no_wait": True, "group": "g", **condition})
        assert asked.statuses() == ["404 No Messages"]
    pinned = world("pinned_client", 3)
    assert pinned.pull({"batch": 1, "group": "g"}).seqs() == [1]
    assert pinned.pull({"batch": 1, "no_wait": True, "group": "g"}).statuses() == ["404 No Messages"]
    assert w.info()["num_waiting"] == pinned.info()["num_waiting"] == 0
    # With a limit of unacknowledged messages the next ack may bring something.
    full = world("overflow", 3, max_ack_pending=1)
    assert full.pull({"batch": 1, "group": "g"}).seqs() == [1]
    assert full.pull({"batch": 1, "no_wait": True, "group": "g"}).take() == []
    assert full.info()["num_waiting"] == 1


def test_the_first_client_is_pinned() -> None:
    w = world("pinned_client", 1, priority_timeout=10 * SECOND_NS)
    first = w.pull({"batch": 2, "group": "g"})
    other = w.pull({"batch": 2, "group": "g"})
    (message,) = first.messages()
    pin = headers.find(message[3] or b"", b"Nats-Pin-Id")
    assert pin
    w.fill(3)
    assert first.seqs() == [2] and other.take() == []
    (group,) = w.info()["priority_groups"]
    assert group["pinned_client_id"] == pin.decode()
    again = w.pull({"batch": 5, "group": "g", "id": pin.decode()})
    assert again.seqs() == [3, 4]
    assert w.pull({"batch": 1, "group": "g", "id": "wrong"}).statuses() == ["423 Nats-Pin-Id mismatch"]


def test_a_silent_client_loses_its_pin() -> None:
    w = world("pinned_client", 1, priority_timeout=SECOND_NS)
    heard: list[Any] = []
    w.ports.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.*.S.C", lambda *m: heard.append(json.loads(m[3])))
    first = w.pull({"batch": 1, "group": "g"})
    pin = headers.find(first.messages()[0][3] or b"", b"Nats-Pin-Id")
    other = w.pull({"batch": 1, "group": "g"})
    w.fill(1)
    w.ports.advance(3 * SECOND_NS // 2)
    assert other.seqs() == [2]
    assert [event["type"].rsplit(".", 1)[1] for event in heard] == [
        "consumer_group_pinned",
        "consumer_group_unpinned",
        "consumer_group_pinned",
    ]
    assert heard[1]["reason"] == "timeout"
    assert pin is not None
    assert w.pull({"batch": 1, "group": "g", "id": pin.decode()}).statuses() == ["423 Nats-Pin-Id mismatch"]


def test_unpin() -> None:
    w = world("pinned_client", 1)
    pin = headers.find(w.pull({"batch": 1, "group": "g"}).messages()[0][3] or b"", b"Nats-Pin-Id")
    assert pin is not None
    holder = w.pull({"batch": 1, "group": "g", "id": pin.decode()})
    other = w.pull({"batch": 1, "group": "g"})
    assert "error" not in w.api("CONSUMER.UNPIN.S.C", {"group": "g"})
    w.fill(1)
    (lost,) = holder.take()
    assert status(lost) == "423 Nats-Wrong-Pin-Id"
    assert other.seqs() == [2]


def test_low_numbers_first_and_fair_among_equals() -> None:
    w = world("prioritized")
    low = w.pull({"batch": 9, "group": "g", "priority": 5})
    first = w.pull({"batch": 2, "group": "g", "priority": 1})
    second = w.pull({"batch": 2, "group": "g", "priority": 1})
    w.fill(5)
    assert first.seqs() == [1, 3] and second.seqs() == [2, 4] and low.seqs() == [5]
