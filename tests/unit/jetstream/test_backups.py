"""Backups and restores that do not go as planned, and the formats they are in."""

import json
import random
from typing import Any

import pytest

from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, ArchiveReader, encode_entry
from slipstream.jetstream.backup.consumers import SavedState, state_of
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.legacy import LegacyReader, consumer_state
from slipstream.jetstream.backup.legacy_writer import encode_state
from slipstream.jetstream.backup.s2 import S2Reader, S2Writer
from slipstream.kernels.log.record import crc32c
from support.consumer_world import ConsumerWorld
from support.jetstream_world import FakeStores, Recovered

SECOND_NS = 1_000_000_000


@pytest.fixture
def world() -> ConsumerWorld:
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    for number in range(20):
        world.publish(f"s.{number % 3}", random.Random(number).randbytes(30_000))
    return world


class Receiver:
    """Listens for a backup and confirms what it wants to."""

    def __init__(self, world: ConsumerWorld, *, confirms: int = 10**6, **options: Any) -> None:
        self.world = world
        self.chunks: list[bytes] = []
        self.end: bytes | None = None
        self.ended = False
        self.confirms = confirms
        self.subscription = world.ports.subscribe(b"to", self.take)
        self.answer = world.api("STREAM.SNAPSHOT.S", {"deliver_subject": "to", "chunk_size": 1024, **options})

    def take(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        if not payload:
            self.end, self.ended = header, True
            return
        self.chunks.append(payload)
        if reply and self.confirms:
            self.confirms -= 1
            self.world.ports.route(reply, None, None, b"")


def restore(world: ConsumerWorld, answer: Any, backup: bytes, chunk: int = 50_000) -> Any:
    begun = world.api("STREAM.RESTORE.S", {"config": answer["config"], "state": answer["state"]})
    if "error" in begun:
        return begun
    for at in range(0, len(backup), chunk):
        reply = world.request(begun["deliver_subject"], backup[at : at + chunk])
        assert reply == (None, b"")
    reply = world.request(begun["deliver_subject"], b"")
    assert reply is not None
    return json.loads(reply[1])


class TestSending:
    def test_everything_arrives(self, world: ConsumerWorld) -> None:
        receiver = Receiver(world)
        assert receiver.ended and receiver.end == b"NATS/1.0 204\r\n\r\n"
        assert all(len(chunk) == 1024 for chunk in receiver.chunks[:-1])
        other = ConsumerWorld()
        assert restore(other, receiver.answer, b"".join(receiver.chunks))["state"]["messages"] == 20

    def test_no_more_than_the_window_is_sent_unconfirmed(self, world: ConsumerWorld) -> None:
        receiver = Receiver(world, confirms=0, window_size=2048, chunk_size=1024)
        assert len(receiver.chunks) == 2
        world.ports.advance(6 * SECOND_NS)
        assert receiver.end == b"NATS/1.0 408 No Flow Response\r\n\r\n"

    def test_a_receiver_that_leaves(self, world: ConsumerWorld) -> None:
        receiver = Receiver(world, confirms=0, window_size=1024)
        receiver.subscription.close()
        world.ports.settle()
        assert (b"to", None, b"NATS/1.0 408 No Interest\r\n\r\n", b"") in world.ports.sent

    def test_nobody_listens_at_first(self, world: ConsumerWorld) -> None:
        world.api("STREAM.SNAPSHOT.S", {"deliver_subject": "to"})
        assert not [sent for sent in world.ports.sent if sent[0] == b"to"]
        world.ports.advance(3 * SECOND_NS)
        assert [sent for sent in world.ports.sent if sent[0] == b"to"]

    def test_a_stream_that_is_deleted_meanwhile(self, world: ConsumerWorld) -> None:
        receiver = Receiver(world, confirms=0, window_size=1024)
        world.api("STREAM.DELETE.S")
        assert receiver.end == b"NATS/1.0 500 stream closed\r\n\r\n"

    def test_what_comes_later_is_not_in_it(self, world: ConsumerWorld) -> None:
        for number in range(40):  # more than one slice
            world.publish("s.1", random.Random(number).randbytes(30_000))
        receiver = Receiver(world, confirms=0, window_size=1024)
        world.publish("s.1", b"later")
        world.api("STREAM.MSG.DELETE.S", {"seq": 60})
        receiver.confirms = 10**6
        for reply in [sent[1] for sent in world.ports.sent if sent[0] == b"to" and sent[1]]:
            assert reply is not None
            world.ports.route(reply, None, None, b"")
        world.ports.settle()
        other = ConsumerWorld()
        restored = restore(other, receiver.answer, b"".join(receiver.chunks))
        assert (restored["state"]["messages"], restored["state"]["last_seq"]) == (59, 60)

    def test_a_message_too_long_for_the_old_form(self) -> None:
        """33 MiB: older servers take it for damage, so the backup has the newer form."""
        world = ConsumerWorld()
        world.stream("S", ["s.>"], storage="file")
        world.publish("s.1", b"before")
        world.publish("s.1", bytes(33 * 1024 * 1024))
        receiver = Receiver(world, chunk_size=1 << 20)
        assert receiver.end == b"NATS/1.0 204\r\n\r\n"
        content = b"".join(S2Reader().feed(b"".join(receiver.chunks)))
        assert content.startswith(MAGIC)
        found = [(one.name, one.seq, len(one.payload)) for one in ArchiveReader().feed(content)]
        assert found[1:] == [(b"s.1", 1, 6), (b"s.1", 2, 33 * 1024 * 1024), (b"", 0, 0)]
        world.api("STREAM.MSG.DELETE.S", {"seq": 2})
        assert not b"".join(S2Reader().feed(b"".join(Receiver(world).chunks))).startswith(MAGIC)

    def test_an_exception_in_a_piece_ends_the_backup(
        self, world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.ports.tolerant = True
        monkeypatch.setattr(S2Writer, "write", lambda _self, _data: 1 // 0)
        receiver = Receiver(world)
        assert receiver.end == b"NATS/1.0 500 ZeroDivisionError: integer division or modulo by zero\r\n\r\n"
        assert [what for what, _ in world.ports.reported] == ["A piece of a backup"]
        monkeypatch.undo()
        assert Receiver(world).end == b"NATS/1.0 204\r\n\r\n"

    def test_there_is_a_limit(self, world: ConsumerWorld) -> None:
        answers = [Receiver(world, confirms=0, window_size=1024).answer for _ in range(9)]
        assert [answer.get("error", {}).get("err_code") for answer in answers] == [None] * 8 + [10064]


class TestReceiving:
    @pytest.fixture
    def backup(self, world: ConsumerWorld) -> tuple[Any, bytes]:
        receiver = Receiver(world)
        return receiver.answer, b"".join(receiver.chunks)

    def test_silence_leaves_nothing_behind(self, backup: tuple[Any, bytes]) -> None:
        world, (answer, data) = ConsumerWorld(), backup
        before = len(world.ports.subscriptions)
        begun = world.api("STREAM.RESTORE.S", {"config": answer["config"], "state": answer["state"]})
        world.request(begun["deliver_subject"], data[:500])
        world.ports.advance(6 * SECOND_NS)
        assert len(world.ports.subscriptions) == before
        assert world.api("STREAM.INFO.S")["error"]["err_code"] == 10059
        assert "error" not in restore(world, answer, data)

    def test_a_chunk_without_reply_ends_it(self, backup: tuple[Any, bytes]) -> None:
        world, (answer, data) = ConsumerWorld(), backup
        begun = world.api("STREAM.RESTORE.S", {"config": answer["config"], "state": answer["state"]})
        world.ports.route(begun["deliver_subject"].encode(), None, None, data[:500])
        world.ports.settle()
        assert "error" not in restore(world, answer, data)

    def test_the_name_is_taken_meanwhile(self, backup: tuple[Any, bytes]) -> None:
        world, (answer, _) = ConsumerWorld(), backup
        asked = {"config": answer["config"], "state": answer["state"]}
        assert "error" not in world.api("STREAM.RESTORE.S", asked)
        assert world.api("STREAM.RESTORE.S", asked)["error"]["err_code"] == 10130
        overlapping = {"config": {"name": "T", "subjects": ["s.1"]}}
        assert world.api("STREAM.RESTORE.T", overlapping)["error"]["err_code"] == 10062

    def test_half_a_restore_is_removed_at_the_next_start(self, backup: tuple[Any, bytes]) -> None:
        world, (answer, data) = ConsumerWorld(), backup
        begun = world.api("STREAM.RESTORE.S", {"config": answer["config"], "state": answer["state"]})
        for at in range(0, len(data), 500):
            world.request(begun["deliver_subject"], data[at : at + 500])
        store = world.stores.made["S"]
        stores = FakeStores()
        config = ConsumerWorld()
        config.stream("S", ["s.>"])
        stores.recoverable = [Recovered(store, 1, config.account.streams["S"].config)]
        later = ConsumerWorld(stores=stores)
        assert later.api("STREAM.NAMES")["streams"] is None
        assert any("restored only in part" in text for _, text in later.ports.logged)

    @pytest.mark.parametrize(
        ("entries", "problem"),
        [
            ([ArchiveEntry(b"x", 1, 1)], "expected state.json first"),
            ([ArchiveEntry(b"state.json", payload=b"[]")], "error in state.json"),
            (
                [ArchiveEntry(b"state.json", payload=b'{"consumer_count":1}'), ArchiveEntry(b"s.1", 1, 1)],
                "expected consumer, found",
            ),
            (
                [
                    ArchiveEntry(b"state.json", payload=b'{"consumer_count":1}'),
                    ArchiveEntry(b"consumers/a.b", payload=b"{}"),
                ],
                "missing",
            ),
            (
                [ArchiveEntry(b"state.json", payload=b"{}"), ArchiveEntry(b"s.1", 5, 2), ArchiveEntry(b"s.1", 6, 2)],
                "out of order",
            ),
            (
                [ArchiveEntry(b"state.json", payload=b"{}"), ArchiveEntry(b"s.1", 5, 0, b"", b"x")],
                "expected message sequence",
            ),
            ([ArchiveEntry(b"state.json", payload=b"{}"), ArchiveEntry(b"s.1", 5, 1)], "truncated"),
            (
                [ArchiveEntry(b"state.json", payload=b"{}"), ArchiveEntry(), ArchiveEntry(b"s.1", 5, 1)],
                "unexpected content",
            ),
            ([ArchiveEntry(b"state.json", payload=b"{}"), ArchiveEntry(b"", 5, 1), ArchiveEntry()], "no valid subject"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_archives_that_make_no_sense(self, entries: list[ArchiveEntry], problem: str) -> None:
        world, writer = ConsumerWorld(), S2Writer()
        data = writer.write(MAGIC + b"".join(map(encode_entry, entries))) + writer.close()
        answer = {"config": {"name": "S", "subjects": ["s.*"], "storage": "memory"}, "state": {}}
        error = restore(world, answer, data)["error"]
        assert error["err_code"] == 10062
        assert problem in error["description"]
        assert world.api("STREAM.NAMES")["streams"] is None


class TestFormats:
    def test_archives_in_any_pieces(self) -> None:
        entries = [
            ArchiveEntry(b"a", -5, 0, b"h", b"p"),
            ArchiveEntry(b"s" * 300, 1 << 60, 1 << 62, b"", bytes(5000)),
            ArchiveEntry(),
        ]
        data = MAGIC + b"".join(map(encode_entry, entries))
        for size in (1, 7, 1000, len(data)):
            reader = ArchiveReader()
            found = [entry for at in range(0, len(data), size) for entry in reader.feed(data[at : at + size])]
            assert found == entries and reader.is_between_entries

    @pytest.mark.parametrize("data", [b"NATSARC2", MAGIC + b"\xff" * 11, MAGIC + b"\xff\xff\xff\xff\x0f\0\0\0\0"])
    def test_archives_that_are_none(self, data: bytes) -> None:
        with pytest.raises(BadBackup):
            list(ArchiveReader().feed(data))

    @pytest.mark.parametrize(
        "data",
        [
            b"\x00\x05\x00\x00hello",
            b"\xff\x06\x00\x00nosuch",
            b"\xff\x06\x00\x00S2sTwO\x02\x01\x00\x00x",
            b"\xff\x06\x00\x00S2sTwO\x01\x05\x00\x00\0\0\0\0x",
            b"\xff\x06\x00\x00S2sTwO\x00\x05\x00\x00\0\0\0\0\x09",
            b"\x01\xff\xff\xff",
        ],
    )
    def test_streams_that_are_none(self, data: bytes) -> None:
        with pytest.raises(BadBackup):
            list(S2Reader().feed(data))

    def test_chunks_to_be_skipped(self) -> None:
        writer = S2Writer()
        data = (
            writer.write(b"") + b"\xfe\x03\x00\x00abc" + b"\x99\x01\x00\x00x" + writer.write(b"hello") + writer.close()
        )
        assert b"".join(S2Reader().feed(data)) == b"hello"

    @pytest.mark.parametrize("content", [b"", b"\x16", b"\x15\x02", b"\x16\x02\x01", b"\x16\x02\x01\x01\x01\x01\x05"])
    def test_consumer_states_that_are_none(self, content: bytes) -> None:
        with pytest.raises(BadBackup):
            consumer_state(content)

    def test_a_consumer_state_of_the_first_version(self) -> None:
        state = consumer_state(b"\x16\x01\x05\x07\x03\x04\x01\x14\x02\x03\x01\x02\x09")
        assert (state.delivered.consumer_seq, state.delivered.stream_seq) == (7, 10)
        assert (state.ack_floor.consumer_seq, state.ack_floor.stream_seq) == (5, 7)
        assert state.pending is not None and list(state.pending) == [9]
        assert state.redelivered == {9: 9}

    def test_a_tar_that_is_none(self) -> None:
        with pytest.raises(BadBackup):
            list(LegacyReader().feed(b"x" * 512))

    @pytest.mark.parametrize("size", [b"-0000000600\0", b"0_0000000_1\0", b"+0000000001\0"])
    def test_a_file_of_a_size_that_is_none(self, size: bytes) -> None:
        """Read as a number, a negative size would leave the reader where it is, for ever."""
        head = bytearray(512)
        head[:8], head[124:136], head[156:157] = b"meta.inf", size, b"x"
        head[148:156] = b"%06o\0 " % (sum(head) + 8 * ord(" "))
        with pytest.raises(BadBackup, match="invalid tar header"):
            list(LegacyReader().feed(bytes(head) + bytes(1024)))

    def test_an_extended_size_that_is_none(self) -> None:
        line = b"13 size=-600\n"
        head = bytearray(512)
        head[:8], head[124:136], head[156:157] = b"meta.inf", b"%011o\0" % len(line), b"x"
        head[148:156] = b"%06o\0 " % (sum(head) + 8 * ord(" "))
        with pytest.raises(BadBackup, match="invalid tar header"):
            list(LegacyReader().feed(bytes(head) + line.ljust(512, b"\0") + bytes(head) + bytes(1024)))

    def test_a_consumer_without_end(self) -> None:
        """Nested deeper than anything that is read: a complaint like any other."""
        with pytest.raises(BadBackup, match="failed to decode consumer"):
            state_of("C", b"[" * 100_000, SavedState(), 0)


def test_a_life_time_beyond_all_times_comes_back() -> None:
    """It ends at the last time that can be written, as when it was published."""
    world = ConsumerWorld()
    world.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_msg_ttl": True})
    world.publish("s.a", b"x", Nats_TTL="9223372036854775807")
    receiver = Receiver(world)
    before = world.account.streams["S"].store.get(1)
    other = ConsumerWorld()
    answer = restore(other, receiver.answer, b"".join(receiver.chunks))
    assert "error" not in answer
    assert other.account.streams["S"].store.get(1) == before


def test_a_consumer_in_a_tar_comes_back() -> None:
    now_ns = 1_700_000_000 * SECOND_NS
    states = [
        SavedState.of((0, 0), (0, 0), {}, {}),
        SavedState.of((9, 1 << 40), (3, 1 << 39), {1 << 40: (9, now_ns), (1 << 39) + 1: (4, 0)}, {1 << 40: 2}),
        # Given up below a floor that has passed it.
        SavedState.of((300, 300), (200, 200), {250: (251, now_ns - 5 * SECOND_NS)}, {7: 1, 250: 300}),
    ]
    for state in states:
        assert consumer_state(encode_state(state, now_ns)) == state


def _zeros(chunks: int) -> bytes:
    """A stream of 4 MiB of zeros a chunk, each of about 20 bytes."""
    size = 4 * 1024 * 1024
    # A literal zero, a copy of one byte from one byte back, and a repeat of that for the rest.
    block = b"\x80\x80\x80\x02" + b"\x00\x00" + b"\x02\x01\x00" + b"\x1d\x00" + (size - 2 - 65540).to_bytes(3, "little")
    crc = crc32c(bytes(size))
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    chunk = b"\x00" + (len(block) + 4).to_bytes(3, "little") + masked.to_bytes(4, "little") + block
    return b"\xff\x06\x00\x00S2sTwO" + chunk * chunks


class TestBombs:
    def test_kilobytes_that_would_become_gigabytes(self) -> None:
        bomb = _zeros(550)
        assert len(bomb) < 13_000
        reader, content_bytes = S2Reader(trusted=False), 0
        with pytest.raises(BadBackup, match="times larger"):
            for content in reader.feed(bomb):
                content_bytes += len(content)
        assert 0 < content_bytes < 100 * 1024 * 1024

    def test_what_is_trusted_may_be_very_small(self) -> None:
        assert sum(map(len, S2Reader().feed(_zeros(20)))) == 20 * 4 * 1024 * 1024

    def test_a_block_is_held_to_what_it_declares(self) -> None:
        larger = _zeros(1).replace(b"\x80\x80\x80\x02", b"\x80\x80\x80\x01")
        with pytest.raises(BadBackup, match="damaged"):
            list(S2Reader(trusted=False).feed(larger))

    def test_messages_of_zeros_are_restored(self) -> None:
        """Well above what a backup usually gains, and far below what is refused."""
        world, writer = ConsumerWorld(), S2Writer()
        entries = [ArchiveEntry(b"state.json", 1, 0, b"", b'{"bytes":5000000,"first_seq":1,"last_seq":5}')]
        entries += [ArchiveEntry(b"s.a", 1, seq, b"", bytes(1_000_000)) for seq in range(1, 6)]
        data = writer.write(MAGIC + b"".join(map(encode_entry, [*entries, ArchiveEntry()]))) + writer.close()
        answer = {"config": {"name": "S", "subjects": ["s.*"], "storage": "memory"}, "state": {}}
        assert restore(world, answer, data)["state"]["messages"] == 5
