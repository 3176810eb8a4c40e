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

A server without a promise that hears of a charter that holds was not there, or has lost its store and might have voted
before. Either way it is a member that nobody knows yet (its incarnation is new): it takes the charter over, and waits
until the meta group's leader adds it. What belongs to another cluster of the same name stays out (`trouble`).

What this is not: who is added later (the meta group decides that), or connections.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Protocol

import msgspec

from slipstream.replication.ids import NO_NODE, node_id
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
    ids: list[int] = []
    """Of the members, in their order. A cluster founded before there were incarnations has none."""

    @property
    def voters(self) -> list[int]:
        """The members as they are called in groups."""
        return self.ids or [node_id(name) for name in self.members]


class Promise(msgspec.Struct, frozen=True, array_like=True):
    """What is kept on disk."""

    charter: Charter | None = None
    """None: nothing yet, but what is behind counts."""
    holds: bool = False
    """All members are known to have promised, or this server was added later."""
    incarnation: bytes = b""
    """Of this server: see `node_id`."""
    removed: bool = False
    """It was taken out of the cluster, and never takes part again."""
    has_votes: bool = False
    """It takes part in the meta group: its votes are there, or were lost."""


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
    was_heard: bool = False
    """Of a hello: the server it is for has said its own."""


class FoundingPorts(Protocol):
    """What a founding needs from its surroundings."""

    def send(self, to: str, message: bytes) -> None:
        """Tell another server, by its name, if it can be reached."""
        ...

    def met(self, node: Node) -> None:
        """The server that has this name has this number."""
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

    def __init__(
        self, node: Node, size: int, promise: Promise | None, ports: FoundingPorts, *, spans_clusters: bool = False
    ) -> None:
        """Go on where this server was.

        Args:
            node: this server.
            size: how many servers the cluster shall begin with.
            promise: what was saved, if anything.
            ports: the surroundings.
            spans_clusters: servers of other clusters, which gateways lead to, belong to it as well.
        """
        self._spans_clusters = spans_clusters
        self._node = node
        self._size = size
        self._ports = ports
        self._charter = promise.charter if promise is not None else None  # saved, or about to be
        self._is_saved = self._charter is not None
        self._promised: set[int] = {node.id} if self._is_saved else set()
        self._linked: set[str] = set()
        self._near: dict[str, Node] = {}
        self._sizes: dict[str, int] = {}
        self._told = ""
        self.holds = promise is not None and promise.holds

    @property
    def charter(self) -> Charter | None:
        """The one that this server has promised, or is about to."""
        return self._charter

    @property
    def near(self) -> dict[int, Node]:
        """Servers that were heard of, by their numbers."""
        return {node.id: node for node in self._near.values()}

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin. What was founded in an earlier life goes on."""
        if self.holds:
            assert self._charter is not None
            self._ports.founded(self._charter)

    def expect(self, size: int) -> None:
        """So many servers are configured, as it turns out: a route may lead to this server itself."""
        self._size = size

    def peer_up(self, peer: str) -> None:
        """Another server can be reached."""
        self._linked.add(peer)
        self._send(_Kind.HELLO, peer)

    def peer_down(self, peer: str) -> None:
        """It cannot any more."""
        self._linked.discard(peer)
        self._near.pop(peer, None)
        self._sizes.pop(peer, None)

    def tick(self, found_at_ns: int) -> None:
        """Some time has passed: say again what may have been lost, and found a cluster if all are here.

        Args:
            found_at_ns: the time, which makes a charter unlike every other.
        """
        for peer in self._linked:
            if not self.holds or peer not in self._near:
                self._send(_Kind.HELLO, peer)
        if self.holds:
            return
        if self._charter is not None:
            self._ask()
        else:
            self._propose(found_at_ns)

    def receive(self, sender: str, data: bytes) -> None:
        """A message has come. One that makes no sense is dropped."""
        try:
            message = msgspec.msgpack.decode(data, type=_Message)
        except (msgspec.DecodeError, UnicodeError):
            return
        node, charter = message.node, message.charter
        if node.name != sender or node_id(sender, node.incarnation) != node.id:
            return
        if node.cluster != self._node.cluster and not self._spans_clusters:
            return
        if charter is not None and not _is_sound(charter):
            return
        if self._near.get(sender) != node:
            self._near[sender] = node
            self._ports.met(node)
        if message.kind is _Kind.HELLO:
            self._sizes[sender] = message.size
            if not message.was_heard or (charter is None and self.holds):
                self._send(_Kind.HELLO, sender)  # it does not know yet
            if charter is not None:
                self._heard_that_holds(charter)
        elif charter is None:
            return
        elif message.kind is _Kind.ASK:
            self._asked(sender, charter)
        elif message.kind is _Kind.PROMISE:
            self._heard_promise(node.id, charter)
        else:
            self._refused(node.name, charter)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _propose(self, now_ns: int) -> None:
        numbers = {node.name: node.id for node in (self._node, *self._near.values())}
        names = sorted(numbers)
        if len(names) < self._size:
            return
        if len(names) > self._size:
            self._complain(
                f"{len(names)} servers see each other, and {self._size} are configured as routes"
                f"{' and gateways' if self._spans_clusters else ''}: list the same routes on every server"
            )
            return
        if names[0] != self._node.name or any(self._sizes.get(peer) != self._size for peer in self._near):
            return
        digest = blake2b(now_ns.to_bytes(8, "little", signed=True), digest_size=16)
        for name in names:
            digest.update(b"\0" + name.encode())
        self._promise(Charter(self._node.cluster, names, digest.digest(), [numbers[name] for name in names]))

    def _asked(self, sender: str, charter: Charter) -> None:
        if self._charter is None:
            if self._node.name in charter.members and self._node.id not in charter.voters:
                self._complain(
                    f"{', '.join(charter.members)} are founding a cluster with what was in this server's store before: "
                    "empty the stores of all of them"
                )
                return
            if self._node.id not in charter.voters or len(charter.members) != self._size:
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
            self._promised.add(self._node.id)
            self._ask()
            for peer in self._members_near():
                self._send(_Kind.PROMISE, peer, charter)
            self._settle()

        self._ports.save(Promise(charter, incarnation=self._node.incarnation), saved)

    def _ask(self) -> None:
        if self._charter is None or not self._is_saved or self.holds:
            return
        for peer in self._members_near():
            if self._near[peer].id not in self._promised:
                self._send(_Kind.ASK, peer, self._charter)

    def _heard_promise(self, node: int, charter: Charter) -> None:
        if charter == self._charter and node in charter.voters:
            self._promised.add(node)
            self._settle()

    def _heard_that_holds(self, charter: Charter) -> None:
        if charter == self._charter:
            self._promised.update(charter.voters)
            self._settle()
        elif self._charter is None and self._node.id not in charter.voters:
            self._join(charter)
        else:
            self._refused(charter.members[0], charter)

    def _join(self, charter: Charter) -> None:
        """There is a cluster already: be one of its servers, if the others will have it."""
        self._charter = charter
        self._settled(charter)

    def _refused(self, name: str, charter: Charter) -> None:
        """Another charter is in the way."""
        if charter != self._charter:
            self._complain(
                f"{name} belongs to another cluster of the same name, founded by {', '.join(charter.members)}"
            )

    def _settle(self) -> None:
        charter = self._charter
        if self.holds or charter is None or not self._is_saved or not self._promised.issuperset(charter.voters):
            return
        self._settled(charter)

    def _settled(self, charter: Charter) -> None:
        self.holds = True

        def saved() -> None:
            for peer in self._linked:
                self._send(_Kind.HELLO, peer)
            self._ports.founded(charter)

        self._ports.save(Promise(charter, holds=True, incarnation=self._node.incarnation), saved)

    def _members_near(self) -> list[str]:
        return [peer for peer, node in self._near.items() if self._charter and node.id in self._charter.voters]

    def _send(self, kind: _Kind, to: str, charter: Charter | None = None) -> None:
        if kind is _Kind.HELLO and self.holds:
            charter = self._charter
        message = _Message(kind, self._node, self._size, charter, to in self._near)
        self._ports.send(to, msgspec.msgpack.encode(message))

    def _complain(self, text: str) -> None:
        """Once, until there is something else to say."""
        if text != self._told:
            self._told = text
            self._ports.trouble(text)


def _is_sound(charter: Charter) -> bool:
    numbers = set(charter.voters)
    return (
        0 < len(charter.members) <= _MEMBERS_MAX
        and charter.members == sorted(set(charter.members))
        and len(numbers) == len(charter.members) == len(charter.voters)
        and NO_NODE not in numbers
    )


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
    if promise.charter is not None and not _is_sound(promise.charter):
        raise ValueError("the promise of this server cannot be read")
    return promise
