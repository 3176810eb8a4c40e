"""What clients and servers send each other: lines, messages, frames, the first line of a client."""

from __future__ import annotations

from functools import cache

from differential import test_linkparser as links
from differential import test_loadgen as loadgen
from differential import test_wire as wire
from fuzz.target import Target, cut, option
from models import loadgen as server_model
from models import wire as client_model
from models import wsframes as frame_model
from models.links import Rules
from models.wsframes import Frame, meaning
from slipstream.kernels.wire.wsframes import FrameReader
from slipstream.monitoring.query import UrlQuery
from slipstream.protocol.info import decode_connect
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.ws_origin import OriginPolicy
from slipstream.rest.call import ApiCall, CallHeaders
from slipstream.rest.handlers import steps_of
from slipstream.rest.http_side import HttpSide
from slipstream.rest.known_heads import KnownHeads
from slipstream.rest.pages import allowed_origin
from slipstream.rest.session import RestSession
from slipstream.rest.steps import Answer, HttpProblem
from support import keys
from support.hub_world import HubWorld

# --- lines of clients -----------------------------------------------------------------------------------------------


def client_lines(data: bytes) -> None:
    """The calls of the parser are those of the model, however the bytes come."""
    expected = client_model.parse(data, max_line=wire.MAX_LINE, max_payload=wire.MAX_PAYLOAD)
    assert wire.fed([data]) == expected
    pieces = cut(data)
    assert wire.fed(pieces) == expected
    assert wire.lent(pieces) == expected


def client_seeds() -> list[bytes]:
    return [
        b'CONNECT {"verbose":false}\r\nPING\r\nSUB a.* q 7\r\nUNSUB 7 5\r\nPUB a.b r 5\r\nhello\r\nPONG\r\n',
        b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nok\r\nhpub b r 12 12\nNATS/1.0\r\n\r\n\r\n+OK\r\n-ERR 'x'\r\nINFO {}\r\n",
        b"pub \t a  0 \r\n\r\nSub  > 1\nunsub 1\nPING junk\r\nPUB a 70000\r\n" + b"x" * 100,
    ]


CLIENT_WORDS = (
    *(b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR ", b"INFO "),
    *(b"\r\n", b"\n", b"\t", b"  ", b"NATS/1.0\r\n\r\n", b" 0\r\n\r\n", b" 199999\r\n"),
)

# --- lines of servers -----------------------------------------------------------------------------------------------


def server_lines(data: bytes) -> None:
    """Both readers find what the model finds; the one that hands messages out has a limit of its own for lines."""
    pieces = cut(data)
    loadgen.assert_scanner_agrees(data, [data])
    loadgen.assert_scanner_agrees(data, pieces)
    whole, parts = _decoded([data]), _decoded(pieces)
    assert whole == parts
    reading = server_model.read(data)
    if not whole[0]:
        assert whole[1] == [
            (m.subject.decode(errors="surrogateescape"), int(m.sid), m.header, m.payload) for m in reading.messages
        ]


def _decoded(pieces: list[bytes]) -> tuple[bool, list[tuple[str, int, bytes, bytes]]]:
    """Whether it broke, and the messages before that."""
    decoder, found = loadgen.serverdecode.Decoder(), []
    for piece in pieces:
        try:
            if (room := decoder.room) is not None and piece:
                size = min(len(room), len(piece))
                room[:size] = piece[:size]
                decoder.filled(size)
                piece = piece[size:]
            found += [(m.subject, m.sid, m.header, m.payload) for m in decoder.feed(piece)]
        except ValueError:
            return True, []
    return False, found


def server_seeds() -> list[bytes]:
    return [loadgen.EVERYTHING, b"MSG s 1 r 40000\r\n" + b"x" * 3000, b"MSG a 1 2\nab\r\nMSG a 1 2\nab\r\n"]


SERVER_WORDS = (
    *(b"MSG ", b"HMSG ", b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR '", b"INFO {", b"\r\n", b"\n", b"\t", b" 1 "),
    *(b" 32768\r\n", b" 2147483647\r\n", b"NATS/1.0\r\n\r\n"),
)

# --- WebSocket ------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """What comes out of frames is what the model finds, and the same however they are cut."""
    flags, stream = option(data)
    plain = frame_model.Reader(bool(flags & 2), bool(flags & 4))
    whole, pieces = (FrameReader(bool(flags & 2), bool(flags & 4)) for _ in range(2))
    expected = meaning(plain.feed(stream))
    found = meaning(whole.feed(stream))
    assert found == meaning([event for piece in cut(stream) for event in pieces.feed(piece)])
    assert whole.dead == pieces.dead == plain.dead
    assert found[1] == expected[1]
    # The model waits for whole frames, so it may lag behind by the beginning of the last one.
    mine, theirs = (b"".join(payload for _, payload in events[0]) for events in (found, expected))
    assert mine == theirs if plain.dead else mine.startswith(theirs)


def frame_seeds() -> list[bytes]:
    key = b"\x01\x02\x03\x04"
    many = [Frame(2, b"PING\r\n", key=key), Frame(9, b"hi", key=key), Frame(1, b"a" * 130, key=key, final=False)]
    many += [Frame(0, b"b" * 9, key=key), Frame(10, b"", key=key), Frame(8, b"\x03\xe8", key=key)]
    packed = [Frame(2, b"\xaa" * 20, key=key, reserved=4, final=False), Frame(0, b"\xbb", key=key)]
    return [
        b"\x06" + b"".join(frame.encode() for frame in many),
        b"\x06" + b"".join(frame.encode() for frame in packed),
        b"\x00" + Frame(2, b"plain").encode() + Frame(2, b"x", length_bytes=8).encode(),
        b"\x02" + Frame(2, length=2**63 - 1).encode() + b"abc",
    ]


# --- CONNECT --------------------------------------------------------------------------------------------------------

_CONFIGS = (
    "trace: true",
    f'authorization {{ users: [{{ user: a, password: "{keys.BCRYPT_OF_OPEN_SESAME}" }}] }}',
    f'authorization {{ users: [{{ user: a, password: b }}, {{ nkey: "{keys.USER_KEY}" }}] }}',
    "authorization { token: s3cret }",
)


@cache
def _world(number: int) -> HubWorld:
    return HubWorld(_CONFIGS[number])


def connect(data: bytes) -> None:
    """A client that says anything about itself gets in or is refused, and is gone afterwards."""
    flags, text = option(data)
    text = text.replace(b"\n", b" ")
    said = decode_connect(text)
    assert said is None or isinstance(said.name, str | None)
    world = _world(flags % len(_CONFIGS))
    client = world.open()
    client.send(b"CONNECT " + text + b"\r\nPING\r\nPUB a 1\r\nx\r\n")
    world.check_passwords()
    answer = client.take()
    assert client.is_closed or b"PONG\r\n" in answer or b"-ERR" in answer, answer
    if not client.is_closed:
        client.connection.close(CloseReason.CLIENT_CLOSED)
    world.lines.clear()
    assert not client.connection.subscriptions and client.connection.parser.dead


def connect_seeds() -> list[bytes]:
    return [
        b'\x00{"verbose":false,"pedantic":true,"headers":true,"no_responders":true,"protocol":1,"name":"x","lang":"py"}',
        b'\x01{"user":"a","pass":"open sesame","echo":false,"version":"1.0","sig":"AAAA","jwt":"a.b.c"}',
        b'\x02{"nkey":"%b","sig":"c2ln","Name":"\\u00e9"}' % keys.USER_KEY.encode(),
        b'\x03{"auth_token":"s3cret","account":"a","new_account":null,"protocol":1.0,"x":[{"y":{}}]}',
    ]


CONNECT_WORDS = tuple(
    b'"verbose":|"pass":|"user":|"nkey":|"sig":|"jwt":|"name":|"headers":|"no_responders":|"protocol":|true|false|null|'
    b'"\\ud800"|"\\u0000"|1e999|-0|99999999999999999999|{|}|[|]|,|"auth_token":'.split(b"|")
)

# --- lines of other servers -----------------------------------------------------------------------------------------


def link_lines(data: bytes) -> None:
    """The calls of the parser are those of the model, on routes and leafs, however the bytes come."""
    kind, lines = option(data)
    some = Rules(bool(kind & 1), bool(kind & 2), not kind & 4, not kind & 8, 4096)
    borders = [len(piece) for piece in cut(lines)]
    links.assert_calls(lines, [sum(borders[:at]) for at in range(1, len(borders))], some)


def link_seeds() -> list[bytes]:
    return [
        b"\x03RS+ A a.b\r\nRS+ A a.> q 3\r\nRS- A a.b\r\nLS+ o A x q 1\r\nLS- o A x q\r\nPING\r\n",
        b"\x03RMSG A a.b 5\r\nhello\r\nRMSG A a.b r 0\r\n\r\nHMSG A a.b + r q w 12 14\r\nNATS/1.0\r\n\r\nok\r\n",
        b"\x03LMSG o A a.b | q 0 2\r\nok\r\nINFO {}\r\nCONNECT {}\r\n+OK\r\n-ERR 'x'\r\n",
        b"\x00LS+ a.b\r\nLMSG a.b + r q 5\r\nhello\r\nHMSG a.b 12 12\r\nNATS/1.0\r\n\r\n\r\nLS- a.b q\r\n",
    ]


LINK_WORDS = (
    *(b"RS+ ", b"RS- ", b"LS+ ", b"LS- ", b"RMSG ", b"HMSG ", b"LMSG ", b"PING\r\n", b"INFO ", b"-ERR "),
    *(b" + ", b" | ", b"\r\n", b"\t", b" 0\r\n\r\n", b" 5\r\nhello\r\n"),
)

# --- requests of HTTP ------------------------------------------------------------------------------------------------

HTTP_BODY_MAX = 512


def http_requests(data: bytes) -> None:
    """What is asked does not depend on how the bytes come, and every request gets an answer or a step of NATS."""
    calls = _http_calls([data])
    assert _http_calls(cut(data)) == calls
    # What is remembered of a first time says the same the second time.
    assert _http_calls([data, data]) == _http_calls([data, data], remembers=False)
    for method, path, query, headers, body in calls:
        call = ApiCall(method, path, UrlQuery(query), CallHeaders(headers), body)
        session = RestSession({}, "", "_INBOX.x")
        session.receive(b"PONG\r\n")
        login = session.output()
        assert login.endswith(b"PING\r\n")
        try:
            allowed_origin(call, OriginPolicy())
            session.begin(steps_of(call))
        except HttpProblem:
            continue
        # Whatever was asked became whole lines: the parser of clients finds nothing that is no operation.
        lines = client_model.parse(session.output(), max_line=wire.MAX_LINE, max_payload=wire.MAX_PAYLOAD)
        assert session.outcome is not None or lines


def _http_calls(
    pieces: list[bytes], *, remembers: bool = True
) -> list[tuple[str, tuple[str, ...], str, tuple[tuple[str, str], ...], bytes]]:
    heads = None if remembers else KnownHeads(0)
    http, found = HttpSide(lambda: "now", HTTP_BODY_MAX, heads=heads), []
    for piece in pieces:
        if not piece:
            continue
        http.receive(piece)
        while (call := http.next_call()) is not None:
            if isinstance(call, ApiCall):
                query = "&".join(f"{name}={value}" for name, value in sorted(call.query._values.items()))
                found.append((call.method, call.path, query, call.headers.lines, call.body))
                http.answer(Answer(204))
    return found


def http_seeds() -> list[bytes]:
    return [
        b"POST /v1/publish/a.b?ack=true HTTP/1.1\r\nHost: h\r\nNats-Msg-Id: 1\r\nContent-Length: 2\r\n\r\nhi"
        b"GET /v1/kv/B/k?watch=1 HTTP/1.1\r\nHost: h\r\nLast-Event-ID: 7\r\n\r\n",
        b'PUT /v1/kv/B/a%2fb HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nIf-Match: "3"\r\n\r\n'
        b"2\r\nhi\r\n0\r\n\r\n",
        b"GET /v1/streams/S/messages?from_seq=3&subject=a,b HTTP/1.1\r\nHost: h\r\n"
        b"Accept: application/x-ndjson\r\n\r\n",
        b"POST /v1/request/a HTTP/1.0\r\nAuthorization: Basic dTpw\r\nExpect: 100-continue\r\n"
        b"Content-Length: 1\r\n\r\nx",
    ]


HTTP_WORDS = (
    *(b"GET ", b"PUT ", b"POST ", b"DELETE ", b"HEAD ", b"OPTIONS ", b" HTTP/1.1\r\n", b"/v1/", b"/kv/", b"%0d%0a"),
    *(b"Host: h\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"Origin: null\r\n", b"X-Nats-a: \r\n"),
    *(b"\r\n\r\n", b"0\r\n\r\n", b"?timeout=1ns", b"&ttl=1h", b"?purge=true", b"%20", b"*", b">"),
)

TARGETS = (
    Target("client-lines", client_lines, client_seeds, CLIENT_WORDS),
    Target("server-lines", server_lines, server_seeds, SERVER_WORDS),
    Target("link-lines", link_lines, link_seeds, LINK_WORDS),
    Target("websocket-frames", frames, frame_seeds, (b"\x81", b"\x89", b"\x88", b"\xc1", b"\xfe", b"\xff", b"\x80")),
    Target("connect", connect, connect_seeds, CONNECT_WORDS),
    Target("http-requests", http_requests, http_seeds, HTTP_WORDS),
)
