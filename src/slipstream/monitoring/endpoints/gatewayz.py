"""/gatewayz: connections with other clusters, and what is wanted there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.clock import rfc3339
from slipstream.monitoring.client_facts import text
from slipstream.monitoring.endpoints.connz import ConnectionInfo
from slipstream.monitoring.endpoints.routez import routez_options
from slipstream.monitoring.endpoints.subsz import SubscriptionDetail, detail_of
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import round_trip_text, uptime
from slipstream.monitoring.limits import MONITOR_STEP_ENTRIES
from slipstream.monitoring.query import UrlQuery
from slipstream.monitoring.worker import Steps

if TYPE_CHECKING:
    from slipstream.links.gateways.inbound import InboundGateway
    from slipstream.links.gateways.outbound import OutboundGateway
    from slipstream.links.gateways.wants import AccountWants

__all__ = ["Gatewayz", "GatewayzOptions", "gatewayz", "gatewayz_options"]

_INTEREST_ONLY: Final = "Interest-Only"  # what this server tells, it tells right away
_THRESHOLD: Final = 1_000  # subjects that are not wanted before nats-server tells of all interest instead


class GatewayzOptions(msgspec.Struct, kw_only=True):
    """Which gateways and accounts to show."""

    name: str = ""
    accounts: bool = False
    account_name: str = ""
    subscriptions: bool = False
    subscriptions_detail: bool = False


class AccountGateway(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What is known of one account over one connection."""

    name: str
    interest_mode: str
    no_interest_count: int = 0
    interest_only_threshold: int = 0
    num_subs: int = 0
    num_queue_subs: int = 0
    subscriptions_list: list[str] = []
    subscriptions_list_detail: list[SubscriptionDetail] = []


class RemoteGateway(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One connection with another cluster."""

    # No default: it is shown whatever it is.
    configured: bool
    connection: ConnectionInfo
    accounts: list[AccountGateway] = []


class Gatewayz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The other clusters."""

    server_id: str
    now: str
    name: str = ""
    host: str = ""
    port: int = 0
    outbound_gateways: dict[str, RemoteGateway] | None
    inbound_gateways: dict[str, list[RemoteGateway]]


def gatewayz_options(query: UrlQuery) -> GatewayzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    subscriptions = routez_options(query)
    return GatewayzOptions(
        name=query.text("gw_name"),
        accounts=query.flag("accs") or bool(query.text("acc_name")),
        account_name=query.text("acc_name"),
        subscriptions=subscriptions.subscriptions,
        subscriptions_detail=subscriptions.subscriptions_detail,
    )


def gatewayz(facts: Facts, options: GatewayzOptions) -> Steps[Gatewayz]:
    """The gateways as they are now, built in steps."""
    supercluster, now_ns = facts.server.supercluster, facts.now_ns()
    outbound: dict[str, RemoteGateway] = {}
    inbound: dict[str, list[RemoteGateway]] = {}
    found = Gatewayz(
        server_id=facts.server_id, now=rfc3339(now_ns), outbound_gateways=outbound, inbound_gateways=inbound
    )
    if supercluster is None:
        return found
    found.name, found.host, found.port = (
        supercluster.name,
        supercluster.introduction.host,
        supercluster.introduction.port,
    )
    with_accounts = options.accounts or bool(options.account_name)
    for name, link in list(supercluster.outbound.items()):
        if options.name in ("", name):
            wanted = 0 if link.wants is None else sum(wants.count for wants in link.wants.accounts.values())
            connection = _connection(link, now_ns, wanted)
            entry = RemoteGateway(configured=link.remote.is_configured, connection=connection)
            outbound[name] = entry
            if with_accounts:
                yield from _list_wants(entry, link, options)
    if options.name and not outbound:
        found.outbound_gateways = None
    for dialled in list(supercluster.inbound.values()):
        if options.name in ("", dialled.cluster):
            entry = RemoteGateway(configured=False, connection=_connection(dialled, now_ns))
            inbound.setdefault(dialled.cluster, []).append(entry)
            entry.accounts = [
                AccountGateway(
                    name=account,
                    interest_mode=_INTEREST_ONLY,
                    interest_only_threshold=_THRESHOLD,
                )
                for account in sorted(dialled.told)
                if with_accounts and options.account_name in ("", account)
            ]
        yield 0
    return found


def _connection(link: InboundGateway | OutboundGateway, now_ns: int, subscriptions: int = 0) -> ConnectionInfo:
    end, tls = link.end, link.peer.tls
    return ConnectionInfo(
        cid=link.cid,
        kind="Gateway",
        ip=link.peer.ip,
        port=link.peer.port,
        start=rfc3339(end.start_ns),
        last_activity=rfc3339(end.last_activity_ns),
        rtt=round_trip_text(end.keepalive.rtt_ns),
        uptime=uptime(now_ns - end.start_ns),
        idle=uptime(now_ns - end.last_activity_ns),
        pending_bytes=link.outbox.pending,
        in_msgs=link.parser.msgs,
        out_msgs=link.outbox.msgs,
        in_bytes=link.parser.msg_bytes,
        out_bytes=link.outbox.msg_bytes,
        subscriptions=subscriptions,
        name=link.remote_id,
        tls_version="" if tls is None else tls.version,
        tls_cipher_suite="" if tls is None else tls.cipher_suite,
    )


def _list_wants(entry: RemoteGateway, link: OutboundGateway, options: GatewayzOptions) -> Steps[None]:
    """What the other cluster wants, by account."""
    accounts = {} if link.wants is None else dict(link.wants.accounts)
    for name, wants in accounts.items():
        account = text(name)
        if not wants.spoken_of or options.account_name not in ("", account):
            continue
        entry.accounts.append(shown := _account(account, wants))
        wanted = wants.subscriptions() if options.subscriptions or options.subscriptions_detail else []
        for at in range(0, len(wanted), MONITOR_STEP_ENTRIES):
            part = wanted[at : at + MONITOR_STEP_ENTRIES]
            if options.subscriptions:
                shown.subscriptions_list += [text(subscription.subject) for subscription in part]
            else:
                shown.subscriptions_list_detail += [detail_of(subscription, "") for subscription in part]
            yield 0
        yield 0


def _account(name: str, wants: AccountWants) -> AccountGateway:
    return AccountGateway(
        name=name,
        interest_mode=wants.mode.value,
        no_interest_count=len(wants.guess.refused),
        interest_only_threshold=_THRESHOLD,
        num_subs=wants.count,
        num_queue_subs=wants.queues,
    )
