"""How many connections an account has at other servers of the cluster, so that its limit holds over all of them.

Servers tell each other with every client that comes or goes, and every 30 s; who meets a new server asks it about
accounts with a limit. Between two who let in the last one at the same time both notice, and close what is too much: a
client too many is closed rather than kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from slipstream.errors import UNREADABLE

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.monitoring.facts import Facts

__all__ = ["RemoteConnections"]


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
        self._subscriptions = [
            system.subscribe(b"$SYS.ACCOUNT.*.SERVER.CONNS", self._on_told),
            system.subscribe(f"$SYS._INBOX_.{facts.server_id}".encode(), self._on_told),
        ]

    def stop(self) -> None:
        """Listen no more."""
        for subscription in self._subscriptions:
            self._system.remove(subscription)
        self._subscriptions = []

    def peer_came(self, _server_id: str) -> None:
        """A server that is new: ask what it has."""
        reply = f"$SYS._INBOX_.{self._facts.server_id}".encode()
        for account in list(self._facts.accounts.values()):
            if account.limits.max_connections >= 0:
                body = msgspec.json.encode({"server": {"id": self._facts.server_id}, "acc": account.name})
                self._system.publish(f"$SYS.REQ.ACCOUNT.{account.name}.CONNS".encode(), reply, 0, body)

    def peer_gone(self, server_id: str) -> None:
        """A server is gone, and so are its clients."""
        for name, count in self._counts.pop(server_id, {}).items():
            account = self._facts.accounts.get(name)
            if account is not None:
                account.connections_elsewhere -= count

    def _on_told(
        self, _publisher: object, _subject: bytes, _reply: bytes | None, header_size: int, message: bytes
    ) -> bool:
        try:
            told = msgspec.json.decode(message[header_size:], type=_Told)
        except UNREADABLE:
            return True
        mesh, account = self._facts.server.mesh, self._facts.accounts.get(told.acc)
        # What somebody else publishes here is not a word of a server.
        if mesh is None or account is None or told.server.id not in mesh.roster.pools:
            return True
        known = self._counts.setdefault(told.server.id, {})
        before = known.get(told.acc, 0)
        known[told.acc] = max(told.conns, 0)
        account.connections_elsewhere += known[told.acc] - before
        self._facts.hub.cut_excess_of(account)
        return True
