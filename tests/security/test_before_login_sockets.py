"""Limits before the login hold behind every listener: plain, TLS, WebSocket, WebSocket over TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from models.wsframes import Frame
from slipstream.config.account_options import AuthorizationOptions
from slipstream.config.listener_options import TLSOptions, WebsocketOptions
from slipstream.protocol.connection import ClientConnection
from slipstream.protocol.limits import PRE_AUTH_BYTES
from slipstream.server.server import Server
from support.keys import BCRYPT_OF_OPEN_SESAME
from support.transcript import connect_line
from tlsfiles import Authority
from wsclient import deflate, request

TIMEOUT_S = 10
LOGIN = connect_line(user="slow", **{"pass": "open sesame"})
FLOOD = b"PING\r\n" * (PRE_AUTH_BYTES // 6 + 1000)


class PatientServer(Server):
    """A server whose password checks never come to an end."""

    def check_password(
        self, connection: ClientConnection, job: Callable[[], bool], done: Callable[[bool], None]
    ) -> None:
        self.waiting = (job, done)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TLSOptions:
    pair = authority.issue("localhost")
    return TLSOptions(cert_file=str(pair.cert_file), key_file=str(pair.key_file), handshake_first=True)


def _framed(data: bytes) -> bytes:
    return Frame(2, data).encode()


def _compressed(data: bytes) -> bytes:
    return Frame(2, deflate(data), reserved=4).encode()


@pytest.mark.parametrize("listener", ["plain", "tls", "ws", "wss", "ws compressed"])
def test_a_flood_behind_connect_is_cut_off(listener: str, tls: TLSOptions, authority: Authority) -> None:
    """CVE-2026-33219, advisory 2026-25: what comes while a password is checked is bounded on every listener."""
    is_web, is_tls = listener.startswith("ws"), listener in ("tls", "wss")

    async def scenario() -> None:
        web = WebsocketOptions(
            port=-1 if is_web else 0, no_tls=not is_tls, tls=tls if is_tls else None, compression=True, host="127.0.0.1"
        )
        authorization = AuthorizationOptions(user="slow", password=BCRYPT_OF_OPEN_SESAME, defined=True)
        async with PatientServer(
            port=-1,
            host="127.0.0.1",
            authorization=authorization,
            tls=tls if listener == "tls" else None,
            websocket=web,
        ) as server:
            port = server.hub.websocket_port if is_web else server.port
            context = authority.client_context() if is_tls else None
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost" if is_tls else None
            )
            wrap = {"ws": _framed, "wss": _framed, "ws compressed": _compressed}.get(listener, bytes)
            if is_web:
                offer = "permessage-deflate" if wrap is _compressed else None
                writer.write(request(Sec_WebSocket_Extensions=offer))
                await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(10)
            writer.write(wrap(LOGIN) + wrap(FLOOD))
            answer = await reader.read()
            writer.close()
            assert not server.hub.connections
            reason = server.hub.closed_connections[-1].reason.value
            if wrap is _compressed:
                assert reason in ("Authentication Failure", "Maximum Message Payload Exceeded")
            else:
                assert reason == "Authentication Failure" and b"-ERR 'Authorization Violation'\r\n" in answer

    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await scenario()

    uvloop.run(limited())
