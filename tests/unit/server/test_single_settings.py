"""Settings that no other test looks at, from the text of a file to what they change."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from slipstream.config.options import Options
from slipstream.config.record import replace
from slipstream.server.process.process import _log
from slipstream.server.server import Server
from support.config_loading import options
from support.hub_world import HubWorld


def _lines(text: str, path: Path, count: int = 1) -> list[str]:
    log = _log(options(f'{text}, logfile: "{path}"'))
    for number in range(count):
        log("INF", f"line {number}")
    log.close()
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("logtime: true", r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] line 0"),
        ("logtime: false", r"\[\d+\] \[INF\] line 0"),
    ],
)
def test_logtime(tmp_path: Path, text: str, expected: str) -> None:
    [line] = _lines(text, tmp_path / "log")
    assert re.fullmatch(expected, line)


def test_logtime_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.localtime", lambda *_: pytest.fail("local time"))
    assert _lines("logtime_utc: true", tmp_path / "log")


def test_log_files_are_rotated_and_few_are_kept(tmp_path: Path) -> None:
    _lines("logfile_size_limit: 200, logfile_max_num: 3", tmp_path / "log", 60)
    assert len(list(tmp_path.iterdir())) == 3
    _lines("logfile_size_limit: 200", tmp_path / "all", 60)
    assert len(list(tmp_path.iterdir())) > 10


async def test_pidfile(tmp_path: Path) -> None:
    path = tmp_path / "server.pid"
    async with Server(replace(options(f'pidfile: "{path}"'), port=-1)):
        assert path.read_text().strip() == str(os.getpid())


def test_max_sub_tokens() -> None:
    world = HubWorld("max_sub_tokens: 3")
    client = world.connect()
    client.send(b"SUB a.b.c 1\r\nSUB a.b.c.d 2\r\n")
    assert client.take() == b"-ERR 'Permissions Violation for Subscription to \"a.b.c.d\", too many tokens'\r\n"
    assert len(client.connection.subscriptions) == 1


@pytest.mark.parametrize("stalls", [True, False])
async def test_no_fast_producer_stall(stalls: bool) -> None:
    """A publisher is held up for receivers that do not keep up, or not."""
    text = "max_pending: 4MB, write_deadline: 10s" + ("" if stalls else ", no_fast_producer_stall: true")
    async with Server(replace(options(text), port=-1)) as server:
        streams = [await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 16) for _ in range(2)]
        (slow, to_slow), (fast, to_fast) = streams
        for reader, writer in streams:
            writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
            await reader.readuntil(b"PONG\r\n")
        to_slow.write(b"SUB x 1\r\nPING\r\n")
        await slow.readuntil(b"PONG\r\n")
        client = max(server.hub.connections.values(), key=lambda connection: connection.cid)
        payload = b"PUB x 500000\r\n" + b"x" * 500_000 + b"\r\n"
        while server.hub.slow_consumers == 0 and not client.stalls:
            to_fast.write(payload + b"PING\r\n")
            await fast.readuntil(b"PONG\r\n")
        assert bool(client.stalls) == stalls
        for _, writer in streams:
            writer.transport.abort()


@pytest.mark.parametrize("sampling", [100, 1])
def test_msg_trace_sends_traces_of_sampled_requests(sampling: int) -> None:
    world = HubWorld(
        f"accounts {{ A {{ users: [{{user: a, password: p}}], msg_trace: {{dest: traces, sampling: {sampling}}} }} }}"
    )
    client = world.connect(user="a", headers=True, **{"pass": "p"})
    header = b"NATS/1.0\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n"
    client.send(b"SUB traces 1\r\n")
    for _ in range(20):
        client.send(b"HPUB x %d %d\r\n%bhi\r\n" % (len(header), len(header) + 2, header))
    traces = client.take().count(b"MSG traces 1 ")
    assert traces == 20 if sampling == 100 else traces < 5


def _jetstream(text: str) -> Options:
    return replace(options(f"jetstream {{ {text} }}"), port=-1)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("max_buffered_size: 1M", lambda facts: facts.max_buffered_bytes == 10**6),
        ("limits { max_request_batch: 7 }", lambda facts: facts.max_request_batch == 7),
        ("limits { max_ack_pending: 8 }", lambda facts: facts.max_ack_pending == 8),
        ("limits { duplicate_window: 9s }", lambda facts: facts.duplicate_window_max_ns == 9 * 10**9),
        (
            "limits { batch { max_inflight_total: 3 } }",
            lambda facts: (facts.batches.atomic_max, facts.batches.fast_max) == (3, 3),
        ),
        ("limits { batch { timeout: 4s } }", lambda facts: facts.batches.timeout_ns == 4 * 10**9),
        ("sync_interval: 7s", lambda facts: (facts.sync_always, facts.sync_interval_ns) == (False, 7 * 10**9)),
        ("sync_interval: always", lambda facts: facts.sync_always),
        ("max_memory_store: 5M", lambda facts: facts.max_memory == 5 * 10**6),
        ("max_file_store: 6M", lambda facts: facts.max_storage == 6 * 10**6),
    ],
)
async def test_settings_reach_jetstream(tmp_path: Path, text: str, fact: object) -> None:
    """What they do there is tested with its streams and consumers."""
    async with Server(_jetstream(text), store_dir=str(tmp_path)) as server:
        assert server.jetstream is not None
        assert fact(server.jetstream.facts)  # type: ignore[operator]


async def test_max_request_batch_holds_for_consumers(tmp_path: Path) -> None:
    import nats

    async with Server(_jetstream("limits { max_request_batch: 7 }"), store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", "max_batch": 8}}
        answer = await client.request("$JS.API.CONSUMER.DURABLE.CREATE.S.C", json.dumps(body).encode())
        assert "max request batch" in json.loads(answer.data)["error"]["description"]
        await client.close()


@pytest.mark.parametrize(
    ("default", "of_account", "of_stream", "room"),
    [
        ("3", "", {}, 3),
        ("3", "max_consumers: 5,", {}, 5),
        ("5", "max_consumers: 3,", {}, 3),
        ("3", "", {"max_consumers": 5}, 5),
        ("3", "max_consumers: -1,", {"max_consumers": 0}, 3),
        ("-1", "", {}, 6),
    ],
)
async def test_default_max_consumers_holds_where_there_is_no_other_limit(
    tmp_path: Path, default: str, of_account: str, of_stream: dict[str, int], room: int
) -> None:
    """As nats-server 2.15.1 decides."""
    import nats

    account = f"A {{ jetstream: {{ {of_account} max_streams: 9 }}, users: [{{user: a, password: a}}] }}"
    text = f"jetstream {{ limits {{ default_max_consumers: {default} }} }}, accounts {{ {account} }}"
    async with Server(replace(options(text), port=-1), store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url, user="a", password="a")
        stream = {"name": "S", "subjects": ["s"], "storage": "memory", **of_stream}
        await client.request("$JS.API.STREAM.CREATE.S", json.dumps(stream).encode())
        codes = []
        for number in range(6):
            body = {"stream_name": "S", "config": {"durable_name": f"C{number}", "ack_policy": "explicit"}}
            answer = await client.request(f"$JS.API.CONSUMER.DURABLE.CREATE.S.C{number}", json.dumps(body).encode())
            codes.append(json.loads(answer.data).get("error", {}).get("err_code", 0))
        assert codes == [0] * room + [10026] * (6 - room)
        await client.close()


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ('listen: "127.0.0.1:4300"', 'host: "127.0.0.1", port: 4300'),
        ('https: "127.0.0.1:4300"', 'https_port: 4300, http: "127.0.0.1:0"'),
        ('websocket { listen: "127.0.0.1:4300" }', 'websocket { host: "127.0.0.1", port: 4300 }'),
    ],
)
def test_other_names_for_addresses(text: str, other: str) -> None:
    assert options(text) == options(other)
    assert options(text) != options("port: 4222")


async def test_ping_interval_of_websockets() -> None:
    text = 'ping_interval: "60s", websocket { listen: "127.0.0.1:-1", no_tls: true, ping_interval: "50ms" }'
    async with Server(replace(options(text), port=-1)) as server:
        assert server.websocket is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", server.websocket.port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        await asyncio.wait_for(
            reader.readuntil(b"PING\r\n"), 10
        )  # the one of the client port would come after a minute
        writer.close()


async def test_max_concurrent_io(tmp_path: Path) -> None:
    async with Server(_jetstream("max_concurrent_io: 4"), store_dir=str(tmp_path)) as server:
        assert server.jetstream is not None
        files = server.jetstream._files
        assert files.commits._threads_max + files.rest._threads_max == 4
