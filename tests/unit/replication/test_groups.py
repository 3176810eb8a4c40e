"""All groups of a node: one clock, one batch a turn for each peer."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.replication.raft.groups import Batch, Groups


class Wire:
    def __init__(self) -> None:
        self.connected = True
        self.batches: list[tuple[int, list[tuple[int, bytes]]]] = []
        self.turn: list[Callable[[], None]] = []
        self.groups = Groups(self, self.turn.append)

    def send(self, to: int, batch: Batch) -> bool:
        if self.connected:
            self.batches.append((to, list(batch)))
        return self.connected

    def end_turn(self) -> None:
        while self.turn:
            self.turn.pop(0)()


class Taker:
    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.ticks = 0
        self.messages: list[bytes] = []
        self.lost: list[int] = []
        self.others: list[tuple[int, int, bytes]] = []

    def tick(self) -> None:
        self.ticks += 1

    def receive(self, message: bytes) -> bool:
        self.messages.append(message)
        return self.takes

    def unreachable(self, node: int) -> None:
        self.lost.append(node)

    def other(self, sender: int, kind: int, body: memoryview) -> None:
        self.others.append((sender, kind, bytes(body)))


def test_a_turn_is_one_batch_a_peer() -> None:
    wire = Wire()
    wire.groups.send(7, 2, b"a")
    wire.groups.send(8, 3, b"b")
    wire.groups.send(9, 2, b"c", kind=4)
    assert not wire.batches
    wire.end_turn()
    assert wire.batches == [(2, [(7, b"\0a"), (9, b"\4c")]), (3, [(8, b"\0b")])]
    wire.groups.send(7, 2, b"d")
    wire.end_turn()
    assert len(wire.batches) == 3


def test_a_large_message_leaves_at_once_behind_those_before_it() -> None:
    wire, large = Wire(), bytes(1 << 20)
    wire.groups.send(7, 2, b"a")
    wire.groups.send(7, 3, b"b")
    wire.groups.send(8, 2, large)
    assert wire.batches == [(2, [(7, b"\0a"), (8, b"\0" + large)])]
    wire.end_turn()
    assert wire.batches[1:] == [(3, [(7, b"\0b")])]


def test_who_sends_is_told_of_a_loss_when_the_turn_ends() -> None:
    """A group sends amid its work, and answers have to leave in their order."""
    wire, one = Wire(), Taker()
    wire.groups.add(1, one)
    wire.connected = False
    wire.groups.send(1, 9, bytes(1 << 20))
    wire.groups.send(1, 9, bytes(1 << 20))
    assert one.lost == [] and wire.groups.undelivered == 2
    wire.end_turn()
    assert one.lost == [9]


def test_messages_find_their_groups() -> None:
    wire, one, two = Wire(), Taker(), Taker(takes=False)
    wire.groups.add(1, one, one.other)
    wire.groups.add(2, two)
    wire.groups.received(5, [(1, b"\0x"), (1, b"\3y"), (2, b"\0z"), (3, b"\0"), (1, b""), (2, b"\1")])
    assert one.messages == [b"x"] and one.others == [(5, 3, b"y")] and two.messages == [b"z"]
    assert wire.groups.dropped == 3  # refused, no such group, empty


def test_a_batch_that_is_lost_is_said_once_to_each_group() -> None:
    wire, one, gone = Wire(), Taker(), Taker()
    wire.groups.add(1, one)
    wire.groups.add(2, gone)
    wire.connected = False
    wire.groups.send(1, 9, b"a")
    wire.groups.send(1, 9, b"b")
    wire.groups.send(2, 9, b"c")
    wire.groups.remove(2)
    wire.end_turn()
    assert one.lost == [9] and not gone.lost and wire.groups.undelivered == 3


def test_a_tick_is_for_all_even_if_one_leaves_meanwhile() -> None:
    wire, last = Wire(), Taker()

    class Leaves(Taker):
        def tick(self) -> None:
            wire.groups.remove(1)

    wire.groups.add(1, Leaves())
    wire.groups.add(2, last)
    wire.groups.tick()
    assert last.ticks == 1 and len(wire.groups) == 1
