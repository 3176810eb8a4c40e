"""/accountz: the accounts, or one of them in detail: its mappings, exports, imports and numbers.

The details are those of the configuration, plus the imports from the system account that every account has. Subjects
and names only; users and passwords are no part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slipstream.accounts.account import Account
from slipstream.auth.nkeys import payload_of
from slipstream.clock import rfc3339
from slipstream.config.account_options import (
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    MappingDestination,
    MappingOptions,
)
from slipstream.monitoring.endpoints.subsz import TableStats, stats_of
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import BadRequest, UrlQuery

__all__ = ["AccountDetail", "Accountz", "AccountzOptions", "account_detail", "accountz", "accountz_options"]

_RESPONSE_TYPES = {"single": "Singleton", "stream": "Streamed", "chunked": "Chunked"}


class AccountzOptions(msgspec.Struct, kw_only=True):
    """Which account; empty for the list."""

    account: str = ""


class MappingInfo(msgspec.Struct, omit_defaults=True):
    """A destination of a subject mapping. Weights add up from the lightest destination on."""

    subject: str
    weight: int
    cluster: str = ""


class LatencyInfo(msgspec.Struct):
    """Where samples of a service's latency go, and how many: percent, or `headers`."""

    sampling: int | str
    results: str


class ExportInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An export."""

    subject: str
    type: str
    response_type: str = ""
    service_latency: LatencyInfo | None = None
    approved_accounts: Sequence[str] = ()


class ImportInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An import. `to` is the older name of `local_subject`."""

    subject: str
    account: str
    to: str = ""
    local_subject: str
    type: str
    invalid: bool
    share: bool
    tracking: bool


class AccountDetail(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One account."""

    account_name: str
    update_time: str
    is_system: bool = False
    expired: bool
    complete: bool
    jetstream_enabled: bool
    leafnode_connections: int
    client_connections: int
    subscriptions: int
    mappings: dict[str, list[MappingInfo]] = {}
    exports: list[ExportInfo] = []
    imports: list[ImportInfo] = []
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: Sequence[str] = ()
    decoded_jwt: msgspec.Raw | None = None
    sublist_stats: TableStats | None = None


class Accountz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The list, or one account."""

    server_id: str
    now: str
    system_account: str = ""
    accounts: list[str] = []
    account_detail: AccountDetail | None = None


def accountz_options(query: UrlQuery) -> AccountzOptions:
    """The parameters of an HTTP request."""
    return AccountzOptions(account=query.text("acc"))


def accountz(facts: Facts, options: AccountzOptions) -> Accountz:
    """The accounts as they are now.

    Raises:
        BadRequest: there is no such account.
    """
    result = Accountz(server_id=facts.server_id, now=facts.now(), system_account=facts.system_account)
    if options.account:
        result.account_detail = account_detail(facts, options.account)
    else:
        result.accounts = list(facts.accounts)
    return result


def account_detail(facts: Facts, name: str) -> AccountDetail:
    """One account.

    Raises:
        BadRequest: there is no such account.
    """
    account = facts.accounts.get(name)
    if account is None:
        raise BadRequest(f"Account {name} does not exist")
    options, claimed = facts.hub.topology.graph.accounts[name].options, facts.claimed(name)
    return AccountDetail(
        account_name=name,
        update_time=rfc3339(facts.config_loaded_ns if claimed is None else claimed.updated_ns),
        is_system=account.is_system,
        expired=claimed is not None and claimed.is_expired,
        complete=claimed is None or not claimed.incomplete,
        jetstream_enabled=_has_jetstream(facts, name),
        leafnode_connections=len(facts.leafs(name)),
        client_connections=len(account.connections),
        subscriptions=account.interest.count,
        mappings={mapping.source: _destinations(mapping) for mapping in options.mappings},
        exports=[_export(export) for export in options.exports] + _system_exports(facts, account),
        imports=_imports(options.imports) + _system_imports(facts, account),
        jwt="" if claimed is None else claimed.text,
        issuer_key="" if claimed is None else claimed.claims.iss,
        name_tag=facts.name_tag_of(name),
        tags=() if claimed is None else claimed.claims.nats.tags or (),
        decoded_jwt=None if claimed is None or not claimed.text else msgspec.Raw(payload_of(claimed.text)),
        sublist_stats=stats_of([account.interest]),
    )


def _has_jetstream(facts: Facts, name: str) -> bool:
    jetstream = facts.jetstream
    return jetstream is not None and jetstream.enabled and any(user.name == name for user in jetstream.accounts())


def _destinations(mapping: MappingOptions) -> list[MappingInfo]:
    """Destinations for every cluster, then those of single clusters; what is left of 100 stays where it was."""
    clusters = sorted({destination.cluster for destination in mapping.destinations} | {""})
    return [shown for cluster in clusters for shown in _cumulated(mapping, cluster)]


def _cumulated(mapping: MappingOptions, cluster: str) -> list[MappingInfo]:
    chosen = [destination for destination in mapping.destinations if destination.cluster == cluster]
    rest = 100 - sum(destination.weight for destination in chosen)
    if rest and all(destination.destination != mapping.source for destination in mapping.destinations):
        chosen.append(MappingDestination(_numbered(mapping.source), rest, cluster))
    total, shown = 0, []
    for destination in sorted(chosen, key=lambda destination: destination.weight):
        total += destination.weight
        shown.append(MappingInfo(destination.destination, total, cluster))
    return shown


def _numbered(source: str) -> str:
    """A subject with `$1`, `$2`, ... for its wildcards: the mapping of a subject to itself."""
    tokens, count = source.split("."), 0
    for at, token in enumerate(tokens):
        if token == "*":
            count += 1
            tokens[at] = f"${count}"
    return ".".join(tokens)


def _export(export: ExportOptions) -> ExportInfo:
    return ExportInfo(
        subject=export.subject,
        type=export.kind,
        response_type=_RESPONSE_TYPES[export.response_type] if export.kind == "service" else "",
        service_latency=_latency(export.latency),
        approved_accounts=export.accounts,
    )


def _latency(latency: LatencyOptions | None) -> LatencyInfo | None:
    return None if latency is None else LatencyInfo(latency.sampling or "headers", latency.subject)


def _imports(imports: Sequence[ImportOptions]) -> list[ImportInfo]:
    """Streams first."""
    return [_import(entry) for entry in sorted(imports, key=lambda entry: entry.kind != "stream")]


def _import(entry: ImportOptions) -> ImportInfo:
    local = entry.to or (f"{entry.prefix}.{entry.subject}" if entry.prefix else entry.subject)
    return ImportInfo(
        subject=entry.subject,
        account=entry.account,
        to=local if entry.kind == "service" else "",
        local_subject=local,
        type=entry.kind,
        invalid=False,
        share=entry.share,
        tracking=False,
    )


def _system_exports(facts: Facts, account: Account) -> list[ExportInfo]:
    """What the system account offers to all the others."""
    if not account.is_system:
        return []
    services = [
        ("$SYS.REQ.ACCOUNT.*.CONNZ", "Streamed"),
        ("$SYS.REQ.ACCOUNT.*.STATZ", "Streamed"),
        ("$SYS.REQ.USER.*.INFO", "Singleton"),
        ("$SYS.DEBUG.SUBSCRIBERS", "Singleton"),
    ]
    if facts.jetstream is not None and facts.jetstream.enabled:
        services.append(("$JS.API.>", "Singleton"))
    return [ExportInfo(subject=subject, type="service", response_type=kind) for subject, kind in services]


def _system_imports(facts: Facts, account: Account) -> list[ImportInfo]:
    """The services of the system account that an account may use for itself."""
    if not facts.system_account:
        return []
    name = account.name
    services = [("$SYS.REQ.USER.INFO", f"$SYS.REQ.USER.{name}.INFO", True)]
    if not account.is_system:
        services += [
            ("$SYS.REQ.ACCOUNT.PING.CONNZ", f"$SYS.REQ.ACCOUNT.{name}.CONNZ", False),
            ("$SYS.REQ.SERVER.PING.CONNZ", f"$SYS.REQ.ACCOUNT.{name}.CONNZ", False),
            ("$SYS.REQ.ACCOUNT.PING.STATZ", f"$SYS.REQ.ACCOUNT.{name}.STATZ", False),
        ]
        if facts.jetstream is not None and facts.jetstream.enabled:
            # Also where the account has none: it is told so by the API.
            services.append(("$JS.API.>", "$JS.API.>", True))
    return [
        ImportInfo(
            subject=subject,
            account=facts.system_account,
            to=local,
            local_subject=local,
            type="service",
            invalid=False,
            share=share,
            tracking=False,
        )
        for local, subject, share in services
    ]
