"""Strangers on the other ports: monitoring, WebSocket, TLS. The client port goes on as if nothing were."""

from __future__ import annotations

import asyncio
import json
import random
import ssl

import pytest
import uvloop

from models.wsframes import Frame
from slipstream.config.listener_options import TLSOptions
from slipstream.monitoring import http
from slipstream.server.server import Server
from support.abuse import Witness, resident_bytes
from support.monitoring import get
from support.raw_client import RawClient
from support.servers import Launcher
from tlsfiles import Authority
from wsclient import WebSocketClient, deflate, request

MIB = 1024 * 1024
TIMEOUT_S = 10
WEB = """
http: "127.0.0.1:-1"
websocket { host: "127.0.0.1", port: -1, no_tls: true, compression: true, handshake_timeout: "700ms" }
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


HTTP_GARBAGE = [
    b"GET /varz HTTP/1.1\r\n\r\n",
    b"GET /varz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000,
    b"GET /varz HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET /varz HTTP/1.1\r\n Host: x\r\n\r\n",
    b"GET /varz HTTP/1.1\nHost: x\n\n",
    b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /%00%0d%0aX: y HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1/varz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET " + b"/" * 60_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"../" * 10_000 + b"etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /varz?" + b"a=b&" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /varz HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    b"GET /varz HTTP/1.1\r\nA: " + b"b" * 200_000 + b"\r\n\r\n",
    b"GET /varz HTTP/9.9\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b'CONNECT {"verbose":false}\r\nPING\r\n',
    b"\x16\x03\x01\x00\x05hello",
    b"\x00" * 100_000,
    b"\r\n" * 40_000,
    (b"GET /varz HTTP/1.1\r\nHost: x\r\n\r\n" * 300),
]


def test_garbage_on_the_monitoring_port(ours: Launcher) -> None:
    """Smuggled, malformed and endless requests: an error or an answer each, and no more than one for a refused one."""
    dice = random.Random(3)
    noise = [dice.randbytes(dice.randrange(1, 3000)) for _ in range(40)]
    with Witness(ours(WEB)) as witness:
        before = resident_bytes(witness.server)
        for data in HTTP_GARBAGE + noise:
            with RawClient(witness.server.monitor_port, timeout_s=10) as client:
                client.send(data)
                client.shut_down_writing()
                answer = client.read_to_close()
                assert not answer or answer.startswith(b"HTTP/1.1 "), data[:60]
            witness.round_trip()
        assert resident_bytes(witness.server) - before < 30 * MIB
        assert get(witness.server, "/healthz").status == 200
        witness.is_alone()


def test_smuggled_requests_are_not_answered(ours: Launcher) -> None:
    """Two lengths for one body: nobody may take the second half for a request of its own."""
    server = ours(WEB)
    for head in (b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Content-Length: 5\r\nContent-Length: 60"):
        with RawClient(server.monitor_port) as client:
            body = b"0\r\n\r\nGET /connz HTTP/1.1\r\nHost: x\r\n\r\n"
            client.send(b"POST /varz HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n" + body)
            client.shut_down_writing()
            assert b"num_connections" not in client.read_to_close()


PAGES = ["0", "1", "-1", str(2**31), str(2**63 - 1), str(-(2**63)), str(2**63), str(10**30), "1e3", "", "%00", "0x10"]


@pytest.mark.parametrize("path", ["/connz", "/subsz", "/jsz", "/accountz", "/routez", "/ipqueuesz"])
def test_pages_at_their_extremes(ours: Launcher, path: str) -> None:
    """Advisory 2026-28: offset and limit of any size give a page or a refusal."""
    with Witness(ours(WEB)) as witness:
        for offset in PAGES:
            for limit in PAGES:
                answer = get(witness.server, f"{path}?offset={offset}&limit={limit}&subs=1&state=any&acc=$G&accounts=1")
                assert answer.status in (200, 400)
                if answer.status == 200 and path == "/connz":
                    page = json.loads(answer.body)
                    assert len(page["connections"]) == page["num_connections"] <= page["total"]
        witness.is_alone()


def test_slow_requests_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slowloris: a header line a while does not keep a connection; an idle one goes too, and the port stays usable."""
    monkeypatch.setattr(http, "MONITOR_READ_TIMEOUT_NS", 300_000_000)
    monkeypatch.setattr(http, "MONITOR_IDLE_TIMEOUT_NS", 300_000_000)

    async def drip(port: int, first: bytes, drop: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        end = asyncio.ensure_future(reader.read())
        while not end.done():
            writer.write(drop)
            await asyncio.wait([end], timeout=0.02)
        assert end.exception() is not None or b"200 OK" not in end.result()
        writer.transport.abort()

    async def scenario() -> None:
        async with asyncio.timeout(TIMEOUT_S), Server(port=-1, host="127.0.0.1", http_port=-1) as server:
            assert server.monitoring is not None
            port = int(server.monitoring.url.rsplit(":", 1)[1])
            crowd = [drip(port, b"GET /varz HTTP/1.1\r\nHost: x\r\n", b"A: b\r\n") for _ in range(20)]
            crowd += [drip(port, b"", b"G") for _ in range(20)]
            crowd += [
                drip(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", b"x") for _ in range(20)
            ]
            silent = [asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            streams = await asyncio.gather(*silent)
            await asyncio.gather(*crowd)
            for reader, writer in streams:
                assert await reader.read() == b""
                writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b"200 OK" in await reader.read()
            writer.close()

    uvloop.run(scenario())


def test_more_monitors_than_allowed(ours: Launcher) -> None:
    with Witness(ours(WEB)) as witness:
        crowd = [RawClient(witness.server.monitor_port) for _ in range(400)]
        witness.round_trip()
        refused = sum(client.is_closed_by_peer(10) for client in crowd[256:])
        assert refused == len(crowd) - 256
        for client in crowd:
            client.close()
        witness.is_alone()


def _upgraded(server_port: int, **headers: str) -> RawClient:
    client = RawClient(server_port)
    WebSocketClient(client, **headers)
    return client


def test_garbage_on_the_websocket_port(ours: Launcher) -> None:
    """CVE-2026-27889, CVE-2026-27571: before and after the upgrade, lengths that lie, bombs, noise."""
    dice = random.Random(5)
    noise = [dice.randbytes(dice.randrange(1, 3000)) for _ in range(40)]
    before_upgrade = [*noise, *HTTP_GARBAGE, request("GET /mqtt HTTP/1.1"), request("GET /leafnode HTTP/1.1")]
    frames = [
        Frame(2, b"x", length_bytes=8, length=2**63),
        Frame(2, b"x", length_bytes=8, length=2**64 - 1),
        Frame(2, b"x", length_bytes=8, length=2**63 - 1),
        Frame(2, b"x", length_bytes=2, length=65535),
        Frame(9, b"x" * 126),
        Frame(9, b"x", final=False),
        Frame(3, b"x"),
        Frame(11, b"x"),
        Frame(0, b"x"),
        Frame(2, b"x", key=None),
        Frame(2, b"x", reserved=7),
        Frame(8, b"\x00"),
        Frame(8, b"\xff\xff" + b"\xff" * 100),
        Frame(2, deflate(b"\x00" * 10_000_000), reserved=4),
        Frame(2, deflate(b"PING\r\n" * 1_000_000), reserved=4),
        Frame(2, b"\xff" * 1000, reserved=4),
        Frame(2, b"PUB a 5\r\nhel", final=False),
    ]
    with Witness(ours(WEB)) as witness:
        before = resident_bytes(witness.server)
        for data in before_upgrade:
            with RawClient(witness.server.websocket_port, timeout_s=10) as client:
                client.send(data)
                client.shut_down_writing()
                client.read_to_close()
        for tail in [frame.encode() for frame in frames] + noise:
            client = _upgraded(witness.server.websocket_port, Sec_WebSocket_Extensions="permessage-deflate")
            client.send(tail)
            client.shut_down_writing()
            client.read_to_close()
            client.close()
            witness.round_trip()
        assert resident_bytes(witness.server) - before < 40 * MIB
        witness.is_alone()


def test_features_that_are_off_cannot_be_reached(ours: Launcher) -> None:
    """Advisory 2026-27: an upgrade at /mqtt crashed a server without MQTT."""
    with Witness(ours(WEB)) as witness:
        for path in ("/mqtt", "/x/mqtt", "/mqtt?a=b", "/leafnode", "/%6dqtt"):
            with RawClient(witness.server.websocket_port) as client:
                client.send(request(f"GET {path} HTTP/1.1") + b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00")
                client.shut_down_writing()
                client.read_to_close()
            witness.round_trip()
        witness.is_alone()


def test_garbage_instead_of_tls(ours: Launcher, authority: Authority) -> None:
    """Noise, lies about lengths, half handshakes, plain text, and data that cannot be decrypted."""
    block = f"{{ {authority.issue('localhost').block}, timeout: 0.7 }}"
    server = ours.fresh(f'http: "127.0.0.1:-1"\ntls: {block}\nallow_non_tls: true')
    dice = random.Random(9)
    hello = b"\x16\x03\x01"
    garbage = [b"\x16" + dice.randbytes(dice.randrange(1, 2000)) for _ in range(40)]
    garbage += [
        hello + b"\x00\x00",
        hello + b"\xff\xff" + b"x" * 70_000,
        hello + b"\x00\x05\x01\x00\x00\x01\x00",
        hello,
    ]
    with Witness(server) as witness:
        for data in garbage:
            with RawClient(server.port, timeout_s=10) as client:
                client.send(data)
                client.shut_down_writing()
                client.read_to_close()
        stuck = [RawClient(server.port, timeout_s=10) for _ in range(10)]
        for client in stuck:
            client.send(hello)
        for client in stuck:
            client.read_to_close()
            client.close()
        witness.is_alone()


@pytest.mark.parametrize(
    "damage", [b"\x17\x03\x03\x00\x20" + b"x" * 32, b"\x15\x03\x03\x00\x02\x02\x28", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_a_tls_session_that_turns_to_garbage(authority: Authority, damage: bytes) -> None:
    """Records that cannot be decrypted, or an alert, while the server has much to send to this very client."""
    pair = authority.issue("localhost")
    options = TLSOptions(cert_file=str(pair.cert_file), key_file=str(pair.key_file), handshake_first=True)
    problems: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        async with asyncio.timeout(TIMEOUT_S), Server(port=-1, host="127.0.0.1", tls=options) as server:
            plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", server.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain_writer.write(outgoing.read())
                    incoming.write(await plain_reader.read(65536))
            tls.write(b"CONNECT {}\r\nSUB foo 1\r\n" + b"PUB foo 100000\r\n" + b"x" * 100_000 + b"\r\n")
            plain_writer.write(outgoing.read() + damage + b"\x17\x03\x03\x00\x20" + b"y" * 32)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await plain_reader.readexactly(10_000_000)
            plain_writer.transport.abort()
            assert not server.hub.connections

    uvloop.run(scenario())
    assert problems == []
