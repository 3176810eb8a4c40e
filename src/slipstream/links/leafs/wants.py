"""What an account wants of its leaf links beside its subscriptions, and who else decides what it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.ids import new_nuid
from slipstream.links.leafs.crossing import LOOP_PREFIX

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.routing.hub import Hub

__all__ = ["LeafWants"]


class LeafWants:
    """Imports, mappings and the detection of loops, by account."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._loops: dict[str, bytes] = {}  # account to the subject that shows loops

    def loop_subject(self, account: Account) -> bytes:
        """The subject by which this server knows itself in an account."""
        subject = self._loops.get(account.name)
        if subject is None:
            subject = self._loops[account.name] = LOOP_PREFIX + new_nuid(self._hub.rng).encode()
        return subject

    def imports(self, account: str) -> tuple[StreamImport, ...]:
        """The stream imports of an account."""
        resolved = self._hub.topology.graph.accounts.get(account)
        return () if resolved is None else tuple(resolved.stream_imports)

    def importers(self, account: Account) -> list[Account]:
        """Accounts that import streams of this one."""
        return [
            self._hub.accounts[name]
            for name, resolved in self._hub.topology.graph.accounts.items()
            if name != account.name
            and name in self._hub.accounts
            and any(stream.exporter == account.name for stream in resolved.stream_imports)
        ]

    def always(self, account: Account) -> list[bytes]:
        """What is wanted in an account whoever subscribes."""
        found = [self.loop_subject(account)]
        resolved = self._hub.topology.graph.accounts.get(account.name)
        if resolved is not None:
            found += [service.subject for service in resolved.service_imports]
            found += [] if resolved.mappings is None else resolved.mappings.sources()
        return found
