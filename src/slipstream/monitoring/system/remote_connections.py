"""How many connections an account has at other servers, so that its limit holds over all of them.

Servers tell each other with every client that comes or goes, and every 30 s; who meets a new server, or a new cluster,
asks about accounts with a limit. Between two who let in the last one at the same time both notice, and close what is
too much: a client too many is closed rather than kept.

Servers of the own cluster are known by their routes, and are gone with them. Of those of other clusters nobody here
knows more than what they tell: they are gone when they say so, or when nothing was heard of them for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.links.presence import LinkMember
from slipstream.monitoring.limits import ACCOUNT_CONNECTIONS_INTERVAL_NS

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.monitoring.facts import Facts

__all__ = ["RemoteConnections"]

_SILENT_NS: Final = 5 * ACCOUNT_CONNECTIONS_INTERVAL_NS  # then a server of another cluster is gone
_FAR_MAX: Final = 10_000  # servers of other clusters


class _Server(msgspec.Struct):
    id: str = ""


class _Told(msgspec.Struct):
    """What is read of the event of another server."""

    server: _Server
    acc: str
    conns: int = 0


class RemoteConnections:
    """Counts of all accounts of one server. Listens to the mesh."""

    def __init__(self, facts: Facts, system: Account) -> None:
        self._facts = facts
        self._system = system
        self._counts: dict[str, dict[str, int]] = {}  # by server and account
        self._heard_ns: dict[str, int] = {}  # servers of other clusters, and when they told something
        self._subscriptions = [
            system.subscribe(b"$SYS.ACCOUNT.*.SERVER.CONNS", self._on_told),
            system.subscribe(f"$SYS._INBOX_.{facts.server_id}".encode(), self._on_told),
        ]
        if facts.options.gateway.port:
            self._subscriptions.append(system.subscribe(b"$SYS.SERVER.*.SHUTDOWN", self._on_shutdown))
            self._subscriptions.append(system.subscribe(b"$SYS.SERVER.*.STATSZ", self._on_numbers))

    def stop(self) -> None:
        """Listen no more."""
        for subscription in self._subscriptions:
            self._system.remove(subscription)
        self._subscriptions = []

    @property
    def far_count(self) -> int:
        """Servers of other clusters that were heard of not long ago."""
        return len(self._heard_ns)

    def peer_came(self, _server_id: str) -> None:
        """A server that is new: ask what it has."""
        self.ask()

    def ask(self) -> None:
        """Ask all servers what they have."""
        reply = f"$SYS._INBOX_.{self._facts.server_id}".encode()
        for account in list(self._facts.accounts.values()):
            if account.limits.max_connections >= 0:
                body = msgspec.json.encode({"server": {"id": self._facts.server_id}, "acc": account.name})
                self._system.publish(f"$SYS.REQ.ACCOUNT.{account.name}.CONNS".encode(), reply, 0, body)

    def peer_gone(self, server_id: str) -> None:
        """A server is gone, and so are its clients."""
        self._heard_ns.pop(server_id, None)
        for name, count in self._counts.pop(server_id, {}).items():
            account = self._facts.accounts.get(name)
            if account is not None:
                account.connections_elsewhere -= count

    def _on_told(
        self, publisher: object, _subject: bytes, _reply: bytes | None, header_size: int, message: bytes
    ) -> bool:
        try:
            told = msgspec.json.decode(message[header_size:], type=_Told)
        except UNREADABLE:
            return True
        account = self._facts.accounts.get(told.acc)
        # What somebody else publishes here is not a word of a server.
        if account is None or not (self._is_near(told.server.id) or self._is_far(publisher, told.server.id)):
            return True
        known = self._counts.setdefault(told.server.id, {})
        before = known.get(told.acc, 0)
        known[told.acc] = max(told.conns, 0)
        account.connections_elsewhere += known[told.acc] - before
        self._facts.hub.cut_excess_of(account)
        return True

    def _is_near(self, server_id: str) -> bool:
        """Whether it is a server of the own cluster."""
        mesh = self._facts.server.mesh
        return mesh is not None and server_id in mesh.roster.pools

    def _is_far(self, publisher: object, server_id: str) -> bool:
        """Whether it is one of another cluster: what it tells comes over a gateway, or passed on over a route."""
        if self._facts.server.supercluster is None or server_id in ("", self._facts.server_id):
            return False
        if not isinstance(publisher, LinkMember) or not (publisher.is_route or publisher.is_gateway):
            return False
        now_ns = self._facts.now_ns()
        # Those that are gone without a word are noticed when others say something.
        for silent in [one for one, heard_ns in self._heard_ns.items() if now_ns - heard_ns > _SILENT_NS]:
            self.peer_gone(silent)
        if server_id not in self._heard_ns and len(self._heard_ns) >= _FAR_MAX:
            return False
        self._heard_ns[server_id] = now_ns
        return True

    def _on_numbers(
        self, publisher: object, subject: bytes, _reply: bytes | None, _header_size: int, _message: bytes
    ) -> bool:
        """A server lives: each says so every few seconds."""
        server_id = subject.split(b".")[2].decode("utf-8", "replace")
        if not self._is_near(server_id):
            self._is_far(publisher, server_id)
        return True

    def _on_shutdown(
        self, publisher: object, subject: bytes, _reply: bytes | None, _header_size: int, _message: bytes
    ) -> bool:
        server_id = subject.split(b".")[2].decode("utf-8", "replace")
        if server_id in self._heard_ns and isinstance(publisher, LinkMember):
            self.peer_gone(server_id)
        return True
