"""WebSocket, byte by byte, on both servers: answers to requests, frames, control frames, faults."""

from __future__ import annotations

import pytest

from models.wsframes import Frame
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both, Launcher
from support.transcript import connect_line, pub
from wsclient import WebSocketClient, deflate, inflate, read_answer, request

CONFIG = 'websocket { port: -1, no_tls: true, compression: true, headers { "X-Test": "yes" } }\n'
STRICT = (
    'websocket { port: -1, no_tls: true, same_origin: true, allowed_origins: ["http://localhost", "https://a.b"] }\n'
)
DEFLATE = "permessage-deflate; client_max_window_bits"


def opened(server: ServerProcess, **headers: str | None) -> WebSocketClient:
    return WebSocketClient(RawClient(server.websocket_port), **headers)


# --- requests -----------------------------------------------------------------------------------------------------

REQUESTS = {
    "plain": request(),
    "path and query": request("GET /any/path?x=1 HTTP/1.1"),
    "lists of tokens": request(Upgrade="x, WebSocket", Connection="keep-alive, UPGRADE", Sec_WebSocket_Version="8, 13"),
    "deflate": request(Sec_WebSocket_Extensions=DEFLATE),
    "deflate in a list": request(Sec_WebSocket_Extensions="foo; bar, Permessage-Deflate"),
    "other extension": request(Sec_WebSocket_Extensions="permessage-bzip2"),
    "no masking": request(Nats_No_Masking="true"),
    "no masking, other value": request(Nats_No_Masking="TRUE"),
    "HTTP/1.0": request("GET / HTTP/1.0"),
    "bare line feeds": request().replace(b"\r\n", b"\n"),
    "POST": request("POST / HTTP/1.1"),
    "HEAD": request("HEAD / HTTP/1.1"),
    "no upgrade": request(Upgrade=None),
    "other upgrade": request(Upgrade="h2c"),
    "no connection": request(Connection=None),
    "connection close": request(Upgrade=None, Connection="close"),
    "no key": request(Sec_WebSocket_Key=None),
    "short key": request(Sec_WebSocket_Key="c2hvcnQ="),
    "key that is not base64": request(Sec_WebSocket_Key="####"),
    "version 12": request(Sec_WebSocket_Version="12"),
    "mqtt": request("GET /mqtt HTTP/1.1"),
    "no host": request(Host=None),
    "two hosts": request().replace(b"Host: localhost", b"Host: localhost\r\nHost: localhost"),
    "NATS": b"CONNECT {}\r\nPING\r\n\r\n",
    "header without colon": request().replace(b"Upgrade: ", b"Upgrade ", 1),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_to_requests(both: Both, name: str) -> None:
    """The answer, and whether a good request is answered after it."""

    def answers(server: ServerProcess) -> list[bytes]:
        with RawClient(server.websocket_port) as client:
            client.send(REQUESTS[name])
            first = read_answer(client, with_body=name != "HEAD")
            if b" 101 " in first:
                return [first]
            client.send(request())
            return [first, read_answer(client)]

    pair = both(CONFIG)
    expected = answers(pair.real)
    assert expected[0].startswith(b"HTTP/1.1 ")
    assert answers(pair.ours) == expected


@pytest.mark.parametrize(
    "origin", [None, "http://localhost", "http://localhost:81", "https://a.b", "null", "http://a:b:c", "localhost"]
)
def test_origins(both: Both, origin: str | None) -> None:
    def answer(server: ServerProcess) -> bytes:
        with RawClient(server.websocket_port) as client:
            client.send(request(Origin=origin))
            return read_answer(client)

    pair = both(STRICT)
    assert answer(pair.ours) == answer(pair.real)


def test_early_bytes_end_the_connection(both: Both) -> None:
    pair = both(CONFIG)
    for server in (pair.real, pair.ours):
        with RawClient(server.websocket_port) as client:
            client.send(request() + Frame(2, b"PING\r\n").encode())
            assert client.read_to_close() == b""


def test_leafnodes_do_not_get_in(launcher: Launcher) -> None:
    """nats-server upgrades and closes; ours says at once that nobody is there."""
    with RawClient(launcher(CONFIG).websocket_port) as client:
        client.send(request("GET /leafnode HTTP/1.1"))
        answer = read_answer(client)
        if b" 101 " in answer:
            assert client.read_to_close() == b""
        else:
            assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n")


def test_silence_ends_with_the_handshake_timeout(launcher: Launcher) -> None:
    server = launcher('websocket { port: -1, no_tls: true, handshake_timeout: "100ms" }\n')
    with RawClient(server.websocket_port) as client:
        assert client.read_to_close() == b""


# --- frames -------------------------------------------------------------------------------------------------------

SESSION = connect_line() + b"SUB foo 1\r\n"
LARGE = pub("foo", bytes(range(256)) * 300)
GOOD: dict[str, tuple[Frame | bytes, ...]] = {
    "one frame": (SESSION + pub("foo", b"hello") + b"PING\r\n",),
    "text frame": (Frame(1, b"PING\r\n"),),
    "a frame a byte": tuple(Frame(2, bytes([byte])) for byte in SESSION + pub("foo", b"x")),
    "fragments and a ping": (Frame(2, b"PI", final=False), Frame(9, b"in between"), Frame(0, b"NG\r\n")),
    "empty frames": (b"", Frame(2, b"PING\r\n", final=False), Frame(0, b"", final=False), Frame(0, b"")),
    "lengths in 16 and 64 bits": (
        SESSION,
        Frame(2, b"PING\r\n", length_bytes=2),
        Frame(2, b"PING\r\n", length_bytes=8),
        LARGE,
    ),
    "pong nobody asked for": (Frame(10, b"x"), b"PING\r\n"),
    "ping without payload": (Frame(9), b"PING\r\n"),
    "ping with 125 bytes": (Frame(9, b"p" * 125),),
    "close": (b"PING\r\n", Frame(8, b"\x03\xe8bye")),
    "close without code": (Frame(8),),
    "close with a code of its own": (Frame(8, b"\x0f\xa0"),),
    "close with bad text": (Frame(8, b"\x03\xe8\xff\xfe"),),
    "nothing after close": (b"PING\r\n", Frame(8, b"\x03\xe8"), b"PING\r\n"),
}


@pytest.mark.parametrize("name", GOOD)
def test_frames(both: Both, name: str) -> None:
    def talk(server: ServerProcess) -> tuple[bytes, list[tuple[int, bytes]], bool]:
        socket = opened(server).until(rb"INFO [^\n]*\r\n")
        socket.send(*GOOD[name])
        socket.sync()
        socket.close()
        return socket.normal_stream, socket.control, socket.closed

    pair = both(CONFIG)
    assert talk(pair.ours) == talk(pair.real)


COMPRESSED = {
    "whole": (Frame(2, deflate(SESSION + LARGE), reserved=4),),
    "fragments": (
        Frame(2, deflate(SESSION + LARGE)[:30], reserved=4, final=False),
        Frame(9, b"in between"),
        Frame(0, deflate(SESSION + LARGE)[30:]),
    ),
    "mixed": (SESSION, Frame(2, deflate(pub("foo", b"a")), reserved=4), pub("foo", b"b")),
}


@pytest.mark.parametrize("agent", [None, "Mozilla/5.0 Chrome/120 Safari/537", "Mozilla/5.0 Version/17 Safari/605"])
@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_frames(both: Both, name: str, agent: str | None) -> None:
    def talk(server: ServerProcess) -> tuple[bytes, list[tuple[int, bytes]], bool]:
        socket = opened(server, Sec_WebSocket_Extensions=DEFLATE, User_Agent=agent).until(rb"INFO [^\n]*\r\n")
        socket.send(*COMPRESSED[name])
        socket.sync()
        socket.close()
        return socket.normal_stream, socket.control, socket.closed

    pair = both(CONFIG)
    assert talk(pair.ours) == talk(pair.real)


def test_small_output_is_not_compressed(launcher: Launcher) -> None:
    """INFO is, a PONG is not."""
    with RawClient(launcher(CONFIG).websocket_port) as client:
        client.send(request(Sec_WebSocket_Extensions=DEFLATE))
        assert b"permessage-deflate" in read_answer(client)
        head = client.read_exactly(4)
        assert head[0] == 0xC2
        assert inflate(client.read_exactly(int.from_bytes(head[2:], "big"))).startswith(b"INFO {")
        client.send(Frame(2, b"PING\r\n").encode())
        assert client.read_exactly(8) == b"\x82\x06PONG\r\n"


FAULTS: dict[str, tuple[Frame, ...]] = {
    "RSV2": (Frame(2, b"x", reserved=2),),
    "RSV3": (Frame(2, b"x", reserved=1),),
    "compressed and not agreed": (Frame(2, b"x", reserved=4),),
    "not masked": (Frame(2, b"x", key=None),),
    "long ping": (Frame(9, b"x" * 126),),
    "fragmented ping": (Frame(9, b"x", final=False),),
    "continuation of nothing": (Frame(0, b"x"),),
    "message inside a message": (Frame(2, b"", final=False), Frame(2, b"x")),
    "opcode 3": (Frame(3, b"x"),),
    "opcode 11": (Frame(11, b"x"),),
    "length of 2^63": (Frame(2, length=2**63, length_bytes=8),),
    "close with one byte": (Frame(8, b"x"),),
    "close with 1005": (Frame(8, b"\x03\xed"),),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(both: Both, name: str) -> None:
    """Both close. nats-server's close frame does not always make it to the wire; if it does, it is the same."""

    def talk(server: ServerProcess) -> WebSocketClient:
        socket = opened(server).until(rb"INFO [^\n]*\r\n")
        socket.send(*FAULTS[name])
        socket.sync()
        socket.close()
        return socket

    pair = both(CONFIG)
    real, ours = talk(pair.real), talk(pair.ours)
    assert real.closed and ours.closed
    assert ours.normal_stream == real.normal_stream
    assert len(ours.control) == 1
    assert real.control in ([], ours.control)


ENDS = {
    "unknown operation": b"NONSENSE\r\n",
    "payload too large": connect_line() + b"PUB foo 2000000\r\n",
    "bad protocol version": connect_line(protocol=7),
}


@pytest.mark.parametrize("name", ENDS)
def test_errors_of_the_protocol_end_with_a_close_frame(both: Both, name: str) -> None:
    def talk(server: ServerProcess) -> WebSocketClient:
        socket = opened(server).until(rb"INFO [^\n]*\r\n")
        socket.send(ENDS[name])
        socket.sync()
        socket.close()
        return socket

    pair = both(CONFIG)
    real, ours = talk(pair.real), talk(pair.ours)
    assert ours.closed and real.closed
    assert b"-ERR" in ours.stream or b"-ERR" not in real.stream
    assert len(ours.control) == 1
    assert real.control in ([], ours.control)


def test_bomb_is_not_swallowed(launcher: Launcher) -> None:
    """A deflate bomb before CONNECT (CVE-2026-27571) ends the connection."""
    socket = opened(launcher(CONFIG), Sec_WebSocket_Extensions=DEFLATE).until(rb"INFO [^\n]*\r\n")
    socket.send(Frame(2, deflate(b"\0" * 30_000_000), reserved=4))
    assert socket.sync().closed
    socket.close()
