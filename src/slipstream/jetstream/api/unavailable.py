"""Calls that need a cluster, which a single server refuses."""

from __future__ import annotations

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.errors import TableError

__all__ = ["UnavailableApi"]

_NEED_CLUSTER = (
    ("STREAM.PEER.REMOVE.*", "stream_remove_peer_response"),
    ("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response"),
    ("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response"),
    ("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response"),
    ("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response"),
)


class UnavailableApi:
    """Handlers that only refuse, each with the error its caller understands."""

    def __init__(self, api: ApiDispatcher) -> None:
        """Register the handlers."""
        for pattern, response_type in _NEED_CLUSTER:
            api.register(pattern, response_type, self.need_cluster, checks_level=False)

    def need_cluster(self, request: ApiRequest) -> None:
        """There are no peers and no elections here."""
        raise TableError(table.CLUSTER_REQUIRED)
