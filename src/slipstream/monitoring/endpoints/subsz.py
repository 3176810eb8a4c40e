"""/subsz: the subscription tables of all accounts, or of one, and which subscriptions a subject would reach."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from slipstream.accounts.account import Account
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Subscription
from slipstream.monitoring.client_facts import text
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import number
from slipstream.monitoring.limits import MONITOR_PAGE, MONITOR_STEP_ENTRIES
from slipstream.monitoring.query import BadRequest, UrlQuery
from slipstream.monitoring.worker import Steps

__all__ = [
    "SubscriptionDetail",
    "Subsz",
    "SubszOptions",
    "TableStats",
    "detail_of",
    "stats_of",
    "subsz",
    "subsz_options",
]


_SERVER_CID = 0  # no client has it


class SubszOptions(msgspec.Struct, kw_only=True):
    """What to show; the names are those of a `$SYS` request."""

    offset: int = 0
    limit: int = 0
    subscriptions: bool = False
    account: str = ""
    test: str = ""


class SubscriptionDetail(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One subscription."""

    account: str = ""
    account_tag: str = ""
    subject: str
    qgroup: str = ""
    sid: str
    msgs: int
    max: int = 0
    cid: int


class TableStats(msgspec.Struct, kw_only=True):
    """Numbers of one or more subscription tables."""

    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: float
    max_fanout: int
    avg_fanout: float


class Subsz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Numbers, and a page of subscriptions when asked for."""

    server_id: str
    now: str
    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: float
    max_fanout: int
    avg_fanout: float
    total: int
    offset: int
    limit: int
    subscriptions_list: list[SubscriptionDetail] = []


def subsz_options(query: UrlQuery) -> SubszOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return SubszOptions(
        subscriptions=query.flag("subs"),
        offset=query.integer("offset"),
        limit=query.integer("limit"),
        account=query.text("acc"),
        test=query.text("test"),
    )


def subsz(facts: Facts, options: SubszOptions) -> Steps[Subsz]:
    """The tables as they are now, gathered in steps.

    Raises:
        BadRequest: the subject to test is not one.
    """
    test = options.test.encode("utf-8", "surrogateescape")
    if test and not is_valid_publish(test):
        raise BadRequest(f"invalid test subject, must be valid publish subject: {options.test}")
    accounts = [account for account in facts.accounts.values() if options.account in ("", account.name)]
    offset, limit = max(options.offset, 0), options.limit if options.limit > 0 else MONITOR_PAGE
    stats = stats_of(account.interest for account in accounts)
    found: list[tuple[str, Subscription]] = []
    for account in accounts if options.subscriptions else ():
        if len(found) > MONITOR_STEP_ENTRIES:
            yield 0
        found += _found(account, test)
    shown: list[SubscriptionDetail] = []
    page = found[offset : offset + limit]
    for at in range(0, len(page), MONITOR_STEP_ENTRIES):
        if at:
            yield 0
        shown += [detail_of(subscription, name) for name, subscription in page[at : at + MONITOR_STEP_ENTRIES]]
    return Subsz(
        server_id=facts.server_id,
        now=facts.now(),
        **msgspec.structs.asdict(stats),
        total=len(found),
        offset=offset,
        limit=limit,
        subscriptions_list=shown,
    )


def _found(account: Account, test: bytes) -> list[tuple[str, Subscription]]:
    """Subscriptions with the name of their account: those of clients and the server's own."""
    candidates = account.interest.match(test) if test else account.interest.subscriptions()
    return [(account.name, subscription) for subscription in candidates]


def detail_of(subscription: Subscription, account: str) -> SubscriptionDetail:
    """One subscription; without an account name it is shown as a part of its client."""
    return SubscriptionDetail(
        account=account,
        account_tag=account,
        subject=text(subscription.subject),
        qgroup="" if subscription.queue is None else text(subscription.queue),
        sid=text(subscription.sid),
        msgs=subscription.delivered,
        max=subscription.max_msgs,
        cid=_SERVER_CID if subscription.client is None else subscription.client.cid,
    )


def stats_of(tables: Iterable[Interest]) -> TableStats:
    """The numbers of several tables together. The fan-out is that of the remembered routes."""
    subscriptions = routes = inserts = removes = matches = misses = widest = receivers = 0
    for table in tables:
        subscriptions += table.count
        routes += table.cached_routes
        inserts += table.inserts
        removes += table.removes
        matches += table.matches
        misses += table.misses
        for route in table.routes():
            fanout = len(route.subscriptions) + len(route.queues)
            receivers += fanout
            widest = max(widest, fanout)
    return TableStats(
        num_subscriptions=subscriptions,
        num_cache=routes,
        num_inserts=inserts,
        num_removes=removes,
        num_matches=matches,
        cache_hit_rate=number((matches - misses) / matches) if matches else 0,
        max_fanout=widest,
        avg_fanout=number(receivers / routes) if routes else 0,
    )
