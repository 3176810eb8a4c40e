"""An auth callout that a test plays by hand: it reads a request, and answers whatever the test wants."""

from __future__ import annotations

import json
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass, field

from slipstream.auth.callout.keys import ServerKeys
from support.jwt import ACCOUNT, Key, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient

ISSUER, STRANGER = Key(ACCOUNT, "callout issuer"), Key(ACCOUNT, "stranger")
XKEYS = ServerKeys(b"s" * 32, b"x" * 32)  # of the service
_MSG = re.compile(rb"(H?)MSG (\S+) (\S+) (?:(\S+) )?(?:(\d+) )?(\d+)\r\n\Z", re.DOTALL)


class Subject:
    """A public key without a pair: what a token is about."""

    def __init__(self, public: str, name: str = "") -> None:
        self.public, self.name = public, name


@dataclass
class Request:
    """One request."""

    reply: bytes
    header: bytes
    claims: dict[str, Json]
    body: bytes

    @property
    def user(self) -> str:
        """The key that was made for it."""
        return self.claims["nats"]["user_nkey"]  # type: ignore[index,call-overload,return-value]

    @property
    def server(self) -> str:
        """Who asks."""
        return self.claims["iss"]  # type: ignore[return-value]

    def user_token(
        self, issuer: Key = ISSUER, account: str = "", user: str = "", name: str = "", **claims: Json
    ) -> str:
        """The token of the user; `top` are its registered claims."""
        top: dict[str, Json] = claims.pop("top", {})  # type: ignore[assignment]
        about = Subject(user or self.user, name)
        registered = {"name": name, "iat": int(time.time())} | ({"aud": account} if account else {}) | top
        return token(issuer, about, user_claims(**claims), **registered)  # type: ignore[arg-type]

    def answer(self, issuer: Key = ISSUER, **changes: Json) -> bytes:
        """An answer for this request; `changes` make it a wrong one: `jwt`, `error`, `sub`, `aud`, `exp`."""
        part: dict[str, Json] = {"type": "authorization_response"}
        top: dict[str, Json] = {"aud": self.server, "name": ""}
        for key, value in changes.items():
            (part if key in ("jwt", "error", "issuer_account") else top)[key] = value
        return token(issuer, Subject(self.user), part, **top).encode()  # type: ignore[arg-type]


class Service:
    """The client that serves."""

    def __init__(self, port: int, *, xkeys: ServerKeys | None = None, creds: tuple[Key, str] | None = None) -> None:
        self.client, self.xkeys = RawClient(port), xkeys
        info = self.client.read_until(rb"\r\n")
        said: dict[str, Json] = {"verbose": False, "headers": True, "user": "auth", "pass": "pwd"}
        if creds is not None:
            said |= {"jwt": creds[1], "sig": url_base64(creds[0].sign(nonce_of(info).encode()))}
        self.client.send(b"CONNECT " + json.dumps(said).encode() + b"\r\n")
        self.client.send(b"SUB $SYS.REQ.USER.AUTH 1\r\nPING\r\n")
        self.client.read_until(rb"PONG\r\n")

    def next_message(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Sid, reply, header and body of the next message."""
        head = b""
        while not (found := _MSG.search(head)):
            head = self.client.read_until(rb"\r\n")
        body = self.client.read_exactly(int(found[6]) + 2)[:-2]
        size = int(found[5]) if found[1] else 0
        return found[3], found[4] or b"", body[:size], body[size:]

    def request(self) -> Request:
        """The next request."""
        sid, reply, header, body = self.next_message()
        assert sid == b"1", body
        raw = body
        if self.xkeys is not None:
            sender = re.search(rb"Nats-Server-Xkey: (\S+)", header)
            assert sender is not None
            raw = self.xkeys.open(body, sender[1].decode())
        part = raw.split(b".")[1]
        return Request(reply, header, json.loads(urlsafe_b64decode(part + b"=" * (-len(part) % 4))), body)

    def respond(self, request: Request, body: bytes) -> None:
        """Answer."""
        self.client.send(b"PUB %b %d\r\n%b\r\n" % (request.reply, len(body), body))

    def sealed(self, request: Request, body: bytes) -> bytes:
        """The same for the server's eyes only."""
        assert self.xkeys is not None
        xkey = request.claims["nats"]["server_id"]["xkey"]  # type: ignore[index,call-overload]
        return self.xkeys.seal(body, xkey, b"n" * 24)  # type: ignore[arg-type]

    def decided(self, request: Request, answer: Answer) -> bytes:
        """An answer, sealed if the service has keys for that."""
        body = answer(request)
        return body if self.xkeys is None else self.sealed(request, body)

    def decide(self, request: Request, answer: Answer) -> None:
        """Answer like that."""
        self.respond(request, self.decided(request, answer))

    def close(self) -> None:
        """Leave."""
        self.client.close()


Answer = Callable[[Request], bytes]


@dataclass
class Outcome:
    """What became of one client."""

    came: bool
    lines: bytes = b""
    request: str = ""
    details: list[str] = field(default_factory=list)


def normalised(request: Request) -> str:
    """The content of a request, without what differs each time."""
    claims = json.loads(json.dumps(request.claims))
    nats = claims["nats"]
    assert claims["iss"] == nats["server_id"]["id"]
    assert nats["user_nkey"].startswith("U")
    for place, key in (
        (claims, "iss"), (claims, "jti"), (claims, "iat"), (claims, "exp"), (nats, "user_nkey"),
        (nats["server_id"], "id"), (nats["server_id"], "version"), (nats["server_id"], "name"),
        (nats["server_id"], "xkey"), (nats["client_info"], "id"), (nats["client_info"], "nonce"),
        (nats["connect_opts"], "sig"),
    ):  # fmt: skip
        if key in place:
            place[key] = "*"
    return json.dumps(claims, sort_keys=True)


def try_login(client: RawClient, service: Service, first: bytes, answer: Answer | None) -> Outcome:
    """Let a client log in, with the service's answer (None: it is not asked) to it."""
    client.send(first)
    outcome = Outcome(came=False)
    if answer is not None:
        request = service.request()
        outcome.request = normalised(request)
        service.respond(request, answer(request))
    lines, closed = client.read_until_or_close(rb"PONG\r\n")
    outcome.lines, outcome.came = re.sub(rb"INFO [^\r]*\r\n", b"", lines), not closed
    return outcome
