"""Counters: arithmetic of any length, and what came from other counters."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.jetstream.stream.features.counters import number, text_of_number
from support.jetstream_world import World


@settings(max_examples=50, deadline=None)
@given(st.integers(), st.integers(0, 20_000))
def test_numbers_of_any_length(seed: int, digits: int) -> None:
    value = seed * 10**digits + seed
    text = text_of_number(value)
    assert number(text.encode()) == value
    assert number(b"+" + text.lstrip("-").encode()) == abs(value)
    assert text == (str(value) if digits < 4000 and abs(seed) < 2**128 else text)
    assert not text.lstrip("-").startswith("0") or value == 0


def counter(world: World, subject: str, increment: str, source: str = "", payload: bytes = b"") -> None:
    """A message as a source gives it."""
    header = f"NATS/1.0\r\nNats-Incr: {increment}\r\n" + (f"Nats-Stream-Source: {source}\r\n" if source else "")
    assert world.account.streams["S"].copy_in.store(subject.encode(), f"{header}\r\n".encode(), payload) is None
    world.ports.settle()


def last(world: World) -> tuple[str, dict[str, str]]:
    message = world.account.streams["S"].store.load_last(b"s.a")
    lines = dict(line.split(": ", 1) for line in message.headers.decode().split("\r\n")[1:] if line)
    return json.loads(message.payload)["val"], lines


def test_a_lost_message_of_a_source_is_made_up_for() -> None:
    """What is added is the difference to what was known of that counter, not the increment the message names."""
    world = World()
    world.create(subjects=["s.>"], allow_msg_counter=True)
    counter(world, "s.a", "5", "EU 1 > > eu.hits", b'{"val":"5"}')
    assert last(world)[0] == "5"
    counter(world, "s.a", "1", "EU 3 > > eu.hits", b'{"val":"9"}')
    value, lines = last(world)
    assert value == "9" and lines["Nats-Incr"] == "4"
    counter(world, "s.a", "2", "US 1 > > us.hits", b'{"val":"2"}')
    value, lines = last(world)
    assert value == "11"
    assert json.loads(lines["Nats-Counter-Sources"]) == {"EU": {"eu.hits": "9"}, "US": {"us.hits": "2"}}
    assert world.publish("s.a", b"", Nats_Incr="100")["val"] == "111"
    assert json.loads(last(world)[1]["Nats-Counter-Sources"]) == {"EU": {"eu.hits": "9"}, "US": {"us.hits": "2"}}


@pytest.mark.parametrize("payload", [b"", b"x", b"[]", b'{"val":5}', b'"5"'])
def test_what_is_no_counter_is_not_counted(payload: bytes) -> None:
    world = World()
    world.create(subjects=["s.>"])
    assert world.publish("s.a", payload)["seq"] == 1
    stream = world.account.streams["S"]
    answer = world.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "allow_msg_counter": True})
    assert answer["error"]["err_code"] == 10052  # a stream cannot become one
    world = World()
    world.create(subjects=["s.>"], allow_msg_counter=True)
    stream = world.account.streams["S"]
    stream.store.append(1, 1, b"s.a", b"", payload)
    stream.appends.take_over(b"")
    assert world.publish("s.a", b"", Nats_Incr="1")["error"]["err_code"] == 10172


@pytest.mark.parametrize(
    "written", [b"x", b"[]", b'{"a":"\xff"}', b'{"a":{"b":"\xff"}}', b'{"a":' * 5_000], ids=range(5)
)
def test_sources_that_cannot_be_read_are_no_counter(written: bytes) -> None:
    world = World()
    world.create(subjects=["s.>"], allow_msg_counter=True)
    stream = world.account.streams["S"]
    stream.store.append(1, 1, b"s.a", b"NATS/1.0\r\nNats-Counter-Sources: %b\r\n\r\n" % written, b'{"val":"5"}')
    stream.appends.take_over(b"")
    assert world.publish("s.a", b"", Nats_Incr="1")["error"]["err_code"] == 10172


def test_a_counter_cannot_outgrow_a_message() -> None:
    world = World(max_payload_bytes=300)
    world.create(subjects=["s.>"], allow_msg_counter=True, max_msg_size=250)
    assert "error" not in world.publish("s.a", b"", Nats_Incr="9" * 100)
    assert world.publish("s.b", b"", Nats_Incr="9" * 180)["error"]["err_code"] == 10054
    assert world.state()["messages"] == 1
