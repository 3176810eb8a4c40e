"""STREAM.RESTORE of a cluster: the meta group's leader has it assigned, and who leads it takes in the backup."""

from __future__ import annotations

from typing import Final

import msgspec

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.restoring import asked_to_restore
from slipstream.jetstream.api.rights import judge_stream
from slipstream.jetstream.backup.restore import StreamBounds
from slipstream.jetstream.errors import TableError
from slipstream.replication.api.cluster import new_assignment
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.meta.checks import AccountRules, restored_config
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.restores import BEGIN_RESTORE, BeginRestore, RestoreBegun
from slipstream.units import SECOND_NS

__all__ = ["ClusterRestoreApi"]

_BEGUN_WITHIN_NS: Final = 10 * SECOND_NS


class ClusterRestoreApi:
    """The handler of one account."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, node: Coordinator) -> None:
        """Register the handler."""
        self._account = account
        self._node = node
        api.register("STREAM.RESTORE.*", "stream_restore_response", self.restore, error_fields={"deliver_subject": ""})

    def restore(self, request: ApiRequest) -> None:
        """Make a stream from a backup that follows."""
        self._node.origins.of(request, lambda cluster: self._restore(request, cluster))

    def _restore(self, request: ApiRequest, cluster: str) -> None:
        config, bounds = asked_to_restore(request)
        account, meta = self._account, self._node.meta
        if meta is None or meta.draft is None:
            raise TableError(table.CLUSTER_NOT_AVAIL)
        judge_stream(request, config, None)
        rules = AccountRules(account.limits, account.checks.context())
        config = restored_config(config, meta.draft.account(account.name), rules)
        made = new_assignment(account, config, self._node, meta, cluster, restoring=True)

        def done(is_done: bool) -> None:
            if is_done:
                self._begin(request, made, bounds)
            else:
                request.fail(TableError(table.CLUSTER_NOT_AVAIL))

        meta.propose([made], done)

    def _begin(self, request: ApiRequest, made: Assignment, bounds: StreamBounds) -> None:
        """The stream is assigned: whoever leads it tells the client where the backup goes."""
        meta = self._node.meta
        assert meta is not None
        client = request.describe_client()
        question = BeginRestore(
            made.account,
            made.name,
            made.group,
            meta.handed_seq,
            bounds,
            dict(client) if client is not None else {},
            request.reply.decode() if request.reply else "",
            request.grants(b">"),
        )

        def answered(_node: int, body: bytes) -> None:
            if request.is_answered:
                return
            end()
            begun = msgspec.msgpack.decode(body, type=RestoreBegun)
            if begun.error is not None:
                request.fail(ApiError(*begun.error))
                return
            request.answered_elsewhere()
            self._node.restores.concluding[made.group] = request.conclude
            request.respond({"deliver_subject": begun.deliver_subject}, concluded=False)

        def late() -> None:
            if not request.is_answered:
                end()
                request.fail(TableError(table.CLUSTER_NOT_AVAIL))

        cancel_timer = self._account.ports.call_later(_BEGUN_WITHIN_NS, late)
        cancel_question = self._node.calls.ask(made.peers, BEGIN_RESTORE, msgspec.msgpack.encode(question), answered)

        def end() -> None:
            cancel_timer()
            cancel_question()
