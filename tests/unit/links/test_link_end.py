"""What all links have in common: PING and PONG, closing, complaints, and what logs say."""

from __future__ import annotations

import pytest

from slipstream.kernels.links import linkparser as wire
from slipstream.links.traffic import PastTraffic
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from support.leaf_link_world import LeafLinkWorld
from support.leaf_link_world import said as leaf_said
from support.link_world import LinkWorld, said


def test_a_ping_is_answered_and_an_answer_gives_the_round_trip_time() -> None:
    link = LinkWorld().peer()
    keepalive = link.end.keepalive
    said(link)
    link.parser.feed(b"PONG\r\n")
    assert keepalive.rtt_ns == 0, "nobody asked"
    keepalive.ask()
    keepalive.ask()
    assert said(link) == b"PING\r\nPING\r\n" and keepalive.unanswered == 2
    link.parser.feed(b"PING\r\nPONG\r\n")
    assert said(link) == b"PONG\r\n"
    assert keepalive.unanswered == 0 and keepalive.rtt_ns > 0


def test_a_link_closes_once_with_its_first_reason() -> None:
    world = LeafLinkWorld()
    link = world.leaf()
    leaf_said(link)
    link.refuse(CloseReason.MAX_PAYLOAD, "too much")
    link.close(CloseReason.SERVER_SHUTDOWN, "bye")
    assert leaf_said(link) == b"-ERR 'too much'\r\n"
    assert link.end.close_reason is CloseReason.MAX_PAYLOAD and link.end.state is State.CLOSED
    assert world.edge.closed == [link]
    assert f"[ERR] 10.0.0.1:1 - lid:{link.cid} - too much" in world.edge.lines


@pytest.mark.parametrize(
    ("kind", "reason", "text"),
    [
        (wire.EARLY_OPERATION, CloseReason.AUTHENTICATION_VIOLATION, b"Authorization Violation"),
        (wire.CONTROL_LINE_TOO_LONG, CloseReason.MAX_CONTROL_LINE, b"maximum control line exceeded"),
        (wire.PAYLOAD_TOO_LARGE, CloseReason.MAX_PAYLOAD, b"Maximum Payload Violation"),
        (wire.BAD_ARGUMENTS, CloseReason.PROTOCOL_VIOLATION, b"Unknown Protocol Operation"),
    ],
)
def test_each_violation_has_its_reason(kind: int, reason: CloseReason, text: bytes) -> None:
    link = LinkWorld().peer()
    said(link)
    link.end.violated(kind, b"LINE")
    assert link.end.close_reason is reason
    assert text.lower() in said(link).lower()


def test_who_does_not_read_is_a_slow_consumer() -> None:
    link = LinkWorld().peer()
    link.end.overflowed(5)
    assert link.end.close_reason is CloseReason.SLOW_CONSUMER_PENDING


def test_what_links_carried_is_counted_when_they_are_gone() -> None:
    world = LinkWorld()
    link = world.peer()
    link.parser.feed(b"RMSG $G foo 5\r\nhello\r\n")
    past = PastTraffic()
    past.add(link.end)
    past.add(link.end)
    assert (past.in_msgs, past.in_bytes) == (2, 10)
    link.close(CloseReason.CLIENT_CLOSED)
    assert (world.mesh.past.in_msgs, world.mesh.past.in_bytes) == (1, 5)
