"""JetStream that opens after the server is ready: nobody notices, except that the server was ready sooner."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from slipstream.config.record import replace
from slipstream.server.errors import StartError
from slipstream.server.jetstream.door import WAITING_MAX, may_open_later
from slipstream.server.jetstream.storage import take_storage
from slipstream.server.server import Server
from support.config_loading import options


def _server(directory: Path, text: str = "port: -1", *, late: bool = True) -> Server:
    return Server(options(text), store_dir=str(directory), opens_late=late, port=-1)


class Client:
    """A client that asks and waits for the answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, server: Server, user: str = "") -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", server.port))
        login = {"user": user, "pass": "p"} if user else {}
        connect = {"verbose": False, "headers": True, "no_responders": True, **login}
        client.writer.write(b"CONNECT " + json.dumps(connect).encode() + b"\r\nSUB in 1\r\n")
        return client

    def ask(self, subject: str, body: bytes = b"") -> None:
        self.writer.write(b"PUB %b in %d\r\n%b\r\n" % (subject.encode(), len(body), body))

    async def until(self, text: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(text), 20)


@pytest.mark.parametrize("late", [True, False])
async def test_calls_wait_and_are_answered(tmp_path: Path, late: bool) -> None:
    async with _server(tmp_path, late=late) as server:
        assert (server.jetstream is None) == late
        client = await Client.of(server)
        client.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
        client.ask("$JS.API.INFO")
        assert b'"jetstream":true' in await client.until(b"\r\n")
        seen = b""
        for answer in (b"stream_create_response", b"account_info_response"):
            while answer not in seen:
                seen += await client.until(b"\r\n")
        client.ask("s", b"hello")
        await client.until(b'{"stream":"S","seq":1}')
        client.writer.close()


async def test_a_reload_opens_it_first(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        server.reload(replace(server.options, max_payload=1000))
        assert server.jetstream is not None


async def test_a_reload_that_turns_it_on_does_not_leave_it_for_later(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        on = server.options
        server.reload(replace(on, jetstream=replace(on.jetstream, enabled=False)))
        assert server.jetstream is None and not server.hub.jetstream
        server.reload(on)
        assert server.jetstream is not None and server.hub.jetstream


async def test_monitoring_sees_it(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        assert server.monitoring is not None
        assert server.jetstream is None
        assert server.monitoring.facts.jetstream is not None
        assert server.jetstream is not None


async def test_a_server_that_stops_before_it_leaves_nothing(tmp_path: Path) -> None:
    server = _server(tmp_path)
    await server.start()
    await server.stop()
    assert server.jetstream is None
    take_storage(replace(server.options.jetstream, store_dir=str(tmp_path))).close()
    async with _server(tmp_path) as again:
        again.finish_start()
        assert again.jetstream is not None


async def test_streams_that_are_there_do_not_wait(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        client = await Client.of(server)
        client.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')
        await client.until(b'"did_create":true')
        client.writer.close()
    async with _server(tmp_path) as server:
        assert server.jetstream is not None
        assert list(server.jetstream.accounts["$G"].streams) == ["S"]


async def test_no_more_than_so_many_calls_wait(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        account, door = server.hub.accounts["$G"], server.jetstream_switch.door
        assert door is not None
        for _ in range(WAITING_MAX + 5):
            account.publish(b"$JS.API.STREAM.NAMES", None, 0, b"")
        assert len(door._waiting) == WAITING_MAX


def test_accounts_that_import_it_do_not_wait() -> None:
    exporter = 'JS { jetstream: true, exports: [{service: "$JS.API.>"}] }'
    importer = 'B { imports: [{service: {account: JS, subject: "$JS.API.>"}}] }'
    assert may_open_later(options(f"accounts {{ {exporter} }}"))
    assert not may_open_later(options(f"accounts {{ {exporter}, {importer} }}"))


async def test_a_directory_that_cannot_be_had_is_found_before(tmp_path: Path) -> None:
    async with _server(tmp_path):
        with pytest.raises(StartError, match="is in use by another server"):
            await _server(tmp_path).start()


async def test_servers_without_a_directory_do_not_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test harnesses start several of them; one that comes back finds its own again."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    text = options("jetstream: true")
    first, second = Server(text, port=-1), Server(text, port=-1)
    await first.start()
    await second.start()
    assert first.jetstream is not None and second.jetstream is not None
    assert first.jetstream.directory == os.path.join(tmp_path, "nats", "jetstream")
    assert second.jetstream.directory == os.path.join(tmp_path, "nats-2", "jetstream")
    await second.stop()
    async with Server(text, port=-1) as again:
        assert again.jetstream is not None
        assert again.jetstream.directory == os.path.join(tmp_path, "nats-2", "jetstream")
    await first.stop()
