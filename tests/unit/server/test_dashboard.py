"""The WebSocket of the dashboard's page on the monitoring port: who is let in, and as what."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from slipstream.config.account_options import AuthorizationOptions, UserOptions
from slipstream.config.listener_options import TLSOptions
from slipstream.server.server import Server
from slipstream.testing import ServerThread

CONNECT = b'CONNECT {"verbose":false,"headers":true}\r\nPING\r\n'


def place(server: Server, scheme: str = "ws") -> str:
    assert server.monitoring is not None and server.monitoring.listener is not None
    return f"{scheme}://127.0.0.1:{server.monitoring.listener.port}/ui/nats"


def origin(server: Server) -> str:
    assert server.monitoring is not None
    return server.monitoring.url


async def until(socket: ClientConnection, wanted: bytes) -> bytes:
    got = b""
    while wanted not in got:
        data = await asyncio.wait_for(socket.recv(), 5)
        assert isinstance(data, bytes)
        got += data
    return got


def local(**options: Any) -> Server:
    return Server(port=-1, host="127.0.0.1", http_host="127.0.0.1", http_port=-1, **options)


async def test_its_own_page_is_a_client() -> None:
    async with local() as server:
        async with connect(place(server), origin=origin(server)) as socket:  # type: ignore[arg-type]
            await until(socket, b"INFO ")
            await socket.send(CONNECT + b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
            got = await until(socket, b"MSG a 1 2\r\nhi\r\n")
            assert b"PONG\r\n" in got
            (client,) = server.hub.connections.values()
            assert client.peer.kind == "websocket"
            # What came in pieces, and is longer than one read.
            await socket.send(b"PUB a 300000\r\n" + b"x" * 300_000 + b"\r\n")
            got = await until(socket, b"MSG a 1 300000\r\n")
            while len(got) < 300_000:
                data = await asyncio.wait_for(socket.recv(), 5)
                assert isinstance(data, bytes)
                got += data
        async with asyncio.timeout(5):
            while server.hub.connections:
                await asyncio.sleep(0)


@pytest.mark.parametrize("stranger", [None, "https://example.com", "http://127.0.0.1:1", "http://127.0.0.1", "null"])
async def test_no_other_page_gets_in(stranger: str | None) -> None:
    async with local() as server:
        with pytest.raises(InvalidStatus) as refused:
            await connect(place(server), origin=stranger)  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403
        assert not server.hub.connections


async def test_a_name_that_was_made_to_lead_here_does_not() -> None:
    async with local() as server:
        url = place(server)
        name = f"rebound.example:{server.monitoring.listener.port}"  # type: ignore[union-attr]
        headers = {"Host": name}
        with pytest.raises(InvalidStatus) as refused:
            await connect(url.replace("127.0.0.1", "localhost"), origin=f"http://{name}", additional_headers=headers)  # type: ignore[arg-type]
        assert refused.value.response.status_code in (400, 403)


async def test_who_it_is_is_asked_as_everywhere() -> None:
    authorization = AuthorizationOptions(users=(UserOptions("ann", "secret"),))
    async with local(authorization=authorization) as server:
        async with connect(place(server), origin=origin(server)) as socket:  # type: ignore[arg-type]
            assert b'"auth_required":true' in await until(socket, b"\r\n")
            await socket.send(b'CONNECT {"user":"ann","pass":"wrong"}\r\nPING\r\n')
            await until(socket, b"-ERR 'Authorization Violation'")
        async with connect(place(server), origin=origin(server)) as socket:  # type: ignore[arg-type]
            await socket.send(b'CONNECT {"user":"ann","pass":"secret"}\r\nPING\r\n')
            await until(socket, b"PONG")


async def test_where_the_dashboard_is_off_so_is_the_door() -> None:
    async with local(dashboard=False) as server:
        with pytest.raises(InvalidStatus) as refused:
            await connect(place(server), origin=origin(server))  # type: ignore[arg-type]
        assert refused.value.response.status_code == 404


async def test_other_paths_are_no_door() -> None:
    async with local() as server:
        with pytest.raises(InvalidStatus) as refused:
            await connect(place(server).replace("/ui/nats", "/varz"), origin=origin(server))  # type: ignore[arg-type]
        assert refused.value.response.status_code == 200


async def test_a_stop_ends_the_page() -> None:
    async with local() as server:
        socket = await connect(place(server), origin=origin(server))  # type: ignore[arg-type]
        await until(socket, b"INFO ")
        await server.stop()
        await asyncio.wait_for(socket.wait_closed(), 5)


async def test_with_tls_on_the_loop_of_servers(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = TLSOptions(cert_file=str(tmp_path / "cert.pem"), key_file=str(tmp_path / "key.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with ServerThread(http_host="127.0.0.1", https_port=-1, tls=tls, allow_non_tls=True) as thread:
        server = thread.server
        async with connect(place(server, "wss"), origin=origin(server), ssl=context) as socket:  # type: ignore[arg-type]
            await until(socket, b"INFO ")
            await socket.send(CONNECT + b"SUB a 1\r\nPUB a 300000\r\n" + b"x" * 300_000 + b"\r\nPUB a 2\r\nhi\r\n")
            await until(socket, b"MSG a 1 2\r\nhi\r\n")
        with pytest.raises(InvalidStatus) as refused:
            await connect(place(server, "wss"), origin=origin(server).replace("https", "http"), ssl=context)  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
async def test_what_the_log_says(host: str, warned: bool) -> None:
    lines: list[str] = []

    class Lines:
        debug = trace = False

        def __call__(self, level: str, text: str) -> None:
            lines.append(f"[{level}] {text}")

        def close(self) -> None:
            return None

    server = Server(port=-1, host="127.0.0.1", http_host=host, http_port=-1, dashboard=True, log=Lines())  # type: ignore[arg-type]
    async with server:
        assert f"[INF] Dashboard at {origin(server)}/ui" in lines
    assert any("Dashboard without TLS" in line for line in lines) is warned
