"""/accstatz: connections and traffic of each account."""

from __future__ import annotations

import msgspec

from slipstream.accounts.account import Account
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import UrlQuery

__all__ = [
    "AccountStat",
    "AccountStatz",
    "AccountStatzOptions",
    "MsgBytes",
    "account_stat",
    "accstatz",
    "accstatz_options",
]


class AccountStatzOptions(msgspec.Struct, kw_only=True):
    """Which accounts: all or the named ones, with or without idle ones."""

    accounts: list[str] = []
    include_unused: bool = False


class MsgBytes(msgspec.Struct):
    """Messages and bytes."""

    msgs: int = 0
    bytes: int = 0


class AccountTraffic(msgspec.Struct):
    """Traffic of an account: all of it, and the parts that came or went by other servers."""

    msgs: int
    bytes: int
    gateways: MsgBytes
    routes: MsgBytes
    leafs: MsgBytes


class AccountStat(msgspec.Struct, kw_only=True):
    """One account. Sent and received are seen from the server."""

    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: AccountTraffic
    received: AccountTraffic
    slow_consumers: int


class AccountStatz(msgspec.Struct, kw_only=True):
    """Several accounts."""

    server_id: str
    now: str
    account_statz: list[AccountStat]


def accstatz_options(query: UrlQuery) -> AccountStatzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return AccountStatzOptions(include_unused=query.flag("unused"))


def accstatz(facts: Facts, options: AccountStatzOptions) -> AccountStatz:
    """The accounts asked for; names that do not exist are passed over."""
    names = options.accounts or list(facts.accounts)
    accounts = [facts.accounts[name] for name in names if name in facts.accounts]
    return AccountStatz(
        server_id=facts.server_id,
        now=facts.now(),
        account_statz=[
            account_stat(facts, account)
            for account in accounts
            if options.include_unused or account.connections or facts.leafs(account.name)
        ],
    )


def account_stat(facts: Facts, account: Account) -> AccountStat:
    """One account."""
    traffic, leafs = facts.account_traffic(account), facts.leaf_traffic(account.name)
    connections, leafnodes = len(account.connections), len(facts.leafs(account.name))
    return AccountStat(
        acc=account.name,
        name=account.name,
        conns=connections,
        leafnodes=leafnodes,
        total_conns=connections + leafnodes,
        num_subscriptions=account.interest.count,
        sent=_all(MsgBytes(traffic.out_msgs, traffic.out_bytes), MsgBytes(leafs.out_msgs, leafs.out_bytes)),
        received=_all(MsgBytes(traffic.in_msgs, traffic.in_bytes), MsgBytes(leafs.in_msgs, leafs.in_bytes)),
        slow_consumers=account.slow_consumers,
    )


def _all(clients: MsgBytes, leafs: MsgBytes) -> AccountTraffic:
    return AccountTraffic(clients.msgs + leafs.msgs, clients.bytes + leafs.bytes, MsgBytes(), MsgBytes(), leafs)
