"""Random trees of operator mode whose clients are connected together, by a seed: what one says reaches others, through
public and private exports, activations, mappings and revocations; then tokens change under them."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from models.subject import matches
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.normalise import Json

ACCOUNTS = ("A", "B", "C")
WORDS = ("x", "y", "z")
EXPORTS: dict[str, tuple[str, str]] = {
    "s": ("stream", ">"),
    "p": ("stream", ">"),
    "c": ("service", "*"),
    "v": ("service", "*"),
}
PRIVATE = ("p", "v")
"""Exports by first letter of their subjects, kind and last token; these need an activation."""
OPERATOR_KEY, SYSTEM, BOSS = Key(OPERATOR, "shared trees"), Key(ACCOUNT, "SYS of shared trees"), Key(USER, "boss")


def server_config(directory: str) -> str:
    """What both servers are started with; accounts are pushed."""
    root = token(OPERATOR_KEY, OPERATOR_KEY, {"system_account": SYSTEM.public})
    system = token(OPERATOR_KEY, SYSTEM, account_claims())
    return (
        f'operator: {root}\nresolver {{ type: full, dir: "{directory}" }}\n'
        f"resolver_preload {{ {SYSTEM.public}: {system} }}\n"
    )


@dataclass(frozen=True)
class SharedUser:
    """A client: its name, its token and key, and its inbox."""

    name: str
    jwt: str
    key: Key


def _patterns(entries: Json) -> list[bytes]:
    return [str(entry).encode() for entry in entries] if isinstance(entries, list) else []


class SharedTree:
    """Three accounts that share subjects, and two users of each."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._seed = seed
        self._now = int(time.time())
        self._accounts = {name: Key(ACCOUNT, f"{name} shared {seed}") for name in ACCOUNTS}
        self._signers = {name: Key(ACCOUNT, f"signer of {name} shared {seed}") for name in ACCOUNTS}
        self._keys = {f"{name}{n}": Key(USER, f"{name}{n} shared {seed}") for name in ACCOUNTS for n in (1, 2)}
        self._version = 0
        self._claims: dict[str, dict[str, Json]] = {}
        self._wants: dict[str, dict[str, Json]] = {}  # what users, and accounts for the others, may subscribe to
        self.users = [self._user(name, key) for name, key in self._keys.items()]

    # --- tokens -----------------------------------------------------------------------------------------------------

    def account_token(self, name: str) -> str:
        """A token of an account, drawn anew each time and newer than those before."""
        self._claims[name] = self._account(name)
        return self.same_again(name)

    def same_again(self, name: str) -> str:
        """A newer token that says what the last one says."""
        self._version += 1
        issued = self._now - 1_000 + self._version
        return token(OPERATOR_KEY, self._accounts[name], self._claims[name], iat=issued)

    def some_accounts(self) -> list[str]:
        """One or more of them."""
        return self._chance.sample(ACCOUNTS, self._chance.randint(1, len(ACCOUNTS)))

    def _account(self, name: str) -> dict[str, Json]:
        chance = self._chance
        limits: dict[str, Json] = dict(account_claims()["limits"])  # type: ignore[arg-type]
        limits["payload"] = chance.choice([-1, -1, -1, 12])
        limits["subs"] = chance.choice([-1, -1, -1, 9])
        revoked: dict[str, Json] = {}
        if chance.random() < 0.3:
            revoked[chance.choice(list(self._keys.values())).public] = self._now + chance.choice([-60, 60])
        if chance.random() < 0.1:
            revoked["*"] = self._now + chance.choice([-60, -60, 60])
        exports = [self._export(name, letter) for letter in EXPORTS if chance.random() < 0.85]
        imports = [
            self._import(name, other, letter)
            for other in ACCOUNTS
            for letter in EXPORTS
            if other != name and chance.random() < 0.5
        ]
        defaults = self._rights() if chance.random() < 0.3 else {"pub": {}, "sub": {}}
        self._wants[name] = defaults["sub"]  # type: ignore[assignment]  # drawn above
        mappings: Json = {f"m.{name}": [{"subject": f"s{name}.m", "weight": 100}]} if chance.random() < 0.3 else {}
        return account_claims(
            limits=limits,
            default_permissions=defaults,
            exports=exports,
            imports=imports,
            mappings=mappings,
            signing_keys=[self._signers[name].public],
            revocations=revoked,
        )

    def _export(self, name: str, letter: str) -> Json:
        chance, (kind, last) = self._chance, EXPORTS[letter]
        entry: dict[str, Json] = {"name": letter, "subject": f"{letter}{name}.{last}", "type": kind}
        if letter in PRIVATE:
            entry["token_req"] = True
            if chance.random() < 0.3:
                other = chance.choice(ACCOUNTS)
                entry["revocations"] = {self._accounts[other].public: self._now + chance.choice([-500, 60])}
            elif chance.random() < 0.1:
                entry["revocations"] = {"*": self._now + chance.choice([-500, 60])}
        if kind == "service":
            entry["response_type"] = chance.choice(["Singleton", "Stream"])
        return entry

    def _import(self, name: str, other: str, letter: str) -> Json:
        chance, (kind, last) = self._chance, EXPORTS[letter]
        subject = f"{letter}{other}.{chance.choice([last, last, 'x'])}"
        entry: dict[str, Json] = {"name": letter, "account": self._accounts[other].public, "type": kind}
        entry["subject"] = subject
        if chance.random() < 0.3:
            entry["local_subject"] = f"i{subject}"
            if subject.endswith("*"):
                entry["local_subject"] = f"i{subject[:-1]}" + ("$1" if kind == "stream" else "*")
        if letter in PRIVATE and chance.random() < 0.85:
            entry["token"] = self._activation(name, other, subject, kind)
        return entry

    def _activation(self, name: str, other: str, subject: str, kind: str) -> str:
        chance = self._chance
        claims: dict[str, Json] = {"type": "activation", "subject": subject, "kind": kind}
        times: dict[str, Json] = {"iat": self._now - 100}
        issuer, holder = self._accounts[other], self._accounts[name]
        match chance.choices(
            ["good", "signer", "wrong", "expired", "early", "other", "stranger", "narrow"], [6] + [1] * 7
        )[0]:
            case "signer":
                issuer, claims["issuer_account"] = self._signers[other], issuer.public
            case "wrong":
                holder = self._accounts[other]
            case "expired":
                times["exp"] = self._now - 5
            case "early":
                times["nbf"] = self._now + 600
            case "other":
                claims["subject"] = "unrelated.>"
            case "stranger":
                issuer = Key(ACCOUNT, "stranger of shared trees")
            case "narrow":
                claims["subject"] = subject.replace(">", "x").replace("*", "x")
        return token(issuer, holder, claims, **times)

    def _subject(self, *, wild: bool) -> str:
        chance = self._chance
        if wild and chance.random() < 0.1:
            return ">"
        head = chance.choice(["", "", "", "i"]) + chance.choice(list(EXPORTS)) + chance.choice(ACCOUNTS)
        if chance.random() < 0.1:
            head = "m"
            return f"m.{chance.choice(ACCOUNTS)}"
        return f"{head}.{chance.choice(WORDS + (('*', '>') if wild else ()))}"

    def _permission(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        if self._chance.random() < 0.25:
            found["allow"] = ["in.>", *(self._subject(wild=True) for _ in range(self._chance.randint(2, 6)))]
        if self._chance.random() < 0.3:
            found["deny"] = [self._subject(wild=True) for _ in range(self._chance.randint(1, 3))]
        return found

    def _rights(self) -> dict[str, Json]:
        rights: dict[str, Json] = {"pub": self._permission(), "sub": self._permission()}
        if self._chance.random() < 0.3:
            # Not counted: nats-server takes a request that comes by two subscriptions for a response.
            rights["resp"] = {"max": -1, "ttl": 0}
        return rights

    def _user(self, name: str, key: Key) -> SharedUser:
        account = self._accounts[name[0]]
        by_signer = self._chance.random() < 0.3
        rights = self._rights() if self._chance.random() < 0.6 else {}
        claims: dict[str, Json] = user_claims(**rights)
        if any(rights.values()):
            self._wants[name] = rights["sub"]  # type: ignore[assignment]  # drawn above
        if by_signer:
            claims["issuer_account"] = account.public
        issuer = self._signers[name[0]] if by_signer else account
        return SharedUser(name, token(issuer, key, claims, iat=self._now), key)

    def forbids(self, name: str, subject: bytes) -> bool:
        """Whether a user may not have this very subject."""
        rules = self._wants.get(name, self._wants[name[0]])
        allow, deny = (_patterns(rules.get(side)) for side in ("allow", "deny"))
        allowed = not allow or any(matches(pattern, subject) for pattern in allow)
        return not allowed or any(matches(pattern, subject) for pattern in deny)

    # --- what clients say -------------------------------------------------------------------------------------------

    def subscriptions(self, user: SharedUser) -> list[bytes]:
        """What a client wants; its queue groups are its own, so that no chance decides who gets a message."""
        lines = [b"SUB in.%s.> 1" % user.name.encode()]
        for sid in range(2, 9):
            group = b"%s-%d " % (user.name.encode(), sid) if self._chance.random() < 0.2 else b""
            lines.append(b"SUB %s %s%d" % (self._subject(wild=True).encode(), group, sid))
        return lines

    def publishes(self, user: SharedUser, turn: int) -> list[bytes]:
        """What a client says: each with words of its own, some as requests."""
        lines = []
        for number in range(8):
            body = b"%s:%d.%d" % (user.name.encode(), turn, number)
            reply = b"in.%s.%d.%d " % (user.name.encode(), turn, number) if self._chance.random() < 0.6 else b""
            lines.append(b"PUB %s %s%d\r\n%s" % (self._subject(wild=False).encode(), reply, len(body), body))
        return lines
