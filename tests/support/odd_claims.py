"""Claims and tokens that something is wrong with, offered to both servers."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from support.jwt import ACCOUNT, HEADER, USER, Key, account_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient
from support.servers import Pair
from support.shared_clients import Boss
from support.shared_trees import OPERATOR_KEY, server_config

app, other, signer, scope = (Key(ACCOUNT, f"{name} with odd claims") for name in ("app", "other", "signer", "scope"))
user = Key(USER, "user with odd claims")
OTHER_PART = account_claims(
    exports=[
        {"name": "n", "subject": "news.>", "type": "stream"},
        {"name": "p", "subject": "priv.>", "type": "stream", "token_req": True},
        {"name": "s", "subject": "svc.*", "type": "service"},
    ]
)
ODD_SERVER = server_config("tokens") + "jetstream { store_dir: js }\n"
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


def signed(claims: dict[str, Any], issuer: Key, header: Any = HEADER) -> str:
    """A token with these claims, whatever they say about who signed."""
    return signed_texts(json.dumps(header), json.dumps(claims).encode(), issuer)


def signed_texts(header: str, claims: bytes, issuer: Key) -> str:
    """A token whose two parts may be no JSON at all."""
    text = f"{url_base64(header.encode())}.{url_base64(claims)}"
    return f"{text}.{url_base64(issuer.sign(text.encode()))}"


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all fields."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from fields(value[key], (*path, key))


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
    """Both servers, with somebody at each who pushes tokens; what they differ in is kept until it is asked for."""

    def __init__(self, pair: Pair) -> None:
        self._servers = (pair.real, pair.ours)
        self._differences: list[tuple[object, ...]] = []
        self.compared = 0
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

    def same_push(self, text: str, *case: object) -> None:
        """Compare whether a token is taken."""
        self._compare(self.push(text), case)

    def same_login(self, text: str, *case: object, of_real: Callable[[list[bytes]], list[bytes]] = list) -> None:
        """Compare what a user is told; `of_real`: what is expected here of what nats-server tells."""
        real, ours = map(until_full, self.login(text))
        self._compare([of_real(real), ours], case)

    def _compare(self, verdicts: list[Any], case: tuple[object, ...]) -> None:
        self.compared += 1
        if verdicts[0] != verdicts[1]:
            self._differences.append((*(str(part)[:100] for part in case), *verdicts))

    def check(self) -> None:
        """Both did the same.

        Raises:
            AssertionError: Where they did not.
        """
        assert not self._differences, (len(self._differences), self._differences[:10])


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
