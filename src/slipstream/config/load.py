"""From a parsed file and flags to `Options`.

`load` is pure: what it needs to know about the outside (TLS files, rules of subject transforms) it asks `Probes` for.
Precedence: flags, then the file, then the defaults. What is valid but not possible with this server is found by
`validate`; what is wrong by itself or contradicts itself is found here, all of it in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from slipstream.config.account_options import AccountOptions, AuthorizationOptions
from slipstream.config.checker import CheckDeclared, Checker, quote, read_map, refusal
from slipstream.config.jetstream_options import JetStreamOptions
from slipstream.config.listener_options import TLSOptions
from slipstream.config.options import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, Options
from slipstream.config.record import EMPTY, Record, replace
from slipstream.config.validate import unsupported
from slipstream.errors import ConfigError
from slipstream.limits import AUTH_AFTER_TLS_NS, AUTH_TIMEOUT_NS, DEFAULT_HOST

if TYPE_CHECKING:
    from slipstream.config.parser import Value

__all__ = ["ConfigErrors", "Loaded", "Probes", "load", "unsupported"]


class Probes(Record):
    """Questions a load may ask the outside. Each answers with a problem, or None."""

    check_tls: Callable[[TLSOptions], str | None] | None = None  # do the files exist and fit together
    check_mapping: Callable[[str, str], str | None] | None = None  # is this a transform: source, destination
    check_declared: CheckDeclared | None = None  # does the API have these fields and values


class Loaded(Record):
    """A usable configuration."""

    options: Options
    warnings: tuple[ConfigError, ...] = ()


class ConfigErrors(ConfigError):
    """Everything that is wrong with a configuration. `file`, `line` and `column` are those of the first error."""

    def __init__(self, errors: tuple[ConfigError, ...], warnings: tuple[ConfigError, ...] = ()) -> None:
        """Args: at least one error, and the warnings found on the way."""
        first = errors[0]
        super().__init__(first.message, file=first.file, line=first.line, column=first.column)
        self.errors = errors
        self.warnings = warnings

    def __str__(self) -> str:
        return "\n".join(str(found) for found in (*self.warnings, *self.errors))


# Field of `Options`, or `block.field`, to the value a flag gives it.
Overrides: TypeAlias = "Mapping[str, object]"


def load(parsed: Value | None, *, overrides: Overrides = EMPTY, probes: Probes = Probes()) -> Loaded:  # noqa: B008
    """Build the options.

    Args:
        parsed: the parsed file; None if the server has none.
        overrides: what flags say, by field; `jetstream.enabled` names a field of a block.
        probes: answers about the outside.

    Raises:
        ConfigErrors: something is wrong.
    """
    checker = Checker(probes.check_tls, probes.check_mapping, probes.check_declared)
    fields: dict[str, Any] = {}
    if parsed is not None:
        # A start without a file does not pay for the tables.
        from slipstream.config.digest import config_digest
        from slipstream.config.keys.server import SERVER

        fields = read_map(checker, parsed, SERVER)
        _check_between_blocks(checker, parsed, fields, overrides)
        if checker.errors:
            raise ConfigErrors(tuple(checker.errors), tuple(checker.warnings))
        assert isinstance(parsed.data, dict)
        if not parsed.data:
            name = parsed.source.name
            checker.warnings.append(ConfigError(f"{name}: config has no values or is empty", file=name))
        fields["config_file"] = parsed.source.name
        fields["config_digest"] = config_digest(parsed)
        fields["positions"] = {name: value.position for name, value in _entries_by_key(parsed).items()}
    if "store_dir" in fields:
        jetstream = fields.get("jetstream", JetStreamOptions())
        fields["jetstream"] = replace(jetstream, store_dir=fields.pop("store_dir"))
    options = _with_overrides(Options(**_defaulted(fields)), overrides)
    return Loaded(_completed(options), tuple(checker.warnings))


# A zero in the file means "the default" for these, as it does in nats-server.
_ZERO_IS_DEFAULT = (
    "port",
    "max_control_line",
    "max_payload",
    "max_pending",
    "max_closed_clients",
    "ping_interval_ns",
    "ping_max",
    "write_deadline_ns",
    "lame_duck_duration_ns",
    "lame_duck_grace_period_ns",
    "connect_error_reports",
    "reconnect_error_reports",
)


def _defaulted(fields: dict[str, Any]) -> dict[str, Any]:
    for name in _ZERO_IS_DEFAULT:
        if fields.get(name) == 0:
            del fields[name]
    if fields.get("host") == "":
        del fields["host"]
    return fields


def _with_overrides(options: Options, overrides: Overrides) -> Options:
    """Options with the fields that flags name replaced."""
    changes: dict[str, Any] = {}
    for name, value in overrides.items():
        block, dot, field = name.partition(".")
        if not dot:
            changes[name] = value
            continue
        current = changes.get(block, getattr(options, block))
        changes[block] = replace(current, **{field: value})
    return replace(options, **changes) if changes else options


def _completed(options: Options) -> Options:
    """Options with the defaults that depend on other options.

    Authentication may take longer where TLS comes first; listeners that are on have an address; the system account has
    a route of its own.
    """
    changes: dict[str, Any] = {}
    if not options.authorization.timeout_ns or not options.authorization.defined:
        timeout_ns = options.authorization.timeout_ns if options.authorization.defined else 0
        authorization = replace(options.authorization, timeout_ns=timeout_ns or _auth_timeout_ns(options.tls))
        changes["authorization"] = authorization
    for name in ("leafnodes", "cluster", "gateway"):
        block = getattr(options, name)
        if block.port and not block.auth_timeout_ns:
            changes[name] = replace(block, auth_timeout_ns=_auth_timeout_ns(block.tls))
        if block.port and not block.host:
            changes[name] = replace(changes.get(name, block), host=DEFAULT_HOST)
    for name in ("websocket", "mqtt"):
        block = getattr(options, name)
        if block.port and not block.host:
            changes[name] = replace(block, host=DEFAULT_HOST)
    if options.gateway.name and not options.cluster.name:
        changes["cluster"] = replace(changes.get("cluster", options.cluster), name=options.gateway.name)
    cluster = changes.get("cluster", options.cluster)
    system = options.system_account_name
    if cluster.port and cluster.pool_size > 0 and system and system not in cluster.accounts:
        changes["cluster"] = replace(cluster, accounts=(*cluster.accounts, system))
    if not options.http_host:
        changes["http_host"] = options.host
    return replace(options, **changes)


def _auth_timeout_ns(tls: TLSOptions | None) -> int:
    return AUTH_TIMEOUT_NS if tls is None else tls.timeout_ns + AUTH_AFTER_TLS_NS


# --- rules between blocks --------------------------------------------------------------------------------------------


def _check_between_blocks(checker: Checker, parsed: Value, fields: Mapping[str, Any], overrides: Overrides) -> None:
    entries = _entries_by_key(parsed)
    authorization: AuthorizationOptions = fields.get("authorization", AuthorizationOptions())
    accounts: tuple[AccountOptions, ...] = fields.get("accounts", ())
    if "authorization" in fields:
        for problem in _authorization_problems(entries["authorization"], authorization):
            checker.error(problem)
    if accounts:
        for problem in _account_user_problems(entries["accounts"], authorization, accounts, overrides):
            checker.error(problem)
    in_block = fields.get("jetstream", JetStreamOptions()).store_dir
    if ("store_dir" in fields) + bool(in_block) + bool(overrides.get("jetstream.store_dir")) > 1:
        at = entries["store_dir"] if "store_dir" in fields else _entry_of(entries["jetstream"], "store_dir")
        checker.error(refusal(at, "Duplicate 'store_dir' configuration"))
    if authorization.auth_callout is not None:
        names = {account.name for account in accounts}
        for name in authorization.auth_callout.allowed_accounts:
            if name not in names:
                message = f"auth_callout allowed account {quote(name)} not found in configured accounts"
                checker.error(ConfigError(message))
    known = {account.name for account in accounts} | {GLOBAL_ACCOUNT, SYSTEM_ACCOUNT}
    for text in _oidc_problems(authorization, known):
        checker.error(refusal(entries["authorization"], text))
    # As in nats-server, relations between accounts are only looked at when each is right by itself.
    if accounts and not checker.errors:
        from slipstream.config.sharing import sharing_problems

        for text in sharing_problems(
            accounts,
            no_system_account=fields.get("no_system_account", False),
            check_mapping=checker.check_mapping,
        ):
            checker.error(refusal(entries["accounts"], text))


def _oidc_problems(authorization: AuthorizationOptions, accounts: set[str]) -> Iterator[str]:
    """Accounts that tokens of OpenID issuers are to be let into, and that are not there."""
    for issuer in authorization.oidc:
        named = [issuer.account, *(rule.account or issuer.account for rule in issuer.rules), *issuer.allowed_accounts]
        for name in dict.fromkeys(named):
            if name not in accounts and "{{" not in name:
                yield f"oidc account {quote(name)} not found in configured accounts"


def _entry_of(block: Value, key: str) -> Value:
    """The entry of a key in the `jetstream` block, for the place of an error."""
    from slipstream.config.keys.jetstream import JETSTREAM

    assert isinstance(block.data, dict)
    rows = ((JETSTREAM.find(name), value) for name, value in block.data.items())
    return next(value for row, value in rows if row is not None and row.names[0] == key)


def _entries_by_key(parsed: Value) -> dict[str, Value]:
    """The top-level entries by canonical key."""
    from slipstream.config.keys.server import SERVER

    assert isinstance(parsed.data, dict)
    found = {}
    for name, value in parsed.data.items():
        key = SERVER.find(name)
        if key is not None:
            found[key.names[0]] = value
    return found


def _authorization_problems(value: Value, authorization: AuthorizationOptions) -> Iterator[ConfigError]:
    if (authorization.user or authorization.password) and authorization.token:
        yield refusal(value, "Cannot have a user/pass and token")
        return
    assert isinstance(value.data, dict)
    has_users = any(name.lower() == "users" for name in value.data)
    if has_users and authorization.user:
        yield refusal(value, "Can not have a single user/pass and a users array")
    elif has_users and authorization.token:
        yield refusal(value, "Can not have a token and a users array")
    names: set[str] = set()
    for user in authorization.users:
        if user.name in names:
            yield _duplicate(value, user.name, is_nkey=bool(user.nkey))
        names.add(user.name)


def _account_user_problems(
    value: Value,
    authorization: AuthorizationOptions,
    accounts: tuple[AccountOptions, ...],
    overrides: Overrides,
) -> Iterator[ConfigError]:
    names = {user.name for user in authorization.users}
    single_user = authorization.user or overrides.get("authorization.user")
    single_token = authorization.token or overrides.get("authorization.token")
    for account in accounts:
        if not account.users:
            continue
        at = _users_value(value, account.name)
        if single_user:
            yield refusal(at, "Can not have a single user/pass and accounts")
        elif single_token:
            yield refusal(at, "Can not have a token and accounts")
        for user in account.users:
            if user.name in names:
                yield _duplicate(at, user.name, is_nkey=bool(user.nkey))
            names.add(user.name)


def _users_value(accounts: Value, account: str) -> Value:
    """The `users` entry of an account, for the place of an error."""
    assert isinstance(accounts.data, dict)
    entry = accounts.data[account]
    assert isinstance(entry.data, dict)
    return next(value for name, value in entry.data.items() if name.lower() == "users")


def _duplicate(value: Value, name: str, *, is_nkey: bool) -> ConfigError:
    return refusal(value, f"Duplicate {'nkey' if is_nkey else 'user'} {quote(name)} detected")
