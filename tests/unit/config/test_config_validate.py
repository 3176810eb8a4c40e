"""Contradictions found before a start, and features that are refused instead of ignored."""

from __future__ import annotations

from base64 import b32encode
from binascii import crc_hqx

import pytest

from slipstream.config.keys.server import SERVER
from slipstream.config.subject_rules import OPERATOR_KEY
from slipstream.config.validate import UNSUPPORTED, problems, unsupported
from support.config_loading import loaded, options


def _public_key(prefix: int) -> str:
    body = bytes([prefix]) + bytes(range(32))
    return b32encode(body + crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")


NKEY = _public_key(OPERATOR_KEY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port: 4222", []),
        ("max_payload: 1MB, max_pending: 1k", ["max_payload (1048576) cannot be higher than max_pending (1000)"]),
        (
            'lame_duck_duration: "30s", lame_duck_grace_period: "30s"',
            ["lame duck grace period (30s) should be strictly lower than lame duck duration (30s)"],
        ),
        ("no_auth_user: x", ['no_auth_user: "x" present, but users/nkeys are not defined']),
        (
            "no_auth_user: x, authorization { users: [{user: y}] }",
            ['no_auth_user: "x" not present as user or nkey in authorization block or account configuration'],
        ),
        ("no_auth_user: y, accounts { A { users: [{user: y}] } }", []),
        ("websocket { port: 80 }", ["websocket requires TLS configuration"]),
        ("websocket { port: 80, no_tls: true }", []),
        (
            'websocket { port: 80, no_tls: true, origins: ["a", "ftp://a", "http://", "http://a:x"] }',
            [
                'unable to parse allowed origin "a": allowed origins must be absolute URLs with http or https scheme',
                'unable to parse allowed origin "ftp://a": allowed origins must be absolute URLs with http or https '
                "scheme",
                'unable to parse allowed origin "http://": host is required',
                "unable to parse allowed origin: Port could not be cast to integer value as 'x'",
            ],
        ),
        (
            "websocket { port: 80, no_tls: true, authorization { user: u, token: t } }\n"
            "accounts { A { users: [{user: y}] } }",
            [
                "websocket authentication username not compatible with presence of users/nkeys",
                "websocket authentication token not compatible with presence of users/nkeys",
            ],
        ),
        (
            "websocket { port: 80, no_tls: true, headers { Host: a, Sec-WebSocket-X: b } }",
            [
                'websocket: invalid header "Host" not allowed',
                'websocket: invalid header "Sec-WebSocket-X", "Sec-WebSocket-" prefix not allowed',
            ],
        ),
        (
            "leafnodes { authorization { user: a, account: X } }",
            ['cannot find local account "X" specified in leafnode authorization'],
        ),
        (
            'leafnodes { remotes: [{urls: ["nats://u:p@a:1", "ws://b:2"]}, {urls: ["ws://a:1", "wss://b:2"]}] }',
            [
                "remote leaf node configuration cannot have a mix of websocket and non-websocket urls: "
                '["nats://u:xxxxx@a:1" "ws://b:2"]'
            ],
        ),
        (
            "operator: x, leafnodes { port: 1, authorization { users: [{user: a, password: b}] } }",
            ["operator mode does not allow specifying users in leafnode config"],
        ),
        (
            "operator: x, leafnodes { port: 1, authorization { user: a, account: A } }",
            ["operator mode and non account nkeys are incompatible"],
        ),
        (f"operator: x, leafnodes {{ port: 1, authorization {{ account: {_public_key(0)} }} }}", []),
        (f'operator: x, leafnodes {{ remotes: [{{url: "nats://a", account: {_public_key(0)}}}] }}', []),
        (
            'operator: x, leafnodes { remotes: [{url: "nats://a"}, {url: "nats://b", account: A}] }',
            [
                "operator mode requires account nkeys in remotes. Please add an `account` key to each remote in your "
                "`leafnodes` section, to assign it to an account. Each account value should be a 56 character public "
                "key, starting with the letter 'A'"
            ],
        ),
        ("gateway { port: 1 }", ["gateway has no name"]),
        (
            "gateway { name: a, port: 1 }, leafnodes { port: 2 }",
            ["leaf nodes and gateways (both being defined) require a system account to also be configured"],
        ),
        ("gateway { name: a, port: 1 }, leafnodes { port: 2 }, system_account: S, accounts { S {} }", []),
        ("gateway { name: a }", ['gateway "a" has no port specified (select -1 for random port)']),
        (
            "jetstream: true, cluster { port: 1 }",
            [
                "jetstream cluster requires `server_name` to be set",
                "jetstream cluster requires `cluster.name` to be set",
            ],
        ),
        ("jetstream { domain: a.b }", ["invalid domain name: may not contain ., * or >"]),
        ("system_account: X", ["error resolving system account: account missing"]),
        ("system_account: A, accounts { A {} }", []),
        ("leafnodes { compression: foo }", ['unsupported compression mode "foo"']),
        ("leafnodes { compression: Best }", []),
        ("default_sentinel: x", ["default sentinel requires operators and accounts"]),
        (
            "cluster { accounts: [A, A] }",
            ['found duplicate account name "A" in pinned accounts list ["A" "A"]'],
        ),
    ],
)
def test_problems(text: str, expected: list[str]) -> None:
    assert [str(problem) for problem in problems(options(text))] == expected


# One text for each row of the table, so that no row can be forgotten or be without effect.
ASKED = {
    "jetstream: keys": "jetstream { tpm { keys_file: f } }",
    "jetstream: audit": "jetstream { audit: true }, no_system_account: true",
    "jetstream: declared": "jetstream { declared { kv { a {} } } }, accounts { A {} }",
    "accounts": "accounts { S { jetstream { declared { kv { a {} } } } } }, system_account: S",
    "lake: lake writes": "lake { location: x }",
    "lake: lake needs": "lake { location: x }, jetstream: true",
    "cluster: ocsp_peer": "cluster { tls { ocsp_peer: true } }",
    "cluster: a": 'cluster { authorization { user: u, password: "$2a$11$abc" } }',
    "cluster: JetStream": "cluster { name: c, port: 6222 }, server_name: s, jetstream: true",
    "jetstream: encryption": (
        "jetstream { decrypt: true, prev_key: k }, cluster { name: c, port: 6222 }, server_name: s"
    ),
    "gateway: JetStream": "gateway { name: a, port: 1 }, jetstream: true",
    "gateway: ocsp_peer": "gateway { tls { ocsp_peer: true } }",
    "gateway: a": 'gateway { authorization { user: u, password: "$2a$11$abc" } }',
    "leafnodes: JetStream is": (
        'leafnodes { remotes: [{url: "nats://a", account: S}] }, jetstream { extension_hint: will_extend }, '
        "accounts { S {} }, system_account: S"
    ),
    "leafnodes: a": "leafnodes { remotes: [{hub: true}] }",
    "mqtt": "mqtt { port: 1883 }",
    "authorization": "authorization { auth_callout { issuer: "
    "ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA, auth_users: [a] } }",
    "ocsp": "ocsp: true",
    "tls": "tls { ocsp_peer: true }",
    "prof_port": "prof_port: 6000",
    "websocket": "websocket { tls { ocsp_peer: true } }",
    "leafnodes: ocsp_peer": "leafnodes { tls { ocsp_peer: true } }",
}


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: f"{row[0]}: {row[2][:20]}")
def test_what_is_not_there_yet_is_refused_with_its_place(
    row: tuple[str, object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _, message = row
    if "needs the extra" in message:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    words = message.split()
    names = (f"{key}: {words[0]} {words[1]}", f"{key}: {words[0]}", key)
    text = f"debug: true\n{next(ASKED[name] for name in names if name in ASKED)}"
    found = [str(error) for error in unsupported(loaded(text).options)]
    assert found == [f"t.conf:2:1: {message}"]


def test_a_listener_for_leaf_nodes_is_fine() -> None:
    text = 'leafnodes { listen: "127.0.0.1:-1", remotes: [{url: "nats://a", compression: accept}] }, '
    text += "websocket { port: -1, no_tls: true }, jetstream: false, ocsp: false"
    assert unsupported(options(text)) == []
    assert unsupported(options("port: 1")) == []


@pytest.mark.parametrize("setting", ["tpm { keys_file: f }"])
def test_keys_that_would_not_be_used_are_not_taken(setting: str) -> None:
    [error] = unsupported(options(f"jetstream {{ {setting} }}"))
    assert "not supported" in error.message
    # Nothing is stored where JetStream is off; a flag or a reload that turns it on is looked at again.
    off = f"jetstream {{ enabled: false, {setting} }}"
    assert unsupported(options(off)) == []
    assert len(unsupported(options(off, jetstream__enabled=True))) == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("cipher: aes", "jetstream has a cipher and no key: nothing would be encrypted"),
        ("prev_key: k", "jetstream has a prev_key and no key: the key that data is to have from now on is missing"),
        ("decrypt: true", "jetstream is to decrypt and has no key: give the one that stored data has"),
        ("decrypt: true, key: k, cipher: aes", "jetstream is to decrypt and has a cipher: nothing would be encrypted"),
        ("key: k, key_file: f", "jetstream takes its encryption key from one place: key and key_file are given"),
        ("key: k, key_command: c", "jetstream takes its encryption key from one place: key and key_command are given"),
    ],
)
def test_encryption_that_contradicts_itself(setting: str, said: str) -> None:
    assert [error.message for error in problems(options(f"jetstream {{ {setting} }}"))] == [said]
    assert problems(options(f"jetstream {{ enabled: false, {setting} }}")) == []


@pytest.mark.parametrize("setting", ["key: k", "ek: k, cipher: aes", "key_file: f, cipher: chacha", "key_command: c"])
def test_encryption_is_taken(setting: str) -> None:
    found = options(f"jetstream {{ {setting} }}")
    assert found.jetstream.encrypts and not unsupported(found) and not problems(found)


def test_rows_name_keys_of_the_file() -> None:
    assert {row[0] for row in UNSUPPORTED} <= {key.names[0] for key in SERVER.keys}


def test_jetstream_in_a_cluster_needs_the_raft_core(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cluster { name: c, port: 6222 }, server_name: s, jetstream: true"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert unsupported(loaded(text).options) == []
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "slipstream-server[cluster]" in str(unsupported(loaded(text).options)[0])
    assert unsupported(loaded(text.removesuffix(", jetstream: true")).options) == []
