"""Whether the content of a token makes sense, and is good now: the findings of the official library, in its words.

Time comes in as a value (seconds since 1970), so that a verdict can be repeated. What `blocks` keeps a token from being
used at all; what is only about time does so in most places; the rest is advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from slipstream.auth.jwt.claims import (
    NO_LIMIT,
    AccountClaims,
    ActivationClaims,
    AuthorizationAnswer,
    Claims,
    DefaultPermissions,
    ExportClaim,
    ImportClaim,
    Limits,
    OperatorClaims,
    Permission,
    RightsClaim,
    UserClaims,
)
from slipstream.auth.jwt.token import InvalidToken, decode_activation
from slipstream.auth.jwt.windows import Zones, seconds_of_day
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.config.checker import quote as _quoted

__all__ = [
    "Finding",
    "account_findings",
    "activation_findings",
    "answer_findings",
    "blocks",
    "operator_findings",
    "user_findings",
]

_INFO_LENGTH_MAX: Final = 8 * 1024  # characters of a description or its address
_RESPONSE_TYPES: Final = ("", "Singleton", "Stream", "Chunked")


class Finding(NamedTuple):
    """One thing that is wrong."""

    text: str
    blocking: bool = True
    of_time: bool = False


def blocks(findings: Iterable[Finding], *, with_time: bool) -> bool:
    """Whether a token with these findings must not be used."""
    return any(finding.blocking or (with_time and finding.of_time) for finding in findings)


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
    return [*_of_time(claims, now_s), *_activation(claims)]


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
        *_imports(part.imports or [], claims.sub),
        *_exports(part.exports or []),
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
    found += _info(part.description, part.info_url)
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
            yield from _subject(word)
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


def _imports(imports: list[ImportClaim | None], account: str) -> Iterator[Finding]:
    taken: dict[str, dict[str, None]] = {}
    for entry in imports:
        if entry is None:
            yield Finding("null import is not allowed")
            continue
        if entry.type == "service":
            subject = entry.to or _with_wildcards(entry.local_subject) or entry.subject
            others = taken.setdefault(entry.account, {})
            for other in others:
                if _is_contained(subject, other) or _is_contained(other, subject):
                    names = f"{_quoted(subject)} and {_quoted(other)}"
                    yield Finding(f"overlapping subject namespace for {names} in same account {_quoted(entry.account)}")
            if subject in others:
                where = f"{_quoted(subject)} in account {_quoted(entry.account)}"
                yield Finding(f"overlapping subject namespace for {where}")
            others[subject] = None
        yield from import_findings(entry, account)


def import_findings(entry: ImportClaim, account: str) -> Iterator[Finding]:
    """What is wrong with one import of an account."""
    if not entry.type:
        yield Finding('invalid import type: "unknown"')
    if entry.type == "service" and entry.allow_trace:
        yield Finding("AllowTrace only valid for stream import")
    if not entry.account:
        yield Finding("account to import from is not specified")
    if entry.to:
        yield Finding("the field to has been deprecated (use LocalSubject instead)", blocking=False)
    yield from _subject(entry.subject)
    if entry.local_subject:
        yield from _renaming(entry.local_subject, entry.subject)
        if entry.to:
            yield Finding("Local Subject replaces To")
    if entry.share and entry.type != "service":
        subject = _quoted(entry.subject)
        yield Finding(f"sharing information (for latency tracking) is only valid for services: {subject}")
    if entry.token:
        yield from _import_token(entry, account)


def _import_token(entry: ImportClaim, account: str) -> Iterator[Finding]:
    subject = _quoted(entry.subject)
    try:
        token = decode_activation(entry.token)
    except InvalidToken:
        yield Finding(f"import {subject} contains an invalid activation token")
        return
    if entry.account not in (token.iss, token.nats.issuer_account):
        yield Finding(f"activation token doesn't match account for import {subject}")
    if token.sub != account:
        yield Finding(f"activation token doesn't match account it is being included in, {subject}")
    if token.nats.kind != entry.type:
        kinds = f"{token.nats.kind or 'unknown'} and type of import {entry.type or 'unknown'}"
        yield Finding(f"mismatch between token import type {kinds}")
    yield from _activation(token)
    wanted = entry.to if entry.type == "service" and entry.to else entry.subject
    if not _is_contained(wanted, token.nats.subject):
        yield Finding(f"activation token import subject {_quoted(token.nats.subject)} doesn't match import {subject}")


def _activation(claims: ActivationClaims) -> Iterator[Finding]:
    if not claims.nats.kind:
        yield Finding('invalid import type: "unknown"')
    yield from _subject(claims.nats.subject)
    if claims.nats.issuer_account and not is_public_key(claims.nats.issuer_account, KeyKind.ACCOUNT):
        yield Finding("account_id is not an account public key")


def _exports(exports: list[ExportClaim | None]) -> Iterator[Finding]:
    subjects: dict[str, list[str]] = {"service": [], "stream": []}
    for entry in exports:
        if entry is None:
            yield Finding("null export is not allowed")
            continue
        subjects["service" if entry.type == "service" else "stream"].append(entry.subject)
        yield from _export(entry)
    for kind, found in subjects.items():
        covered: dict[str, str] = {}
        for index, narrow in enumerate(found):
            for other, wide in enumerate(found):
                if index != other and _is_contained(narrow, wide):
                    covered.setdefault(wide, narrow)
        for wide, narrow in covered.items():
            yield Finding(f"{kind} export subject {_quoted(wide)} already exports {_quoted(narrow)}")


def _export(entry: ExportClaim) -> Iterator[Finding]:
    is_service = entry.type == "service"
    if not entry.type:
        yield Finding('invalid export type: "unknown"')
    if is_service and entry.response_type not in _RESPONSE_TYPES:
        yield Finding(f"invalid response type for service: {_quoted(entry.response_type)}")
    if entry.type == "stream":
        if entry.response_type:
            yield Finding(f"invalid response type for stream: {_quoted(entry.response_type)}")
        if entry.allow_trace:
            yield Finding("AllowTrace only valid for service export")
    latency = entry.service_latency
    if latency is not None:
        if not is_service:
            yield Finding("latency tracking only permitted for services")
        if not 0 <= latency.sampling <= 100:
            yield Finding("sampling percentage needs to be between 1-100")
        yield from _subject(latency.results)
        if _has_wildcards(latency.results):
            yield Finding("results subject can not contain wildcards")
    if entry.response_threshold < 0:
        yield Finding("negative response threshold is invalid")
    if entry.response_threshold > 0 and not is_service:
        yield Finding("response threshold only valid for services")
    yield from _subject(entry.subject)
    yield from _token_position(entry)
    yield from _info(entry.description, entry.info_url)


def _token_position(entry: ExportClaim) -> Iterator[Finding]:
    position, subject = entry.account_token_position, entry.subject
    if not position:
        return
    tokens = subject.split(".")
    if not _has_wildcards(subject):
        yield Finding(f"Account Token Position can only be used with wildcard subjects: {subject}")
    elif position > len(tokens):
        yield Finding(f"Account Token Position {position} exceeds length of subject '{subject}'")
    elif tokens[position - 1] != "*":
        token = tokens[position - 1]
        yield Finding(f"Account Token Position {position} matches '{token}' but must match a * in: {subject}")


def _limits(limits: Limits) -> Iterator[Finding]:
    if limits.tiered_limits and "" in limits.tiered_limits:
        yield Finding('Tiered JetStream Limits can not contain a blank "" tier name')


def _mappings(claims: AccountClaims) -> Iterator[Finding]:
    for source, destinations in (claims.nats.mappings or {}).items():
        yield from _subject(source)
        totals: dict[str, int] = {}
        for destination in destinations:
            yield from _subject(destination.subject)
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
    wrong = next(_subject(trace.dest), None)
    if wrong is not None:
        yield Finding(f"the account Trace.Destination {wrong.text}")
    if _has_wildcards(trace.dest):
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
                if entry is not None and _has_wildcards(entry.subject):
                    yield Finding("the account contains wildcard exports that are not allowed by the operator")


def _info(description: str, url: str) -> Iterator[Finding]:
    if len(description) > _INFO_LENGTH_MAX:
        yield Finding("Description is too long")
    if url:
        if len(url) > _INFO_LENGTH_MAX:
            yield Finding("Info URL is too long")
        try:
            parts = urlsplit(url)
            wrong = "" if parts.scheme and parts.hostname else "no hostname or scheme"
        except ValueError as error:
            wrong = str(error)
        if wrong:
            yield Finding(f"error parsing info url: {wrong}")


# --- subjects --------------------------------------------------------------------------------------------------------


def _subject(subject: str) -> Iterator[Finding]:
    if not subject:
        yield Finding("subject cannot be empty")
        return
    if " " in subject:
        yield Finding(f"subject {_quoted(subject)} cannot have spaces")
    if subject[0] == "." or subject[-1] == ".":
        yield Finding(f"subject {_quoted(subject)} cannot start or end with a `.`")
    if ".." in subject:
        yield Finding(f"subject {_quoted(subject)} cannot contain consecutive `.`")


def _renaming(local: str, subject: str) -> Iterator[Finding]:
    yield from _subject(local)
    if not subject:
        yield Finding("subject cannot be empty")
    if " " in local:
        yield Finding(f"subject {_quoted(local)} cannot have spaces")
    if (local.split(".")[-1] == ">") != (subject.split(".")[-1] == ">"):
        yield Finding("both, renaming subject and subject, need to end or not end in >")
    wildcards, used = subject.split(".").count("*"), 0
    for token in local.split("."):
        if token == "*":
            used += 1
        elif _is_reference(token):
            if int(token[1:]) > wildcards:
                names = f"{_quoted(local)} reference * in {_quoted(subject)}"
                yield Finding(f"Reference ${int(token[1:])} in {names} that do not exist")
            else:
                used += 1
    if used != wildcards:
        yield Finding("subject does not contain enough * or reference wildcards $[0-9]")


def _is_reference(token: str) -> bool:
    # Digits alone, and few: `int` refuses to read very long numbers.
    return len(token) > 1 and token[0] == "$" and token[1:].isascii() and token[1:].isdigit() and len(token) < 20


def _with_wildcards(local: str) -> str:
    return ".".join("*" if _is_reference(token) else token for token in local.split("."))


def _has_wildcards(subject: str) -> bool:
    tokens = subject.split(".")
    return "*" in tokens or tokens[-1] == ">"


def _is_contained(narrow: str, wide: str) -> bool:
    mine, others = narrow.split("."), wide.split(".")
    if len(mine) < len(others) or (len(mine) > len(others) and others[-1] != ">"):
        return False
    for index, token in enumerate(others):
        if index == len(others) - 1 and token == ">":
            return True
        if token not in (mine[index], "*"):
            return False
    return True
