"""The whole API of one account: its dispatcher with all handlers in it."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.account import AccountApi
from slipstream.jetstream.api.bulk_reads import BulkApi
from slipstream.jetstream.api.bulk_writes import BulkWriteApi
from slipstream.jetstream.api.consumers import ConsumerApi
from slipstream.jetstream.api.direct import DirectApi
from slipstream.jetstream.api.dispatch import ApiDispatcher, Gate
from slipstream.jetstream.api.load import ApiLoad
from slipstream.jetstream.api.messages import MessageApi
from slipstream.jetstream.api.snapshots import SnapshotApi
from slipstream.jetstream.api.streams import StreamApi
from slipstream.jetstream.api.trail import AuditTrail
from slipstream.jetstream.api.truncate import TruncateApi
from slipstream.jetstream.api.unavailable import UnavailableApi
from slipstream.jetstream.api.verify import Signer, VerifyApi
from slipstream.jetstream.api.why import WhyApi
from slipstream.jetstream.bulk.pace import Pace
from slipstream.jetstream.copies import Copies
from slipstream.jetstream.preview import Preview
from slipstream.jetstream.templates import Templates

__all__ = ["open_api"]


def open_api(
    account: JetStreamAccount,
    on_dropped: Callable[[bool], None] | None = None,
    *,
    signer: Signer | None = None,
    trail: AuditTrail | None = None,
    gate: Gate | None = None,
) -> ApiDispatcher:
    """Make an account answer its API. Call once, before `JetStreamAccount.recover`.

    Args:
        account: whose API it is; what streams need beside themselves (consumers, copies) comes with it.
        on_dropped: told of calls that were dropped because too many wait; see `ApiLoad`.
        signer: the server's key, for checkpoints.
        trail: where actions are written down; None: nowhere.
        gate: which calls are this server's, in a cluster; what is about more than one stream has other handlers then.
    """
    facts = account.facts
    load = ApiLoad(request_limit=facts.request_queue_limit, info_limit=facts.info_queue_limit, on_dropped=on_dropped)
    api = ApiDispatcher(
        account.ports, account.advisories, load, account=account.name, strict=facts.strict, trail=trail, gate=gate
    )
    alone = gate is None
    if alone:
        AccountApi(account, api)
        UnavailableApi(api)
    StreamApi(account, api, alone=alone)
    ConsumerApi(account, api)
    WhyApi(account, api)
    Copies(account)
    Preview(account)
    Templates(account)
    SnapshotApi(account, api, alone=alone)
    MessageApi(account, api)
    TruncateApi(account, api)
    VerifyApi(account, api, signer)
    DirectApi(account)
    pace = Pace(account.ports)
    BulkApi(account, api, pace)
    BulkWriteApi(account, api, pace)
    account.on_shutdown.append(api.stop)
    return api
