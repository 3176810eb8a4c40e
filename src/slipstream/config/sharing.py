"""What accounts say about each other: exports, imports, and subject mappings.

These rules need all accounts at once, or the rules of subject transforms, which `Checker.check_mapping` knows.
The order is nats-server's: exports first, then imports one by one, each checked against those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from slipstream.config.account_options import AccountOptions, ExportOptions, ImportOptions, MappingOptions
from slipstream.config.checker import quote
from slipstream.config.subject_rules import (
    is_literal,
    is_subset,
    is_valid_subject,
    subjects_collide,
    wildcards_to_markers,
)

__all__ = ["CheckMapping", "mapping_problem", "sharing_problems"]

# Says what is wrong with a transform from a source to a destination subject, or None.
CheckMapping: TypeAlias = "Callable[[str, str], str | None]"

_CYCLE_DEPTH_MAX = 1024  # accounts in one chain of imports, as in nats-server


def mapping_problem(mapping: MappingOptions, check_mapping: CheckMapping | None) -> str | None:
    """What is wrong with a subject mapping, or None."""
    seen = set()
    weights: dict[str, int] = {}
    for destination in mapping.destinations:
        if destination.destination in seen:
            return f"duplicate entry for {quote(destination.destination)}"
        seen.add(destination.destination)
        weights[destination.cluster] = weights.get(destination.cluster, 0) + destination.weight
        if weights[destination.cluster] > 100:
            return "total weight needs to be <= 100"
        problem = check_mapping(mapping.source, destination.destination) if check_mapping else None
        if problem is not None:
            return problem
    return None


def sharing_problems(
    accounts: tuple[AccountOptions, ...], *, no_system_account: bool, check_mapping: CheckMapping | None
) -> Iterable[str]:
    """What is wrong between the accounts, one message a problem."""
    graph = _Graph({account.name: account for account in accounts}, check_mapping)
    for kind in ("stream", "service"):
        for account in accounts:
            for export in account.exports:
                if export.kind == kind:
                    yield from graph.export_problems(account, export, no_system_account=no_system_account)
    for kind in ("stream", "service"):
        for account in accounts:
            for wanted in account.imports:
                if wanted.kind != kind:
                    continue
                problem = graph.import_problem(account, wanted)
                if problem is None:
                    graph.accepted.setdefault(account.name, []).append(wanted)
                elif wanted.account not in graph.accounts:
                    yield problem
                else:
                    yield f"Error adding {kind} import {quote(wanted.subject)}: {problem}"


class _Graph:
    """Accounts and the imports accepted so far."""

    def __init__(self, accounts: dict[str, AccountOptions], check_mapping: CheckMapping | None) -> None:
        self.accounts = accounts
        self.check_mapping = check_mapping
        self.accepted: dict[str, list[ImportOptions]] = {}  # by importing account

    def export_problems(
        self, account: AccountOptions, export: ExportOptions, *, no_system_account: bool
    ) -> Iterable[str]:
        for name in export.accounts:
            if name not in self.accounts:
                yield f"{quote(name)} account not defined for {export.kind} export"
        tokens, at = export.subject.split("."), export.account_token_position
        if at > 0 and (len(tokens) < at or tokens[at - 1] != "*"):
            yield f"Error adding {export.kind} export {quote(export.subject)}: invalid subject"
        latency = export.latency
        if latency is None:
            return
        prefix = f"Error adding service latency sampling for {quote(export.subject)}"
        if no_system_account:
            yield f"{prefix}: system account not setup"
            return
        own = any(e.kind == "service" and is_subset(latency.subject, e.subject) for e in account.exports)
        if own or not is_valid_subject(latency.subject) or not is_literal(latency.subject):
            yield f"{prefix} on subject {quote(latency.subject)}: invalid publish subject"
        elif export.response_type != "single":
            yield f"{prefix} on subject {quote(latency.subject)}: bad service response type"

    def import_problem(self, account: AccountOptions, wanted: ImportOptions) -> str | None:
        exporter = self.accounts.get(wanted.account)
        if exporter is None:
            return f"{quote(wanted.account)} account not defined for {wanted.kind} import"
        if wanted.kind == "service":
            local = wanted.to or wanted.subject
            if not is_valid_subject(local) or not is_valid_subject(wanted.subject):
                return "invalid subject"
            if not _is_authorized(exporter, wanted, account.name):
                return "service import not authorized"
            if self._service_cycle(wanted.account, local, {account.name}):
                return "import forms a cycle"
            return None
        if not is_valid_subject(wanted.subject) or not _is_authorized(exporter, wanted, account.name):
            return "stream import not authorized"
        local = wanted.to or wanted.subject
        if wanted.prefix:
            if not is_literal(wanted.prefix):
                return "stream import prefix can not contain wildcard tokens"
            local = f"{wanted.prefix.removesuffix('.')}.{wanted.subject}"
        for subject in (local, wanted.subject):
            if self._stream_cycle(wanted.account, subject, {account.name}):
                return "import forms a cycle"
        if not is_literal(wanted.subject) and local != wanted.subject and self.check_mapping is not None:
            problem = self.check_mapping(wanted.subject, wildcards_to_markers(local))
            if problem is not None:
                names = f"from {quote(wanted.subject)} to {quote(local)}"
                return f"failed to create mapping transform for stream import subject {names}: {problem}"
        earlier = self.accepted.get(account.name, ())
        if any(e.kind == "stream" and (e.account, e.subject) == (wanted.account, wanted.subject) for e in earlier):
            return "stream import already exists"
        return None

    def _service_cycle(self, account: str, subject: str, visited: set[str]) -> bool:
        if len(visited) >= _CYCLE_DEPTH_MAX:
            return True
        for entry in self.accepted.get(account, ()):
            local = entry.to or entry.subject
            if entry.kind == "service" and subjects_collide(subject, entry.subject):
                if entry.account in visited:
                    return True
                narrowed = local if is_subset(local, subject) else subject
                if self._service_cycle(entry.account, narrowed, visited | {account}):
                    return True
        return False

    def _stream_cycle(self, account: str, subject: str, visited: set[str]) -> bool:
        if len(visited) >= _CYCLE_DEPTH_MAX:
            return True
        exports = self.accounts[account].exports
        if not any(e.kind == "stream" and is_subset(subject, e.subject) for e in exports):
            return False
        for entry in self.accepted.get(account, ()):
            local = entry.to or entry.subject
            if entry.prefix:
                local = f"{entry.prefix.removesuffix('.')}.{entry.subject}"
            if entry.kind == "stream" and subjects_collide(subject, local):
                if entry.account in visited:
                    return True
                narrowed = local if is_subset(local, subject) else subject
                if self._stream_cycle(entry.account, narrowed, visited | {account}):
                    return True
        return False


def _is_authorized(exporter: AccountOptions, wanted: ImportOptions, importer: str) -> bool:
    """Whether an export covers the import: the one with the same subject, else the first that contains it."""
    exports = [export for export in exporter.exports if export.kind == wanted.kind]
    export = next((e for e in exports if e.subject == wanted.subject), None)
    if export is not None and export.account_token_position:
        return False  # the position cannot be checked on the pattern itself
    if export is None:
        export = next((e for e in exports if is_subset(wanted.subject, e.subject)), None)
    if export is None:
        return False
    if export.account_token_position:
        tokens = wanted.subject.split(".")
        at = export.account_token_position
        return at <= len(tokens) and tokens[at - 1] == importer
    return not export.accounts or importer in export.accounts
