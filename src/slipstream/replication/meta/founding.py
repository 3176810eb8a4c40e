"""How a cluster begins: its servers agree, once and for ever, on who the first members of the meta group are.

Raft must begin everywhere with the same members, and nobody is there yet who could say which. So each server promises
one charter in its life, and keeps the promise on disk before it tells. A charter holds when all of its members have
promised it: then no other charter that shares a member with it can ever hold, whatever is lost, late, repeated or
crashes in between.

    hello     who I am, how many of us I expect, and the charter that holds, if I know one
    ask       the server with the least name among those that see each other: will you promise this charter?
    promise   I have, on disk
    refusal   I have promised another

Whoever has promised asks the other members as well, so that a founder that dies does not leave the rest behind. Once a
server knows that all have promised, the charter holds, and every hello tells so.

A server without a promise that hears of a charter with its own name in it has lost its store: it might have voted
before. It must not start (`trouble`), and neither does a server that is not a member: both are told to the log.

What this is not: who is added later (the meta group decides that), or connections.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, Protocol

import msgspec

from slipstream.replication.ids import node_id
from slipstream.replication.meta.entries import Node

__all__ = ["Charter", "Founding", "FoundingPorts", "Promise", "decode_promise", "encode_promise"]

_MEMBERS_MAX: Final = 64


class Charter(msgspec.Struct, frozen=True, array_like=True):
    """The first members of a cluster."""

    cluster: str
    members: list[str]
    """Names, sorted."""
    uid: bytes
    """Two clusters never have the same, even of the same names."""

    @property
    def voters(self) -> list[int]:
        """The members as they are called in groups."""
        return [node_id(name) for name in self.members]


class Promise(msgspec.Struct, frozen=True, array_like=True):
    """What is kept on disk."""

    charter: Charter
    holds: bool = False
    """All members are known to have promised."""


class _Kind(enum.IntEnum):
    HELLO = 0
    ASK = 1
    PROMISE = 2
    REFUSAL = 3


class _Message(msgspec.Struct, array_like=True):
    kind: _Kind
    node: Node
    size: int = 0
    charter: Charter | None = None


class FoundingPorts(Protocol):
    """What a founding needs from its surroundings."""

    def send(self, to: int, message: bytes) -> None:
        """Tell another server, if it can be reached."""
        ...

    def save(self, promise: Promise, saved: Callable[[], None]) -> None:
        """Keep a promise, durably, instead of the one before; then call `saved`."""
        ...

    def founded(self, charter: Charter) -> None:
        """The charter holds, and this is on disk. Called once."""
        ...

    def trouble(self, text: str) -> None:
        """This server cannot take part: a line for the log."""
        ...


class Founding:
    """One server's part."""

    def __init__(self, node: Node, size: int, promise: Promise | None, ports: FoundingPorts) -> None:
        """Go on where this server was.

        Args:
            node: this server.
            size: how many servers the cluster shall begin with.
            promise: what was saved, if anything.
            ports: the surroundings.
        """
        self._node = node
        self._size = size
        self._ports = ports
        self._charter = promise.charter if promise is not None else None  # saved, or about to be
        self._is_saved = promise is not None
        self._promised: set[str] = {node.name} if promise is not None else set()
        self._near: dict[int, Node] = {}
        self._sizes: dict[int, int] = {}
        self._told = ""
        self._barred = False  # another charter holds: this server must neither found nor promise anything
        self.holds = promise is not None and promise.holds

    @property
    def charter(self) -> Charter | None:
        """The one that this server has promised, or is about to."""
        return self._charter

    @property
    def near(self) -> Mapping[int, Node]:
        """Servers that were heard of, by their numbers."""
        return self._near

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin. What was founded in an earlier life goes on."""
        if self.holds:
            assert self._charter is not None
            self._ports.founded(self._charter)

    def expect(self, size: int) -> None:
        """So many servers are configured, as it turns out: a route may lead to this server itself."""
        self._size = size

    def peer_up(self, peer: int) -> None:
        """Another server can be reached."""
        self._send(_Kind.HELLO, peer)

    def peer_down(self, peer: int) -> None:
        """It cannot any more."""
        self._near.pop(peer, None)
        self._sizes.pop(peer, None)

    def tick(self, found_at_ns: int) -> None:
        """Some time has passed: say again what may have been lost, and found a cluster if all are here.

        Args:
            found_at_ns: the time, which makes a charter unlike every other.
        """
        if self.holds:
            return
        for peer in self._near:
            self._send(_Kind.HELLO, peer)
        if self._charter is not None:
            self._ask()
        elif not self._barred:
            self._propose(found_at_ns)

    def receive(self, sender: int, data: bytes) -> None:
        """A message has come. One that makes no sense is dropped."""
        try:
            message = msgspec.msgpack.decode(data, type=_Message)
        except (msgspec.DecodeError, UnicodeError):
            return
        node, charter = message.node, message.charter
        if node.id != sender or node_id(node.name) != sender or node.cluster != self._node.cluster:
            return
        if charter is not None and not _is_sound(charter):
            return
        self._near[sender] = node
        if message.kind is _Kind.HELLO:
            self._sizes[sender] = message.size
            if charter is not None:
                self._heard_that_holds(charter)
            elif self.holds:
                self._send(_Kind.HELLO, sender)  # it does not know yet
        elif charter is None:
            return
        elif message.kind is _Kind.ASK:
            self._asked(sender, charter)
        elif message.kind is _Kind.PROMISE:
            self._heard_promise(node.name, charter)
        else:
            self._refused(node.name, charter)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _propose(self, now_ns: int) -> None:
        names = sorted({self._node.name, *(node.name for node in self._near.values())})
        if len(names) < self._size:
            return
        if len(names) > self._size:
            self._complain(
                f"{len(names)} servers see each other, and {self._size} are configured as routes: "
                "list the same routes on every server"
            )
            return
        if names[0] != self._node.name or any(self._sizes.get(peer) != self._size for peer in self._near):
            return
        digest = blake2b(now_ns.to_bytes(8, "little", signed=True), digest_size=16)
        for name in names:
            digest.update(b"\0" + name.encode())
        self._promise(Charter(self._node.cluster, names, digest.digest()))

    def _asked(self, sender: int, charter: Charter) -> None:
        if self._charter is None:
            if self._barred:
                return
            if self._node.name not in charter.members or len(charter.members) != self._size:
                self._complain(f"asked to found a cluster of {', '.join(charter.members)}: not what is configured here")
                return
            self._promise(charter)
        if self._charter == charter:
            if self._is_saved:
                self._send(_Kind.PROMISE, sender, charter)
        else:
            self._send(_Kind.REFUSAL, sender, self._charter)

    def _promise(self, charter: Charter) -> None:
        """From here on no other, even if the disk should fail: it may have been written."""
        self._charter = charter

        def saved() -> None:
            self._is_saved = True
            self._promised.add(self._node.name)
            self._ask()
            for peer in self._members_near():
                self._send(_Kind.PROMISE, peer, charter)
            self._settle()

        self._ports.save(Promise(charter), saved)

    def _ask(self) -> None:
        if self._charter is None or not self._is_saved or self.holds:
            return
        for peer in self._members_near():
            if self._near[peer].name not in self._promised:
                self._send(_Kind.ASK, peer, self._charter)

    def _heard_promise(self, name: str, charter: Charter) -> None:
        if charter == self._charter and name in charter.members:
            self._promised.add(name)
            self._settle()

    def _heard_that_holds(self, charter: Charter) -> None:
        if charter == self._charter:
            self._promised.update(charter.members)
            self._settle()
            return
        self._barred = True
        if self._charter is None and self._node.name not in charter.members:
            self._complain(
                f"the cluster was founded by {', '.join(charter.members)}: servers cannot be added to it yet"
            )
        else:
            self._refused(charter.members[0], charter)

    def _refused(self, name: str, charter: Charter) -> None:
        """Another charter is in the way."""
        if self._node.name in charter.members and charter != self._charter:
            self._complain(
                f"the cluster was founded by {', '.join(charter.members)}, this server among them, and its store does "
                "not know: it was removed or replaced. It must not vote again under this name"
            )
        elif charter != self._charter:
            self._complain(
                f"{name} belongs to another cluster of the same name, founded by {', '.join(charter.members)}"
            )

    def _settle(self) -> None:
        charter = self._charter
        if self.holds or charter is None or not self._is_saved or not self._promised.issuperset(charter.members):
            return
        self.holds = True

        def saved() -> None:
            for peer in self._near:
                self._send(_Kind.HELLO, peer)
            self._ports.founded(charter)

        self._ports.save(Promise(charter, holds=True), saved)

    def _members_near(self) -> list[int]:
        return [peer for peer, node in self._near.items() if self._charter and node.name in self._charter.members]

    def _send(self, kind: _Kind, to: int, charter: Charter | None = None) -> None:
        if kind is _Kind.HELLO and self.holds:
            charter = self._charter
        self._ports.send(to, msgspec.msgpack.encode(_Message(kind, self._node, self._size, charter)))

    def _complain(self, text: str) -> None:
        """Once, until there is something else to say."""
        if text != self._told:
            self._told = text
            self._ports.trouble(text)


def _is_sound(charter: Charter) -> bool:
    return 0 < len(charter.members) <= _MEMBERS_MAX and charter.members == sorted(set(charter.members))


def encode_promise(promise: Promise) -> bytes:
    """As it is kept on disk."""
    return msgspec.msgpack.encode(promise)


def decode_promise(data: bytes) -> Promise:
    """What `encode_promise` gave.

    Raises:
        ValueError: it is something else.
    """
    try:
        promise = msgspec.msgpack.decode(data, type=Promise)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(f"the promise of this server cannot be read: {error}") from error
    if not _is_sound(promise.charter):
        raise ValueError("the promise of this server cannot be read")
    return promise
