"""Whether the content of a token makes sense, and is good now: the findings of the official library, in its words.

Time comes in as a value (seconds since 1970), so that a verdict can be repeated. What `blocks` keeps a token from being
used at all; what is only about time does so in most places; the rest is advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from slipstream.auth.jwt.claims import (
    NO_LIMIT,
    AccountClaims,
    ActivationClaims,
    AuthorizationAnswer,
    Claims,
    DefaultPermissions,
    Limits,
    OperatorClaims,
    Permission,
    RightsClaim,
    UserClaims,
)
from slipstream.auth.jwt.findings import Finding, has_wildcards, info_findings, subject_findings
from slipstream.auth.jwt.sharing_checks import exports_findings, grant_findings, imports_findings
from slipstream.auth.jwt.windows import Zones, seconds_of_day
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.config.checker import quote as _quoted

__all__ = ["account_findings", "activation_findings", "answer_findings", "operator_findings", "user_findings"]


def user_findings(claims: UserClaims, now_s: int, zones: Zones) -> list[Finding]:
    """What is wrong with the token of a user."""
    found = [*_of_time(claims, now_s), *_permissions(claims.nats), *_limits_of_user(claims.nats, zones)]
    if claims.nats.issuer_account and not is_public_key(claims.nats.issuer_account, KeyKind.ACCOUNT):
        found.append(Finding("account_id is not an account public key"))
    return found


def operator_findings(claims: OperatorClaims, now_s: int) -> list[Finding]:
    """What is wrong with the token of an operator."""
    found = [*_of_time(claims, now_s)]
    found += [
        Finding(f"{key} is not an operator public key")
        for key in claims.nats.signing_keys or ()
        if not is_public_key(key, KeyKind.OPERATOR)
    ]
    if claims.nats.system_account and not is_public_key(claims.nats.system_account, KeyKind.ACCOUNT):
        found.append(Finding(f"{claims.nats.system_account} is not an account public key"))
    return found


def activation_findings(claims: ActivationClaims, now_s: int) -> list[Finding]:
    """What is wrong with an activation."""
    return [*_of_time(claims, now_s), *grant_findings(claims)]


def answer_findings(claims: AuthorizationAnswer, now_s: int) -> Iterator[Finding]:
    """What is wrong with the answer of an auth callout."""
    if not is_public_key(claims.sub, KeyKind.USER):
        yield Finding("Subject must be a user public key")
    if not is_public_key(claims.aud, KeyKind.SERVER):
        yield Finding("Audience must be a server public key")
    if not claims.nats.error and not claims.nats.jwt:
        yield Finding("Error or Jwt is required")
    if claims.nats.error and claims.nats.jwt:
        yield Finding("Only Error or Jwt can be set")
    if claims.nats.issuer_account and not is_public_key(claims.nats.issuer_account, KeyKind.ACCOUNT):
        yield Finding("issuer_account is not an account public key")
    yield from _of_time(claims, now_s)


def account_findings(claims: AccountClaims, now_s: int) -> list[Finding]:
    """What is wrong with the token of an account."""
    part = claims.nats
    found = [
        *_of_time(claims, now_s),
        *imports_findings(part.imports or [], claims.sub),
        *exports_findings(part.exports or []),
        *_limits(part.limits),
        *_permissions(part.default_permissions),
        *_mappings(claims),
        *_authorization(claims),
        *_trace(claims),
        *_counts(claims),
    ]
    for key, scope in part.signing_keys.items():
        if scope is not None and not is_public_key(scope.key, KeyKind.ACCOUNT):
            found.append(Finding(f"{scope.key} is not an account public key"))
        elif scope is None and not is_public_key(key, KeyKind.ACCOUNT):
            found.append(Finding(f"{_quoted(key)} is not a valid account signing key"))
    found += info_findings(part.description, part.info_url)
    if part.cluster_traffic not in ("", "system", "owner"):
        found.append(Finding(f"unknown cluster traffic option: {_quoted(part.cluster_traffic)}"))
    if is_public_key(claims.iss, KeyKind.ACCOUNT) and part.limits != Limits():
        found.append(Finding("self-signed account JWTs shouldn't contain operator limits", blocking=False))
    return found


def _of_time(claims: Claims, now_s: int) -> Iterator[Finding]:
    if 0 < claims.exp < now_s:
        yield Finding("claim is expired", blocking=False, of_time=True)
    if claims.nbf > now_s:
        yield Finding("claim is not yet valid", blocking=False, of_time=True)


# --- users -----------------------------------------------------------------------------------------------------------


def _permissions(rights: RightsClaim | DefaultPermissions) -> Iterator[Finding]:
    yield from _permission(rights.sub, queues=True)
    yield from _permission(rights.pub, queues=False)


def _permission(permission: Permission, *, queues: bool) -> Iterator[Finding]:
    for entry in (*(permission.allow or ()), *(permission.deny or ())):
        words = entry.split(" ")
        if len(words) > 2:
            yield Finding(f'Permission Subject "{entry}" contains too many spaces')
            continue
        for word in words:
            yield from subject_findings(word)
        if len(words) == 2 and not queues:
            yield Finding(f'Permission Subject "{entry}" is not allowed to contain queue')


def _limits_of_user(rights: RightsClaim, zones: Zones) -> Iterator[Finding]:
    for network in rights.src or ():
        if not _is_network(network):
            yield Finding(f"invalid cidr {_quoted(network)} in user src limits")
    for window in rights.times or ():
        for name, edge in (("start", window.start), ("end", window.end)):
            if not edge:
                yield Finding(f"time ranges {name} must contain a{'n' if name == 'end' else ''} {name}")
            elif seconds_of_day(edge) is None:
                yield Finding(f"{name} in time range is invalid {_quoted(edge)}")
    if rights.times_location and zones(rights.times_location) is None:
        yield Finding(
            f"could not parse iana time zone by name: unknown time zone {rights.times_location}",
        )


def _is_network(text: str) -> bool:
    if "/" not in text:
        return False
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return text.rpartition("/")[2].isdigit()


# --- accounts --------------------------------------------------------------------------------------------------------


def _limits(limits: Limits) -> Iterator[Finding]:
    if limits.tiered_limits and "" in limits.tiered_limits:
        yield Finding('Tiered JetStream Limits can not contain a blank "" tier name')


def _mappings(claims: AccountClaims) -> Iterator[Finding]:
    for source, destinations in (claims.nats.mappings or {}).items():
        yield from subject_findings(source)
        totals: dict[str, int] = {}
        for destination in destinations:
            yield from subject_findings(destination.subject)
            weight = destination.weight or 100
            if weight > 100:
                yield Finding(f"Mapping {_quoted(source)} has a weight {weight} that exceeds 100")
            cluster = destination.cluster
            totals[cluster] = totals.get(cluster, 0) + weight
            if cluster and totals[cluster] > 100:
                where = f"{_quoted(source)} in cluster {_quoted(cluster)}"
                yield Finding(f"Mapping {where} exceeds 100% among all of it's weighted to mappings")
        if totals.get("", 0) > 100:
            yield Finding(f"Mapping {_quoted(source)} exceeds 100% among all of it's weighted to mappings")


def _authorization(claims: AccountClaims) -> Iterator[Finding]:
    users, accounts = claims.nats.authorization.auth_users or [], claims.nats.authorization.allowed_accounts or []
    if accounts and not users:
        yield Finding("External authorization cannot have accounts without users specified")
    for user in users:
        if not is_public_key(user, KeyKind.USER):
            yield Finding(f"AuthUser {_quoted(user)} is not a valid user public key")
    for account in accounts:
        if account == "*":
            if len(accounts) > 1:
                yield Finding('AllowedAccounts can only be a list of accounts or "*"')
        elif not is_public_key(account, KeyKind.ACCOUNT):
            yield Finding(f"Account {_quoted(account)} is not a valid account public key")
    xkey = claims.nats.authorization.xkey
    if xkey and not is_public_key(xkey, KeyKind.CURVE):
        yield Finding(f"XKey {_quoted(xkey)} is not a valid public xkey")


def _trace(claims: AccountClaims) -> Iterator[Finding]:
    trace = claims.nats.trace
    if trace is None:
        return
    wrong = next(subject_findings(trace.dest), None)
    if wrong is not None:
        yield Finding(f"the account Trace.Destination {wrong.text}")
    if has_wildcards(trace.dest):
        yield Finding(f"the account Trace.Destination subject {_quoted(trace.dest)} is not a valid publish subject")
    if not 0 <= trace.sampling <= 100:
        yield Finding(
            f"the account Trace.Sampling value '{trace.sampling}' is not valid, should be in the range [1..100]"
        )


def _counts(claims: AccountClaims) -> Iterator[Finding]:
    part, limits = claims.nats, claims.nats.limits
    imports, exports = len(part.imports or ()), part.exports or []
    more = Finding("the account contains more imports than allowed by the operator")
    if limits != Limits() and 0 <= limits.imports < imports:
        yield more
    if limits.imports != NO_LIMIT and imports > limits.imports:
        yield more
    if limits.exports != NO_LIMIT:
        if len(exports) > limits.exports:
            yield Finding("the account contains more exports than allowed by the operator")
        if not limits.wildcards:
            for entry in exports:
                if entry is not None and has_wildcards(entry.subject):
                    yield Finding("the account contains wildcard exports that are not allowed by the operator")
