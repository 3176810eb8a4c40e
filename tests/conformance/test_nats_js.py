"""The official JavaScript client with JetStream, key-value and object store, against either server.

Its packages are pinned in tests/js/package-lock.json and installed once into pytest's cache directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import USER_KEY, USER_SEED
from support.ports import free_port
from support.servers import Launcher
from tlsfiles import Authority

SOURCES = Path(__file__).resolve().parent.parent / "js"
INSTALL_TIMEOUT_S = 120
NODE_TIMEOUT_S = 50

OPEN = "websocket { host: 127.0.0.1, port: -1, no_tls: true }"
GUARDED = f"""
authorization {{
  users: [
    {{ user: ann, password: "open" }}
    {{ nkey: {USER_KEY} }}
    {{ user: tight, password: p, permissions: {{ publish: "ok.>", subscribe: ["ok.>", "_INBOX.>"] }} }}
  ]
}}
"""
EXPECTED = {
    "publish_and_subscribe": ["js.one", "hello", "js.reply", True],
    "thousand_messages_in_order": True,
    "wildcards": {
        "js.w.a.b": ["js.w.a.b"],
        "js.w.*.b": ["js.w.a.b", "js.w.x.b"],
        "js.w.>": ["js.w.a.b", "js.w.x.b", "js.w.a"],
        "js.*.a.*": ["js.w.a.b", "js.z.a.q"],
    },
    "queue": [300, True],
    "request": ["got a", "got b", ["got c"]],
    "no_responders": ["RequestError", "RequestError", "TimeoutError"],
    "headers": ["body", ["one", "two"], "blue: green"],
    "unsubscribe_after_max": [3, True],
    "drain_subscription": 100,
    "drain_connection": [100, True],
    "no_echo": 0,
    "binary_and_large_payloads": [True, 0],
    "verbose_and_pedantic": "x",
    "server_facts": [1, True, 1048576, True, True, True],
    "websocket": ["small", True, "RequestError"],
    "websocket_and_socket_meet": ["hello", "b"],
    "logins": ["in", "in", "AuthorizationError", "AuthorizationError", "AuthorizationError"],
    "permission_errors": [
        'PermissionViolationError: Permissions Violation for Publish to "js.secret"',
        'PermissionViolationError: Permissions Violation for Subscription to "js.secret"',
    ],
}

EXPECTED_TLS = {
    "a token": "hello",
    "an authenticator": "hello",
    "TLS because the server asks for it": "hello",
    "another token": "AuthorizationError",
    "no token": "AuthorizationError",
    "another authority": "no connection",
    "a certificate": "hello",
    "a certificate of nobody": "AuthorizationError",
    "no certificate": "no connection",
}

JETSTREAM = "jetstream { store_dir: js }"
EXPECTED_JETSTREAM = {
    "streams": [5, 3, [3, 4, 6], [6, "5"], True, 2, True, True, ["StreamNotFoundError", 10059]],
    "publish": [
        ["pub", 1, False],
        [1, True],
        2,
        ["JetStreamApiError", 10071],
        ["JetStreamNotEnabled", 0],
    ],
    "fetch": [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], None, 0, 0, 10],
    "consume": True,
    "redelivery": [[False, 1], [True, 2], [True, 3]],
    "ordered": ["2,3,5,6,8,9,11,12,14,15,17,18,20,21,23,24,26,27,29,30", 30],
    "push": "0,1,2,3,4",
    "work_queue": 1,
    "key_value": [
        [["a", "PUT", 1], ["a", "PUT", 2], ["b.c", "PUT", 3], ["a", "DEL", 4], ["b.c", "PURGE", 5]],
        ["JetStreamApiError", 10071],
        ["JetStreamApiError", 10071],
        "DEL",
        None,
        ["d"],
        [["PUT", "1"], ["PUT", "2"], ["DEL", ""]],
        5,
        True,
    ],
    "object_store": [300_000, 5, True, None],
}


@pytest.fixture(scope="session")
def js(pytestconfig: pytest.Config) -> Path:
    """A directory with the scripts and the client's packages."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.fail(f"{program} is not installed; these tests need Node.js 20 or newer")
    assert pytestconfig.cache is not None
    digest = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()[:16]
    directory = Path(pytestconfig.cache.mkdir(f"js-{digest}"))
    # Workers share the directory: one installs, the others wait for it.
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in SOURCES.glob("*.*"):
            shutil.copy(source, directory)
        if not (directory / "installed").exists():
            command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(command, cwd=directory, check=True, timeout=INSTALL_TIMEOUT_S, stdout=subprocess.DEVNULL)
            (directory / "installed").touch()
    return directory


def test_scenarios(js: Path, launcher: Launcher) -> None:
    server, guarded = launcher(OPEN), launcher(GUARDED)
    targets = {
        "open": f"127.0.0.1:{server.port}",
        "guarded": f"127.0.0.1:{guarded.port}",
        "websocket": f"ws://127.0.0.1:{server.websocket_port}",
        "seed": USER_SEED.decode(),
    }
    assert _results(js, "scenarios.mjs", json.dumps(targets)) == EXPECTED


def test_jetstream(js: Path, launcher: Launcher) -> None:
    server = launcher.fresh(JETSTREAM)
    assert _results(js, "jetstream.mjs", f"127.0.0.1:{server.port}") == EXPECTED_JETSTREAM


def test_credentials(js: Path, launcher: Launcher) -> None:
    user, stranger = Key(USER, "user of js"), Key(USER, "stranger of js")
    operator, system, app = Key(OPERATOR, "operator of js"), Key(ACCOUNT, "SYS of js"), Key(ACCOUNT, "APP of js")
    preload = "".join(f"{key.public}: {token(operator, key, account_claims())}\n" for key in (system, app))
    root = token(operator, operator, {"system_account": system.public})
    server = launcher(f"operator: {root}\nresolver: MEMORY\nresolver_preload {{ {preload} }}\n{OPEN}")
    targets = {
        "tcp": f"127.0.0.1:{server.port}",
        "websocket": f"ws://127.0.0.1:{server.websocket_port}",
        "user": token(app, user, user_claims()),
        "bearer": token(app, user, user_claims(bearer_token=True)),
        "seed": user.seed.decode(),
        "stranger": stranger.seed.decode(),
    }
    told = ["hello", "hello", "hello", "AuthorizationError", "AuthorizationError"]
    assert _results(js, "credentials.mjs", json.dumps(targets)) == {"tcp": told, "websocket": told}


def test_tls(js: Path, launcher: Launcher, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server, client, other = (
        authority.issue("127.0.0.1", "localhost"),
        authority.issue("ann@example.com", name="ann"),
        authority.issue("bob@example.com", name="bob"),
    )
    block = f'{server.block}, ca_file: "{authority.ca_file}"'
    by_token = launcher.fresh(f"tls {{ {block} }}\nauthorization {{ token: secret }}\n")
    mapped = launcher.fresh(
        f'tls {{ {block}, verify_and_map: true }}\nauthorization {{ users: [ {{ user: "ann@example.com" }} ] }}\n'
    )
    targets = {
        "token": f"127.0.0.1:{by_token.port}",
        "mapped": f"127.0.0.1:{mapped.port}",
        "ca": str(authority.ca_file),
        "stranger": str(stranger.ca_file),
        **{
            name: {"cert": str(pair.cert_file), "key": str(pair.key_file)}
            for name, pair in (("client", client), ("other", other))
        },
    }
    assert _results(js, "tls.mjs", json.dumps(targets)) == EXPECTED_TLS


def _results(js: Path, script: str, argument: str) -> object:
    done = subprocess.run(
        ["node", script, argument], cwd=js, capture_output=True, text=True, timeout=NODE_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_reconnect(js: Path, launcher: Launcher) -> None:
    server = launcher.fresh()
    command = ["node", "reconnect.mjs", f"127.0.0.1:{server.port}"]
    with subprocess.Popen(command, cwd=js, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == "connected\n"
            server.kill()
            assert node.stdout.readline() == "disconnect\n"
            server.restart()
            assert node.stdout.readline() == "received again\n"
            assert node.wait(NODE_TIMEOUT_S) == 0
        finally:
            node.kill()


def test_many_servers(js: Path, launcher: Launcher) -> None:
    """The client hears of the cluster's other server, moves to it, and has the JetStream of a hub through its leaf."""
    routes = [free_port(), free_port()]
    servers = [
        launcher.fresh(
            f'server_name: s{at}\ncluster {{ name: C, listen: "127.0.0.1:{routes[at]}", '
            f'routes: ["nats://127.0.0.1:{routes[1 - at]}"] }}'
        )
        for at in range(2)
    ]
    leaf_port = free_port()
    launcher.fresh(f'jetstream {{ store_dir: js, domain: hub }}\nleafnodes {{ listen: "127.0.0.1:{leaf_port}" }}')
    leaf = launcher.fresh(f'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{leaf_port}" }} ] }}')
    command = ["node", "servers.mjs", f"127.0.0.1:{servers[0].port}", f"127.0.0.1:{leaf.port}"]
    with subprocess.Popen(command, cwd=js, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == "heard\n"
            servers[0].kill()
            found = json.loads(node.stdout.readline())
            assert node.wait(NODE_TIMEOUT_S) == 0
        finally:
            node.kill()
    assert found == {"cluster": [2, True, "here"], "domain": ["hub", [1, 2, 3], ["0", "1", "2"], "v"]}
