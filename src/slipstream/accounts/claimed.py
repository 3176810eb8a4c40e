"""Accounts of operator mode: tokens in, the same resolved accounts out that a configuration gives.

Whoever makes a token cannot see the tokens of others, so nothing that does not fit together is an error here: an import
whose account is missing, that is not granted, or that would close a ring is left out and told about, and tried again
whenever one of the accounts concerned changes. What is asked for each time is `resolve`; it looks at the tokens as they
are now.

What it is not: fetching, and the decision whom to trust (`routing.operators`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from slipstream.accounts.exports import Exports, ShareKind
from slipstream.accounts.graph import ResolvedAccount, account_mappings
from slipstream.accounts.imports import ServiceImport, StreamImport, resolve_service, resolve_stream
from slipstream.accounts.rings import Path, leads_back, service_path, stream_path
from slipstream.auth.jwt.checks import activation_findings
from slipstream.auth.jwt.claims import NO_LIMIT
from slipstream.auth.jwt.findings import blocks
from slipstream.auth.jwt.rights import clamped, is_revoked, permissions_of
from slipstream.auth.jwt.sharing_checks import import_findings
from slipstream.auth.jwt.token import InvalidToken, decode_activation
from slipstream.config.account_options import (
    AccountJetStreamOptions,
    AccountLimitsOptions,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    MappingDestination,
    MappingOptions,
    MsgTraceOptions,
)
from slipstream.config.record import replace
from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import is_valid_publish, is_valid_subscription
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.jwt.claims import AccountClaims, ExportClaim, ImportClaim, JetStreamClaim
    from slipstream.config.options import Options

__all__ = ["Claimed", "ClaimedAccounts", "Problem"]

_RESPONSE_TYPES = {"Stream": "stream", "Chunked": "chunked"}


class Problem(NamedTuple):
    """Something that was left out of an account."""

    level: str
    text: str


class Claimed:
    """One account, as its token says."""

    __slots__ = ("claims", "exports", "incomplete", "is_expired", "name", "next_change_s", "text", "updated_ns")

    def __init__(self, claims: AccountClaims, text: str, now_ns: int) -> None:
        self.name = claims.sub
        self.claims = claims
        self.text = text  # empty: of an account that is only believed to exist
        self.updated_ns = now_ns
        self.is_expired = 0 < claims.exp * SECOND_NS <= now_ns
        self.incomplete = False  # something was left out
        self.next_change_s = 0  # when an activation that is used now ends; 0: never
        self.exports = Exports(_exports(claims))

    @property
    def label(self) -> str:
        """How the log calls it."""
        return f"{self.name}/{self.claims.name}" if self.claims.name else self.name

    def signs(self, issuer: str, *, strict: bool) -> bool:
        """Whether a key may sign for the account; with `strict` its own key may not."""
        return issuer in self.claims.nats.signing_keys or (issuer == self.name and not strict)


class ClaimedAccounts:
    """All accounts whose token is known, by public key."""

    def __init__(self) -> None:
        self.accounts: dict[str, Claimed] = {}
        self._importers: dict[str, set[str]] = {}  # of each account, present or not
        # Ways that accepted imports take, by account they leave from.
        self._paths: dict[ShareKind, dict[str, list[Path]]] = {"stream": {}, "service": {}}
        self._taken: dict[str, list[tuple[ShareKind, Path]]] = {}  # by importing account

    def put(self, claimed: Claimed) -> set[str]:
        """Take an account in, or another token of it; gives the accounts that have to be resolved again."""
        self._forget(claimed.name)
        self.accounts[claimed.name] = claimed
        for entry in claimed.claims.imports:
            self._importers.setdefault(entry.account, set()).add(claimed.name)
        return {claimed.name} | (self._importers.get(claimed.name, set()) & self.accounts.keys())

    def _forget(self, name: str) -> None:
        known = self.accounts.get(name)
        for entry in known.claims.imports if known is not None else ():
            self._importers.get(entry.account, set()).discard(name)

    def resolve(self, name: str, options: Options, now_s: int) -> tuple[ResolvedAccount, list[Problem]]:
        """An account as the router needs it, and what had to be left out."""
        claimed = self.accounts[name]
        for kind, path in self._taken.pop(name, ()):
            self._paths[kind][path.entry_account].remove(path)
        claimed.next_change_s, claimed.incomplete = 0, False
        problems: list[Problem] = []
        account = _account(claimed, problems)
        streams: dict[tuple[str, bytes], StreamImport] = {}
        services: dict[tuple[str, bytes], ServiceImport] = {}
        imports: list[ImportOptions] = []
        for entry in claimed.claims.imports:
            try:
                imports.append(self._take(claimed, entry, streams, services, now_s))
            except _Missing as missing:
                claimed.incomplete = True
                what = f"[{entry.account}] for import of [{entry.subject}] {entry.type}"
                problems.append(Problem("ERR", f"Can't locate account {what} (err={missing})"))
            except ConfigError as refusal:
                claimed.incomplete = True
                text = f"Error adding {entry.type} import to account [{claimed.label}]: {refusal.message}"
                problems.append(Problem("DBG", text))
        account = AccountOptions(
            name=account.name,
            default_permissions=account.default_permissions,
            exports=account.exports,
            imports=tuple(imports),
            mappings=account.mappings,
            jetstream=account.jetstream,
            limits=account.limits,
            msg_trace=account.msg_trace,
        )
        resolved = ResolvedAccount(
            name=name,
            options=account,
            exports=claimed.exports,
            is_system=name == options.system_account_name,
            mappings=account_mappings(account, options),
            stream_imports=tuple(i for i in streams.values() if (i.exporter, i.remote) != (name, i.subject)),
            service_imports=tuple(i for i in services.values() if (i.exporter, i.remote) != (name, i.subject)),
        )
        return resolved, problems

    def _take(
        self,
        claimed: Claimed,
        entry: ImportClaim,
        streams: dict[tuple[str, bytes], StreamImport],
        services: dict[tuple[str, bytes], ServiceImport],
        now_s: int,
    ) -> ImportOptions:
        """Resolve one import.

        Raises:
            ConfigError: it cannot be had, with nats-server's reason.
        """
        exporter = self.accounts.get(entry.account)
        if exporter is None or exporter.is_expired:
            raise _Missing("account missing" if exporter is None else "account expired")
        wanted = _import(entry)
        kind, subject = wanted.kind, wanted.subject.encode("utf-8", "surrogatepass")
        export = exporter.exports.find(kind, subject) if is_valid_subscription(subject) else None
        if export is None or not export.admits(claimed.name, subject):
            raise ConfigError(f"{kind} import not authorized")
        offered = next(e for e in _offers(exporter.claims) if (e.type, e.subject.encode()) == (kind, export.subject))
        if offered.token_req and not export.account_token_position:
            self._check_activation(claimed, entry, exporter, offered, now_s)
        if kind == "stream":
            stream = resolve_stream(wanted)
            if (stream.exporter, stream.remote) in streams:
                raise ConfigError("stream import already exists")
            self._follow("stream", stream_path(claimed.name, stream), claimed.name)
            streams[stream.exporter, stream.remote] = stream
        else:
            service = resolve_service(wanted, export)
            if (service.exporter, service.subject) in services:
                raise ConfigError("duplicate service import entry")
            self._follow("service", service_path(claimed.name, service), claimed.name)
            services[service.exporter, service.subject] = service
        return wanted

    def _follow(self, kind: ShareKind, path: Path, importer: str) -> None:
        # What an account imports from itself under the same name goes nowhere.
        if (path.entry_account, path.entry) == (path.exit_account, path.exit):
            return
        if leads_back(path, self._paths[kind]):
            raise ConfigError("import forms a cycle")
        self._paths[kind].setdefault(path.entry_account, []).append(path)
        self._taken.setdefault(importer, []).append((kind, path))

    def _check_activation(
        self, claimed: Claimed, entry: ImportClaim, exporter: Claimed, offered: ExportClaim, now_s: int
    ) -> None:
        refusal = ConfigError(f"{entry.type} import not authorized")
        if not entry.token or blocks(import_findings(entry, claimed.name), with_time=True):
            raise refusal
        try:
            token = decode_activation(entry.token)
        except InvalidToken:
            raise refusal from None
        issuer_account = token.nats.issuer_account
        trusted = not issuer_account or (issuer_account == exporter.name and exporter.signs(token.iss, strict=False))
        if not trusted or blocks(activation_findings(token, now_s), with_time=True):
            raise refusal
        if token.exp and token.exp <= now_s:
            raise refusal
        if is_revoked(offered.revocations, token.sub, token.iat):
            raise refusal
        if token.exp:
            claimed.next_change_s = min(claimed.next_change_s or token.exp, token.exp)


class _Missing(ConfigError):
    """The account that exports is not there."""

    def __str__(self) -> str:
        return self.message


# --- from claims to options ------------------------------------------------------------------------------------------


def _offers(claims: AccountClaims) -> Iterator[ExportClaim]:
    return (entry for entry in claims.nats.exports or () if entry is not None)


def _exports(claims: AccountClaims) -> Iterable[ExportOptions]:
    for entry in _offers(claims):
        # Subjects were checked by the library's rules, which let some pass that are none.
        if not entry.type or not is_valid_subscription(entry.subject.encode("utf-8", "surrogatepass")):
            continue
        latency = entry.service_latency
        yield ExportOptions(
            kind=entry.type,
            subject=entry.subject,
            response_type=_RESPONSE_TYPES.get(entry.response_type, "single"),  # type: ignore[arg-type]  # of that table
            response_threshold_ns=entry.response_threshold,
            latency=LatencyOptions(latency.results, latency.sampling) if latency and entry.type == "service" else None,
            account_token_position=entry.account_token_position,
            allow_trace=entry.allow_trace,
        )


def _import(entry: ImportClaim) -> ImportOptions:
    if entry.type == "service":
        # `to` is the exporter's name for it, `local_subject` the importer's.
        remote, local = (entry.subject, entry.local_subject) if entry.local_subject else (entry.to, entry.subject)
        if not remote:
            remote, local = entry.subject, ""
        return ImportOptions("service", entry.account, remote, to=local, share=entry.share)
    return ImportOptions(
        "stream",
        entry.account,
        entry.subject,
        to=entry.local_subject,
        prefix="" if entry.local_subject else entry.to,
        allow_trace=entry.allow_trace,
    )


def _account(claimed: Claimed, problems: list[Problem]) -> AccountOptions:
    part = claimed.claims.nats
    limits = part.limits
    trace = part.trace
    return AccountOptions(
        name=claimed.name,
        default_permissions=permissions_of(part.default_permissions),
        exports=tuple(_exports(claimed.claims)),
        mappings=tuple(_mappings(claimed, problems)),
        jetstream=_jetstream(limits.jetstream()),
        limits=AccountLimitsOptions(
            max_connections=clamped(limits.conn),
            max_subscriptions=clamped(limits.subs),
            max_payload=clamped(limits.payload),
            max_leafnodes=clamped(limits.leaf),
        ),
        msg_trace=MsgTraceOptions(trace.dest, trace.sampling if 0 < trace.sampling <= 100 else 100)
        if trace is not None and is_valid_publish(trace.dest.encode("utf-8", "surrogatepass"))
        else None,
    )


def _mappings(claimed: Claimed, problems: list[Problem]) -> Iterator[MappingOptions]:
    from slipstream.subjects.transform import transform_problem

    for source, destinations in (claimed.claims.nats.mappings or {}).items():
        wrong = next((text for d in destinations if (text := transform_problem(source, d.subject))), None)
        if wrong is not None or not destinations:
            problems.append(Problem("DBG", f"Error adding mapping {source} to account [{claimed.label}]: {wrong}"))
            continue
        yield MappingOptions(
            source, tuple(MappingDestination(d.subject, d.weight or 100, d.cluster) for d in destinations)
        )


def _jetstream(tiers: dict[str, JetStreamClaim]) -> AccountJetStreamOptions | None:
    if not tiers:
        return None
    plain = tiers.get("")
    if plain is not None:
        return _storage(plain)
    # A server that is alone keeps one replica of everything.
    named = {name: _storage(limits) for name, limits in tiers.items()}
    nothing = AccountJetStreamOptions(max_memory=0, max_store=0, max_streams=0, max_consumers=0)
    return replace(named.get("R1", nothing), tiers=named)


def _storage(limits: JetStreamClaim) -> AccountJetStreamOptions:
    return AccountJetStreamOptions(
        max_memory=limits.mem_storage,
        max_store=limits.disk_storage,
        max_streams=limits.streams,
        max_consumers=limits.consumer,
        max_ack_pending=limits.max_ack_pending if limits.max_ack_pending > 0 else NO_LIMIT,
        mem_max_stream_bytes=limits.mem_max_stream_bytes if limits.mem_max_stream_bytes > 0 else NO_LIMIT,
        disk_max_stream_bytes=limits.disk_max_stream_bytes if limits.disk_max_stream_bytes > 0 else NO_LIMIT,
        max_bytes_required=limits.max_bytes_required,
    )
