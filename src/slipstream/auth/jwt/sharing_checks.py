"""Whether imports and exports of an account make sense: findings of the official library, in its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slipstream.auth.jwt.claims import ActivationClaims, ExportClaim, ImportClaim
from slipstream.auth.jwt.findings import Finding, has_wildcards, info_findings, is_contained, subject_findings
from slipstream.auth.jwt.token import InvalidToken, decode_activation
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.config.checker import quote as _quoted

__all__ = ["exports_findings", "grant_findings", "import_findings", "imports_findings"]

_RESPONSE_TYPES: Final = ("", "Singleton", "Stream", "Chunked")


def imports_findings(imports: list[ImportClaim | None], account: str) -> Iterator[Finding]:
    """What is wrong with the imports of this account, also with each other."""
    taken: dict[str, dict[str, None]] = {}
    for entry in imports:
        if entry is None:
            yield Finding("null import is not allowed")
            continue
        if entry.type == "service":
            subject = entry.to or _with_wildcards(entry.local_subject) or entry.subject
            others = taken.setdefault(entry.account, {})
            for other in others:
                if is_contained(subject, other) or is_contained(other, subject):
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
    yield from subject_findings(entry.subject)
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
    yield from grant_findings(token)
    wanted = entry.to if entry.type == "service" and entry.to else entry.subject
    if not is_contained(wanted, token.nats.subject):
        yield Finding(f"activation token import subject {_quoted(token.nats.subject)} doesn't match import {subject}")


def grant_findings(claims: ActivationClaims) -> Iterator[Finding]:
    """What is wrong with what an activation allows, whenever that is."""
    if not claims.nats.kind:
        yield Finding('invalid import type: "unknown"')
    yield from subject_findings(claims.nats.subject)
    if claims.nats.issuer_account and not is_public_key(claims.nats.issuer_account, KeyKind.ACCOUNT):
        yield Finding("account_id is not an account public key")


def exports_findings(exports: list[ExportClaim | None]) -> Iterator[Finding]:
    """What is wrong with the exports of an account, also with each other."""
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
                if index != other and is_contained(narrow, wide):
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
        yield from subject_findings(latency.results)
        if has_wildcards(latency.results):
            yield Finding("results subject can not contain wildcards")
    if entry.response_threshold < 0:
        yield Finding("negative response threshold is invalid")
    if entry.response_threshold > 0 and not is_service:
        yield Finding("response threshold only valid for services")
    yield from subject_findings(entry.subject)
    yield from _token_position(entry)
    yield from info_findings(entry.description, entry.info_url)


def _token_position(entry: ExportClaim) -> Iterator[Finding]:
    position, subject = entry.account_token_position, entry.subject
    if not position:
        return
    tokens = subject.split(".")
    if not has_wildcards(subject):
        yield Finding(f"Account Token Position can only be used with wildcard subjects: {subject}")
    elif position > len(tokens):
        yield Finding(f"Account Token Position {position} exceeds length of subject '{subject}'")
    elif tokens[position - 1] != "*":
        token = tokens[position - 1]
        yield Finding(f"Account Token Position {position} matches '{token}' but must match a * in: {subject}")


def _renaming(local: str, subject: str) -> Iterator[Finding]:
    yield from subject_findings(local)
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
