"""/routez: the routes to other servers of the cluster, one entry for each connection of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from slipstream.clock import rfc3339
from slipstream.config.account_options import SubjectPermissionOptions
from slipstream.monitoring.client_facts import text
from slipstream.monitoring.endpoints.subsz import SubscriptionDetail, detail_of
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import round_trip_text, uptime
from slipstream.monitoring.limits import MONITOR_STEP_ENTRIES
from slipstream.monitoring.query import UrlQuery
from slipstream.monitoring.worker import Steps

if TYPE_CHECKING:
    from slipstream.links.routes.link import RouteLink

__all__ = ["RouteEntry", "Routez", "RoutezOptions", "routez", "routez_options"]


class RoutezOptions(msgspec.Struct, kw_only=True):
    """How much to show of the subscriptions of other servers."""

    subscriptions: bool = False
    subscriptions_detail: bool = False


class SubjectRules(msgspec.Struct, omit_defaults=True):
    """Subjects that may or may not cross."""

    allow: list[str] = []
    deny: list[str] = []


class RouteEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One route. `in` is what this server received from the other one."""

    rid: int
    remote_id: str
    remote_name: str
    did_solicit: bool
    is_configured: bool
    ip: str
    port: int
    start: str
    last_activity: str
    rtt: str = ""
    uptime: str
    idle: str
    pending_size: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int
    subscriptions_list: list[str] = []
    subscriptions_list_detail: list[SubscriptionDetail] = []
    account: str = ""
    compression: str = ""


class Routez(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The servers of the cluster."""

    server_id: str
    server_name: str
    now: str
    import_: SubjectRules | None = msgspec.field(default=None, name="import")
    export: SubjectRules | None = None
    num_routes: int
    routes: list[RouteEntry]


def routez_options(query: UrlQuery) -> RoutezOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    detail = query.text("subs").lower() == "detail"
    return RoutezOptions(subscriptions=not detail and query.flag("subs"), subscriptions_detail=detail)


def routez(facts: Facts, options: RoutezOptions) -> Steps[Routez]:
    """The routes as they are now, built in steps."""
    permissions, now_ns = facts.options.cluster.permissions, facts.now_ns()
    entries: list[RouteEntry] = []
    for link in facts.routes():
        entry = _entry(link, now_ns)
        entries.append(entry)
        if options.subscriptions or options.subscriptions_detail:
            yield 0
            yield from _list_subscriptions(entry, link, detail=options.subscriptions_detail)
    return Routez(
        server_id=facts.server_id,
        server_name=facts.server_name,
        now=rfc3339(now_ns),
        import_=None if permissions is None else _rules(permissions.publish),
        export=None if permissions is None else _rules(permissions.subscribe),
        num_routes=len(entries),
        routes=entries,
    )


def _entry(link: RouteLink, now_ns: int) -> RouteEntry:
    return RouteEntry(
        rid=link.cid,
        remote_id=link.remote_id,
        remote_name=link.end.remote_name,
        did_solicit=link.solicited,
        is_configured=link.explicit,
        ip=link.peer.ip,
        port=link.peer.port,
        start=rfc3339(link.end.start_ns),
        last_activity=rfc3339(link.end.last_activity_ns),
        rtt=round_trip_text(link.end.keepalive.rtt_ns),
        uptime=uptime(now_ns - link.end.start_ns),
        idle=uptime(now_ns - link.end.last_activity_ns),
        pending_size=link.outbox.pending,
        in_msgs=link.parser.msgs,
        out_msgs=link.outbox.msgs,
        in_bytes=link.parser.msg_bytes,
        out_bytes=link.outbox.msg_bytes,
        subscriptions=link.subscription_count,
        account=link.account,
        compression=link.end.compression,
    )


def _list_subscriptions(entry: RouteEntry, link: RouteLink, *, detail: bool) -> Steps[None]:
    """What the other server wants, by account."""
    for name, member in list(link.members.items()):
        account, wanted = text(name), member.subscriptions()
        for at in range(0, len(wanted), MONITOR_STEP_ENTRIES):
            part = wanted[at : at + MONITOR_STEP_ENTRIES]
            if detail:
                entry.subscriptions_list_detail += [detail_of(subscription, account) for subscription in part]
            else:
                entry.subscriptions_list += [text(subscription.subject) for subscription in part]
            yield 0


def _rules(rules: SubjectPermissionOptions | None) -> SubjectRules | None:
    return None if rules is None else SubjectRules(list(rules.allow or ()), list(rules.deny))
