"""Memory and disk as budgets: what the server may use in all, what an account may, what streams reserved.

Used bytes are reported by streams after their commits; reserved bytes are the sum of `max_bytes`. A budget is exact at
commit granularity for the server and exact per publish for an account that has a limit of its own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import AccountLimits
from slipstream.units import MIB

if TYPE_CHECKING:
    from slipstream.jetstream.store.contract import StoreWrites

__all__ = ["AccountBudget", "ServerBudget", "StreamShare", "check_limits"]


# Of what a server may hold in memory for streams, beside their messages, what one account may have: the others always
# find some.
HELD_SHARE_OF_AN_ACCOUNT: Final = 0.5
# What an account may hold that may store less: message ids take more room than small messages.
HELD_BYTES_MIN: Final = 1 * MIB


class ServerBudget:
    """One kind of storage, all accounts together."""

    def __init__(self, max_bytes: int, held_bytes_max: int = sys.maxsize) -> None:
        """Allow `max_bytes` in all, and `held_bytes_max` of memory for what streams hold beside their messages."""
        self.max_bytes = max_bytes
        self.held_bytes_max = held_bytes_max
        self.held_bytes = 0  # open batches and message ids
        self.used_bytes = 0
        self.reserved_bytes = 0
        self._members: list[AccountBudget] = []

    def set_limit(self, max_bytes: int) -> None:
        """Allow another amount from now on."""
        self.max_bytes = max_bytes
        for member in self._members:
            member.server_exceeded = self.used_bytes > max_bytes

    def join(self, member: AccountBudget) -> None:
        """Tell `member` from now on when the budget is used up."""
        self._members.append(member)

    def report(self, delta_bytes: int) -> None:
        """Usage has changed; tell the members if that made a difference."""
        before = self.used_bytes > self.max_bytes
        self.used_bytes += delta_bytes
        after = self.used_bytes > self.max_bytes
        if before != after:
            for member in self._members:
                member.server_exceeded = after


class AccountBudget:
    """One kind of storage of one account."""

    __slots__ = (
        "_server",
        "held_bytes",
        "known_bytes",
        "limit_bytes",
        "limited",
        "promised",
        "server_exceeded",
        "staged_bytes",
        "used_bytes",
    )

    def __init__(self, server: ServerBudget, limit_bytes: int) -> None:
        """Share in `server`; `limit_bytes` below zero means no limit of its own."""
        self._server = server
        self.limit_bytes = limit_bytes
        self.limited = limit_bytes >= 0  # the account has a limit of its own
        self.server_exceeded = server.used_bytes > server.max_bytes  # the server as a whole is full
        self.used_bytes = 0  # committed
        self.held_bytes = 0  # open batches and message ids, in memory
        self.staged_bytes = 0  # parts that wait for a bulk commit
        self.known_bytes = 0  # with what streams took in since, and what they were just allowed to
        self.promised: set[StreamShare] = set()  # streams of which `known_bytes` has something that may not have come
        server.join(self)

    def set_limit(self, limit_bytes: int) -> None:
        """Have another limit from now on; below zero for none."""
        self.limit_bytes = limit_bytes
        self.limited = limit_bytes >= 0

    def would_exceed(self, extra_bytes: int) -> bool:
        """Whether the account's limit leaves no room for this much more, counting what is not committed yet."""
        extra_bytes += self.staged_bytes
        if not self.limited or self.known_bytes + extra_bytes <= self.limit_bytes:
            return False
        while self.promised:
            self.promised.pop().look()
        return self.known_bytes + extra_bytes > self.limit_bytes

    def can_hold(self, extra_bytes: int) -> bool:
        """Whether this much more may be held in memory: as much as the account may store, within the server's share.

        It is not added to what is stored, so that an account takes as many messages as with nats-server.
        """
        server = self._server
        return (
            server.held_bytes + extra_bytes <= server.held_bytes_max
            and self.held_bytes + extra_bytes <= server.held_bytes_max * HELD_SHARE_OF_AN_ACCOUNT
            and (not self.limited or self.held_bytes + extra_bytes <= max(self.limit_bytes, HELD_BYTES_MIN))
        )

    def hold(self, delta_bytes: int) -> None:
        """So much more is held in memory."""
        self.held_bytes += delta_bytes
        self._server.held_bytes += delta_bytes

    def report(self, delta_bytes: int) -> None:
        """A stream has grown or shrunk."""
        self.used_bytes += delta_bytes
        self._server.report(delta_bytes)


class StreamShare:
    """What one stream has of its account's budget. Implements `stream.ingest_ports.Resources`.

    What all streams have taken in is known without asking each: a stream that is allowed a message is taken to have it,
    until it is looked at again.
    """

    __slots__ = ("_budget", "_gone", "_held_bytes", "_known_bytes", "_reported_bytes", "_staged_bytes", "_store")

    def __init__(self, budget: AccountBudget, store: StoreWrites) -> None:
        """Nothing is counted before it is reported or asked for."""
        self._budget = budget
        self._store = store
        self._known_bytes = 0
        self._reported_bytes = 0
        self._held_bytes = 0
        self._staged_bytes = 0
        self._gone = False

    @property
    def limited(self) -> bool:
        """See `Resources.limited`."""
        return self._budget.limited

    @property
    def server_exceeded(self) -> bool:
        """See `Resources.server_exceeded`."""
        return self._budget.server_exceeded

    def would_exceed(self, extra_bytes: int) -> bool:
        """See `Resources.would_exceed`."""
        budget = self._budget
        self.look()
        if budget.would_exceed(extra_bytes):
            return True
        self._count(self._known_bytes + extra_bytes)
        budget.promised.add(self)
        return False

    def report(self, delta_bytes: int) -> None:
        """See `Resources.report`."""
        self._reported_bytes += delta_bytes
        self._budget.report(delta_bytes)
        self._budget.promised.discard(self)
        self._count(self._reported_bytes)

    def can_hold(self, extra_bytes: int) -> bool:
        """See `Resources.can_hold`."""
        self.look()
        return self._budget.can_hold(extra_bytes)

    def hold(self, delta_bytes: int) -> None:
        """See `Resources.hold`."""
        if self._gone:
            return
        self._held_bytes += delta_bytes
        self._budget.hold(delta_bytes)

    def can_stage(self, extra_bytes: int) -> bool:
        """See `Resources.can_stage`."""
        self.look()
        return not (self._budget.server_exceeded or self._budget.would_exceed(extra_bytes))

    def stage(self, delta_bytes: int) -> None:
        """See `Resources.stage`."""
        if self._gone:
            return
        self._staged_bytes += delta_bytes
        self._budget.staged_bytes += delta_bytes

    def release(self) -> None:
        """See `Resources.release`."""
        self.hold(-self._held_bytes)
        self.stage(-self._staged_bytes)
        self._gone = True

    def look(self) -> None:
        """Count what the stream has now."""
        self._count(self._store.assigned.size_bytes)

    def _count(self, size_bytes: int) -> None:
        self._budget.known_bytes += size_bytes - self._known_bytes
        self._known_bytes = size_bytes


def check_limits(
    config: StreamConfig,
    limits: AccountLimits,
    server: ServerBudget,
    *,
    reserved_bytes: int,
    extra_bytes: int,
    released_bytes: int = 0,
) -> None:
    """Whether the account and the server can take a stream.

    Args:
        config: the stream, for its kind of storage and number of consumers.
        limits: of the account.
        server: the budget for this kind of storage.
        reserved_bytes: what the account's other streams have reserved in it.
        extra_bytes: what the stream adds: its `max_bytes`, or the growth of it in an update.
        released_bytes: what the server would get back first, when a stream asks to be made that exists.

    Raises:
        TableError: 10026, 10028 or 10047.
    """
    if 0 < limits.max_consumers < config.max_consumers:
        raise TableError(table.MAXIMUM_CONSUMERS_LIMIT)
    # A stream without a bound still needs something.
    added = extra_bytes if extra_bytes >= 0 else 1
    memory = config.storage is StorageType.MEMORY
    limit_bytes = limits.max_memory if memory else limits.max_storage
    over_account = limit_bytes >= 0 and reserved_bytes + added > limit_bytes
    over_server = server.reserved_bytes - released_bytes + added > server.max_bytes
    if over_account or over_server:
        raise TableError(table.MEMORY_RESOURCES_EXCEEDED if memory else table.STORAGE_RESOURCES_EXCEEDED)
