"""What the meta group has agreed on: servers and assignments, as the messages of its log say them.

Every server holds one of these for what is committed. The leader holds a second one, the draft, with what it has
proposed beside: requests are judged against that, so that two streams proposed in one turn cannot have the same
subject. Both share their entries, which never change.

Invariants: `reserved` and `streams_on` of a server are the sums over the assignments that name it; the subjects that an
account's `Holdings` has are those of its assignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.resources import ServerBudget
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.replication.meta.entries import Assignment, Node, decode, node_key, stream_key

__all__ = ["AccountStreams", "Load", "MetaState"]


class AccountStreams:
    """The assignments of one account."""

    def __init__(self) -> None:
        """None."""
        self.streams: dict[str, Assignment] = {}
        # The room of servers is not this one's to judge: see `placement`.
        self.holdings = Holdings({storage: ServerBudget(2**63) for storage in StorageType})
        self._names: list[str] | None = None
        self.restoring = 0
        """How many of them are still being restored."""

    def put(self, assignment: Assignment) -> None:
        """A stream is there, or has changed."""
        before = self.streams.get(assignment.name)
        self.restoring += assignment.restoring - (before is not None and before.restoring)
        if before is not None:
            self.holdings.change(assignment.config)
        else:
            self.holdings.take(assignment.config)
            self._names = None
        self.streams[assignment.name] = assignment

    def drop(self, name: str) -> None:
        """A stream is gone."""
        self.restoring -= self.streams.pop(name).restoring
        self.holdings.give_back(name)
        self._names = None

    def config_of(self, name: str) -> StreamConfig | None:
        """Configuration of a stream, if there is one of this name."""
        found = self.streams.get(name)
        return found.config if found is not None else None

    def matching(self, subject: str) -> Sequence[str]:
        """Names of the streams that collect some of a subject's messages (all streams if it is empty), sorted."""
        if subject:
            return sorted(self.holdings.touching(subject))
        if self._names is None:
            self._names = sorted(self.streams)
        return self._names

    def open(self, subject: str) -> Sequence[str]:
        """Those of them that are not still being restored."""
        names = self.matching(subject)
        return [name for name in names if not self.streams[name].restoring] if self.restoring else names


class Load:
    """What assignments ask of one server."""

    __slots__ = ("preferred", "replicated", "reserved", "streams")

    def __init__(self) -> None:
        """Nothing."""
        self.streams = 0
        self.replicated = 0
        self.preferred = 0
        self.reserved: Counter[StorageType] = Counter()

    def add(self, assignment: Assignment, sign: int, *, preferred: bool) -> None:
        """Count an assignment, or with a `sign` of -1 no longer."""
        self.streams += sign
        self.replicated += sign * assignment.is_replicated
        self.preferred += sign * preferred
        self.reserved[assignment.config.storage] += sign * max(assignment.config.max_bytes, 0)


class MetaState:
    """Servers and assignments."""

    def __init__(self) -> None:
        """Nothing was ever agreed on."""
        self.nodes: dict[int, Node] = {}
        self.accounts: dict[str, AccountStreams] = {}
        self._loads: dict[int, Load] = {}
        self._keys: dict[bytes, Node | Assignment] = {}

    def copy(self) -> MetaState:
        """A draft that begins with the same."""
        out = MetaState()
        for key, entry in self._keys.items():
            out._put(key, entry)
        return out

    def find(self, account: str, stream: str) -> Assignment | None:
        """The assignment of a stream."""
        held = self.accounts.get(account)
        return held.streams.get(stream) if held is not None else None

    def account(self, name: str) -> AccountStreams:
        """The assignments of an account, perhaps none."""
        return self.accounts.get(name) or AccountStreams()

    def assignments(self) -> Iterator[Assignment]:
        """All of them."""
        for held in self.accounts.values():
            yield from held.streams.values()

    def load_of(self, node: int) -> Load:
        """What assignments ask of a server."""
        return self._loads.get(node) or Load()

    def keys(self) -> Mapping[bytes, Node | Assignment]:
        """Every entry under its subject."""
        return self._keys

    def put(self, entry: Node | Assignment) -> Node | Assignment | None:
        """An entry is there from now on, and maybe another one no more, which is given."""
        key = node_key(entry.id) if isinstance(entry, Node) else stream_key(entry.account, entry.name)
        return self._put(key, entry)

    def remove(self, key: bytes) -> Node | Assignment | None:
        """There is nothing under a subject from now on; what was there is given."""
        old = self._keys.pop(key, None)
        if isinstance(old, Node):
            del self.nodes[old.id]
        elif old is not None:
            self._count(old, -1)
            held = self.accounts[old.account]
            held.drop(old.name)
            if not held.streams:
                del self.accounts[old.account]
        return old

    def apply(self, subject: bytes, payload: bytes) -> tuple[Node | Assignment | None, Node | Assignment | None]:
        """Take in a message of the log; what was there before, and what is there now.

        Raises:
            StorageFault: it cannot be read.
        """
        if not payload:
            return self.remove(subject), None
        entry = decode(subject, payload)
        return self._put(subject, entry), entry

    def _put(self, key: bytes, entry: Node | Assignment) -> Node | Assignment | None:
        old = self._keys.get(key)
        self._keys[key] = entry
        if isinstance(entry, Node):
            self.nodes[entry.id] = entry
            return old
        if isinstance(old, Assignment):
            self._count(old, -1)
        self._count(entry, 1)
        self.accounts.setdefault(entry.account, AccountStreams()).put(entry)
        return old

    def _count(self, assignment: Assignment, sign: int) -> None:
        for peer in assignment.peers:
            load = self._loads.setdefault(peer, Load())
            load.add(assignment, sign, preferred=peer == assignment.preferred)
