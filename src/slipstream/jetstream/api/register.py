"""Puts all handlers this package has into an account's dispatcher."""

from __future__ import annotations

from slipstream.jetstream.account import JetStreamAccount
from slipstream.jetstream.api.account import AccountApi
from slipstream.jetstream.api.consumers import ConsumerApi
from slipstream.jetstream.api.direct import DirectApi
from slipstream.jetstream.api.messages import MessageApi
from slipstream.jetstream.api.snapshots import SnapshotApi
from slipstream.jetstream.api.streams import StreamApi
from slipstream.jetstream.api.unavailable import UnavailableApi
from slipstream.jetstream.bulk.api import BulkApi
from slipstream.jetstream.bulk.pace import Pace
from slipstream.jetstream.bulk.write_api import BulkWriteApi
from slipstream.jetstream.copies import Copies

__all__ = ["register_all"]


def register_all(account: JetStreamAccount) -> None:
    """Make an account answer its API. Call once, before `JetStreamAccount.recover`."""
    AccountApi(account)
    StreamApi(account)
    ConsumerApi(account)
    Copies(account)
    SnapshotApi(account)
    MessageApi(account)
    UnavailableApi(account)
    DirectApi(account)
    pace = Pace(account.ports)
    BulkApi(account, pace)
    BulkWriteApi(account, pace)
