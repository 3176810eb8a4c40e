"""Sources: where each is continued, and what their names and headers say."""

from typing import Any

import pytest

from slipstream.jetstream.config.structs import (
    ExternalStream,
    StreamSource,
    StreamSourceConsumer,
    SubjectTransformConfig,
)
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.jetstream.stream.copies.source_names import (
    consumer_name,
    index_name,
    origin_of,
    source_words,
    stable_id,
)
from slipstream.jetstream.stream.copies.source_positions import SourcePositions
from support.copy_world import SECOND_NS, CopyPorts, CopyWorld, restarted


class TestNames:
    """Recorded from nats-server 2.15.1."""

    def test_index_names(self) -> None:
        assert index_name(StreamSource(name="O")) == "O > >"
        assert index_name(StreamSource(name="O", filter_subject="o.1")) == "O o.1 >"
        two = [SubjectTransformConfig(src="o.0", dest="zero"), SubjectTransformConfig(src="o.2")]
        assert index_name(StreamSource(name="O", subject_transforms=two)) == "O o.0\fo.2 zero\f>"
        external = StreamSource(name="O", external=ExternalStream(api="A.API", deliver="d"))
        assert index_name(external) == "O:4trl36Z3 > >"
        given = StreamSource(name="O", consumer=StreamSourceConsumer(name="C", deliver_subject="d"))
        assert index_name(given).startswith("O:C=")

    def test_consumer_names(self) -> None:
        base = stable_id("S", "$G", "")
        first = StreamSource(name="O", filter_subject="o.1")
        two = [SubjectTransformConfig(src="o.0", dest="zero"), SubjectTransformConfig(src="o.2")]
        second = StreamSource(name="O", subject_transforms=two)
        assert consumer_name(index_name(first), base, alone=False) == "JS_SRC_lzmVNe9k"
        assert consumer_name(index_name(second), base, alone=False) == "JS_SRC_1DXadhGb"
        assert consumer_name(index_name(first), base, alone=True) != "JS_SRC_lzmVNe9k"
        assert stable_id("S", "$G", "hub") != base

    def test_headers(self) -> None:
        assert source_words("O:4trl36Z3 o.* t.$1") == (b"O:4trl36Z3", b"o.* t.$1")
        line = b"O:4trl36Z3 7 o.* t.$1 o.1"
        assert origin_of(line) == ("O:4trl36Z3", "O:4trl36Z3 o.* t.$1", 7)
        assert origin_of(line + b" m6BEZ2qh") == origin_of(line)
        assert origin_of(b"O 5") == ("O", "", 5)
        assert origin_of(b"$JS.ACK.O.C.1.9.2.3.4") == ("O", "", 9)
        assert origin_of(b"$JS.ACK.d.h.O.C.1.9.2.3.4.x") == ("O", "", 9)

    @pytest.mark.parametrize(
        "value", [b"", b"O", b"O x", b"O 1 2", b"O x > > o", b"$JS.ACK.O", b"$JS.ACK.a.b.c.x.e.f.g"]
    )
    def test_headers_that_say_nothing(self, value: bytes) -> None:
        assert origin_of(value) is None


def store_with(*origins: bytes) -> MemoryStore:
    store = MemoryStore(b"{}", random64=lambda: 1)
    for seq, origin in enumerate(origins, 1):
        block = b"NATS/1.0\r\nNats-Stream-Source: %b\r\n\r\n" % origin if origin else b""
        store.append(seq, seq, b"s", block, b"")
    return store


class TestPositions:
    def recovered(self, store: MemoryStore, *indexes: str) -> dict[str, int]:
        positions = SourcePositions(store, CopyPorts())
        positions.recover({index: index.split(" ")[0] for index in indexes})
        positions.write()
        return {index: positions.get(index) for index in indexes}

    def test_the_last_message_of_each_source_counts(self) -> None:
        store = store_with(b"A 1 > > a", b"B 7 > > b", b"", b"A 3 > > a", b"C 9 > > c", b"nonsense")
        assert self.recovered(store, "A > >", "B > >", "D > >") == {"A > >": 3, "B > >": 7, "D > >": 0}

    def test_old_headers_fit_every_source_of_their_stream(self) -> None:
        store = store_with(b"A 4", b"$JS.ACK.B.C.1.9.2.3.4", b"A 2 x > x")
        assert self.recovered(store, "A > >", "A x >", "B > >") == {"A > >": 4, "A x >": 2, "B > >": 9}

    def test_what_was_noted_outlives_the_messages(self) -> None:
        store = store_with(b"A 1 > > a", b"B 7 > > b")
        assert self.recovered(store, "A > >", "B > >") == {"A > >": 1, "B > >": 7}
        store.purge()
        assert self.recovered(store, "A > >", "B > >") == {"A > >": 1, "B > >": 7}

    def test_what_was_stored_after_the_note_counts_more(self) -> None:
        store = store_with(b"A 1 > > a")
        self.recovered(store, "A > >")
        store.append(2, 2, b"s", b"NATS/1.0\r\nNats-Stream-Source: A 5 > > a\r\n\r\n", b"")
        store.delete(1)
        assert self.recovered(store, "A > >") == {"A > >": 5}

    def test_a_note_that_knows_more_than_the_log_is_not_believed(self) -> None:
        store = store_with(b"A 1 > > a")
        positions = SourcePositions(store, CopyPorts())
        positions.recover({"A > >": "A"})
        positions.moved("A > >", 9)
        positions.write()
        (key,) = [key for key in store.notes() if key.startswith(b"source ")]
        store.put_note(key, b"99 9")
        assert self.recovered(store, "A > >") == {"A > >": 1}

    def test_thousands_of_messages_are_looked_through(self) -> None:
        store = store_with(b"A 1 > > a", *([b""] * 9000), b"B 2 > > b", *([b"C 3 > > c"] * 5000))
        assert self.recovered(store, "A > >", "B > >", "C > >") == {"A > >": 1, "B > >": 2, "C > >": 3}


@pytest.mark.parametrize("settings", [{}, {"max_msgs": 2}, {"max_msgs_per_subject": 1}], ids=str)
def test_a_restart_goes_on_where_it_was(settings: dict[str, Any]) -> None:
    world = CopyWorld()
    world.origin("A", 6)
    world.origin("B", 4)
    world.sources({"name": "A"}, {"name": "B", "filter_subject": "b.1"}, **settings)
    world.wait()
    assert world.last_seq("S") == 7
    later = restarted(world)
    later.fill(3, "A")
    later.wait()
    assert later.last_seq("S") == 10


def test_a_purged_target_does_not_begin_again() -> None:
    world = CopyWorld()
    world.origin(count=6)
    world.sources({"name": "O"})
    world.wait()
    world.api("STREAM.PURGE.S")
    later = restarted(world)
    later.fill(1)
    later.wait()
    assert later.payloads("S") == [b"0"]
    assert later.last_seq("S") == 7


def test_sources_come_and_go() -> None:
    world = CopyWorld()
    world.origin("A", 3)
    world.origin("B", 3)
    world.sources({"name": "A"})
    world.wait()
    world.api("STREAM.UPDATE.S", {"name": "S", "storage": "memory", "sources": [{"name": "B"}]})
    world.fill(2, "A")
    world.wait()
    assert world.last_seq("S") == 6
    world.api("STREAM.UPDATE.S", {"name": "S", "storage": "memory", "sources": [{"name": "B"}, {"name": "A"}]})
    world.wait()
    assert world.last_seq("S") == 8  # A goes on behind what was read of it before


def test_a_new_source_is_read_whole_whatever_its_target_has_lost() -> None:
    world = CopyWorld()
    world.origin("A", 5)
    world.sources({"name": "A"}, max_msgs=1)
    world.wait()
    world.origin("B", 4)
    config = {"name": "S", "storage": "memory", "max_msgs": 1, "sources": [{"name": "A"}, {"name": "B"}]}
    world.api("STREAM.UPDATE.S", config)
    world.wait()
    assert world.last_seq("S") == 9


def test_a_target_of_unknown_past_takes_only_what_is_newer() -> None:
    """As nats-server does when the beginning of a stream is gone: what was read before may have been in it."""
    world = CopyWorld()
    world.origin("A", 3)
    world.stream("S", ["s"])
    world.wait(SECOND_NS)
    world.publish("s")
    world.publish("s")
    world.api("STREAM.PURGE.S", {"seq": 2})
    world.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "storage": "memory", "sources": [{"name": "A"}]})
    world.fill(1, "A")
    world.wait()
    assert world.last_seq("S") == 3
