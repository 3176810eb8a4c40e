"""What servers of a cluster tell each other about it, and what its log holds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

import msgspec

from fuzz.target import Target, cut
from slipstream.errors import StorageFault
from slipstream.replication.descriptions import DESCRIBE, DescribeStream, Descriptions
from slipstream.replication.meta.entries import Assignment, Node, decode, encode
from slipstream.replication.meta.founding import decode_promise, encode_promise
from slipstream.replication.meta.state import MetaState
from slipstream.replication.peer_calls import PeerCalls
from support.founding_world import FoundingWorld
from support.meta import assignment, node

if TYPE_CHECKING:
    from slipstream.replication.hosting import Hosting  # needs the Raft core


def entry(data: bytes) -> None:
    """A message of the meta group's log is refused, or what it says can be held, and told again."""
    subject, _, payload = data.partition(b"\0")
    try:
        found = decode(subject, payload)
    except StorageFault:
        return
    assert encode(found)[0] == subject
    state = MetaState()
    state.put(found)
    state.copy().remove(subject)
    if isinstance(found, Assignment):
        assert state.find(found.account, found.name) is found


def founding(data: bytes) -> None:
    """Whatever another server says, this one promises one charter at most, and goes on."""
    world = FoundingWorld(1, ["a", "b", "c"], 3)
    one, two, _ = world.founders.values()
    for piece in [data, *cut(data)]:
        one.founding.receive(two.name, piece)
        one.sync()
        one.founding.tick(1)
    assert not one.charters or one.founding.charter == one.charters[0]
    with suppress(ValueError):
        promise = decode_promise(data)
        assert decode_promise(encode_promise(promise)) == promise


def peer_call(data: bytes) -> None:
    """Whatever another server asks or answers, this one goes on."""
    told: list[bytes] = []
    descriptions = Descriptions(lambda _: None, cast("Hosting", None), lambda: None)
    calls = PeerCalls(
        1, lambda *_: None, lambda _, answer: told.append(answer), lambda work: work(), descriptions.handle
    )
    calls.ask([1, 2], "nothing", b"", lambda _, answer: told.append(answer))
    for piece in [data, *cut(data)]:
        calls.asked(2, piece)
        calls.answered(2, piece)
    descriptions.look()
    assert all(isinstance(one, bytes) for one in told)


def peer_call_seeds() -> list[bytes]:
    sent: list[bytes] = []
    calls = PeerCalls(
        1, lambda _, data: sent.append(data), lambda _, data: sent.append(data), lambda _: None, lambda *_: None
    )
    for method, body in (
        (DESCRIBE, msgspec.msgpack.encode(DescribeStream("A", "S", 2, 1))),
        ("other", b""),
    ):
        calls.ask([2], method, body, lambda *_: None)
    return [*sent, msgspec.msgpack.encode((1, b"answer"))]


def entry_seeds() -> list[bytes]:
    made: list[Node | Assignment] = [node("n1", tags=["a"]), assignment("S", peers=[1, 2, 3], max_bytes=5)]
    return [b"\0".join(encode(one)) for one in made]


def founding_seeds() -> list[bytes]:
    world = FoundingWorld(1, ["a", "b", "c"], 3)
    kept: list[bytes] = []
    for one in world.founders.values():
        one.meet_all()
    for _ in range(40):
        kept += [message for _, _, message in world.mail]
        for sender, to, message in [world.mail.pop(0) for _ in range(len(world.mail))]:
            world.founders[to].founding.receive(sender, message)
        for one in world.founders.values():
            one.sync()
            one.founding.tick(1)
    assert all(one.charters for one in world.founders.values())
    return [*dict.fromkeys(kept)][:24] + [one.disk for one in world.founders.values() if one.disk is not None]


TARGETS = (
    Target("meta-entry", entry, entry_seeds, (b"stream.", b"node.", b"\x00")),
    Target("peer-call", peer_call, peer_call_seeds, (b"describe", b"list", b"usage")),
    Target("founding", founding, founding_seeds, (b"C1", b"\x90", b"\xc0")),
)
