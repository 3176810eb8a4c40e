"""Memory and disk as budgets: what the server may use in all, what an account may, what streams reserved.

Used bytes are reported by streams after their commits; reserved bytes are the sum of `max_bytes`. A budget is exact at
commit granularity for the server and exact per publish for an account that has a limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import ApiError
from slipstream.jetstream.ports import AccountLimits

__all__ = ["AccountBudget", "ServerBudget", "check_limits"]


class ServerBudget:
    """One kind of storage, all accounts together."""

    def __init__(self, max_bytes: int) -> None:
        """Allow `max_bytes` in all."""
        self.max_bytes = max_bytes
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
    """One kind of storage of one account; what a stream's ingest asks, and so plain attributes."""

    __slots__ = ("_exact_used", "_server", "limit_bytes", "limited", "server_exceeded", "used_bytes")

    def __init__(self, server: ServerBudget, limit_bytes: int, exact_used: Callable[[], int]) -> None:
        """Share in `server`; `limit_bytes` below zero means no limit of its own."""
        self._server = server
        self._exact_used = exact_used
        self.limit_bytes = limit_bytes
        self.limited = limit_bytes >= 0  # the account has a limit of its own
        self.server_exceeded = server.used_bytes > server.max_bytes  # the server as a whole is full
        self.used_bytes = 0
        server.join(self)

    def set_limit(self, limit_bytes: int) -> None:
        """Have another limit from now on; below zero for none."""
        self.limit_bytes = limit_bytes
        self.limited = limit_bytes >= 0

    def would_exceed(self, extra_bytes: int) -> bool:
        """Whether the account's limit leaves no room for this much more, counting what is not committed yet."""
        return self.limited and self._exact_used() + extra_bytes > self.limit_bytes

    def report(self, delta_bytes: int) -> None:
        """A stream has grown or shrunk."""
        self.used_bytes += delta_bytes
        self._server.report(delta_bytes)


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
        ApiError: 10026, 10028 or 10047.
    """
    if 0 < limits.max_consumers < config.max_consumers:
        raise ApiError(table.MAXIMUM_CONSUMERS_LIMIT)
    # A stream without a bound still needs something.
    added = extra_bytes if extra_bytes >= 0 else 1
    memory = config.storage is StorageType.MEMORY
    limit_bytes = limits.max_memory if memory else limits.max_storage
    over_account = limit_bytes >= 0 and reserved_bytes + added > limit_bytes
    over_server = server.reserved_bytes - released_bytes + added > server.max_bytes
    if over_account or over_server:
        raise ApiError(table.MEMORY_RESOURCES_EXCEEDED if memory else table.STORAGE_RESOURCES_EXCEEDED)
