"""TLS, permissions and reload of routes: beside nats-server, and with it on the other end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from slipstream.errors import ConfigError
from support.clusters import HAS_NATS_SERVER, Node, cluster, connected, heard_by_all, until
from tlsfiles import Authority

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")


async def received(client: nats.NATS, subject: str) -> list[str]:
    """Where messages end up that a client gets from now on: its subjects."""
    got: list[str] = []

    async def take(message: nats.aio.msg.Msg) -> None:
        got.append(message.subject)

    await client.subscribe(subject, cb=take)
    await client.flush()
    return got


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", ["ooo", "noo", "onn"])
async def test_routes_with_tls(kinds: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    tls = f'tls {{ {pair.block}, ca_file: "{authority.ca_file}", timeout: 5 }}'
    async with cluster(kinds, tmp_path, tls, host="localhost") as nodes:
        clients = [await connected(node.url) for node in nodes]
        await heard_by_all(clients)
        shown = [await node.shown("/varz") for node in nodes]
        assert [one["cluster"]["tls_required"] for one in shown] == [True] * 3
        assert [one["cluster"]["tls_verify"] for one in shown] == [True] * 3
        for client in clients:
            await client.close()


@pytest.mark.parametrize("kinds", ["oo", "no", "on"])
async def test_a_server_of_another_authority_stays_outside(kinds: str, tmp_path: Path) -> None:
    ours, other = Authority(tmp_path), Authority(tmp_path, "other")
    pair, strange = ours.issue("localhost", "127.0.0.1"), other.issue("localhost", "127.0.0.1")
    first, second = (Node(kind, number, tmp_path) for number, kind in enumerate(kinds))
    try:
        await first.start(first.text([], f'tls {{ {pair.block}, ca_file: "{ours.ca_file}" }}'))
        await (await connected(first.url)).close()
        # It trusts the first one, and is not trusted.
        block = f'tls {{ {strange.block}, ca_file: "{ours.ca_file}" }}'
        await second.start(second.text([f"nats://localhost:{first.route_port}"], block))
        await until(lambda: "handshake error" in first.log_text(), "a handshake that fails")
        assert (await first.shown("/varz"))["routes"] == 0
    finally:
        await first.stop()
        await second.stop()


@pytest.mark.parametrize("kinds", ["oo", "no", "on"])
@pytest.mark.parametrize("known", [True, False])
async def test_certificates_of_configured_routes_alone(kinds: str, known: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    options = f'{pair.block}, ca_file: "{authority.ca_file}"'
    first, second = (Node(kind, number, tmp_path) for number, kind in enumerate(kinds))
    try:
        checks = f"tls {{ {options}, verify_cert_and_check_known_urls: true }}"
        configured = [f"nats://{'localhost' if known else 'elsewhere.example'}:{second.route_port}"]
        await first.start(first.text(configured, checks))
        await second.start(second.text([f"nats://localhost:{first.route_port}"], f"tls {{ {options} }}"))
        clients = [await connected(node.url) for node in (first, second)]
        if known:
            await heard_by_all(clients)
        else:
            await until(lambda: "authentication error" in first.log_text(), "a refusal")
            assert (await first.shown("/varz"))["routes"] == 0
        for client in clients:
            await client.close()
    finally:
        await first.stop()
        await second.stop()


# --- permissions -----------------------------------------------------------------------------------------------------

PERMISSIONS = """permissions {
  import { allow: ["hello", "in.>", "both.*"], deny: ["both.b"] }
  export { allow: ["hello", "out.>", "both.*"], deny: ["both.c"] }
}"""
SUBJECTS = ("in.a", "out.a", "both.a", "both.b", "both.c", "other")


async def crossed(kinds: str, directory: Path) -> list[list[str]]:
    """What of all subjects arrives from the one server at the other, in both directions."""
    first, second = (Node(kind, number, directory) for number, kind in enumerate(kinds))
    try:
        await first.start(first.text([], PERMISSIONS))
        await second.start(second.text([f"nats://127.0.0.1:{first.route_port}"]))
        clients = [await connected(node.url) for node in (first, second)]
        await heard_by_all(clients)
        got = [[await received(client, subject) for subject in SUBJECTS] for client in clients]
        await heard_by_all(clients)
        for number, client in enumerate(clients):
            # Only the other one's receivers are looked at: what is published here is heard here in any case.
            for one in got[number]:
                one.clear()
            for subject in SUBJECTS:
                await client.publish(subject, b"")
            await client.flush()
            await heard_by_all(clients)
        found = [sorted(name for one in side for name in one) for side in got]
        for client in clients:
            await client.close()
        return found
    finally:
        await first.stop()
        await second.stop()


async def test_permissions_let_through_what_those_of_nats_server_do(tmp_path: Path) -> None:
    expected = await crossed("nn", tmp_path)
    assert await crossed("oo", tmp_path) == expected
    assert await crossed("on", tmp_path) == expected
    assert await crossed("no", tmp_path) == expected


async def test_a_wider_subscription_of_a_peer_gets_nothing_that_is_denied(tmp_path: Path) -> None:
    permissions = 'permissions { export { deny: ["secret.>"] } }'
    first, second = Node("o", 0, tmp_path), Node("n", 1, tmp_path)
    try:
        await first.start(first.text([], permissions))
        await second.start(second.text([f"nats://127.0.0.1:{first.route_port}"]))
        clients = [await connected(node.url) for node in (first, second)]
        got = await received(clients[1], ">")
        await heard_by_all(clients)
        await clients[0].publish("secret.a", b"")
        await clients[0].publish("open.a", b"")
        await heard_by_all(clients)
        assert [name for name in got if not name.startswith(("hello", "$", "_"))] == ["open.a"]
        for client in clients:
            await client.close()
    finally:
        await first.stop()
        await second.stop()


@pytest.mark.parametrize("kinds", ["oo", "no", "on"])
async def test_other_permissions_while_it_runs(kinds: str, tmp_path: Path) -> None:
    """Import and export are narrowed and widened at the first server; interest follows at once."""
    async with cluster(kinds, tmp_path) as (first, second):
        clients = [await connected(node.url) for node in (first, second)]
        got = [await received(client, "news") for client in clients]
        await heard_by_all(clients)
        for imports, exports in ((True, True), (False, True), (True, False), (False, False), (True, True)):
            lists = [
                f"{what} {{ {'allow' if may else 'deny'}: [{'hello, news' if may else 'news'}] }}"
                for what, may in (("import", imports), ("export", exports))
            ]
            before = first.log_text().count("Reloaded")
            first.reload(first.text([], f"permissions {{ {', '.join(lists)} }}"))
            if first.kind == "n":
                await until(lambda: first.log_text().count("Reloaded") > before, "a reload")  # noqa: B023
            await heard_by_all(clients)
            await heard_by_all(clients)
            for one in got:
                one.clear()
            await clients[0].publish("news", b"")
            await clients[1].publish("news", b"")
            await heard_by_all(clients)
            assert [len(one) for one in got] == [1 + imports, 1 + exports], (imports, exports)
        for client in clients:
            await client.close()


# --- reload ----------------------------------------------------------------------------------------------------------


async def other_servers(node: Node) -> set[str]:
    """The names of those that it has routes to."""
    return {route["remote_name"] for route in (await node.shown("/routez"))["routes"] if "remote_name" in route}


async def reaches(node: Node, expected: set[str]) -> None:
    async with asyncio.timeout(20):
        while await other_servers(node) != expected:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("kinds", ["oo", "no", "on", "nn"])
async def test_routes_come_and_go_with_a_reload(kinds: str, tmp_path: Path) -> None:
    first, second = (Node(kind, number, tmp_path) for number, kind in enumerate(kinds))
    try:
        await first.start(first.text([]))
        await second.start(second.text([]))
        clients = [await connected(node.url) for node in (first, second)]
        for _ in range(2):
            second.reload(second.text([f"nats://127.0.0.1:{first.route_port}"]))
            await reaches(first, {"s1"})
            await reaches(second, {"s0"})
            await heard_by_all(clients)
            second.reload(second.text([]))
            await reaches(first, set())
            await reaches(second, set())
        for client in clients:
            await client.close()
    finally:
        await first.stop()
        await second.stop()


@pytest.mark.parametrize("kinds", ["oo", "no", "on"])
async def test_accounts_move_to_routes_of_their_own(kinds: str, tmp_path: Path) -> None:
    accounts = "accounts { A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}] } }\n"
    async with cluster(kinds, tmp_path, "", accounts) as nodes:
        dialled = ([], [f"nats://127.0.0.1:{nodes[0].route_port}"])
        clients = [await connected(node.url, user="a", password="p") for node in nodes]
        await heard_by_all(clients)
        for pinned in (["A"], ["A", "B"], []):
            for node, routes in zip(reversed(nodes), reversed(dialled), strict=True):
                node.reload(node.text(routes, f"accounts: [{', '.join(pinned)}]", accounts))

            async def pinned_at(node: Node) -> set[str]:
                routes = (await node.shown("/routez"))["routes"]
                return {route["account"] for route in routes if "account" in route} - {"$SYS"}

            async with asyncio.timeout(20):
                while {frozenset(await pinned_at(node)) for node in nodes} != {frozenset(pinned)}:
                    await asyncio.sleep(0.05)
            await heard_by_all(clients)
        for client in clients:
            await client.close()


async def test_where_routes_come_in_does_not_change(tmp_path: Path) -> None:
    async with cluster("o", tmp_path) as (node,):
        text = node.text([])
        with pytest.raises(ConfigError, match="config reload not supported for cluster port"):
            node.reload(text.replace(str(node.route_port), "1"))


@pytest.mark.parametrize("kinds", ["oo", "no", "on", "nn"])
async def test_another_password_and_pool_size(kinds: str, tmp_path: Path) -> None:
    """The first server asks for a password from now on: the other one comes in when it knows it."""
    first, second = (Node(kind, number, tmp_path) for number, kind in enumerate(kinds))
    try:
        await first.start(first.text([]))
        plain = [f"nats://127.0.0.1:{first.route_port}"]
        await second.start(second.text(plain))
        clients = [await connected(node.url) for node in (first, second)]
        await heard_by_all(clients)
        block = "authorization { user: u, password: p }, pool_size: 2"
        first.reload(first.text([], block))
        # All routes of the pool are closed, and the other one is refused.
        await until(lambda: "authentication error" in first.log_text().lower(), "a refusal")
        second.reload(second.text([f"nats://u:p@127.0.0.1:{first.route_port}"], "pool_size: 2"))
        await heard_by_all(clients)
        async with asyncio.timeout(20):
            while (await first.shown("/varz"))["routes"] != 3:  # two, and that of the system account
                await asyncio.sleep(0.05)
        for client in clients:
            await client.close()
    finally:
        await first.stop()
        await second.stop()
