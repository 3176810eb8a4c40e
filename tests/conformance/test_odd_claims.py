"""Claims whose fields are missing, null, of another type, huge or cut short: both servers take the same tokens.

Short form: some of the fields with some of the values. Long form (`-m long`): all of them.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any, Self

import pytest

from support.jwt import ACCOUNT, HEADER, USER, Key, account_claims, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient
from support.servers import Both, Pair
from support.shared_clients import Boss
from support.shared_trees import OPERATOR_KEY, server_config

app, other, signer, scope = (Key(ACCOUNT, f"{name} with odd claims") for name in ("app", "other", "signer", "scope"))
user = Key(USER, "user with odd claims")
ACTIVATION = token(other, app, {"type": "activation", "subject": "priv.>", "kind": "stream"})
RIGHTS: dict[str, Json] = {
    "pub": {"allow": [">"], "deny": ["no"]},
    "sub": {"allow": [">"], "deny": ["no"]},
    "resp": {"max": 1, "ttl": 5},
}
TIER: dict[str, Json] = {"mem_storage": 1, "disk_storage": 1, "streams": 1, "consumer": 1}
LIMITS: dict[str, Json] = account_claims()["limits"]  # type: ignore[assignment]  # it is a dict
STORAGE: dict[str, Json] = {
    "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "max_ack_pending": 5,
    "mem_max_stream_bytes": 5, "disk_max_stream_bytes": 5, "max_bytes_required": False, "disallow_bearer": False,
    "tiered_limits": {"R1": TIER},
}  # fmt: skip
ACCOUNT_PART = account_claims(
    imports=[
        {"name": "i", "subject": "news.>", "account": other.public, "type": "stream", "local_subject": "n.>"},
        {"name": "j", "subject": "priv.>", "account": other.public, "type": "stream", "token": ACTIVATION},
        {"name": "s", "subject": "svc.*", "account": other.public, "type": "service", "share": True},
    ],
    exports=[
        {
            "name": "e", "subject": "e.*", "type": "stream", "token_req": True, "account_token_position": 2,
            "description": "d", "info_url": "http://a/b", "revocations": {"*": 5},
        },
        {
            "name": "f", "subject": "f", "type": "service", "response_type": "Singleton", "allow_trace": True,
            "response_threshold": 1_000_000, "service_latency": {"sampling": 50, "results": "lat"},
        },
    ],
    signing_keys=[
        signer.public,
        {"kind": "user_scope", "key": scope.public, "role": "r", "template": user_claims(pub={"allow": ["a"]})},
    ],
    limits=LIMITS | STORAGE,
    revocations={user.public: 5, "*": 4},
    default_permissions=RIGHTS,
    mappings={"m": [{"subject": "mm", "weight": 50, "cluster": "c"}, {"subject": "mn"}]},
    authorization={"auth_users": [], "allowed_accounts": [], "xkey": ""},
    trace={"dest": "tr", "sampling": 10},
    cluster_traffic="owner",
    description="d",
    info_url="http://x/y",
    tags=["a:b"],
)  # fmt: skip
USER_PART = user_claims(
    **RIGHTS,
    src=["127.0.0.0/8"],
    times=[{"start": "00:00:00", "end": "23:59:59"}],
    times_location="UTC",
    bearer_token=True,
    proxy_required=False,
    allowed_connection_types=["STANDARD"],
    tags=["a:b"],
    issuer_account="",
)
OTHER_PART = account_claims(
    exports=[
        {"name": "n", "subject": "news.>", "type": "stream"},
        {"name": "p", "subject": "priv.>", "type": "stream", "token_req": True},
        {"name": "s", "subject": "svc.*", "type": "service"},
    ]
)
FULL = b"-ERR 'maximum subscriptions exceeded'"
GONE = object()
VALUES: tuple[Any, ...] = (
    GONE, None, "", "x", "a..b", "a b", "*", 0, 1, -1, -2, 256, 2**31, 2**63, 1.5, 1e300, True, False, [], [None],
    ["x"], [[]], {}, {"x": None}, {"x": 1}, {"": ""}, "UAAA", user.public[:-1], user.public, app.public, "x" * 70_000,
)  # fmt: skip


def body(part: dict[str, Json], issuer: Key, subject: Key, kind: str) -> dict[str, Any]:
    """The claims of a token that nothing is wrong with."""
    return {
        "jti": "x",
        "iat": int(time.time()) - 5,
        "exp": int(time.time()) + 36_000,
        "nbf": 0,
        "iss": issuer.public,
        "name": subject.name,
        "sub": subject.public,
        "nats": {"type": kind, "version": 2} | part,
    }


def signed(claims: dict[str, Any], issuer: Key) -> str:
    """A token with these claims, whatever they say about who signed."""
    text = ".".join(url_base64(json.dumps(part).encode()) for part in (HEADER, claims))
    return f"{text}.{url_base64(issuer.sign(text.encode()))}"


def odd(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all fields."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from odd(value[key], (*path, key))


def changed(claims: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The same claims with something else in one place."""
    made = copy.deepcopy(claims)
    place: Any = made
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


class World:
    """Both servers, with somebody at each who pushes tokens."""

    def __init__(self, pair: Pair) -> None:
        self._servers = (pair.real, pair.ours)
        self._bosses = [Boss(server.port) for server in self._servers]
        self.push(signed(body(OTHER_PART, OPERATOR_KEY, other, "account"), OPERATOR_KEY))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for boss in self._bosses:
            boss.wire.close()

    def push(self, text: str) -> list[bool]:
        """Whether a token of an account is taken."""
        return [boss.push(text) for boss in self._bosses]

    def login(self, text: str) -> list[list[bytes]]:
        """What a user is told."""
        return [_told(server.port, text) for server in self._servers]


def _told(port: int, text: str) -> list[bytes]:
    with RawClient(port) as client:
        proof = url_base64(user.sign(nonce_of(client.read_until(b"\r\n")).encode()))
        said = {"jwt": text, "sig": proof, "verbose": False, "headers": True, "protocol": 1}
        client.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nSUB a 1\r\nSUB no q 2\r\nSUB z 3\r\n")
        client.send(b"PUB a 1\r\nx\r\nPUB no 0\r\n\r\nPING\r\n")
        lines, _ = client.read_until_or_close(rb"PONG\r\n")
    return [line for line in lines.split(b"\r\n") if line.startswith((b"-ERR", b"PONG", b"MSG"))]


def until_full(lines: list[bytes]) -> list[bytes]:
    """Who may have no subscription is sent away; nats-server does so beside the rest, so what he hears is chance."""
    return [FULL] if FULL in lines else lines


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.long)])
def test_the_same_tokens_are_taken(both: Both, step: int) -> None:
    """CVE-2020-26521, 2026-23: fields that are not there, and keys cut short."""
    with World(both.fresh(server_config("tokens") + "jetstream { store_dir: js }\n")) as world:
        good_account = body(ACCOUNT_PART, OPERATOR_KEY, app, "account")
        good_user = body(USER_PART, app, user, "user")
        assert world.push(signed(good_account, OPERATOR_KEY)) == [True, True]
        assert all(lines[-1] == b"PONG" for lines in world.login(signed(good_user, app)))
        for path, value in [(path, value) for path in odd(good_account) for value in VALUES][::step]:
            real, ours = world.push(signed(changed(good_account, path, value), OPERATOR_KEY))
            assert ours == real, (path, value)
            # Whatever became of the account, its user sees the same.
            real_lines, our_lines = world.login(signed(good_user, app))
            assert until_full(our_lines) == until_full(real_lines), (path, value)
        world.push(signed(good_account | {"jti": "y"}, OPERATOR_KEY))
        for path, value in [(path, value) for path in odd(good_user) for value in VALUES][::step]:
            if path == ("exp",) and value in (-1, -2):
                continue  # both let him in and end him by a timer at once: what he hears before is chance
            real_lines, our_lines = world.login(signed(changed(good_user, path, value), app))
            assert until_full(our_lines) == until_full(real_lines), (path, value)
