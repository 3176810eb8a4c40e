"""Operators, accounts, users and signing keys for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from slipstream.auth.jwt.claims import NO_LIMIT
from slipstream.cli.human import format_bytes
from slipstream.cli.render import Columns, print_json

if TYPE_CHECKING:
    from slipstream.auth.jwt.claims import AccountClaims, JetStreamClaim, Permission, RightsClaim
    from slipstream.cli.auth.tree import AccountEntry, OperatorEntry, UserEntry

__all__ = ["show_account", "show_operator", "show_rights", "show_user", "system_account"]


def system_account(operator: OperatorEntry) -> AccountEntry | None:
    """The system account of an operator, if it is here."""
    name = operator.claims.nats.system_account
    return operator.find_account(name) if name else None


def show_operator(operator: OperatorEntry, *, as_json: bool = False) -> None:
    """An operator; as JSON its claims, without any secret."""
    if as_json:
        print_json(operator.fields)
        return
    part, system = operator.claims.nats, system_account(operator)
    columns = Columns(f"Operator {operator.name} ({operator.subject})")
    columns.section("Configuration")
    columns.row("Name", operator.name)
    columns.row("Subject", operator.subject)
    _several(columns, "Tags", part.tags)
    _several(columns, "Service URL(s)", part.operator_service_urls)
    columns.row("Account Server", part.account_server_url, when=part.account_server_url)
    columns.row("Accounts", len(operator.accounts()))
    named = f"{system.name} ({system.subject})" if system is not None else part.system_account or "not set"
    columns.row("System Account", named)
    _several(columns, "Signing Keys", sorted(part.signing_keys or ()))
    columns.row("Signing Keys Required", True, when=part.strict_signing_key_usage)
    columns.print()


def show_account(
    claims: AccountClaims, operator: OperatorEntry | None = None, account: AccountEntry | None = None
) -> None:
    """An account; what is known only here is left out when it came from somewhere else."""
    part = claims.nats
    limits, tiers = part.limits, part.limits.jetstream()
    columns = Columns(f"Account {claims.name} ({claims.sub})")
    columns.section("Configuration")
    columns.row("Name", claims.name)
    columns.row("Issuer", claims.iss)
    if operator is not None:
        columns.row("Operator", operator.name)
        columns.row("System Account", operator.claims.nats.system_account == claims.sub)
    _several(columns, "Tags", part.tags)
    columns.row("JetStream", bool(tiers))
    columns.row("Expiry", _moment(claims.exp), when=claims.exp)
    if account is not None:
        columns.row("Users", len(account.users()))
    columns.row("Revocations", len(part.revocations or ()))
    for title, entries in (("Exports", part.exports), ("Imports", part.imports)):
        kinds = [entry.type for entry in entries or () if entry is not None]
        for kind in ("service", "stream"):
            columns.row(f"{kind.title()} {title}", kinds.count(kind))
    columns.section("Limits")
    columns.row("Bearer Tokens Allowed", not limits.disallow_bearer)
    _limit(columns, "Subscriptions", limits.subs)
    _limit(columns, "Connections", limits.conn)
    columns.row("Maximum Payload", "unlimited" if limits.payload <= 0 else format_bytes(limits.payload))
    _limit(columns, "Leafnodes", limits.leaf)
    _limit(columns, "Imports", limits.imports)
    _limit(columns, "Exports", limits.exports)
    for name, tier in tiers.items():
        _show_tier(columns, f"JetStream Limits of Tier {name}" if name else "JetStream Limits", tier)
    columns.print()


def _show_tier(columns: Columns, title: str, tier: JetStreamClaim) -> None:
    columns.section(title)
    columns.row("Max Ack Pending", tier.max_ack_pending if tier.max_ack_pending > 0 else "unlimited")
    _limit(columns, "Maximum Streams", tier.streams)
    _limit(columns, "Max Consumers Per Stream", tier.consumer)
    columns.row("Max Stream Size Required", tier.max_bytes_required)
    columns.row("Max File Storage", format_bytes(tier.disk_storage))
    columns.row(
        "Max File Storage Stream Size", format_bytes(tier.disk_max_stream_bytes), when=tier.disk_max_stream_bytes > 0
    )
    columns.row("Max Memory Storage", format_bytes(tier.mem_storage))
    columns.row(
        "Max Memory Storage Stream Size", format_bytes(tier.mem_max_stream_bytes), when=tier.mem_max_stream_bytes > 0
    )


def show_user(user: UserEntry, account: AccountEntry, *, as_json: bool = False) -> None:
    """A user, with the rights of its signing key if that has a scope; as JSON its claims."""
    if as_json:
        print_json(user.fields)
        return
    scope = account.claims.nats.signing_keys.get(user.issuer)
    columns = Columns(f"User {user.name} ({user.subject})")
    columns.section("Configuration")
    columns.row("Account", f"{account.name} ({account.subject})")
    columns.row("Issuer", user.issuer)
    columns.row("Scoped", scope is not None)
    columns.row("Role", scope.role if scope is not None else "", when=scope is not None)
    _several(columns, "Tags", user.claims.nats.tags)
    columns.row("Expiry", _moment(user.claims.exp), when=user.claims.exp)
    show_rights(columns, user.claims.nats if scope is None else scope.template)
    columns.print()


def show_rights(columns: Columns, rights: RightsClaim) -> None:
    """What a user may do."""
    columns.row("Locale", rights.times_location, when=rights.times_location)
    columns.row("Bearer Token", rights.bearer_token)
    columns.section("Limits")
    _limit(columns, "Max Payload", rights.payload)
    _limit(columns, "Max Data", rights.data)
    _limit(columns, "Max Subscriptions", rights.subs)
    columns.row(
        "Connection Types", ", ".join(rights.allowed_connection_types or ()), when=rights.allowed_connection_types
    )
    columns.row("Connection Sources", ", ".join(rights.src or ()), when=rights.src)
    _several(columns, "Connection Times", [f"{window.start} to {window.end}" for window in rights.times or ()])
    columns.section("Permissions")
    _permission(columns, "Publish", rights.pub)
    _permission(columns, "Subscribe", rights.sub)
    if rights.resp is not None:
        columns.row("Responses", rights.resp.max)


def _permission(columns: Columns, label: str, permission: Permission) -> None:
    if not permission.allow and not permission.deny:
        columns.row(label, "No permissions defined")
    _several(columns, f"{label} Allow", permission.allow)
    _several(columns, f"{label} Deny", permission.deny)


def _several(columns: Columns, label: str, values: Sequence[str] | None) -> None:
    for number, value in enumerate(values or ()):
        columns.row("" if number else label, value)


def _limit(columns: Columns, label: str, value: int) -> None:
    columns.row(label, "unlimited" if value == NO_LIMIT else value)


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
