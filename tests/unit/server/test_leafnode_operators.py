"""Leaf nodes of operator mode: credentials let them in, and what ends a token ends their links."""

from __future__ import annotations

import time
from pathlib import Path

from slipstream.config.listener_options import LeafnodeOptions, LeafRemoteOptions
from slipstream.config.options import Options, ResolverOptions
from slipstream.links.leafs.link import LeafLink
from slipstream.protocol.texts import CloseReason
from slipstream.server.server import Server
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.leaf_world import until

operator = Key(OPERATOR, "o")
system, app = Key(ACCOUNT, "SYS"), Key(ACCOUNT, "APP")
ROOT = token(operator, operator, {"system_account": system.public})
PRELOAD = {system.public: token(operator, system, account_claims()), app.public: token(operator, app, account_claims())}


def hub_options() -> Options:
    return Options(
        host="127.0.0.1",
        port=-1,
        operator=(ROOT,),
        resolver=ResolverOptions("memory"),
        resolver_preload=PRELOAD,
        leafnodes=LeafnodeOptions(host="127.0.0.1", port=-1),
    )


def leaf_options(hub: Server, directory: Path, name: str, claims: str, key: Key) -> Options:
    file = directory / f"{name}.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{claims}\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{key.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    assert hub.leafnodes is not None
    remote = LeafRemoteOptions(urls=(f"nats-leaf://127.0.0.1:{hub.leafnodes.port}",), credentials=str(file))
    leafnodes = LeafnodeOptions(remotes=(remote,), reconnect_ns=3_600_000_000_000)
    return Options(host="127.0.0.1", port=-1, server_name=name, leafnodes=leafnodes)


async def test_tokens_let_leafs_in_and_their_end_ends_the_links(tmp_path: Path) -> None:
    ended: dict[str, CloseReason] = {}
    async with Server(hub_options()) as hub:
        leafs = hub.leafs
        assert leafs is not None and hub.login_services.operators is not None

        def note(link: LeafLink, reason: CloseReason) -> None:
            ended[link.end.remote_name] = reason

        leafs.on_closed.append(note)
        keys = {name: Key(USER, name) for name in ("kept", "revoked", "short", "stranger")}
        tokens = {name: token(app, key, user_claims()) for name, key in keys.items()}
        tokens["short"] = token(app, keys["short"], user_claims(), exp=int(time.time()) + 2)
        tokens["stranger"] = token(Key(ACCOUNT, "nobody"), keys["stranger"], user_claims())
        servers = [Server(leaf_options(hub, tmp_path, name, tokens[name], key)) for name, key in keys.items()]
        try:
            for server in servers:
                await server.start()
            await until(lambda: "short" in ended or len(leafs.links) == 3)
            assert all(link.account is not None and link.account.name == app.public for link in leafs.links.values())
            await until(lambda: ended.get("short") is CloseReason.AUTHENTICATION_EXPIRED)
            revoked = account_claims(revocations={keys["revoked"].public: int(time.time())})
            hub.login_services.operators.update(app.public, token(operator, app, revoked), lambda *_: None)
            await until(lambda: ended.get("revoked") is CloseReason.REVOCATION)
            assert [link.end.remote_name for link in leafs.links.values()] == ["kept"]
            leafs.account_expired(app.public)
            assert ended["kept"] is CloseReason.AUTHENTICATION_EXPIRED and not leafs.links
        finally:
            for server in servers:
                await server.stop()
