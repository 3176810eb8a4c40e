"""Proxies that sign the nonce of their clients: who has to come by one, who may, and what a reload does to them."""

from __future__ import annotations

import json
import re
from urllib.request import ProxyHandler, build_opener

from support.jwt import USER, Key
from support.keys import nonce_of, url_base64
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both

KEPT, REMOVED, STRANGER = Key(USER, "kept proxy"), Key(USER, "removed proxy"), Key(USER, "strange proxy")
CONFIG = """
http: "127.0.0.1:-1"
%s
accounts {
  A { users: [
    { user: must, password: p, proxy_required: true }
    { user: may, password: p }
  ] }
  SYS { users: [{ user: sys, password: p }] }
}
system_account: SYS
"""
BOTH = f"proxies {{ trusted: [{{ key: {KEPT.public} }}, {{ key: {REMOVED.public} }}] }}"
ONE = f"proxies {{ trusted: [{{ key: {KEPT.public} }}] }}"


def login(server: ServerProcess, user: str, proxy: Key | None, *, over: bytes = b"") -> tuple[RawClient, bytes]:
    client = RawClient(server.port)
    info = client.read_until(rb"\r\n")
    said = {"verbose": False, "user": user, "pass": "p"}
    if proxy is not None:
        nonce = over or (nonce_of(info).encode() if b'"nonce"' in info else b"none")
        said["proxy_sig"] = url_base64(proxy.sign(nonce))
    client.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
    lines, _ = client.read_until_or_close(rb"PONG\r\n")
    return client, re.sub(rb"INFO [^\r]*\r\n", b"", lines)


def shown(server: ServerProcess, state: str) -> list[tuple[object, ...]]:
    """What monitoring says about clients and their proxies."""
    url = f"http://127.0.0.1:{server.monitor_port}/connz?auth=1&state={state}"
    with build_opener(ProxyHandler({})).open(url, timeout=5) as answer:
        found = json.loads(answer.read())["connections"]
    return sorted((one.get("authorized_user"), str(one.get("proxy")), one.get("reason", "")) for one in found)


def test_the_same_clients_come_in(both: Both) -> None:
    for proxies in (BOTH, ONE, ""):
        pair = both.fresh(CONFIG % proxies)
        found = []
        for server in (pair.real, pair.ours):
            kept, seen = [], []
            for user in ("must", "may"):
                for proxy in (None, KEPT, REMOVED, STRANGER):
                    client, lines = login(server, user, proxy)
                    kept.append(client)
                    seen.append((user, proxy and proxy.name, lines))
            kept_client, lines = login(server, "may", KEPT, over=b"another nonce")
            kept.append(kept_client)
            found.append((seen, lines, shown(server, "open"), shown(server, "closed")))
            for client in kept:
                client.close()
        assert found[0] == found[1]


def test_a_proxy_that_is_trusted_no_longer_takes_its_clients_along(both: Both) -> None:
    pair = both.fresh(CONFIG % BOTH)
    outcomes = []
    for server in (pair.real, pair.ours):
        clients = {
            name: login(server, user, proxy)[0]
            for name, user, proxy in (
                ("stays", "must", KEPT),
                ("goes", "must", REMOVED),
                ("goes too", "may", REMOVED),
                ("direct", "may", None),
            )
        }
        server.reload(CONFIG % ONE)
        gone = {name: clients[name].read_to_close() for name in ("goes", "goes too")}
        for name in ("stays", "direct"):
            clients[name].send(b"PING\r\n")
            clients[name].read_until(rb"PONG\r\n")
        late, refusal = login(server, "must", REMOVED)
        outcomes.append((gone, refusal, shown(server, "open"), shown(server, "closed")))
        # A key that is trusted now is so at once.
        server.reload(CONFIG % BOTH)
        again, lines = login(server, "must", REMOVED)
        assert b"PONG" in lines
        for client in (*clients.values(), late, again):
            client.close()
    assert outcomes[0] == outcomes[1]


def test_a_user_who_has_to_come_by_a_proxy_now(both: Both) -> None:
    pair = both.fresh(CONFIG % ONE)
    outcomes = []
    for server in (pair.real, pair.ours):
        direct, proxied = login(server, "may", None)[0], login(server, "may", KEPT)[0]
        server.reload((CONFIG % ONE).replace("user: may, password: p", "user: may, password: p, proxy_required: true"))
        proxied.send(b"PING\r\n")
        stays = not proxied.read_until_or_close(rb"PONG\r\n")[1]
        outcomes.append((stays, direct.read_to_close()))
        direct.close()
        proxied.close()
    assert outcomes[0] == outcomes[1]
