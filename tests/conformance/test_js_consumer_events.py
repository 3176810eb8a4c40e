"""Advisories and metrics about consumers: the same script makes both servers say the same, member by member."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_oracle import Frame, ListeningOracle

MS = 1_000_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NUID = re.compile(r"^[0-9A-Za-z]{22}$")


class Side:
    """One server, with a stream and everything it says about consumers."""

    def __init__(self, client: ListeningOracle) -> None:
        self.client = client
        self.call("STREAM.CREATE.S", name="S", subjects=["s.>"], storage="memory")
        self._sids = [client.subscribe(f"$JS.EVENT.{kind}.CONSUMER.>".encode()) for kind in ("ADVISORY", "METRIC")]
        self._inbox = client.subscribe(b"in.x")
        client.settled()

    def call(self, subject: str, **body: Any) -> Any:
        raw = json.dumps(body).encode() if body else b""
        ((_, answer),) = self.client.request(f"$JS.API.{subject}", raw, None, 1)
        found = json.loads(answer)
        assert "error" not in found, found
        return found

    def fill(self, count: int) -> None:
        for _ in range(count):
            self.client.request("s.a", b"x", None, 1)

    def create(self, name: str = "C", **config: Any) -> None:
        body = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
        self.call(f"CONSUMER.CREATE.S.{name}", stream_name="S", config=body)

    def pull(self, count: int, **body: Any) -> list[Frame]:
        raw = json.dumps({"batch": count, "expires": 5_000 * MS, **body}).encode()
        self.client.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"in.x", raw)
        return self.client.take(self._inbox, count)

    def answer(self, frame: Frame, payload: bytes) -> None:
        """Answer a message, and wait until the server has taken notice."""
        self.client.request(frame[1].decode(), payload, None, 1)

    def events(self, advisories: int, metrics: int = 0) -> list[tuple[str, Any]]:
        """So many events, without what differs between any two runs."""
        found = []
        for sid, count in zip(self._sids, (advisories, metrics), strict=True):
            found += [(frame[0].decode(), _plain(json.loads(frame[3]))) for frame in self.client.take(sid, count)]
        return found

    def end(self) -> None:
        for sid in (*self._sids, self._inbox):
            self.client.unsubscribe(sid)
        self.call("STREAM.DELETE.S")


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _plain(member, name) for name, member in value.items()}
    if isinstance(value, str):
        if key in ("id", "pinned_id") and _NUID.match(value):
            return "NUID"
        return _TIME.sub("TIME", value) if not value.startswith("0001-") else value
    if key == "ack_time":
        assert 0 < value < 10_000 * MS
        return "NS"
    return value


@pytest.fixture
def sides(clients: list[ListeningOracle]) -> Iterator[list[Side]]:
    both = [Side(client) for client in clients]
    yield both
    for side in both:
        side.end()


def compare(found: list[list[tuple[str, Any]]], expected: list[str]) -> None:
    """Both said the same, in the same order of members, and it is of these types."""
    ours, theirs = found
    assert ours == theirs
    assert [list(event) for _, event in ours] == [list(event) for _, event in theirs], "members in another order"
    assert sorted(event["type"].rsplit(".", 1)[1] for _, event in ours) == sorted(expected)


def test_answers_of_every_kind(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.fill(4)
        side.create(max_deliver=2, ack_wait=30_000 * MS, sample_freq="100%")
        first, second, third, _ = side.pull(4)
        side.answer(first, b"-NAK")
        side.answer(second, b"+TERM because of it")
        side.answer(third, b"+ACK")
        (again,) = side.pull(1)
        side.answer(again, b"-NAK")
        side.pull(1, expires=0, no_wait=True)  # nats-server gives up when it is asked again, we at once
        side.call("STREAM.MSG.DELETE.S", seq=4)
        events = side.events(6, 1)  # nats-server tells of the removal later, when the consumer may be gone
        side.call("CONSUMER.DELETE.S.C")
        found.append(events + side.events(1))
    kinds = ["consumer_action", "nak", "terminated", "nak", "max_deliver", "terminated", "consumer_action"]
    compare(found, [*kinds, "consumer_ack"])


def test_a_term_without_reason(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.fill(1)
        side.create()
        (message,) = side.pull(1)
        side.answer(message, b"+TERM")
        found.append(side.events(2))
    compare(found, ["consumer_action", "terminated"])


def test_acks_that_time_out_for_the_last_time(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.fill(2)
        side.create(max_deliver=1, ack_wait=100 * MS)
        side.pull(2)
        # Neither server promises an order of what times out together.
        found.append(sorted(side.events(3), key=lambda event: event[1].get("stream_seq", 0)))
    compare(found, ["consumer_action", "max_deliver", "max_deliver"])


def test_pause_and_resume(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.create()
        side.call("CONSUMER.PAUSE.S.C", pause_until="2099-01-01T00:00:00Z")
        side.call("CONSUMER.PAUSE.S.C")
        found.append(side.events(3))
    compare(found, ["consumer_action", "consumer_pause", "consumer_pause"])


def test_created_paused(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.create(pause_until="2099-01-01T00:00:00Z")
        found.append(side.events(2))
    compare(found, ["consumer_action", "consumer_pause"])


def test_who_asks_a_paused_consumer_without_waiting(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.fill(2)
        side.create(pause_until="2099-01-01T00:00:00Z")
        pulls = [{"no_wait": True, "expires": 0}, {"no_wait": True, "expires": 100 * MS}, {"expires": 100 * MS}]
        found.append([side.pull(1, **pull) for pull in pulls])
    assert found[0] == found[1]
    assert [frames[0][2].split()[1] for frames in found[0]] == [b"404", b"408", b"408"]


def test_pins(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.create(priority_groups=["G"], priority_policy="pinned_client", priority_timeout=60_000 * MS)
        side.fill(1)
        side.pull(1, group="G")
        side.call("CONSUMER.UNPIN.S.C", group="G")
        found.append(side.events(3))
    compare(found, ["consumer_action", "consumer_group_pinned", "consumer_group_unpinned"])


def test_a_pin_that_times_out(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.create(priority_groups=["G"], priority_policy="pinned_client", priority_timeout=100 * MS)
        side.fill(1)
        side.pull(1, group="G")
        found.append(side.events(3))
    compare(found, ["consumer_action", "consumer_group_pinned", "consumer_group_unpinned"])


def test_nobody_uses_it(sides: list[Side]) -> None:
    found = []
    for side in sides:
        body = {"name": "E", "ack_policy": "none", "inactive_threshold": 100 * MS}
        side.call("CONSUMER.CREATE.S.E", stream_name="S", config=body)
        found.append(side.events(2))
    compare(found, ["consumer_action", "consumer_action"])


def test_an_update_is_not_announced(sides: list[Side]) -> None:
    found = []
    for side in sides:
        side.create()
        side.create(description="changed")
        side.create("D")
        found.append(side.events(2))
    compare(found, ["consumer_action", "consumer_action"])
