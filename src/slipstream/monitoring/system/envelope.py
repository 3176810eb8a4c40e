"""Who sends: the `server` object in every event and answer of the system account, numbered one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from slipstream.ids import new_nuid
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import encode
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.accounts.account import Account

__all__ = ["Sender", "SenderFacts"]

_JETSTREAM, _BINARY_SNAPSHOT = 1, 2  # capability bits


class SenderFacts(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The sender of a message."""

    name: str
    host: str
    id: str
    cluster: str = ""
    domain: str = ""
    ver: str
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = {}
    feature_flags: Mapping[str, bool] = {}
    jetstream: bool
    flags: int
    seq: int
    time: str


class Sender:
    """Publishes into the system account, and signs what is sent elsewhere."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._sent = 0

    def server(self) -> SenderFacts:
        """The sender of the next message."""
        facts = self.facts
        self._sent += 1
        has_jetstream = facts.jetstream is not None and facts.jetstream.enabled
        return SenderFacts(
            name=facts.server_name,
            host=facts.hub.host,
            id=facts.server_id,
            cluster=facts.options.cluster.name,
            domain=facts.options.jetstream.domain,
            ver=SERVER_VERSION,
            tags=facts.options.server_tags,
            metadata=dict(sorted(facts.options.server_metadata.items())),
            feature_flags=facts.feature_flags,
            jetstream=has_jetstream,
            flags=_JETSTREAM | _BINARY_SNAPSHOT if has_jetstream else 0,
            seq=self._sent,
            time=facts.now(),
        )

    def event_id(self) -> str:
        """A new unique id."""
        return new_nuid(self.facts.hub.rng)

    def publish(self, subject: str, message: object, account: Account | None = None) -> None:
        """Publish into an account; the system account if none is given."""
        account = account or self.facts.hub.system_account
        if account is not None:
            name, body = subject.encode("utf-8", "surrogateescape"), encode(message)
            self.facts.hub.log_own(account, name, body)
            account.publish(name, None, 0, body)
