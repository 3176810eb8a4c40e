"""Each setting of `leafnodes` and of its remotes has its effect, over real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from slipstream.auth.nkeys import KeyKind, verify
from slipstream.server.server import Server
from slipstream.server.sockets.dialer import Dialer
from support.clusters import heard_by_all
from support.config_loading import loaded
from support.leaf_world import DEADLINE, LeafServer, LeafWorld, until, until_shown
from support.ports import free_port
from support.single_server import greeted_at, started
from tlsfiles import Authority

SEED = "SUAKYRHVIOREXV7EUZTBHUHL7NUMHPMAS7QMDU3GTIUWEI5LDNOXD43IZY"
PUBLIC = "UD466L6EBCM3YY5HEGHJANNTN4LSKTSUXTH7RILHCKEQMQHTBNLHJJXT"


async def greeted(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
    """A socket on the leaf node port, and INFO."""
    assert server.leafnodes is not None
    return await greeted_at(server.leafnodes.port)


async def test_info_tells_where_the_leafnodes_listen_and_advertise() -> None:
    server, lines = await started('leafnodes { listen: "127.0.0.1:-1", advertise: "example.org:7777" }')
    try:
        _, writer, info = await greeted(server)
        assert (info["host"], info["port"], info["leafnode_urls"]) == ("example.org", 7777, ["example.org:7777"])
        assert info["nonce"] and info["client_id"] and info["info_on_connect"]
        assert any("Advertise address for leafnode is set to example.org:7777" in line for line in lines)
        writer.close()
    finally:
        await server.stop()
    server, lines = await started('leafnodes { host: "127.0.0.1", port: -1, no_advertise: true }')
    try:
        assert server.leafnodes is not None
        _, writer, info = await greeted(server)
        assert info["leafnode_urls"] == [f"127.0.0.1:{server.leafnodes.port}"]
        writer.close()
    finally:
        await server.stop()


async def test_a_peer_that_says_nothing_is_ended_after_the_timeout() -> None:
    server, _ = await started('leafnodes { listen: "127.0.0.1:-1", authorization { timeout: 0.05 } }')
    try:
        reader, writer, _ = await greeted(server)
        assert await asyncio.wait_for(reader.read(), DEADLINE) == b"-ERR 'Authentication Timeout'\r\n"
        writer.close()
    finally:
        await server.stop()


@pytest.mark.parametrize("first", [False, True])
async def test_tls_with_certificates_of_both_sides(first: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    hub_pair, leaf_pair = authority.issue("127.0.0.1", name="hub"), authority.issue("leaf.example", name="leaf")
    async with LeafWorld(tmp_path) as world:
        when = f"handshake_first: {str(first).lower()}"
        trust = f'ca_file: "{authority.ca_file}", {when}'
        hub = await world.hub("o", f"tls {{ {hub_pair.block}, {trust}, verify: true }}")
        leaf = await world.leaf("o", hub, f"tls {{ {leaf_pair.block}, {trust} }}")
        await heard_by_all([await world.client(hub), await world.client(leaf)])
        stranger = await world.leaf("o", hub, f"tls {{ {trust} }}")
        await until(lambda: "TLS handshake error" in hub.text())
        untrusting = await world.leaf("o", hub, f"tls {{ {leaf_pair.block}, {when} }}")
        await until(lambda: "TLS handshake error" in untrusting.text())
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
        assert stranger.ours is not None and not stranger.ours.leafs.links  # type: ignore[union-attr]


async def test_a_reload_brings_another_certificate(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")

    def config(authority: Authority) -> str:
        block = authority.issue("127.0.0.1").block
        return f'listen: "127.0.0.1:-1"\nleafnodes {{ listen: "127.0.0.1:-1", tls {{ {block} }} }}'

    server = Server(loaded(config(old)).options)
    await server.start()
    async with LeafWorld(tmp_path) as world:
        assert server.leafnodes is not None and server.leafs is not None
        url = f"nats-leaf://127.0.0.1:{server.leafnodes.port}"
        hub = LeafServer("o", "hub", 0, 0, server.leafnodes.port)
        await world.leaf("o", hub, f'tls {{ ca_file: "{old.ca_file}" }}', url=url)
        await until(lambda: server.leafs is not None and len(server.leafs.links) == 1)
        server.reload(loaded(config(new)).options)
        await world.leaf("o", hub, f'tls {{ ca_file: "{new.ca_file}" }}', url=url)
        await until(lambda: server.leafs is not None and len(server.leafs.links) == 2)
    await server.stop()


async def test_an_nkey_is_proved_by_a_signature(tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o", f"authorization {{ nkey: {PUBLIC}, account: A }}", "accounts { A {} }")
        leaf = await world.leaf("o", hub, f"nkey: {SEED}, account: B", "accounts { B {} }")
        shown = await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
        assert shown["leafs"][0]["account"] == "A"
        shown = await until_shown(leaf, "/leafz", lambda shown: shown["leafnodes"] == 1)
        assert shown["leafs"][0]["account"] == "B"
        plain = await world.leaf("o", hub)
        await until(lambda: "Authorization Violation" in plain.text())


async def test_credentials_of_a_file_are_shown_to_the_remote(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(
        "-----BEGIN NATS USER JWT-----\nabc.def.ghi\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    )
    shown: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def hub(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "HUB", "client_id": 1, "nonce": "abc", "leafnode_urls": [], "info_on_connect": True}
        writer.write(b"INFO %b\r\n" % json.dumps(info).encode())
        line = await reader.readline()
        shown.put_nowait(json.loads(line.removeprefix(b"CONNECT ")))
        writer.close()

    listener = await asyncio.start_server(hub, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server, lines = await started(
        f'leafnodes {{ reconnect: "10ms", remotes [ {{ url: "nats-leaf://127.0.0.1:{port}", '
        f'credentials: "{file}" }} ] }}'
    )
    try:
        connect = await asyncio.wait_for(shown.get(), DEADLINE)
        assert connect["jwt"] == "abc.def.ghi" and verify(PUBLIC, KeyKind.USER, b"abc", connect["sig"])
        file.unlink()
        await until(lambda: any("Error in the credentials of a leafnode remote" in line for line in lines))
        assert not any(SEED in line for line in lines)
    finally:
        await server.stop()
        listener.close()


async def test_a_disabled_remote_is_not_dialled_and_urls_are_tried_in_order(tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o")
        dead = free_port()
        remotes = (
            f'{{ urls: ["nats-leaf://127.0.0.1:{dead}", "nats-leaf://127.0.0.1:{hub.leaf_port}"], '
            "no_randomize: true },"
            f'{{ url: "nats-leaf://127.0.0.1:{hub.leaf_port}", account: B, disabled: true }}'
        )
        leaf = await world.server(
            "o", "leaf", f'accounts {{ B {{}} }}, leafnodes {{ reconnect: "10ms", remotes [ {remotes} ] }}'
        )
        shown = await until_shown(leaf, "/leafz", lambda shown: shown["leafnodes"] == 1)
        assert shown["leafs"][0]["account"] == "$G"
        assert f'remote server "127.0.0.1:{dead}" (attempt 1)' in leaf.text()
        assert (await hub.shown("/leafz"))["leafnodes"] == 1


async def test_isolated_leafs_do_not_learn_what_others_want(tmp_path: Path) -> None:
    for config, remote in (("isolate: true", ""), ("", "request_isolation: true")):
        async with LeafWorld(tmp_path) as world:
            hub = await world.hub("o", config)
            one, two = await world.leaf("o", hub, remote), await world.leaf("o", hub, remote)
            client = await world.client(one)
            await client.subscribe("seen")
            await heard_by_all([client, await world.client(hub)])
            shown = await until_shown(hub, "/leafz?subs=1", lambda shown: shown["leafnodes"] == 2)
            assert all(entry["is_isolated"] for entry in shown["leafs"])
            shown = await two.shown("/leafz?subs=1")
            assert "seen" not in shown["leafs"][0]["subscriptions_list"]
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o")
        leaf = await world.leaf("o", hub, "isolate: true")
        shown = await until_shown(leaf, "/leafz", lambda shown: shown["leafnodes"] == 1)
        assert shown["leafs"][0]["is_isolated"]


async def test_a_remote_that_does_not_speak_is_given_up(tmp_path: Path) -> None:
    async def mute(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _reader.read()
        writer.close()

    silent = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with LeafWorld(tmp_path) as world:
        leaf = await world.server(
            "o",
            "leaf",
            f'leafnodes {{ reconnect: "10ms", remotes [ '
            f'{{ url: "nats-leaf://127.0.0.1:{port}", first_info_timeout: "50ms" }} ] }}',
        )
        await until(lambda: leaf.text().count("No INFO of the remote server in time") > 1)
    silent.close()


async def test_a_dial_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_args: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Dialer, "_reached", never)
    url = f'url: "nats-leaf://127.0.0.1:{free_port()}"'
    for config in (
        f'leafnodes {{ dial_timeout: "20ms", remotes [ {{ {url} }} ] }}',
        f'leafnodes {{ remotes [ {{ {url}, dial_timeout: "20ms" }} ] }}',
    ):
        server, lines = await started(config)
        try:
            await until(lambda lines=lines: any("(attempt 1): i/o timeout" in line for line in lines))
        finally:
            await server.stop()


async def test_attempts_are_reported_as_often_as_configured() -> None:
    server, lines = await started(
        f'connect_error_reports: 3, leafnodes {{ reconnect: "1ms", remotes [ '
        f'{{ url: "nats-leaf://127.0.0.1:{free_port()}" }} ] }}'
    )
    try:
        await until(lambda: any("(attempt 4)" in line for line in lines))
        levels = [line[:5] for line in lines if "Error trying to connect as leafnode" in line]
        assert levels[:4] == ["[ERR]", "[DBG]", "[ERR]", "[DBG]"]
    finally:
        await server.stop()


@pytest.mark.parametrize("policy", ["close", "retry"])
async def test_a_peer_that_does_not_read_is_ended_and_others_are_served(policy: str) -> None:
    server, lines = await started(
        f'leafnodes {{ listen: "127.0.0.1:-1", write_deadline: "50ms", write_timeout: {policy} }}'
    )
    try:
        reader, writer, _ = await greeted(server)
        writer.write(b'CONNECT {"name":"stalled","version":"2.15.1"}\r\nLS+ flood\r\nPING\r\n')
        while await asyncio.wait_for(reader.readline(), DEADLINE) != b"PONG\r\n":
            pass
        account, body = server.hub.accounts["$G"], b"x" * 1_000_000
        got: list[bytes] = []
        account.subscribe(b"flood", lambda *args: got.append(args[1]))
        for _ in range(30):
            account.publish(b"flood", None, 0, body)
        await until(lambda: any("Slow Consumer" in line for line in lines))
        await until(lambda: server.leafs is not None and not server.leafs.links)
        account.publish(b"flood", None, 0, body)
        assert len(got) == 31
        writer.close()
    finally:
        await server.stop()


async def test_a_leaf_that_is_alone_is_a_cluster_of_its_name(tmp_path: Path) -> None:
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o")
        leaf: LeafServer = await world.leaf("o", hub)
        client = await world.client(leaf)
        assert client._server_info["cluster"] == leaf.name


async def test_servers_that_a_hub_tells_of_are_used_unless_that_is_off() -> None:
    from random import Random

    from slipstream.config.listener_options import LeafRemoteOptions
    from slipstream.links.leafs.remotes import LeafRemote

    options = LeafRemoteOptions(urls=("nats-leaf://u:p@a.example", "nats-leaf://10.0.0.1:1"), no_randomize=True)
    remote = LeafRemote(options, Random(1))
    remote.learn(["10.0.0.2:2", "a.example:7422", "[broken"], ["10.0.0.9:9"])
    assert [remote.pick().shown for _ in range(4)] == ["10.0.0.2:2", "a.example:7422", "10.0.0.1:1", "10.0.0.2:2"]
    assert remote.login() == ("u", "p") and remote.tls_name() == "a.example"
    keeping = LeafRemote(LeafRemoteOptions(urls=("nats-leaf://token@h:1",), ignore_discovered_servers=True), Random(1))
    keeping.learn(["10.0.0.2:2"], [])
    assert [keeping.pick().shown for _ in range(2)] == ["h:1", "h:1"]
    assert keeping.login() == ("token", None)
    over_websocket = LeafRemote(LeafRemoteOptions(urls=("wss://h/way/",)), Random(1))
    assert over_websocket.pick()[:2] == ("h", 443) and over_websocket.current.path == "/way/leafnode"
    over_websocket.learn(["10.0.0.2:2"], ["10.0.0.9:9"])
    assert [over_websocket.pick().shown for _ in range(2)] == ["10.0.0.9:9", "h:443"]
