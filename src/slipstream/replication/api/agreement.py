"""A call that changes a stream's assignment: agreed on by the meta group, answered when the stream is so.

    wanted ──► agreed on ──► asks the stream's servers ──► the leader describes it ──► answered

In the account of the stream its leader tells the caller itself. Its interest in the stream's subjects has gone to the
caller's server before, on the same connection: what is published next finds the stream. An answer from here would come
on another connection, and could overtake that interest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.descriptions import DESCRIBE, Described, DescribeStream
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.group import MetaGroup
from slipstream.units import SECOND_NS

__all__ = ["Agreement"]

_MADE_WITHIN_NS: Final = 10 * SECOND_NS  # a stream that has no leader by then may still get one


class Agreement:
    """As the leader of the meta group comes to it, for calls of one API."""

    def __init__(self, node: Coordinator, ports: Ports, account: str = "") -> None:
        """On this server; `ports` have the time; calls are of this account, if of one that may have streams."""
        self._node = node
        self._ports = ports
        self._account = account

    @property
    def meta(self) -> MetaGroup:
        """The meta group, which this server leads.

        Raises:
            TableError: it does not.
        """
        meta = self._node.meta
        if meta is None or meta.draft is None:
            raise TableError(table.CLUSTER_NOT_AVAIL)
        return meta

    def agree(
        self,
        request: ApiRequest,
        wanted: Assignment,
        also: Mapping[str, object],
        then: Callable[[], None] | None = None,
    ) -> None:
        """Have a stream be assigned so, and answer; `also`: further members of the answer."""

        def done(is_done: bool) -> None:
            if is_done:
                self.answer(request, wanted, also, then)
            else:
                request.fail(TableError(table.CLUSTER_NOT_AVAIL))

        self.meta.propose([wanted], done)

    def answer(
        self,
        request: ApiRequest,
        assignment: Assignment,
        also: Mapping[str, object],
        then: Callable[[], None] | None = None,
    ) -> None:
        """Answer when the stream is as it was agreed on, as its leader describes it."""
        meta = self.meta

        def answered(_node: int, body: bytes) -> None:
            if request.is_answered:
                return
            end()
            described = msgspec.msgpack.decode(body, type=Described)
            if described.error is not None:
                request.fail(TableError(table.STREAM_CREATE, err=described.error))
                return
            if question.reply:
                request.answered_elsewhere()
            request.respond({**msgspec.json.decode(described.fields), **also})
            if then is not None:
                then()

        def late() -> None:
            if not request.is_answered:
                end()
                request.fail(TableError(table.CLUSTER_NOT_AVAIL))

        question = DescribeStream(assignment.account, assignment.name, assignment.group, meta.handed_seq)
        if request.reply and assignment.account == self._account:
            question.reply, question.response_type = request.reply, request.response_type
            question.also = msgspec.json.encode(also)
        cancel_timer = self._ports.call_later(_MADE_WITHIN_NS, late)
        cancel_question = self._node.calls.ask(assignment.hosts, DESCRIBE, msgspec.msgpack.encode(question), answered)

        def end() -> None:
            cancel_timer()
            cancel_question()
