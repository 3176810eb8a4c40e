"""Clients of a shared tree at one server, all at once: what each of them is told while all of them talk."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from support.jwt import Key, token, user_claims
from support.keys import nonce_of, url_base64
from support.raw_client import RawClient
from support.shared_trees import ACCOUNTS, BOSS, SYSTEM, SharedTree
from support.transcript import frames

_WAY_BACK = re.compile(rb"_R_\.[^ \"]+")  # made up by the server for a request of another account


class Got(NamedTuple):
    """A message at a client."""

    receiver: str
    subject: bytes
    sid: bytes
    is_request: bool
    body: bytes


class TreeClient:
    """A client that is connected, or was."""

    def __init__(self, port: int, name: str, jwt: str, key: Key) -> None:
        self.name = name
        self.wire = RawClient(port)
        signature = url_base64(key.sign(nonce_of(self.wire.read_until(rb"\r\n")).encode()))
        said = {"verbose": False, "pedantic": False, "protocol": 1, "jwt": jwt, "sig": signature}
        self.wire.send(b"CONNECT " + json.dumps(said).encode() + b"\r\n")
        self.is_open = True
        self.errors: list[bytes] = []
        self._requests: list[tuple[bytes, bytes]] = []

    def say(self, lines: list[bytes]) -> list[Got]:
        """Say lines, and take everything that has come when they were read."""
        self.begin(lines)
        return self.taken()

    def begin(self, lines: list[bytes]) -> None:
        """Say lines; `taken` has to follow."""
        if self.is_open:
            self.wire.send(b"".join(line + b"\r\n" for line in lines) + b"PING\r\n")

    def taken(self) -> list[Got]:
        """Everything that came before the lines of `begin` were read."""
        if not self.is_open:
            return []
        data, closed = self.wire.read_until_or_close(rb"PONG\r\n")
        self.is_open = not closed
        found = []
        for frame in frames(data):
            words, _, body = frame.partition(b"\r\n")
            head, body = words.split(b" "), body.removesuffix(b"\r\n")
            if head[0] == b"-ERR":
                self.errors.append(_WAY_BACK.sub(b"_R_", words))
            elif head[0] == b"MSG":
                found.append(Got(self.name, _WAY_BACK.sub(b"_R_", head[1]), head[2], len(head) == 5, body))
                self._requests += [(head[3], body)] if len(head) == 5 else []
        return found

    @property
    def refusals(self) -> list[bytes]:
        """What it was refused; of one that was cut off, why: nats-server may withdraw subscriptions before it cuts."""
        return sorted(self.errors) if self.is_open else self.errors[-1:]

    def answers(self) -> list[bytes]:
        """What is to be said to those who have asked, once to each."""
        asked, self._requests = sorted(dict.fromkeys(self._requests), key=lambda request: request[1]), []
        said = [(reply, b"%s to %s" % (self.name.encode(), body)) for reply, body in asked]
        return [b"PUB %s %d\r\n%s" % (reply, len(body), body) for reply, body in said]


class Boss(TreeClient):
    """The client of the system account, who pushes tokens."""

    def __init__(self, port: int) -> None:
        super().__init__(port, "boss", token(SYSTEM, BOSS, user_claims()), BOSS)
        self.say([b"SUB in.boss 1"])

    def push(self, text: str) -> bool:
        """Whether a token of an account is taken over; servers answer when it is in effect."""
        self.wire.send(b"PUB $SYS.REQ.CLAIMS.UPDATE in.boss %d\r\n%s\r\n" % (len(text), text.encode()))
        self.wire.read_until(rb"MSG in\.boss [^\n]*\n")
        return "error" not in json.loads(self.wire.read_until(rb"\r\n"))


class Side:
    """One server with the clients of a tree."""

    def __init__(self, port: int, tree: SharedTree) -> None:
        self._port = port
        self.boss = Boss(port)
        self._tree = tree
        self.clients: list[TreeClient] = []

    def connect(self, subscriptions: list[list[bytes]]) -> None:
        """Let all users of the tree log in and subscribe."""
        for user, lines in zip(self._tree.users, subscriptions, strict=True):
            self.clients.append(TreeClient(self._port, user.name, user.jwt, user.key))
            self.clients[-1].say(lines)  # one by one: nats-server lets a revoked user in while it loads the account

    def talk(self, publishes: list[list[bytes]]) -> Counter[Got]:
        """Let everybody say what they have to say, one after the other, and answer what they are asked."""
        found: list[Got] = []
        for speaker, lines in zip(self.clients, publishes, strict=True):
            found += speaker.say(lines)
            found += self._drained()
            for client in self.clients:
                answers = client.answers()  # one after the other: the first may be the only one that counts
                found += client.say(answers) if answers else []
            found += self._drained()
        return Counter(found)

    def _drained(self) -> list[Got]:
        for client in self.clients:
            client.begin([])
        return [got for client in self.clients for got in client.taken()]

    def standing(self) -> list[tuple[str, bool, list[bytes]]]:
        """Who is still there, and what each was refused."""
        self._drained()
        return [(client.name, client.is_open, client.refusals) for client in self.clients]

    def close(self) -> None:
        """Everybody leaves."""
        for client in (self.boss, *self.clients):
            client.wire.close()


class Agreed(NamedTuple):
    """How much of a tree was compared."""

    pushed: int
    logins: int
    messages: int
    withheld: int


def agree(ports: tuple[int, int], seed: int) -> Agreed:
    """Play one tree at both servers, real and ours; what they do must be the same.

    Where ours withholds a message, its receiver has permissions that forbid the concrete subject, at which nats-server
    does not look for a wildcard that was allowed as such (`auth/permissions.py`).
    """
    tree = SharedTree(seed)
    sides = real, ours = Side(ports[0], tree), Side(ports[1], tree)
    messages = withheld = 0
    try:
        pushed = _renewed(tree, sides, ACCOUNTS)
        wanted = [tree.subscriptions(user) for user in tree.users]
        for side in sides:
            side.connect(wanted)
        _same_standing(real, ours, "logins")
        logins = sum(client.is_open for client in ours.clients)
        for turn in range(3):
            said = [tree.publishes(user, turn) for user in tree.users]
            theirs, mine = real.talk(said), ours.talk(said)
            assert mine <= theirs, ("only ours delivers", turn, sorted(mine - theirs))
            missing = {got for got in theirs - mine if not tree.forbids(got.receiver, got.subject)}
            assert not missing, ("only the real one delivers", turn, sorted(missing))
            _same_standing(real, ours, f"publishes of turn {turn}")
            messages, withheld = messages + mine.total(), withheld + (theirs - mine).total()
            pushed += _renewed(tree, sides, tree.some_accounts())
            _same_standing(real, ours, f"tokens after turn {turn}")
    finally:
        for side in sides:
            side.close()
    return Agreed(pushed, logins, messages, withheld)


def _same_standing(real: Side, ours: Side, after: str) -> None:
    """Both let the same clients stay, and refused them the same."""
    pairs = zip(real.standing(), ours.standing(), strict=True)
    differing = [(theirs, mine) for theirs, mine in pairs if theirs != mine]
    assert not differing, (f"after {after}, real and ours", differing)


def _renewed(tree: SharedTree, sides: tuple[Side, Side], names: Iterable[str]) -> int:
    """Draw tokens until each of these accounts has one that both servers take; how many were judged, alike.

    Then everybody's token is given once more: nats-server does not try an import again when the export comes.
    """
    judged = 0
    for name in names:
        taken = False
        while not taken:
            text = tree.account_token(name)
            taken, other = (side.boss.push(text) for side in sides)
            assert taken == other, ("only one takes it", text)
            judged += 1
    for name in ACCOUNTS:
        text = tree.same_again(name)
        assert all(side.boss.push(text) for side in sides)
    return judged
