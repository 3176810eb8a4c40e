"""Mirrors and sources under any history of their origin, losses and restarts: nothing missing, nothing twice."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slipstream.jetstream import headers
from slipstream.jetstream.store.values import StoredMessage
from slipstream.jetstream.stream.copies.source_names import SOURCE_HEADER, origin_of
from support.copy_world import SECOND_NS, CopyWorld, restarted

SUBJECTS = 3


class Copies(RuleBasedStateMachine):
    """One origin, a mirror of it, and a stream that takes two thirds of it from two sources and keeps little."""

    def __init__(self) -> None:
        super().__init__()
        self.world = CopyWorld()
        self.world.origin()
        self.world.mirror()
        self.world.sources(
            {"name": "O", "filter_subject": "o.0"},
            {"name": "O", "filter_subject": "o.1"},
            max_msgs=3,
            republish={"src": ">", "dest": "stored.>"},
        )
        self.published: dict[int, tuple[bytes, bytes]] = {}
        self.sourced: dict[str, list[int]] = {}  # source → origin's sequences in the order they were stored
        self.copied: list[tuple[int, bytes, bytes]] = []  # not compared with what was published yet
        self.listen()

    @rule(number=st.integers(0, SUBJECTS - 1), count=st.integers(1, 5))
    def publish(self, number: int, count: int) -> None:
        for _ in range(count):
            payload = b"%d" % len(self.published)
            ack = self.world.publish(f"o.{number}", payload)
            self.published[ack["seq"]] = (b"o.%d" % number, payload)

    @rule(choice=st.integers(0, 10**6))
    def delete(self, choice: int) -> None:
        seqs = self.world.seqs("O")
        if seqs:
            self.world.api("STREAM.MSG.DELETE.O", {"seq": seqs[choice % len(seqs)]})

    @rule(keep=st.integers(0, 3))
    def purge(self, keep: int) -> None:
        self.world.api("STREAM.PURGE.O", {"keep": keep})

    @rule(pattern=st.lists(st.booleans(), max_size=6))
    def lose(self, pattern: list[bool]) -> None:
        """Some of the next deliveries do not arrive."""
        fates = iter(pattern)
        self.world.ports.passes = lambda _: next(fates, True)

    @rule(tenths=st.integers(1, 40))
    def wait(self, tenths: int) -> None:
        self.world.wait(tenths * SECOND_NS // 10)

    @rule()
    def restart(self) -> None:
        self.world = restarted(self.world)
        self.listen()

    @rule()
    def catch_up(self) -> None:
        """After a while without losses everything the origin has is in its copies."""
        self.world.ports.passes = lambda _: True
        self.world.wait(30 * SECOND_NS)
        mirror = set(self.world.seqs("M"))
        assert mirror >= set(self.world.seqs("O"))
        for index, number in (("O o.0 >", 0), ("O o.1 >", 1)):
            wanted = [seq for seq in self.world.seqs("O") if self.published[seq][0] == b"o.%d" % number]
            assert set(wanted) <= set(self.sourced.get(index, [])), index

    def listen(self) -> None:
        """Hear of everything that is stored in the source stream, which keeps only the last three."""
        self.world.ports.subscribe(b"stored.>", self.stored)

    def stored(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        found = origin_of(headers.find(header or b"", SOURCE_HEADER) or b"")
        assert found is not None
        _, index, seq = found
        self.sourced.setdefault(index, []).append(seq)
        self.copied.append((seq, subject.removeprefix(b"stored."), payload))

    @invariant()
    def in_order_and_once(self) -> None:
        for seqs in self.sourced.values():
            assert seqs == sorted(set(seqs))
        while self.copied:
            seq, subject, payload = self.copied.pop()
            assert self.published[seq] == (subject, payload)

    @invariant()
    def a_mirror_never_differs(self) -> None:
        store = self.world.account.streams["M"].store
        for seq in self.world.seqs("M"):
            message = store.get(seq)
            assert isinstance(message, StoredMessage)
            assert self.published[seq] == (message.subject, message.payload)


TestCopies = Copies.TestCase
TestCopies.settings = settings(stateful_step_count=25, deadline=None)
