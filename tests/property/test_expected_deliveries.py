"""A message that was expected is handed out ahead of the slice: nobody can tell, whatever happens in between.

Two worlds take the same steps; in one of them nothing is ever expected.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.consumer_world import SECOND_NS, ConsumerWorld, status

PULLS: list[Any] = [
    1,
    1,
    3,
    {"batch": 1, "expires": 5 * SECOND_NS},
    {"batch": 2, "expires": 60 * SECOND_NS, "idle_heartbeat": 2 * SECOND_NS},
    {"batch": 1, "no_wait": True},
    {"batch": 3, "max_bytes": 60, "expires": 60 * SECOND_NS},
]
CHANGES: list[dict[str, Any]] = [
    {"filter_subject": "s.a"},
    {"filter_subject": "s.b"},
    {"filter_subject": ""},
    {"max_ack_pending": 100},
    {"headers_only": True},
    {"description": "nothing else changes"},
]
step = st.one_of(
    st.tuples(st.just("publish"), st.tuples(st.sampled_from(["s.a", "s.a", "s.b"]), st.sampled_from([1, 1, 1, 2]))),
    st.tuples(st.just("publish and"), st.sampled_from(["s.a", "s.a", "s.b"])),
    st.tuples(st.just("pull"), st.sampled_from(PULLS)),
    st.tuples(st.just("answer"), st.sampled_from([b"+ACK", b"+ACK", b"-NAK", b"+TERM"])),
    st.tuples(st.just("wait"), st.sampled_from([SECOND_NS, 6 * SECOND_NS, 40 * SECOND_NS])),
    st.tuples(st.just("change"), st.sampled_from(CHANGES)),
    st.tuples(st.sampled_from(["delete", "purge", "leave", "pause", "reset", "restart"]), st.none()),
)


class Walk:
    """One world, and what a client remembers."""

    def __init__(self, *, expecting: bool, **config: Any) -> None:
        self.expecting = expecting
        self.world = ConsumerWorld()
        self.world.stream()
        self.config = config
        self.world.add(**config)
        self.answered = 0
        self.watch()

    def watch(self) -> None:
        if not self.expecting:
            self.world.consumer().deliverer.expect = lambda: None  # type: ignore[method-assign]

    def take(self, what: str, how: Any) -> None:
        w = self.world
        if what == "publish and":
            w.ports.route(how.encode(), None, None, b"x")  # the next step comes before this is committed
            return
        if what == "publish":
            w.fill(how[1], how[0])
        elif what == "pull":
            w.pull(how)
        elif what == "answer":
            messages = [message for message in w.ports.delivered if status(message) is None]
            if self.answered < len(messages):
                self.answered += 1
                w.ack(messages[self.answered - 1], how)
        elif what == "wait":
            w.ports.advance(how)
        elif what == "change":
            self.config = {**self.config, **how}
            body = {"name": "C", "durable_name": "C", "ack_policy": "explicit", **self.config}
            w.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": body, "action": "update"})
        elif what == "delete":
            w.api("STREAM.MSG.DELETE.S", {"seq": w.account.streams["S"].store.last_seq})
        elif what == "purge":
            w.api("STREAM.PURGE.S", {})
        elif what == "leave":
            w.ports.gone.add(b"_INBOX.pull.%d" % w.inboxes)
        elif what == "pause":
            w.api("CONSUMER.PAUSE.S.C", {"pause_until": "2200-01-01T00:00:00Z"})
            w.fill(1)
            w.api("CONSUMER.PAUSE.S.C", {})
        elif what == "reset":
            w.api("CONSUMER.RESET.S.C", {})
        else:
            before = w.ports.delivered
            self.world = w.restart()
            self.world.inboxes = w.inboxes
            self.world.ports.delivered[:0] = before
            self.watch()
        self.world.ports.settle()


@settings(deadline=None, max_examples=150)
@given(
    steps=st.lists(step, max_size=30),
    acks=st.sampled_from(["explicit", "none"]),
    chosen=st.sampled_from(["", "s.a"]),
    max_ack_pending=st.sampled_from([1, 2, 100]),
)
def test_nobody_can_tell(steps: list[tuple[str, Any]], acks: str, chosen: str, max_ack_pending: int) -> None:
    config: dict[str, Any] = {"ack_policy": acks, "filter_subject": chosen, "ack_wait": 30 * SECOND_NS}
    if acks == "explicit":
        config["max_ack_pending"] = max_ack_pending
    one, other = Walk(expecting=True, **config), Walk(expecting=False, **config)
    for what, how in steps:
        for walk in (one, other):
            walk.take(what, how)
        if what == "publish and":
            continue
        for walk in (one, other):
            walk.world.check()
        assert one.world.ports.delivered == other.world.ports.delivered, (what, how)
        assert one.world.numbers() == other.world.numbers(), (what, json.dumps(how, default=str))
