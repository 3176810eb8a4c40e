"""Calls that move a stream off a server, and that end what is under way with its servers.

    STREAM.CANCEL_MOVE.<stream>                        in the account
    ACCOUNT.STREAM.MOVE.<account>.<stream>             in the account and in the system account
    ACCOUNT.STREAM.CANCEL_MOVE.<account>.<stream>      the same

What this is not: how a stream gets to other servers (`member_moves`), or which ones they are (`meta.moves`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.bind import Field, GoList, GoStruct
from slipstream.jetstream.gojson.scalars import STRING
from slipstream.jetstream.ports import Ports
from slipstream.replication.api.agreement import Agreement
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.meta.checks import check_movable
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.moves import cancelled, moved_off

__all__ = ["MoveApi"]

_CANCELLED: Final = "stream_cancel_move_response"


class _MoveStream(msgspec.Struct):
    server: str = ""
    cluster: str = ""
    domain: str = ""
    tags: list[str] = []


_MOVE_STREAM: Final = GoStruct(
    "JSApiMetaServerStreamMoveRequest",
    _MoveStream,
    [Field("server", STRING), Field("cluster", STRING), Field("domain", STRING), Field("tags", GoList(STRING))],
)


class MoveApi:
    """Handlers of one account, or of the system account."""

    def __init__(
        self, api: ApiDispatcher, node: Coordinator, ports: Ports, is_account: Callable[[str], bool], own: str = ""
    ) -> None:
        """Register the handlers.

        Args:
            api: where.
            node: this server's.
            ports: of who asks.
            is_account: whether there is an account of this name.
            own: the account whose API it is; none: the system account's.
        """
        self._node = node
        self._agreement = Agreement(node, ports)
        self._is_account = is_account
        api.register("ACCOUNT.STREAM.MOVE.*.*", "stream_update_response", self.move)
        api.register("ACCOUNT.STREAM.CANCEL_MOVE.*.*", _CANCELLED, self.cancel)
        if own:
            api.register("STREAM.CANCEL_MOVE.*", _CANCELLED, lambda request: self._cancel(request, own, *request.names))

    def move(self, request: ApiRequest) -> None:
        """Have another server keep a stream in the place of one: the named one, else one that does not lead it."""
        asked = bodies.decode_optional(_MOVE_STREAM, request)
        account, stream = request.names
        if asked.server and not self._is_member(asked):
            raise TableError(table.CLUSTER_SERVER_NOT_MEMBER)
        found = self._find(account, stream)
        check_movable(found)
        draft = self._agreement.meta.draft
        assert draft is not None
        wanted = moved_off(found, self._leaving(found, asked.server), asked.tags, draft, self._node.around)
        self._agreement.agree(request, wanted, {})

    def cancel(self, request: ApiRequest) -> None:
        """Have a stream be where it was, with as many copies, before its servers began to change."""
        self._cancel(request, *request.names)

    def _cancel(self, request: ApiRequest, account: str, stream: str) -> None:
        self._agreement.agree(request, cancelled(self._find(account, stream)), {})

    def _find(self, account: str, stream: str) -> Assignment:
        if not self._is_account(account):
            raise TableError(table.NO_ACCOUNT)
        draft = self._agreement.meta.draft
        found = draft.find(account, stream) if draft is not None else None
        if found is None or found.restoring:
            raise TableError(table.STREAM_NOT_FOUND)
        return found

    def _is_member(self, asked: _MoveStream) -> bool:
        """Whether there is such a server; `cluster` says which of those that have this name."""
        return any(
            node.name == asked.server and asked.cluster in ("", node.cluster) and not node.removed
            for node in self._node.state.nodes.values()
        )

    def _leaving(self, found: Assignment, server: str) -> int:
        if server:
            peer = next((one for one in found.peers if self._node.name_of(one) == server), None)
            if peer is None:
                raise TableError(table.CLUSTER_PEER_NOT_MEMBER)
            return peer
        leader = self._node.leader_of(found)
        return next((peer for peer in found.peers if peer != leader), found.peers[0])
