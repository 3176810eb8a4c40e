"""/routez: the other servers of the cluster, of which there are none; the answer is that of a lone nats-server."""

from __future__ import annotations

import msgspec

from slipstream.config.account_options import SubjectPermissionOptions
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import Query

__all__ = ["Routez", "RoutezOptions", "routez", "routez_options"]


class RoutezOptions(msgspec.Struct, kw_only=True):
    """How much to show of the subscriptions of other servers."""

    subscriptions: bool = False
    subscriptions_detail: bool = False


class SubjectRules(msgspec.Struct, omit_defaults=True):
    """Subjects that may or may not cross."""

    allow: list[str] = []
    deny: list[str] = []


class Routez(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The servers of the cluster."""

    server_id: str
    server_name: str
    now: str
    import_: SubjectRules | None = msgspec.field(default=None, name="import")
    export: SubjectRules | None = None
    num_routes: int
    routes: list[object]


def routez_options(query: Query) -> RoutezOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    detail = query.text("subs").lower() == "detail"
    return RoutezOptions(subscriptions=not detail and query.flag("subs"), subscriptions_detail=detail)


def routez(facts: Facts, _options: RoutezOptions) -> Routez:
    """The routes as they are now."""
    permissions = facts.options.cluster.permissions
    return Routez(
        server_id=facts.server_id,
        server_name=facts.server_name,
        now=facts.now(),
        import_=None if permissions is None else _rules(permissions.publish),
        export=None if permissions is None else _rules(permissions.subscribe),
        num_routes=0,
        routes=[],
    )


def _rules(rules: SubjectPermissionOptions | None) -> SubjectRules | None:
    return None if rules is None else SubjectRules(list(rules.allow or ()), list(rules.deny))
