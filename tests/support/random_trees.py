"""Random trees of operator mode, and random clients of theirs, each alone: the same for both servers, by a seed."""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import dataclass

from support.jwt import ACCOUNT, USER, Key, account_claims, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient
from support.shared_clients import Boss
from support.shared_trees import OPERATOR_KEY

WORDS = ("a", "b", "c")
ACCOUNTS = ("A", "B", "C")
_INFO = re.compile(rb"INFO [^\r]*\r\n")


@dataclass(frozen=True)
class Login:
    """One client: what it says, and with which key it signs."""

    name: str
    jwt: str
    key: Key


@dataclass(frozen=True)
class RandomTree:
    """Tokens of accounts, and who tries to come in."""

    accounts: tuple[str, ...]
    logins: tuple[Login, ...]
    script: tuple[bytes, ...]


class TreeMaker:
    """Makes one tree."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._now = int(time.time())
        self._accounts = {name: Key(ACCOUNT, f"{name}{seed}") for name in ACCOUNTS}
        self._signers = {name: Key(ACCOUNT, f"signer of {name}{seed}") for name in ACCOUNTS}
        self._scopes = {name: Key(ACCOUNT, f"scope of {name}{seed}") for name in ACCOUNTS}

    def tree(self) -> RandomTree:
        """Draw it."""
        chance = self._chance
        users = [Key(USER, f"u{number}{chance.random()}") for number in range(8)]
        claims = {self._accounts[name]: self._account(name, users) for name in ACCOUNTS}
        accounts = tuple(token(OPERATOR_KEY, key, part) for key, part in claims.items())
        script = [b"SUB %b %d" % (self._subject(wild=True).encode(), at) for at in range(6)]
        # A group each: which of several members gets a message is chance.
        script += [b"SUB %b q%d %d" % (self._subject(wild=True).encode(), at, at) for at in range(6, 9)]
        script += [b"PUB %b 0\r\n" % self._subject(wild=False).encode() for _ in range(8)]
        script += [b"PUB a.b 9\r\n123456789", b"PUB a 40\r\n" + b"x" * 40]
        return RandomTree(accounts, tuple(self._login(user) for user in users), tuple(script))

    def _subject(self, *, wild: bool) -> str:
        tokens = [self._chance.choice(WORDS + (("*",) if wild else ())) for _ in range(self._chance.randint(1, 3))]
        if wild and self._chance.random() < 0.2:
            tokens[-1] = ">"
        return ".".join(tokens)

    def _permission(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for side in ("allow", "deny"):
            if self._chance.random() < 0.4:
                found[side] = [self._subject(wild=True) for _ in range(self._chance.randint(1, 3))]
        return found

    def _rights(self) -> dict[str, Json]:
        rights: dict[str, Json] = {"pub": self._permission(), "sub": self._permission()}
        if self._chance.random() < 0.2:
            rights["resp"] = {"max": self._chance.choice([1, 2, -1]), "ttl": self._chance.choice([0, 10**9])}
        return rights

    def _account(self, name: str, users: list[Key]) -> dict[str, Json]:
        chance = self._chance
        limits: dict[str, Json] = dict(account_claims()["limits"])  # type: ignore[arg-type]
        limits["subs"] = chance.choice([-1, -1, 3, 20])
        limits["payload"] = chance.choice([-1, -1, 8, 20])
        limits["disallow_bearer"] = chance.random() < 0.2
        template: dict[str, Json] = {
            "pub": {"allow": ["a.{{name()}}", "b.{{tag(team)}}"]},
            "sub": {"allow": ["{{tag(team)}}.>", "c.*"]},
            "subs": -1,
            "data": -1,
            "payload": -1,
        }
        scope: Json = {"kind": "user_scope", "key": self._scopes[name].public, "role": "r", "template": template}
        exports: list[Json] = [{"name": "s", "subject": "a.>", "type": "stream"}]
        exports.append({"name": "r", "subject": "c.*", "type": "service"})
        imports: list[Json] = []
        for other in ACCOUNTS:
            if other != name and chance.random() < 0.4:
                kind = chance.choice(["stream", "service"])
                subject = "a.>" if kind == "stream" else "c.*"
                entry: dict[str, Json] = {"name": other, "account": self._accounts[other].public, "type": kind}
                imports.append(entry | {"subject": subject})
        revoked = {chance.choice(users).public: self._now + 60} if chance.random() < 0.4 else {}
        return account_claims(
            limits=limits,
            default_permissions=self._rights() if chance.random() < 0.5 else {"pub": {}, "sub": {}},
            exports=exports,
            imports=imports,
            signing_keys=[self._signers[name].public, scope],
            revocations=revoked,  # type: ignore[arg-type]
        )

    def _login(self, user: Key) -> Login:
        chance = self._chance
        name = chance.choice(ACCOUNTS)
        issuers = {
            "account": self._accounts[name],
            "signer": self._signers[name],
            "scope": self._scopes[name],
            "stranger": Key(ACCOUNT, "stranger"),
            "wrong kind": Key(USER, "no account"),
        }
        by = chance.choices(list(issuers), [4, 4, 4, 1, 1])[0]
        claims: dict[str, Json] = user_claims(**self._rights()) if by != "scope" else {}
        if by == "scope" and chance.random() < 0.3:
            claims = {"pub": {"allow": ["a"]}}  # which a scope does not let a user say
        if by != "account":
            claims["issuer_account"] = self._accounts[name].public
        claims["tags"] = chance.sample(["team:a", "team:b", "team:c.d", "other:x"], chance.randrange(4))  # type: ignore[assignment]
        if by != "scope":
            claims["bearer_token"] = chance.random() < 0.3
            claims["subs"] = chance.choice([-1, -1, 2, 5])
            claims["payload"] = chance.choice([-1, -1, 4, 20])
            claims["src"] = chance.choice([None, None, ["127.0.0.0/8"], ["10.0.0.0/8"]])  # type: ignore[assignment]
            kinds = chance.choice([None, None, ["STANDARD"], ["WEBSOCKET"]])
            claims |= {"allowed_connection_types": kinds} if kinds else {}  # type: ignore[dict-item]
        times: dict[str, Json] = {"iat": self._now}
        times |= chance.choice([{}, {}, {"exp": self._now + 600}, {"exp": self._now - 5}, {"nbf": self._now + 600}])
        signing = user if chance.random() < 0.9 else Key(USER, "somebody else")
        return Login(f"{by} of {name}", token(issuers[by], user, claims, **times), signing)


@dataclass(frozen=True)
class Outcome:
    """What became of a client: what each of its lines was answered with, and which messages it got."""

    name: str
    answers: list[tuple[bytes, list[bytes]]]
    messages: list[tuple[bytes, list[bytes]]]

    @property
    def came(self) -> bool:
        """Whether it was let in."""
        return len(self.answers) > 1

    def agrees(self, real: Outcome) -> bool:
        """Whether it is that of the real server, which has one rule less.

        Every delivery is judged on the concrete subject here (`auth/permissions.py`): a wildcard wider than what is
        allowed gets less, never more.
        """
        if (self.name, self.answers) != (real.name, real.answers):
            return False
        pairs = zip(self.messages, real.messages, strict=True)
        return all(line == other and set(got) <= set(theirs) for (line, got), (other, theirs) in pairs)


def outcome(port: int, login: Login, script: tuple[bytes, ...]) -> Outcome:
    """Let a client log in and say its lines."""
    with RawClient(port) as client:
        info = client.read_until(rb"\r\n")
        signature = url_base64(login.key.sign(nonce_of(info).encode()))
        said = {"verbose": False, "pedantic": False, "headers": True, "protocol": 1, "jwt": login.jwt, "sig": signature}
        client.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
        found = Outcome(login.name, [], [])
        for line in (b"", *script):
            if line:
                client.send(line + b"\r\nPING\r\n")
            lines, closed = client.read_until_or_close(rb"PONG\r\n")
            parts = _INFO.sub(b"", lines).splitlines()
            found.answers.append((line, [part for part in parts if part.startswith((b"-ERR", b"PONG"))]))
            found.messages.append((line, [part for part in parts if part.startswith(b"MSG")]))
            if closed:
                break
        return found


def alone(ports: tuple[int, int], seed: int, *, mixed: bool = False) -> int:
    """How many clients of a tree came in, which both servers, nats-server and ours, treat alike.

    Mixed, ours has the clients in another order: whoever compares must notice.
    """
    tree = TreeMaker(seed).tree()
    for port in ports:
        boss = Boss(port)
        assert all(boss.push(text) for text in tree.accounts)
        boss.wire.close()
    came = 0
    for theirs, mine in zip(tree.logins, tree.logins[::-1] if mixed else tree.logins, strict=True):
        real, ours = outcome(ports[0], theirs, tree.script), outcome(ports[1], mine, tree.script)
        assert ours.agrees(real), (seed, ours, real)
        came += ours.came
    return came
