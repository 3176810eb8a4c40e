"""Reading back: one piece at a time, in turn, and what happens when something cannot be read."""

import json

from slipstream.jetstream.account.scrub import SCRUB_INTERVAL_NS, Scrubber
from slipstream.jetstream.store.values import Lost
from slipstream.testing.sim_disk import SimDisk
from slipstream.units import SECOND_NS
from support.disk_world import disk_world
from support.jetstream_world import FakePorts, World


class Pieces:
    """A stream of so many pieces, which writes down who was read."""

    def __init__(self, name: str, pieces: int, read: list[str]) -> None:
        self._name = name
        self._pieces = pieces
        self._at = 0
        self._read = read

    def scrub_next(self) -> bool:
        if self._at == self._pieces:
            self._at = 0
            return False
        self._at += 1
        self._read.append(f"{self._name}{self._at}")
        return True


class Scrubbed:
    """An account of such streams."""

    def __init__(self, ports: FakePorts, read: list[str], **streams: int) -> None:
        self.ports = ports
        self.streams = {name: Pieces(name, pieces, read) for name, pieces in streams.items()}


def test_everything_in_turn_and_one_piece_an_interval() -> None:
    ports, read, scrubber = FakePorts(), list[str](), Scrubber()
    scrubber.join(Scrubbed(ports, read, b=2, a=1))
    scrubber.join(Scrubbed(ports, read, empty=0))
    scrubber.join(Scrubbed(ports, read, c=1))
    for count in range(1, 8):
        ports.advance(SCRUB_INTERVAL_NS)
        assert len(read) == count
    assert read == ["a1", "b1", "b2", "c1", "a1", "b1", "b2"]


def test_nothing_to_read_costs_one_look_an_interval() -> None:
    ports, read, scrubber = FakePorts(), list[str](), Scrubber()
    scrubber.join(Scrubbed(ports, read, empty=0))
    ports.advance(3 * SCRUB_INTERVAL_NS)
    assert read == []


def test_who_leaves_is_not_read_and_does_not_stop_the_others() -> None:
    first_ports, ports, read, scrubber = FakePorts(), FakePorts(), list[str](), Scrubber()
    first, second = Scrubbed(first_ports, read, a=9), Scrubbed(ports, read, b=9)
    scrubber.join(first)
    scrubber.join(second)
    first_ports.advance(SCRUB_INTERVAL_NS)
    scrubber.leave(first)
    scrubber.leave(first)
    first_ports.advance(9 * SCRUB_INTERVAL_NS)
    assert read == ["a1"]
    ports.advance(SCRUB_INTERVAL_NS)
    assert read == ["a1", "b1"]
    scrubber.leave(second)
    ports.advance(9 * SCRUB_INTERVAL_NS)
    assert read == ["a1", "b1"]


class _Piece:
    ended = False

    def run(self) -> None:
        """Nothing to do in a thread."""


def test_a_stream_reads_soon_and_says_what_is_lost() -> None:
    w = World(disk_like=True)
    w.create("S", subjects=["s"])
    w.publish("s")
    store = w.stores.made["S"]
    due: list[str] = []
    store.scrub_next = lambda: due.append("piece") is None
    store.begin_upkeep = lambda: _Piece() if due else None
    store.lost = lambda: Lost([] if due else [7, 9], 0)
    store.finish_upkeep = lambda _job: due.clear()
    w.ports.advance(SCRUB_INTERVAL_NS + 2 * SECOND_NS)
    w.ports.advance(SCRUB_INTERVAL_NS + 2 * SECOND_NS)
    assert [text for level, text in w.ports.logged if level == "ERR"] == [
        "Stream 'S' cannot read 2 of its messages any more"
    ]
    w.account.shutdown()
    w.ports.advance(SCRUB_INTERVAL_NS + 2 * SECOND_NS)
    assert due == []


def test_damage_is_told_in_info_log_and_advisory() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    w.create("S", subjects=["s"])
    for number in range(20):
        w.publish("s", b"message %d" % number)
    w.account.shutdown()
    path = next(path for path in disk.paths() if path.endswith(".seg"))
    at = bytes(disk.content(path)).index(b"message 7")
    disk.content(path)[at] ^= 1
    ports = FakePorts()
    heard: list[bytes] = []
    ports.subscribe(b"$JS.EVENT.ADVISORY.STREAM.DAMAGED.*", lambda *message: heard.append(message[3]))
    w = disk_world(disk, ports)
    ports.settle()
    assert w.state()["lost"]["msgs"] == [8]
    assert ("ERR", "Stream 'S' cannot read 1 of its messages any more") in ports.logged
    (advisory,) = map(json.loads, heard)
    assert (advisory["stream"], advisory["count"], advisory["lost"]["msgs"]) == ("S", 1, [8])
    assert w.api("STREAM.MSG.GET.S", {"seq": 8})["error"]["err_code"] == 10037
    assert "error" not in w.api("STREAM.MSG.GET.S", {"seq": 9})
    refused = w.api("STREAM.SNAPSHOT.S", {"deliver_subject": "there", "jsck": True})["error"]["description"]
    assert "snapshot check detected 1 bad messages" in refused
