"""INFO: what the account uses and may use."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.received import all_received
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.versioning import API_LEVEL
from slipstream.jetstream.ports import ONE_REPLICA, AccountLimits

__all__ = ["AccountApi", "limit_fields"]


class AccountApi:
    """Handlers about the account."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register the handlers."""
        self._account = account
        self._counters = api.counters
        api.register("INFO", "account_info_response", self.info)

    def info(self, request: ApiRequest) -> None:
        """Usage, limits and the API level; clients use it to find out whether JetStream is there."""
        all_received(self._account.streams.values(), lambda: request.respond(self._fields()))

    def _fields(self) -> Mapping[str, object]:
        account = self._account
        limits, counters = account.limits, self._counters
        fields = self._usage()
        # With tiers the limits are theirs.
        fields["limits"] = limit_fields(AccountLimits(0, 0, 0, 0, 0, 0, 0) if limits.tiers else limits)
        if account.facts.domain:
            fields["domain"] = account.facts.domain
        fields["api"] = {"level": API_LEVEL, "total": counters.total, "errors": counters.errors}
        if limits.tiers:
            unused = dict.fromkeys(self._usage(), 0)
            fields["tiers"] = {
                name: {**(self._usage() if name == ONE_REPLICA else unused), "limits": limit_fields(tier)}
                for name, tier in limits.tiers.items()
            }
        return fields

    def _usage(self) -> dict[str, object]:
        account = self._account
        return {
            "memory": account.budgets[StorageType.MEMORY].used_bytes,
            "storage": account.budgets[StorageType.FILE].used_bytes,
            "reserved_memory": account.holdings.reserved_bytes(StorageType.MEMORY),
            "reserved_storage": account.holdings.reserved_bytes(StorageType.FILE),
            "streams": len(account.streams),
            "consumers": sum(stream.interest.reader_count for stream in account.streams.values()),
        }


def limit_fields(limits: AccountLimits) -> dict[str, object]:
    """Limits as answers show them."""
    return {
        "max_memory": limits.max_memory,
        "max_storage": limits.max_storage,
        "max_streams": limits.max_streams,
        "max_consumers": limits.max_consumers,
        "max_ack_pending": limits.max_ack_pending,
        "memory_max_stream_bytes": limits.memory_max_stream_bytes,
        "storage_max_stream_bytes": limits.storage_max_stream_bytes,
        "max_bytes_required": limits.max_bytes_required,
    }
