"""Tokens of accounts in a cluster: pushed at one server they hold at all, and one that was away gets them later."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from support.clusters import HAS_NATS_SERVER, Node, connected, heard_by_all
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import url_base64

pytestmark = pytest.mark.skipif(not HAS_NATS_SERVER, reason="nats-server is not installed")

operator = Key(OPERATOR, "operator")
system, app, late = (Key(ACCOUNT, name) for name in ("SYS", "APP", "LATE"))
ann, boss = Key(USER, "ann"), Key(USER, "boss")


def account(key: Key) -> str:
    return token(operator, key, account_claims(), iat=1_700_000_000)


def configured(node: Node, directory: Path) -> str:
    return (
        f"operator: {token(operator, operator, {'system_account': system.public})}\n"
        f'resolver {{ type: full, dir: "{directory / node.name}", interval: "1s" }}\n'
        f"resolver_preload {{\n  {system.public}: {account(system)}\n}}\n"
    )


def login(of: Key, user: Key) -> dict[str, Any]:
    text = token(of, user, user_claims())
    return {
        "user_jwt_cb": lambda: bytearray(text.encode()),
        "signature_cb": lambda nonce: url_base64(user.sign(nonce.encode())).encode(),
    }


async def kept_tokens(client: nats.NATS, server: str) -> list[str]:
    """The accounts that a server has tokens of."""
    inbox, found = client.new_inbox(), dict[str, list[str]]()

    async def take(message: nats.aio.msg.Msg) -> None:
        answer = json.loads(message.data)
        found[answer["server"]["name"]] = answer.get("data") or []

    subscription = await client.subscribe(inbox, cb=take)
    await client.publish("$SYS.REQ.CLAIMS.LIST", b"", reply=inbox)
    async with asyncio.timeout(1):  # who is not there yet does not answer later: the caller asks again
        while server not in found:
            await asyncio.sleep(0.02)
    await subscription.unsubscribe()
    return found[server]


async def until_kept(client: nats.NATS, key: Key) -> None:
    """Wait for the second server to have an account's token."""
    async with asyncio.timeout(30):
        while True:
            try:
                if key.public in await kept_tokens(client, "s1"):
                    return
            except TimeoutError:
                continue
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("kinds", ["oo", "on", "no", pytest.param("nn", marks=pytest.mark.long)])
async def test_tokens_reach_all_servers(kinds: str, tmp_path: Path) -> None:
    first, second = (Node(kind, number, tmp_path) for number, kind in enumerate(kinds))
    for node in (first, second):
        (tmp_path / node.name).mkdir()
    routes = [f"nats://127.0.0.1:{first.route_port}"]
    try:
        await first.start(first.text([], more=configured(first, tmp_path)))
        await second.start(second.text(routes, more=configured(second, tmp_path)))
        bosses = [await connected(node.url, **login(system, boss)) for node in (first, second)]
        await heard_by_all(bosses)
        await bosses[0].request(f"$SYS.REQ.ACCOUNT.{app.public}.CLAIMS.UPDATE", account(app).encode(), timeout=5)
        await until_kept(bosses[0], app)
        clients = [await connected(node.url, **login(app, ann)) for node in (first, second)]
        await heard_by_all(clients)
        for client in (*clients, bosses[1]):
            await client.close()
        # While the second one is away, another account comes.
        await second.stop()
        await bosses[0].request(f"$SYS.REQ.ACCOUNT.{late.public}.CLAIMS.UPDATE", account(late).encode(), timeout=5)
        await second.start(second.text(routes, more=configured(second, tmp_path)))
        await until_kept(bosses[0], late)
        await bosses[0].close()
    finally:
        await first.stop()
        await second.stop()
