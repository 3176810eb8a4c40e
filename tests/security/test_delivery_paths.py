"""Every way on which a message can reach a subscription asks the same question: may this client have this subject?"""

from __future__ import annotations

import pytest

from models import subject as subjects
from support.hub_world import HubClient, HubWorld
from support.transcript import frames, hpub, pub

# The reader may not have anything called `*.secret`, nor `q.>` in the queue named `closed`.
CONFIG = """
accounts {
  A: {
    users = [
      { user: reader, password: x, permissions: { subscribe: { deny: ["*.secret", "q.> closed", "_R_.>"] } } }
      { user: writer, password: x }
    ]
    mappings = {
      static.secret: a.secret
      static.open: a.open
      dice: [{ destination: a.secret, weight: 50% }, { destination: b.secret, weight: 50% }]
    }
    exports = [{ stream: "s.>" }, { service: svc.secret }, { service: svc.open }]
    imports = [{ service: { account: B, subject: far.secret }, to: near.open }]
  }
  B: {
    users = [
      { user: other, password: x, permissions: { subscribe: { deny: ["s.secret", "in.secret"] } } }
      { user: asker, password: x }
    ]
    exports = [{ service: far.secret }]
    imports = [
      { stream: { account: A, subject: "s.>" } }
      { service: { account: A, subject: svc.secret } }
      { service: { account: A, subject: svc.open } }
    ]
  }
}
"""
TRACE = b"Nats-Trace-Dest: traces.secret\r\n"
WAYS = {
    "publish": pub("a.secret", b"x"),
    "publish with headers": hpub("a.secret", b"A: b\r\n", b"x"),
    "publish with a reply": pub("a.secret", b"x", "in"),
    "static mapping": pub("static.secret", b"x"),
    "weighted mapping": pub("dice", b"x") * 20,
    "traced publish": hpub("a.secret", b"Nats-Trace-Dest: t\r\n", b"x"),
    "the trace itself": hpub("nobody", TRACE, b"x"),
    "the trace alone": hpub("nobody", TRACE + b"Nats-Trace-Only: true\r\n", b"x"),
    "queue": pub("q.x", b"x"),
    "traced through a queue": hpub("q.x", b"Nats-Trace-Dest: t\r\n", b"x"),
}
PLAIN = b"SUB > 1\r\nSUB *.* 2\r\nSUB *.> 3\r\nSUB a.* 4\r\nSUB *.secret 5\r\n"
QUEUED = b"SUB q.* closed 6\r\nSUB q.> closed 7\r\n"


def _user(world: HubWorld, name: str, ops: bytes = b"", **connect: object) -> HubClient:
    client = world.connect(user=name, **{"pass": "x"}, **connect)
    client.send(ops)
    client.take()
    return client


def _received(client: HubClient) -> list[bytes]:
    lines = [frame.split(b"\r\n")[0].split(b" ") for frame in frames(client.take())]
    return [words[1] for words in lines if words[0] in (b"MSG", b"HMSG")]


@pytest.mark.parametrize(
    "talk", [{}, {"verbose": True}, {"pedantic": True}, {"headers": False, "no_responders": False}]
)
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_denied_subjects_are_withheld_on_every_way(way: str, talk: dict[str, bool], logged: bool) -> None:
    """Advisory 2026-26: a second way to a subscription forgot the check of the first. CVE-2022-29946: so did queues."""
    world = HubWorld(("trace: true\n" if logged else "") + CONFIG)
    reader = _user(world, "reader", PLAIN + QUEUED, **talk)
    witness = _user(world, "writer", b"SUB > 1\r\n")
    writer = _user(world, "writer", b"", **{**talk, "headers": True})
    for _ in range(3):
        # The first time it is decided, then remembered.
        writer.send(WAYS[way])
        assert _received(witness), "there was something to withhold"
        for name in _received(reader):
            assert not subjects.matches(b"*.secret", name), name
            assert name != b"q.x" or way.endswith("queue"), name


def test_an_allowed_copy_beside_a_denied_one() -> None:
    """CVE-2022-29946: a member of a queue that may not have the subject does not take the place of one that may."""
    world = HubWorld(CONFIG)
    _user(world, "reader", b"SUB q.> closed 1\r\n")
    member = _user(world, "writer", b"SUB q.> closed 1\r\n")
    writer = _user(world, "writer")
    for _ in range(50):
        writer.send(pub("q.x"))
    assert len(_received(member)) == 50


def test_imported_streams_are_judged_by_the_name_they_have_here() -> None:
    """Advisory 2026-26: messages of another account are under the permissions of the client they go to."""
    world = HubWorld(CONFIG)
    other = _user(world, "other", b"SUB > 1\r\nSUB s.* 2\r\nSUB s.> q 3\r\n")
    writer = _user(world, "writer")
    for _ in range(3):
        writer.send(pub("s.secret") + pub("s.open"))
        assert set(_received(other)) == {b"s.open"}


def test_requests_and_answers_across_accounts() -> None:
    """Advisory 2026-26: a service request and its answer are deliveries as others are."""
    world = HubWorld(CONFIG)
    reader = _user(world, "reader", PLAIN)
    service = _user(world, "writer", b"SUB svc.* 1\r\n")
    other = _user(world, "other", b"SUB in.* 1\r\n")
    for number in range(3):
        other.send(pub("svc.secret", b"?", "in.secret"))
        other.send(pub("svc.open", b"?", "in.open"))
        assert set(_received(reader)) <= {b"svc.open"}, number
        ways_back = [frame.split(b" ")[3] for frame in frames(service.take())]
        for way_back in ways_back:
            service.send(b"PUB %b 2\r\nok\r\n" % way_back)
        assert _received(other) == [b"in.open"]
        assert set(_received(reader)) == set(), "nor is the way back seen on its way"


@pytest.mark.parametrize("warm", [False, True])
def test_permissions_of_a_reload_hold_at_once(warm: bool) -> None:
    """Advisory 2026-26: what is remembered of the old permissions is forgotten with them."""
    world = HubWorld(CONFIG)
    reader = _user(world, "reader", b"SUB > 1\r\n")
    writer = _user(world, "writer")
    if warm:
        writer.send(pub("b.open") * 5)
        assert len(_received(reader)) == 5
    world.hub.reload(HubWorld(CONFIG.replace('["*.secret"', '["*.open"')).options)
    reader.take()
    writer.send(pub("b.open") * 3 + pub("b.secret") * 3)
    assert _received(reader) == [b"b.secret"] * 3
