"""Queue groups: one member a message, groups beside each other and beside plain subscriptions; order of delivery."""

from __future__ import annotations

from support.servers import Both
from support.transcript import Peer, Script, Talk, case, each, in_any_order, pub

MESSAGES = 400


def count(peer: Peer, sid: int) -> int:
    """Messages a peer received on a subscription."""
    return bytes(peer.received).count(b" %d 1\r\nx\r\n" % sid)


def is_fair(counts: list[int]) -> bool:
    """Whether each member had at least half of its equal share: by chance wrong once in many billions of runs."""
    return all(share >= sum(counts) / len(counts) / 2 for share in counts)


def members_share_evenly(talk: Talk) -> None:
    members = [talk.connect(f"member{index}") for index in range(4)]
    for member in members:
        member.send(b"SUB work q 1\r\n").sync()
    talk.connect("writer").send(pub("work", b"x") * MESSAGES).sync()
    for member in members:
        member.sync()
    _note_shares(talk, [count(member, 1) for member in members])


def members_of_one_connection_share(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(b"SUB work q 1\r\nSUB work q 2\r\nSUB work q 3\r\n" + pub("work", b"x") * MESSAGES).sync()
    _note_shares(talk, [count(peer, sid) for sid in (1, 2, 3)])


def wildcard_and_literal_members_share(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(b"SUB w.k q 1\r\nSUB w.* q 2\r\nSUB w.> q 3\r\n" + pub("w.k", b"x") * MESSAGES).sync()
    _note_shares(talk, [count(peer, sid) for sid in (1, 2, 3)])


def groups_are_independent(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(b"SUB work a 1\r\nSUB work a 2\r\nSUB work b 3\r\nSUB work b 4\r\nSUB work 5\r\n").sync()
    peer.send(pub("work", b"x") * MESSAGES).sync()
    shares = [count(peer, sid) for sid in (1, 2, 3, 4)]
    talk.note((shares[0] + shares[1], shares[2] + shares[3], count(peer, 5), is_fair(shares)))
    _forget_messages(talk)


def member_that_left_gets_nothing(talk: Talk) -> None:
    stays, leaves, writer = talk.connect("stays"), talk.connect("leaves"), talk.connect("writer")
    stays.send(b"SUB work q 1\r\n").sync()
    leaves.send(b"SUB work q 1\r\nUNSUB 1\r\n").sync()
    writer.send(pub("work", b"x") * 20).sync()
    leaves.sync()
    stays.sync()


def member_that_closed_gets_nothing(talk: Talk) -> None:
    stays, leaves, writer = talk.connect("stays"), talk.connect("leaves"), talk.connect("writer")
    stays.send(b"SUB work q 1\r\n").sync()
    leaves.send(b"SUB work q 1\r\nFOO\r\n").until_closed()
    # The last message of the closed member may have been lost; from here on all go to the other.
    writer.send(pub("work", b"x") * 20).sync()
    stays.sync()


def queue_request_has_one_answer(talk: Talk) -> None:
    servers = [talk.connect(f"server{index}") for index in range(3)]
    for server in servers:
        server.send(b"SUB ask q 1\r\n").sync()
    asker = talk.connect("asker")
    asker.send(b"SUB in 1\r\n" + pub("ask", b"x", "in")).sync()
    for server in servers:
        if b"MSG ask 1 in 1" in server.sync():
            server.send(pub("in", b"answer")).sync()
    asker.sync()
    talk.note(sum(b"MSG ask 1 in 1" in server.received for server in servers))
    talk.must_show(rb"MSG in 1 6\r\nanswer")
    _forget_messages(talk)


def _forget_messages(talk: Talk) -> None:
    """Chance decided who received what: only the notes are compared."""
    for peer in talk.peers:
        peer.received.clear()


def _note_shares(talk: Talk, shares: list[int]) -> None:
    talk.note((sum(shares), is_fair(shares)))
    _forget_messages(talk)


def one_publisher_many_readers_in_order(talk: Talk) -> None:
    readers = [talk.connect(f"reader{index}") for index in range(20)]
    for reader in readers:
        reader.send(b"SUB seq.* 1\r\n").sync()
    writer = talk.connect("writer")
    writer.send(b"".join(pub(f"seq.{index % 7}", b"%d" % index) for index in range(500))).sync()
    for reader in readers:
        reader.sync()
    talk.must_show(rb"MSG seq.2 1 3\r\n499")


def requests_in_flight_keep_their_order(talk: Talk) -> None:
    server, asker = talk.connect("server"), talk.connect("asker")
    server.send(b"SUB echo 1\r\n").sync()
    asker.send(b"SUB in.* 1\r\n" + b"".join(pub("echo", b"%d" % index, f"in.{index}") for index in range(100))).sync()
    server.sync()
    server.send(b"".join(pub(f"in.{index}", b"%d" % index) for index in range(100))).sync()
    asker.sync()


def drain_hands_over_what_is_on_its_way(talk: Talk) -> None:
    """UNSUB then PING: all messages routed before the UNSUB come before the PONG, none after it."""
    reader, writer = talk.connect("reader"), talk.connect("writer")
    reader.send(b"SUB d 1\r\nSUB d q 2\r\n").sync()
    writer.send(pub("d", b"before") * 50).sync()
    reader.send(b"UNSUB 1\r\nUNSUB 2\r\n").sync()
    writer.send(pub("d", b"after") * 50).sync()
    reader.sync()


def many_small_messages_to_self(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(b"SUB self 1\r\n" + b"".join(pub("self", b"%d" % index) for index in range(2000))).sync()
    talk.must_show(rb"1999")


CASES: list[Script] = [
    case("queue and plain", b"SUB foo q 1\r\n" + pub("foo"), rb"MSG foo 1 0"),
    in_any_order(
        case("plain beside queue", b"SUB foo 1\r\nSUB foo q 2\r\nSUB foo r 3\r\n" + pub("foo"), rb"MSG foo 3")
    ),
    in_any_order(
        case("same subject, three groups", b"SUB f a 1\r\nSUB f b 2\r\nSUB f A 3\r\n" + pub("f"), rb"MSG f 3")
    ),
    case("reserved group name", b"SUB foo _sys_ 1\r\nSUB foo 2\r\n" + pub("foo"), rb"Permissions Violation"),
    case("group name with dots", b"SUB foo a.b.c 1\r\n" + pub("foo"), rb"MSG foo 1"),
    case("long group name", b"SUB foo " + b"q" * 1000 + b" 1\r\n" + pub("foo"), rb"MSG foo 1"),
]

SCRIPTS: list[Script] = [
    members_share_evenly,
    members_of_one_connection_share,
    wildcard_and_literal_members_share,
    groups_are_independent,
    member_that_left_gets_nothing,
    member_that_closed_gets_nothing,
    queue_request_has_one_answer,
    one_publisher_many_readers_in_order,
    requests_in_flight_keep_their_order,
    in_any_order(drain_hands_over_what_is_on_its_way),
    many_small_messages_to_self,
]


@each([*CASES, *SCRIPTS])
def test_queues_and_order(both: Both, script: Script) -> None:
    both().agree(script)
