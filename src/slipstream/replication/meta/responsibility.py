"""Who of a cluster answers a call of the API: every server hears all calls, and one of them answers.

| call | answered by |
|---|---|
| the account, lists of streams, making, changing, removing, restoring | the meta group's leader |
| everything about one stream, its consumers included | the stream's leader; the only keeper, if there is one copy |
| the same, and there is no such stream | the meta group's leader: "stream not found" |
| the same, and the stream has had no leader for a while | the meta group's leader: "temporarily unavailable" |
| what the meta group's leader answers, and there has been none for a while | every server: the same |

Consumers are records of their stream's log, so the stream's leader lists them too; nats-server has them in its meta
group, which is why its meta leader does. What clients see is the same.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol

__all__ = ["ClusterView", "Responsibility", "StreamRole", "who_answers"]


class Responsibility(enum.Enum):
    """What this server does with a call."""

    HANDLE = "the call is this server's: it is handled as alone"
    SILENT = "another server answers"
    NOT_FOUND = "this server answers that there is no such stream"
    UNAVAILABLE = "this server answers that the system is temporarily unavailable"


class StreamRole(enum.Enum):
    """A stream as this server sees it."""

    LED_HERE = "this server leads it, or keeps its only copy"
    ELSEWHERE = "another server does"
    LEADERLESS = "nobody has for a while"
    MISSING = "it is not assigned"


class ClusterView(Protocol):
    """What has to be known of the cluster."""

    @property
    def is_meta_leader(self) -> bool:
        """Whether this server leads the meta group and knows all that was agreed on."""
        ...

    @property
    def is_leaderless(self) -> bool:
        """Whether there has been no leader of the meta group for a while."""
        ...

    def stream(self, account: str, name: str) -> StreamRole:
        """What is known of a stream."""
        ...


# A prefix that ends in a dot has names behind it.
_META_CALLS: Final = (
    "INFO",
    "STREAM.CREATE.",
    "STREAM.UPDATE.",
    "STREAM.DELETE.",
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.RESTORE.",
    "STREAM.PEER.REMOVE.",
    "STREAM.PEER.EVACUATE.",
    "STREAM.CANCEL_MOVE.",
)
# About a stream of the account that is named next: its own, or the system account asks, which has no gate here.
_ACCOUNT_CALLS: Final = ("ACCOUNT.STREAM.MOVE.", "ACCOUNT.STREAM.CANCEL_MOVE.")
# What is about a stream, by how it begins; the stream's name is the next token.
_STREAM_CALLS: Final = (
    "STREAM.INFO.",
    "STREAM.PURGE.",
    "STREAM.TRUNCATE.",
    "STREAM.MSG.GET.",
    "STREAM.MSG.DELETE.",
    "STREAM.SNAPSHOT.",
    "STREAM.CHECKPOINT.",
    "STREAM.VERIFY.",
    "STREAM.LEADER.STEPDOWN.",
    "CONSUMER.LEADER.STEPDOWN.",
    "CONSUMER.DURABLE.CREATE.",
    "CONSUMER.CREATE.",
    "CONSUMER.DELETE.",
    "CONSUMER.INFO.",
    "CONSUMER.LIST.",
    "CONSUMER.NAMES.",
    "CONSUMER.PAUSE.",
    "CONSUMER.RESET.",
    "CONSUMER.UNPIN.",
    "CONSUMER.WHY.",
    "BULK.ABORT.",
    "BULK.COMMIT.",
    "BULK.CREDIT.",
    "BULK.FENCE.",
    "BULK.HOLD.",
    "BULK.INFO.",
    "BULK.PLAN.",
    "BULK.READ.",
    "BULK.RELEASE.",
    "BULK.STAGE.",
)


def who_answers(call: str, account: str, view: ClusterView) -> Responsibility:
    """What this server does with a call.

    Args:
        call: its subject, behind `$JS.API.`.
        account: whose API was called.
        view: of the cluster.
    """
    if any(call == prefix or (prefix[-1] == "." and call.startswith(prefix)) for prefix in _META_CALLS):
        return _meta(view)
    prefix = next((prefix for prefix in _ACCOUNT_CALLS if call.startswith(prefix)), None)
    if prefix is not None:
        is_own = call[len(prefix) :].rpartition(".")[0] == account
        return Responsibility.HANDLE if is_own and view.is_meta_leader else Responsibility.SILENT
    prefix = next((prefix for prefix in _STREAM_CALLS if call.startswith(prefix)), None)
    if prefix is None:
        return Responsibility.SILENT
    stream = view.stream(account, call[len(prefix) :].partition(".")[0])
    if stream is StreamRole.LED_HERE:
        return Responsibility.HANDLE
    if stream is StreamRole.ELSEWHERE:
        return Responsibility.SILENT
    verdict = _meta(view)
    if verdict is not Responsibility.HANDLE:
        return verdict
    return Responsibility.NOT_FOUND if stream is StreamRole.MISSING else Responsibility.UNAVAILABLE


def _meta(view: ClusterView) -> Responsibility:
    if view.is_meta_leader:
        return Responsibility.HANDLE
    return Responsibility.UNAVAILABLE if view.is_leaderless else Responsibility.SILENT
