"""Subject spaces a client may not use, and system subjects seen from an ordinary account."""

from __future__ import annotations

from support.normalise import hide
from support.requests import note_json, request
from support.servers import Both
from support.transcript import Script, Talk, case, each, hpub, pub

REPLIES = [
    "$JS.ACK.S.C.1.1.1.1.0",
    "$JS.ACK",
    "$JS.ACK.",
    "_R_.x",
    "_R_",
    "_GR_.x.y.z",
    "_GR_",
    "$GR.x.y",
    "$JS.FC.x",
    "$NRG.x",
]
SUBJECTS = [
    "_GR_.x",
    "_GR_.a.b.c",
    "$GR.x.y.z",
    "_R_.x",
    "$NRG.x",
    "$JSC.x",
    "$LDS.x",
    "$SYS.x",
    "$JS.x",
    "$KV.b.k",
    "$MQTT.x",
]

CASES: list[Script] = [
    *[case(f"reply {reply}", b"SUB foo 1\r\n" + pub("foo", b"", reply), rb"PONG") for reply in REPLIES],
    *[case(f"header reply {reply}", b"SUB foo 1\r\n" + hpub("foo", b"A: b\r\n", b"", reply)) for reply in REPLIES[:4]],
    *[
        case(f"publish {subject}", f"SUB {subject} 1\r\n".encode() + pub(subject, b"x"), rb"PONG")
        for subject in SUBJECTS
    ],
    *[case(f"publish {subject}, verbose", pub(subject, b"x"), rb"PONG", verbose=True) for subject in SUBJECTS[:5]],
    *[case(f"subscribe {subject}", f"SUB {subject}.> 1\r\n".encode(), rb"PONG") for subject in SUBJECTS],
    case("reply reserved, verbose", pub("foo", b"", "$JS.ACK.x"), rb"Publish with Reply of", verbose=True),
    case("reply reserved, pedantic", pub("foo", b"", "$JS.ACK.x"), rb"Publish with Reply of", pedantic=True),
    case("reply reserved, nobody there", b"SUB in 1\r\n" + pub("nobody.here", b"", "_R_.x"), rb"PONG"),
    case("publish to a reply space by wildcard", pub("_GR_.*", b"x"), rb"PONG"),
]

REQUESTS = [
    "$SYS.REQ.USER.INFO",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.SERVER.PING.VARZ",
    "$SYS.REQ.SERVER.PING.CONNZ",
    "$SYS.REQ.ACCOUNT.PING.CONNZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ",
    "$SYS.REQ.ACCOUNT.$G.INFO",
    "$SYS.REQ.SERVER.PING.JSZ",
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    "$JS.API.CONSUMER.MSG.NEXT.S.C",
]
VOLATILE = (
    "server",
    "now",
    "cid",
    "start",
    "last_activity",
    "uptime",
    "idle",
    "rtt",
    "port",
    "client_id",
    "server_id",
    "num_connections",
    "total",
    "conns",
    "total_conns",
    "sent",
    "received",
    "connections",
    "num_subscriptions",
)


def asked(subject: str) -> Script:
    """A script that asks a system subject from an ordinary account and compares the answer."""

    def ask(talk: Talk) -> None:
        peer = talk.connect("asker", name="asker")
        note_json(talk, subject, hide(request(peer, subject), *VOLATILE))

    ask.__name__ = f"request {subject}"
    return ask


@each(CASES)
def test_reserved_subjects(both: Both, script: Script) -> None:
    both().agree(script)


@each([asked(subject) for subject in REQUESTS])
def test_system_requests_from_an_ordinary_account(both: Both, script: Script) -> None:
    both("server_name: one").agree(script)
