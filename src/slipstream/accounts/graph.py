"""The accounts of a configuration and what they share, resolved into plain data for the router.

Built at start and at each reload; nothing in it changes afterwards and nothing is computed per message. What does not
fit together is found now and refused with nats-server's text: an unknown account, something that is not exported or
not to this account, names that cannot be carried over, duplicates, cycles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from slipstream.accounts.exports import Export, Exports
from slipstream.accounts.imports import ServiceImport, StreamImport, resolve_service, resolve_stream
from slipstream.config.account_options import AccountOptions, ImportOptions, MappingDestination, MappingOptions
from slipstream.config.options import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT
from slipstream.config.record import Record, replace
from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import is_valid_subscription

if TYPE_CHECKING:
    from slipstream.config.account_options import AccountLimitsOptions
    from slipstream.config.options import Options
    from slipstream.subjects.mapping import AccountMappings

__all__ = ["AccountGraph", "ResolvedAccount", "account_mappings", "build_accounts"]


# What follows `$JS.<domain>.API.`, and in front of what it becomes a subject.
_DOMAIN_SUBJECTS: Final = (
    ("INFO", "$JS.API."),
    *((f"{name}.>", "$JS.API.") for name in ("STREAM", "CONSUMER", "DIRECT", "META", "SERVER", "ACCOUNT")),
    ("$KV.>", ""),
    ("$OBJ.>", ""),
)
_SYSTEM_DOMAIN_SUBJECTS: Final = ((">", "$JS.API."),)


class ResolvedAccount(Record):
    """One account, with what the configuration says about its subjects."""

    name: str
    options: AccountOptions
    exports: Exports
    is_system: bool = False
    mappings: AccountMappings | None = None  # None: subjects stay as they are
    stream_imports: tuple[StreamImport, ...] = ()
    service_imports: tuple[ServiceImport, ...] = ()
    dependents: tuple[str, ...] = ()  # other accounts that import streams from this one

    @property
    def limits(self) -> AccountLimitsOptions:
        """How much the account may use."""
        return self.options.limits


class AccountGraph(Record):
    """All accounts by name: the configured ones, the global one, and the system account unless that is off.

    In operator mode others are added when they are first needed.
    """

    accounts: dict[str, ResolvedAccount]


def build_accounts(options: Options) -> AccountGraph:
    """Resolve the accounts of a configuration.

    Raises:
        ConfigError: what the accounts say about each other does not fit together.
    """
    named = {account.name: account for account in options.accounts}
    exports = {name: _exports(account, named.keys()) for name, account in named.items()}
    streams = {name: _streams(account, exports) for name, account in named.items()}
    services = {name: _services(account, exports) for name, account in named.items()}
    if streams or services:
        from slipstream.accounts.rings import refuse_rings, service_path, stream_path

        refuse_rings("stream", [stream_path(name, taken) for name, all_taken in streams.items() for taken in all_taken])
        refuse_rings(
            "service", [service_path(name, taken) for name, all_taken in services.items() for taken in all_taken]
        )

    dependents: dict[str, list[str]] = {}
    for importer, taken in streams.items():
        for exporter in dict.fromkeys(i.exporter for i in taken if i.exporter != importer):
            dependents.setdefault(exporter, []).append(importer)

    accounts = {}
    for account in _with_default_accounts(options, named):
        name = account.name
        accounts[name] = ResolvedAccount(
            name=name,
            options=account,
            exports=exports.get(name) or Exports(),
            is_system=name == options.system_account_name,
            mappings=account_mappings(account, options),
            stream_imports=streams.get(name, ()),
            service_imports=services.get(name, ()),
            dependents=tuple(dependents.get(name, ())),
        )
    return AccountGraph(accounts)


def account_mappings(account: AccountOptions, options: Options) -> AccountMappings | None:
    """The account's own, and those by which JetStream is reached under its domain."""
    chosen = {mapping.source: mapping for mapping in account.mappings}
    jetstream = options.jetstream
    if jetstream.enabled and jetstream.domain:
        is_system = account.name == options.system_account_name
        for suffix, prefix in _SYSTEM_DOMAIN_SUBJECTS if is_system else _DOMAIN_SUBJECTS:
            source = f"$JS.{jetstream.domain}.API.{suffix}"
            chosen.setdefault(source, MappingOptions(source, (MappingDestination(prefix + suffix),)))
    domain = options.default_js_domain.get(account.name)
    if domain and account.jetstream is None:
        # Its JetStream is elsewhere: what it asks for goes there, by the name of the domain.
        for suffix, prefix in _DOMAIN_SUBJECTS:
            source = prefix + suffix
            chosen.setdefault(source, MappingOptions(source, (MappingDestination(f"$JS.{domain}.API.{suffix}"),)))
    if not chosen:
        return None
    from slipstream.subjects.mapping import AccountMappings

    return AccountMappings(tuple(chosen.values()), options.cluster.name)


def _with_default_accounts(options: Options, named: Mapping[str, AccountOptions]) -> Iterable[AccountOptions]:
    yield replace(named.get(GLOBAL_ACCOUNT) or AccountOptions(GLOBAL_ACCOUNT), mappings=options.mappings)
    system = options.system_account_name
    # In operator mode the token of the system account says what it is.
    if (
        system
        and system not in named
        and system != GLOBAL_ACCOUNT
        and not (options.trusts_operators and system != SYSTEM_ACCOUNT)
    ):
        if system != SYSTEM_ACCOUNT:
            raise ConfigError("error resolving system account: account missing")
        yield AccountOptions(SYSTEM_ACCOUNT)
    yield from (account for name, account in named.items() if name != GLOBAL_ACCOUNT)


def _exports(account: AccountOptions, names: Collection[str]) -> Exports:
    for entry in account.exports:
        for name in entry.accounts:
            if name not in names:
                raise ConfigError(f'"{name}" account not defined for {entry.kind} export')
        tokens, position = entry.subject.split("."), entry.account_token_position
        if not is_valid_subscription(entry.subject.encode()) or (
            position and (position > len(tokens) or tokens[position - 1] != "*")
        ):
            raise ConfigError(f'Error adding {entry.kind} export "{entry.subject}": invalid subject')
    return Exports(account.exports)


def _streams(account: AccountOptions, exports: Mapping[str, Exports]) -> tuple[StreamImport, ...]:
    taken: dict[tuple[str, bytes], StreamImport] = {}
    for entry in account.imports:
        if entry.kind != "stream":
            continue
        _authorised_export(account.name, entry, exports)
        try:
            stream = resolve_stream(entry)
        except ConfigError as problem:
            raise _refusal(entry, problem.message) from problem
        if (stream.exporter, stream.remote) in taken:
            raise _refusal(entry, "stream import already exists")
        taken[stream.exporter, stream.remote] = stream
    return tuple(i for i in taken.values() if (i.exporter, i.remote) != (account.name, i.subject))


def _services(account: AccountOptions, exports: Mapping[str, Exports]) -> tuple[ServiceImport, ...]:
    taken: dict[tuple[str, bytes], ServiceImport] = {}
    for entry in account.imports:
        if entry.kind != "service":
            continue
        export = _authorised_export(account.name, entry, exports)
        try:
            service = resolve_service(entry, export)
        except ConfigError as problem:
            raise _refusal(entry, problem.message) from problem
        earlier = taken.get((service.exporter, service.subject))
        if earlier is not None:
            raise ConfigError(
                f'Duplicate service import subject "{service.subject.decode()}", previously used in import '
                f'for account "{earlier.exporter}", subject "{earlier.remote.decode()}"'
            )
        taken[service.exporter, service.subject] = service
    return tuple(i for i in taken.values() if (i.exporter, i.remote) != (account.name, i.subject))


def _authorised_export(importer: str, entry: ImportOptions, exports: Mapping[str, Exports]) -> Export:
    """The export behind an import, provided it is meant for this account."""
    offered = exports.get(entry.account)
    if offered is None:
        raise ConfigError(f'"{entry.account}" account not defined for {entry.kind} import')
    subject = entry.subject.encode()
    export = offered.find(entry.kind, subject)
    if export is None or not export.admits(importer, subject):
        raise _refusal(entry, f"{entry.kind} import not authorized")
    return export


def _refusal(entry: ImportOptions, problem: str) -> ConfigError:
    return ConfigError(f'Error adding {entry.kind} import "{entry.subject}": {problem}')
