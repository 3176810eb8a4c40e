"""Each setting of `gateway` and of its entries has its effect, over real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from slipstream.config.reload import diff
from slipstream.monitoring.endpoints.gatewayz import GatewayzOptions, gatewayz
from slipstream.server.server import Server
from slipstream.server.sockets.dialer import Dialer
from support import single_server
from support.clusters import DEADLINE, connected, heard_by_all, until
from support.config_loading import loaded
from support.gateway_world import gateway_connect, gateway_info
from support.ports import free_port
from support.single_server import greeted_at
from tlsfiles import Authority


async def started(gateway: str, more: str = "", name: str = "a1") -> tuple[Server, list[str]]:
    """A server with this `gateway` block, and its log."""
    return await single_server.started(f"server_name: {name}\ngateway {{ {gateway} }}\n{more}")


async def greeted(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
    """A socket on the gateway port, and INFO."""
    assert server.gateways is not None
    return await greeted_at(server.gateways.port)


class Peer:
    """A port that plays a server of another cluster, and counts who comes."""

    def __init__(self, **info: object) -> None:
        self._info = info
        self.came: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Peer:
        self._listener = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        writer.write(gateway_info(**self._info))
        self.came.put_nowait((reader, writer))

    async def said(self) -> dict[str, Any]:
        """CONNECT of the next that comes."""
        reader, _ = await asyncio.wait_for(self.came.get(), DEADLINE)
        line = await asyncio.wait_for(reader.readline(), DEADLINE)
        return dict(json.loads(line.removeprefix(b"CONNECT ")))


async def test_info_tells_the_name_where_it_listens_and_what_it_advertises() -> None:
    server, lines = await started('name: A, listen: "127.0.0.1:-1", advertise: "example.org:7777"')
    try:
        _, writer, info = await greeted(server)
        assert (info["gateway"], info["host"], info["port"]) == ("A", "example.org", 7777)
        assert info["gateway_url"] == "example.org:7777" and info["gateway_urls"] == ["example.org:7777"]
        assert info["gateway_nrp"] is info["gateway_iom"] is info["headers"] is True
        assert 'Advertise address for gateway "A" is set to example.org:7777' in "".join(lines)
        writer.close()
    finally:
        await server.stop()
    server, lines = await started('name: A, host: "127.0.0.1", port: -1, authorization { user: u, password: p }')
    try:
        assert server.gateways is not None
        _, writer, info = await greeted(server)
        assert info["gateway_url"] == f"127.0.0.1:{server.gateways.port}" and info["auth_required"] is True
        assert server.hub.cluster_name == "A", "a server without a cluster block is of the cluster that it names"
        writer.close()
    finally:
        await server.stop()
    assert f"[INF] Listening for gateways connections on 127.0.0.1:{info['port']}" in lines
    assert "[INF] Gateway name is A" in lines


async def test_authorization_is_asked_for_and_given() -> None:
    server, lines = await started('name: A, listen: "127.0.0.1:-1", authorization { user: u, password: p }')
    try:
        for given, answer in (({"user": "u", "pass": "x"}, b"-ERR 'Authorization Violation'\r\n"), ({}, None)):
            reader, writer, _ = await greeted(server)
            writer.write(gateway_connect(**given))
            if answer is not None:
                assert await asyncio.wait_for(reader.read(), DEADLINE) == answer
            writer.close()
        assert "authentication error" in "".join(lines)
        reader, writer, _ = await greeted(server)
        writer.write(gateway_connect(user="u", **{"pass": "p"}) + gateway_info(gateway_urls=[]))
        assert b"gateway_cmd" in await asyncio.wait_for(reader.readline(), DEADLINE)
        writer.close()
    finally:
        await server.stop()


async def test_a_url_has_the_credentials_or_the_block_does() -> None:
    async with Peer() as peer:
        block = (
            f'name: A, listen: "127.0.0.1:-1", gateways: [{{ name: B, urls: ["nats://x:y@127.0.0.1:{peer.port}"] }}]'
        )
        server, _ = await started(block)
        connect = await peer.said()
        assert (connect["user"], connect["pass"], connect["gateway"]) == ("x", "y", "A")
        await server.stop()
        block = block.replace("x:y@", "") + ", authorization { user: u, password: p }"
        server, _ = await started(block.replace("urls: [", "url: ").replace('"] }', '" }'))
        connect = await peer.said()
        assert (connect["user"], connect["pass"]) == ("u", "p")
        await server.stop()


async def test_a_url_that_leads_nowhere_is_said() -> None:
    server, lines = await started('name: A, listen: "127.0.0.1:-1", gateways: [{ name: B, url: "nats://b" }]')
    await server.stop()
    assert '[ERR] No URL of gateway "B" has a host and a port' in lines


async def test_a_peer_that_says_nothing_is_ended_after_the_timeout() -> None:
    server, _ = await started('name: A, listen: "127.0.0.1:-1", authorization { timeout: 0.05 }')
    try:
        reader, writer, _ = await greeted(server)
        assert await asyncio.wait_for(reader.read(), DEADLINE) == b"-ERR 'Authentication Timeout'\r\n"
        writer.close()
    finally:
        await server.stop()


@pytest.mark.parametrize("setting", ["reject_unknown_cluster", "reject_unknown"])
async def test_unknown_clusters_are_refused(setting: str) -> None:
    server, lines = await started(f'name: A, listen: "127.0.0.1:-1", {setting}: true')
    try:
        reader, writer, _ = await greeted(server)
        writer.write(gateway_connect())
        text = b"-ERR 'Connection to gateway \"A\" rejected'\r\n"
        assert await asyncio.wait_for(reader.read(), DEADLINE) == text
        assert 'Rejecting connection from gateway "B"' in "".join(lines)
        writer.close()
    finally:
        await server.stop()


async def test_a_client_on_the_gateway_port_is_told() -> None:
    server, _ = await started('name: A, listen: "127.0.0.1:-1"')
    try:
        reader, writer, _ = await greeted(server)
        writer.write(b'CONNECT {"verbose":false,"lang":"python"}\r\nPING\r\n')
        text = b"-ERR 'attempted to connect to gateway port'\r\n"
        assert await asyncio.wait_for(reader.read(), DEADLINE) == text
        writer.close()
    finally:
        await server.stop()


async def attempts(monkeypatch: pytest.MonkeyPatch, gateway: str, count: int) -> list[int | None]:
    """The pauses after the attempts to reach a cluster that was told of and is not there."""
    pauses: list[int | None] = []
    done = asyncio.Event()

    async def reach(_self: Dialer, call: Any, _delay_ns: int, **_: bool) -> None:
        for number in range(1, count + 1):
            call.next_address()
            pauses.append(call.pause_ns(number))
            if pauses[-1] is None:
                break
        done.set()

    monkeypatch.setattr(Dialer, "_reach", reach)
    server, _ = await started(f'name: A, listen: "127.0.0.1:-1", {gateway}')
    try:
        assert server.gateways is not None
        server.gateways.supercluster.clusters.heard_of("B", [f"127.0.0.1:{free_port()}"])
        await asyncio.wait_for(done.wait(), DEADLINE)
    finally:
        await server.stop()
    return pauses


async def test_connect_retries_and_connect_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    second = 1_000_000_000
    assert await attempts(monkeypatch, "connect_retries: 2", 9) == [second, second, None]
    assert await attempts(monkeypatch, "", 9) == [None], "without retries once"
    backoff = await attempts(monkeypatch, "connect_retries: 9, connect_backoff: true", 7)
    assert backoff == [second * pause for pause in (1, 2, 4, 8, 16, 30, 30)]


async def test_a_peer_that_does_not_read_is_ended_and_others_are_served() -> None:
    async with Peer() as peer:
        block = 'name: A, listen: "127.0.0.1:-1", write_deadline: "100ms", write_timeout: close'
        server, lines = await started(f'{block}, gateways: [{{ name: B, url: "nats://127.0.0.1:{peer.port}" }}]')
        try:
            _reader, writer = await asyncio.wait_for(peer.came.get(), DEADLINE)
            writer.write(b"RS+ $G flood q 1\r\n")
            account = server.hub.accounts["$G"]
            await until(lambda: account.has_interest(b"flood"))
            assert server.supercluster is not None
            for _ in range(32):
                account.publish(b"flood", None, 0, b"x" * 1_000_000)
            await until(lambda: "Slow Consumer Detected: WriteDeadline of 100ms" in "".join(lines))
            await until(lambda: server.supercluster is not None and not server.supercluster.outbound)
            client = await connected(server.url)
            await client.flush()
            await client.close()
        finally:
            await server.stop()


async def pair(east: str, west: str) -> tuple[Server, Server, list[str]]:
    first, _ = await started(f'name: E, listen: "127.0.0.1:-1", {east}', name="e1")
    assert first.gateways is not None
    url = f"nats://127.0.0.1:{first.gateways.port}"
    second, lines = await started(
        f'name: W, listen: "127.0.0.1:-1", {west.replace("ENTRY", f"name: E, url: {url!r}")}'.replace("'", '"'),
        name="w1",
    )
    return first, second, lines


@pytest.mark.parametrize("place", ["block", "entry"])
async def test_tls_of_the_block_and_of_an_entry(place: str, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    trust = f'ca_file: "{authority.ca_file}"'
    east = f"tls {{ {authority.issue('127.0.0.1', name='east').block}, {trust} }}"
    good = f"tls {{ {authority.issue('127.0.0.1', name='west').block}, {trust} }}"
    bad = f"tls {{ {other.issue('127.0.0.1', name='bad').block}, {trust} }}"
    if place == "block":
        west = f"{good}, gateways: [{{ ENTRY }}]"
    else:
        west = f"{bad}, gateways: [{{ ENTRY, {good} }}]"
    first, second, lines = await pair(east, west)
    try:
        await until(lambda: second.supercluster is not None and "E" in second.supercluster.outbound)
        assert second.monitoring is not None
        work = gatewayz(second.monitoring.facts, GatewayzOptions())
        try:
            while True:
                next(work)
        except StopIteration as done:
            assert done.value.outbound_gateways["E"].connection.tls_version == "1.3"
        assert "[INF] Connecting to explicit gateway" in "".join(lines)
        if place == "block":
            clients = [await connected(first.url), await connected(second.url)]
            await heard_by_all(clients)
            for client in clients:
                await client.close()
    finally:
        await second.stop()
        await first.stop()
    first, second, lines = await pair(east, f"{bad}, gateways: [{{ ENTRY }}]")
    try:
        await until(lambda: "TLS handshake error" in "".join(lines) or "connection closed" in "".join(lines))
        assert second.supercluster is not None and not second.supercluster.outbound
    finally:
        await second.stop()
        await first.stop()


async def test_a_reload_brings_other_certificates_and_refuses_all_else(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")

    def config(authority: Authority, more: str = "") -> str:
        tls = f'tls {{ {authority.issue("127.0.0.1").block}, ca_file: "{authority.ca_file}" }}'
        entry = f'gateways: [{{ name: B, url: "nats://127.0.0.1:1", {tls} }}]'
        block = f'gateway {{ name: A, listen: "127.0.0.1:-1", {tls}, {entry} {more} }}'
        return f'listen: "127.0.0.1:-1"\nserver_name: a\n{block}'

    server = Server(loaded(config(old)).options)
    await server.start()
    try:
        assert server.gateways is not None
        options = loaded(config(new)).options
        assert not diff(server.options, options).refusals
        server.reload(options)
        context = new.client_context(new.issue("127.0.0.1", name="peer"))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.gateways.port, ssl=context)
        assert (await asyncio.wait_for(reader.readline(), DEADLINE)).startswith(b"INFO ")
        writer.close()
        for more in ("reject_unknown: true", 'advertise: "x:1"', "authorization { user: u, password: p }"):
            refusals = diff(server.options, loaded(config(new, f", {more}")).options).refusals
            assert refusals and "config reload not supported for Gateway" in str(refusals[0])
        changed = config(new).replace("nats://127.0.0.1:1", "nats://127.0.0.1:2")
        assert diff(server.options, loaded(changed).options).refusals
    finally:
        await server.stop()


async def test_an_account_that_a_reload_brings_is_told() -> None:
    server, _ = await started('name: A, listen: "127.0.0.1:-1"')
    try:
        reader, writer, _ = await greeted(server)
        writer.write(gateway_connect() + gateway_info(gateway_urls=[]) + b"RMSG NEW foo 0\r\n\r\n")
        while await asyncio.wait_for(reader.readline(), DEADLINE) != b"A- NEW\r\n":
            pass
        text = (
            'listen: "127.0.0.1:-1"\nserver_name: a1\ngateway { name: A, listen: "127.0.0.1:-1" }\naccounts { NEW {} }'
        )
        server.reload(loaded(text).options)
        while b"TkVX" not in (line := await asyncio.wait_for(reader.readline(), DEADLINE)):
            pass
        assert json.loads(line[5:])["gateway_cmd"] == 2
        writer.close()
    finally:
        await server.stop()
