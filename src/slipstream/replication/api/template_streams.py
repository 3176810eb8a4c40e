"""Streams of an account as templates see them in a cluster, and how a template's leader has one made (ADR 86).

    first publish ──► the template's leader holds it ──make──► the meta group's leader: checks, placement ──► agreed on
                      the same server leads the stream, takes what was held, and listens

The stream is led where messages for it are held: so a message is held or taken, and never both, whatever other servers
know at that moment. What this is not: what a template says and holds (`jetstream.templates`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.config.stored import from_stored, to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.replication.api.cluster import new_assignment
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.ids import NO_NODE
from slipstream.replication.meta.checks import AccountRules, new_config
from slipstream.replication.peer_calls import Answer
from slipstream.units import SECOND_NS

__all__ = ["MAKE", "StreamMaking", "TemplateStreams"]

MAKE: Final = "make"
"""What the leader of the meta group is asked."""
_AGREED_WITHIN_NS: Final = 5 * SECOND_NS


class _Make(msgspec.Struct, array_like=True):
    """Which stream, and who is to lead it."""

    account: str
    config: bytes
    leader: int


class _Refused(msgspec.Struct, array_like=True):
    """Why it is not made; all empty: it is."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class TemplateStreams:
    """Those of one account. Implements `jetstream.account.server.ClusterStreams`."""

    def __init__(self, account: JetStreamAccount, node: Coordinator) -> None:
        """As this server knows them."""
        self._account = account
        self._node = node

    def collects(self, subject: bytes) -> bool:
        """See `ClusterStreams`."""
        return bool(self._node.state.account(self._account.name).holdings.collecting(subject))

    def configs(self) -> Iterable[StreamConfig]:
        """See `ClusterStreams`."""
        return (one.config for one in self._node.state.account(self._account.name).streams.values())

    def has(self, name: str) -> bool:
        """See `ClusterStreams`."""
        return self._node.state.find(self._account.name, name) is not None

    def create(self, config: StreamConfig, done: Callable[[ApiError | None], None]) -> None:
        """See `ClusterStreams`."""
        meta = self._node.meta
        if meta is None or meta.leader == NO_NODE:
            raise TableError(table.CLUSTER_NOT_AVAIL)

        def answered(_node: int, body: bytes) -> None:
            end()
            refused = msgspec.msgpack.decode(body, type=_Refused)
            done(ApiError(refused.code, refused.err_code, refused.description) if refused.code else None)

        def late() -> None:
            end()
            done(TableError(table.CLUSTER_NOT_AVAIL))

        question = _Make(self._account.name, to_stored(config, 0), self._node.node.id)
        cancel_timer = self._account.ports.call_later(_AGREED_WITHIN_NS, late)
        cancel_question = self._node.calls.ask([meta.leader], MAKE, msgspec.msgpack.encode(question), answered)

        def end() -> None:
            cancel_timer()
            cancel_question()


class StreamMaking:
    """On every server: what the leader of the meta group does when it is asked."""

    def __init__(self, node: Coordinator, account: Callable[[str], JetStreamAccount | None]) -> None:
        """Answer from now on; `account` gives one by its name, if it may use JetStream here."""
        self._node = node
        self._account = account
        node.handlers[MAKE] = self._make

    def _make(self, body: bytes, answer: Answer) -> None:
        def respond(error: ApiError | None) -> None:
            refused = _Refused() if error is None else _Refused(error.code, error.err_code, error.description)
            answer(msgspec.msgpack.encode(refused))

        try:
            asked = msgspec.msgpack.decode(body, type=_Make)
            config, _ = from_stored(asked.config)
        except (msgspec.DecodeError, UnicodeError):
            return  # what makes no sense is dropped
        try:
            self._propose(asked, config, respond)
        except ApiError as error:
            respond(error)

    def _propose(self, asked: _Make, config: StreamConfig, respond: Callable[[ApiError | None], None]) -> None:
        meta, account = self._node.meta, self._account(asked.account)
        if meta is None or meta.draft is None or account is None:
            raise TableError(table.CLUSTER_NOT_AVAIL)
        held = meta.draft.account(asked.account)
        config, existing = new_config(config, held, AccountRules(account.limits, account.checks.context()))
        if existing is not None:
            # Somebody was faster: whether a message is held or taken is not known then, so it is not taken here.
            raise TableError(table.CLUSTER_NOT_AVAIL)
        server = meta.draft.nodes.get(asked.leader)
        if server is None or server.removed:
            raise TableError(table.CLUSTER_NOT_AVAIL)
        made = new_assignment(account, config, self._node, meta, server.cluster, leader=asked.leader)

        def done(is_done: bool) -> None:
            respond(None if is_done else TableError(table.CLUSTER_NOT_AVAIL))

        meta.propose([made], done)
