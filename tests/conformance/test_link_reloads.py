"""What a reload may change of the blocks about other servers: a row for each key, and nats-server's word on it.

Every key of the blocks has its row here, so that none is accepted at a reload and then ignored without anybody having
asked nats-server. What a change does to servers that are connected is in `test_route_keys`, `test_route_options` and
`test_leaf_changes`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from slipstream.config.checker import KeyTable
from slipstream.config.keys.cluster import CLUSTER, GATEWAY, REMOTE_GATEWAY
from slipstream.config.keys.listener import LEAFNODES
from slipstream.config.keys.remote import LEAF_REMOTE
from slipstream.config.reload import diff
from support.config_loading import loaded
from support.keys import USER_SEED
from support.servers import Launcher, ServerPool
from tlsfiles import Authority

# --- the table -------------------------------------------------------------------------------------------------------

BOTH_DEADLINES = {
    "write_deadline": ('write_deadline: "1s"', 'write_deadline: "2s"'),
    "write_timeout": ("write_timeout: close", "write_timeout: retry"),
}
ADDRESSES = {
    "listen": ('listen: "127.0.0.1:-1"', 'listen: "localhost:-1"'),
    "port": ("port: -1, host: 127.0.0.1", "port: 1, host: 127.0.0.1"),
    "host": ("host: 127.0.0.1, port: -1", "host: localhost, port: -1"),
}
Rows = dict[str, tuple[str, str]]

CLUSTER_ROWS: Rows = {
    **ADDRESSES,
    **BOTH_DEADLINES,
    "name": ("", "name: d"),
    "authorization": ("authorization { user: u, password: p }", "authorization { user: u, password: q }"),
    "routes": ('routes ["nats://127.0.0.1:1"]', 'routes ["nats://127.0.0.1:2"]'),
    "tls": ("tls { ONE }", "tls { TWO }"),
    "advertise": ("", 'advertise: "192.0.2.1:5"'),
    "no_advertise": ("", "no_advertise: true"),
    "connect_retries": ("", "connect_retries: 4"),
    "connect_backoff": ("", "connect_backoff: true"),
    "permissions": ('permissions { import: "a" }', 'permissions { export: "b" }'),
    "pool_size": ("pool_size: 2", "pool_size: -1"),
    "accounts": ("accounts [A]", "accounts [B]"),
    "compression": ("compression: s2_fast", "compression: off"),
    "ping_interval": ("", 'ping_interval: "5s"'),
    "ping_max": ("", "ping_max: 5"),
}
LEAFNODE_ROWS: Rows = {
    **ADDRESSES,
    **BOTH_DEADLINES,
    "authorization": (
        "authorization { user: u, password: p, account: A }",
        "authorization { user: u, password: p, account: B }",
    ),
    "tls": ("tls { ONE }", "tls { TWO, handshake_first: true }"),
    "advertise": ("", 'advertise: "192.0.2.1:5"'),
    "no_advertise": ("", "no_advertise: true"),
    "min_version": ("", 'min_version: "2.10.0"'),
    "compression": ("compression: s2_fast", "compression: off"),
    "isolate": ("", "isolate: true"),
    "reconnect": ("reconnect: 2", "reconnect: 3"),
    "dial_timeout": ("", 'dial_timeout: "3s"'),
    "remotes": ('remotes [ { url: "nats-leaf://127.0.0.1:1" } ]', 'remotes [ { url: "nats-leaf://127.0.0.1:2" } ]'),
}
URL = 'url: "nats-leaf://127.0.0.1:1"'
# What changes in place; nats-server refuses all others, and here the link is made anew (ADR 52).
TAKEN_BY_BOTH = {"urls", "account", "credentials", "nkey", "tls", "compression", "disabled"}
REMOTE_ROWS: Rows = {
    "urls": (URL, 'url: "nats-leaf://127.0.0.1:2"'),
    "account": (f"{URL}, account: A", f"{URL}, account: B"),
    "credentials": (URL, f'{URL}, credentials: "/nowhere/a"'),
    "nkey": (URL, f"{URL}, nkey: {USER_SEED.decode()}"),
    "tls": (f"{URL}, tls {{ ONE }}", f"{URL}, tls {{ TWO }}"),
    "hub": (URL, f"{URL}, hub: true"),
    "deny_imports": (URL, f"{URL}, deny_imports: a"),
    "deny_exports": (URL, f"{URL}, deny_exports: a"),
    "no_randomize": (URL, f"{URL}, no_randomize: true"),
    "ws_compression": (URL, f"{URL}, ws_compression: true"),
    "ws_no_masking": (URL, f"{URL}, ws_no_masking: true"),
    "jetstream_cluster_migrate": (URL, f"{URL}, jetstream_cluster_migrate: true"),
    "isolate": (URL, f"{URL}, isolate: true"),
    "request_isolation": (URL, f"{URL}, request_isolation: true"),
    "compression": (URL, f"{URL}, compression: s2_fast"),
    "first_info_timeout": (URL, f'{URL}, first_info_timeout: "4s"'),
    "dial_timeout": (URL, f'{URL}, dial_timeout: "3s"'),
    "disabled": (URL, f"{URL}, disabled: true"),
    "proxy": (URL, f'{URL}, proxy {{ url: "http://127.0.0.1:1" }}'),
    "ignore_discovered_servers": (URL, f"{URL}, ignore_discovered_servers: true"),
}
GATEWAY_ROWS: Rows = {
    **ADDRESSES,
    **BOTH_DEADLINES,
    "name": ("", "name: other"),
    "authorization": ("authorization { user: u, password: p }", "authorization { user: u, password: q }"),
    "tls": ("tls { ONE }", "tls { TWO }"),
    "advertise": ("", 'advertise: "192.0.2.1:5"'),
    "connect_retries": ("", "connect_retries: 4"),
    "connect_backoff": ("", "connect_backoff: true"),
    "gateways": (
        'gateways [ { name: h, url: "nats://127.0.0.1:1" } ]',
        'gateways [ { name: h, url: "nats://127.0.0.1:2" } ]',
    ),
    "reject_unknown_cluster": ("", "reject_unknown_cluster: true"),
}
REMOTE_GATEWAY_ROWS: Rows = {
    "name": ('name: h, url: "nats://127.0.0.1:1"', 'name: i, url: "nats://127.0.0.1:1"'),
    "url": ('name: h, url: "nats://127.0.0.1:1"', 'name: h, url: "nats://127.0.0.1:2"'),
    "urls": ('name: h, urls ["nats://127.0.0.1:1"]', 'name: h, urls ["nats://127.0.0.1:2"]'),
    "tls": ('name: h, url: "nats://127.0.0.1:1", tls { ONE }', 'name: h, url: "nats://127.0.0.1:1", tls { TWO }'),
}


def in_block(name: str, given: str = "") -> Callable[[str], str]:
    """Puts keys into a block that listens."""

    def text(inside: str) -> str:
        named = "" if "name:" in inside.split("gateways")[0] else given
        listens = "" if "listen:" in inside or "port:" in inside else 'listen: "127.0.0.1:-1"'
        return f"{name} {{\n{named}\n{listens}\n{inside}\n}}\n"

    return text


TABLES: list[tuple[str, KeyTable, Rows, Callable[[str], str]]] = [
    ("cluster", CLUSTER, CLUSTER_ROWS, in_block("cluster", "name: c")),
    ("leafnodes", LEAFNODES, LEAFNODE_ROWS, in_block("leafnodes")),
    ("remote", LEAF_REMOTE, REMOTE_ROWS, lambda inside: f"leafnodes {{ remotes [ {{\n{inside}\n}} ] }}\n"),
    ("gateway", GATEWAY, GATEWAY_ROWS, in_block("gateway", "name: g")),
    (
        "remote gateway",
        REMOTE_GATEWAY,
        REMOTE_GATEWAY_ROWS,
        lambda inside: in_block("gateway", "name: g")(f"gateways [ {{\n{inside}\n}} ]"),
    ),
]
ACCOUNTS = "accounts { A { users [ {user: a, password: a} ] }, B { users [ {user: b, password: b} ] } }\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `ONE` and `TWO` stand for."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    pairs = {word: authority.issue("127.0.0.1", name=word) for word in ("ONE", "TWO")}
    return {word: f'{pair.block}, ca_file: "{authority.ca_file}"' for word, pair in pairs.items()}


@pytest.mark.parametrize(("table", "rows", "text"), [row[1:] for row in TABLES], ids=[row[0] for row in TABLES])
def test_a_reload_of_each_key(
    table: KeyTable, rows: Rows, text: Callable[[str], str], certificates: dict[str, str], server_pool: ServerPool
) -> None:
    """Both servers take it, or both refuse; and the documentation says which."""
    assert set(rows) == {key.names[0] for key in table.keys}
    real = Launcher(server_pool, "real")

    def config(inside: str) -> str:
        for word, block in certificates.items():
            inside = inside.replace(word, block)
        return ACCOUNTS + text(inside)

    def taken_by_nats_server(row: tuple[str, str]) -> bool:
        server = real.fresh(config(row[0]))
        position = len(server.log_lines)
        server.reload(config(row[1]))
        return not any("Failed to reload" in line for line in server.log_lines[position:])

    try:
        with ThreadPoolExecutor(4) as threads:
            theirs = dict(zip(rows, threads.map(taken_by_nats_server, rows.values()), strict=True))
    finally:
        real.end_own()
    ours = {}
    for name, (before, after) in rows.items():
        plan = diff(loaded(config(before)).options, loaded(config(after)).options)
        assert plan.refusals or plan.actions, f"a change of {name} is not seen"
        ours[name] = not plan.refusals
    if table is LEAF_REMOTE:
        assert {name for name, taken in theirs.items() if taken} == TAKEN_BY_BOTH
        theirs = dict.fromkeys(theirs, True)
    assert ours == theirs
    assert {key.names[0]: key.reloadable for key in table.keys} == ours
