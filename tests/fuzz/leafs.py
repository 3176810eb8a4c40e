"""Targets: what another server says over a leaf link, from its first byte on, to a hub and to a leaf; and the answer to
the request for a WebSocket, with what comes behind it."""

from __future__ import annotations

import base64

from fuzz.target import ACCOUNT_COST, Target, cut, option
from slipstream.protocol.host import State
from slipstream.protocol.limits import WEBSOCKET_CONTROL_BYTES_MAX, WEBSOCKET_INFLATE_STEP_BYTES
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_call import WebSocketCall, WebSocketRefused
from slipstream.protocol.ws_frames import deflated
from slipstream.protocol.ws_handshake import accept_of
from slipstream.server.errors import LinkUnreadable
from slipstream.server.links.websocket import LinkWebsocket
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


def websocket_answer(data: bytes) -> None:
    """Whatever answers a request is understood or refused, and bytes behind it are frames, or the end: never more."""
    flags, stream = option(data)
    call = WebSocketCall("h", "/leafnode", bytes(16), compression=bool(flags & 1), masking=bool(flags & 2))
    websocket = LinkWebsocket(call=call, new_mask=lambda: b"abcd")
    assert websocket.control() == call.request
    try:
        for piece in cut(stream):
            websocket.receive(piece)
            while (content := websocket.next_content()) is not None:
                assert 0 < len(content) <= max(len(stream), WEBSOCKET_INFLATE_STEP_BYTES)
    except (WebSocketRefused, LinkUnreadable):
        pass
    websocket.close(CloseReason.CLIENT_CLOSED)
    assert len(websocket.control()) <= WEBSOCKET_CONTROL_BYTES_MAX + 200


def websocket_seeds() -> list[bytes]:
    """Answers that agree to all, to nothing, and none."""
    proof = accept_of(base64.b64encode(bytes(16)))
    head = b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + proof + b"\r\n"
    deflate = (
        b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
    )
    frames = b"\x82\x06INFO\r\n\x89\x01a\x88\x02\x03\xe8"
    squeezed = deflated([b"INFO {}\r\n" * 20])
    agreed = head + deflate + b"Nats-No-Masking: true\r\n\r\n"
    return [
        b"\2" + head + b"\r\n" + frames,
        b"\1" + agreed + bytes((0xC2, len(squeezed))) + squeezed,
        b"\0HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
    ]


WEBSOCKET_WORDS = (
    b"HTTP/1.1 101 ",
    b"\r\n\r\n",
    b"permessage-deflate",
    b"\xc2",
    b"\x82",
    b"\x89",
    b"\x88\x00",
    b"\x82\x7f",
)

TARGETS = (
    Target("leaf-session", leaf_session, leaf_seeds, LEAF_WORDS, ACCOUNT_COST),
    Target("websocket-answer", websocket_answer, websocket_seeds, WEBSOCKET_WORDS),
)
