"""Targets: what another server says over a leaf link, from its first byte on, to a hub and to a leaf."""

from __future__ import annotations

from fuzz.target import ACCOUNT_COST, Target, cut, option
from slipstream.protocol.host import State
from support.leaf_link_world import LeafLinkWorld, connect, leaf_info, said

_CONFIG = """
max_subscriptions: 50
accounts { A { users [ {user: u, password: p, permissions { publish: ["a.>"], subscribe { deny: "b.>" } }} ] } }
no_auth_user: u
"""


def leaf_session(data: bytes) -> None:
    """Whatever comes is answered or ends the link; nothing stays of a link that ended, and another one is served on."""
    flags, stream = option(data)
    world = LeafLinkWorld(_CONFIG if flags & 2 else "")
    other = world.leaf(name="other", cluster="other")
    before = {name: account.interest.count for name, account in world.hub.accounts.items()}
    link = world.dialled() if flags & 1 else world.accepted()
    for piece in cut(stream):
        if link.end.state is not State.CLOSED:
            link.parser.feed(piece)
    said(link)
    if link.end.state is State.CLOSED:
        assert link.cid not in world.nodes.links
        assert {name: account.interest.count for name, account in world.hub.accounts.items()} == before
    assert link.subscription_count <= 50 or not flags & 2
    assert other.end.state is State.READY
    said(other)
    other.parser.feed(b"PING\r\n")
    assert said(other) == b"PONG\r\n"


def leaf_seeds() -> list[bytes]:
    """Handshakes of both sides, with interest and messages behind them."""
    lines = b"LS+ a.b\r\nLS+ a.* q 3\r\nLS- a.b\r\nLMSG a.b 2\r\nhi\r\nLMSG a.b + r q 2\r\nhi\r\nPING\r\nPONG\r\n"
    header = b"HMSG a.b | q 12 14\r\nNATS/1.0\r\n\r\nhi\r\n-ERR 'x'\r\n+OK\r\n"
    rights = {"export": {"allow": ["a.>"]}, "import": {"deny": ["b.>"]}}
    accepted = connect(deny_pub=["c"], isolate=True) + lines + header
    dialled = leaf_info() + leaf_info(connect_info=True, remote_account="R", **rights) + lines + header
    return [b"\0" + accepted, b"\2" + accepted, b"\1" + dialled, b"\3" + dialled, b"\0" + connect(is_hub=True) + lines]


LEAF_WORDS = (
    *(b"LS+ ", b"LS- ", b"LMSG ", b"HMSG ", b"INFO {", b"CONNECT {", b"$LDS.", b"_R_.", b"$JS.API.", b" q 1\r\n"),
    *(
        b'"connect_info":true',
        b'"deny_pub":["',
        b'"cluster":"',
        b'"client_id":1',
        b'"leafnode_urls":[]',
        b'"is_hub":true',
    ),
)

TARGETS = (Target("leaf-session", leaf_session, leaf_seeds, LEAF_WORDS, ACCOUNT_COST),)
