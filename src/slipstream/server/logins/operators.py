"""The edge of operator mode: files with tokens, time zones, and what a start does with them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from slipstream.auth.jwt.checks import account_findings
from slipstream.auth.jwt.findings import blocks
from slipstream.auth.jwt.token import InvalidToken, decode_account, decode_operator, undecorated
from slipstream.auth.jwt.trust import trust_of, trust_problems
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.config.options import SYSTEM_ACCOUNT, Position, ResolverOptions
from slipstream.config.record import replace
from slipstream.errors import ConfigError
from slipstream.routing.operators import OperatorMode
from slipstream.server.logins.resolvers import DirectoryResolver, MemoryResolver, UrlResolver
from slipstream.server.logins.token_directory import DirectoryError, TokenDirectory
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from slipstream.auth.jwt.claims import OperatorClaims
    from slipstream.config.options import Options
    from slipstream.routing.operators import AccountResolver
    from slipstream.server.server import Server

__all__ = ["load_accounts_on_disk", "operator_problems", "start_operators", "with_tokens", "zone"]

_TOKEN_START = "eyJ"  # base64 of `{"`
_TOKEN_FILE_BYTES_MAX = 1024 * 1024


def with_tokens(options: Options) -> Options:
    """The same options with tokens in place of the files that hold them, and what the operator says filled in.

    Raises:
        ConfigError: a file cannot be read, or something is no token.
    """
    texts, claims = [], []
    for entry in options.operator:
        try:
            texts.append(_token(entry))
            claims.append(decode_operator(texts[-1]))
        except (InvalidToken, OSError) as error:
            raise _refusal(options, "operator", f"error parsing operator JWT: {_reason(error, entry)}") from error
    for text in options.resolver_preload.values():
        try:
            decode_account(text)
        except InvalidToken as error:
            raise _refusal(options, "resolver_preload", "invalid account JWT") from error
    changed: dict[str, object] = {"operator": tuple(texts)}
    if len(claims) == 1:
        changed["system_account"] = options.system_account or claims[0].nats.system_account
        url = claims[0].nats.account_server_url
        if options.resolver is None and "://" in url:
            changed["resolver"] = ResolverOptions("url", url=f"{url}/accounts")
    cluster, system = options.cluster, changed.get("system_account") or options.system_account
    if cluster.port and cluster.pool_size > 0 and system and system not in cluster.accounts:
        # It has a route of its own, as every system account; before the operator was read nobody knew its name.
        others = tuple(name for name in cluster.accounts if name != SYSTEM_ACCOUNT)
        changed["cluster"] = replace(cluster, accounts=(*others, str(system)))
    return replace(options, **changed)


def operator_problems(options: Options) -> list[ConfigError]:
    """Contradictions between trusted operators and the rest of a configuration."""
    return [ConfigError(text) for text in trust_problems(options, trust_of(options.operator, options.trusted_keys))]


def start_operators(server: Server) -> OperatorMode:
    """Trust the operators of a configuration, and get the system account.

    Raises:
        ConfigError: the resolver or the system account cannot be had.
    """
    options = server.options
    trust = trust_of(options.operator, options.trusted_keys)
    _announce(server, trust.operators)
    resolver = _resolver(server)
    mode = OperatorMode(server.hub, trust, resolver, server.turns, zone, server.log)
    server.hub.logins.trust(mode)
    _check_preloads(server)
    system = options.system_account
    if system and system != SYSTEM_ACCOUNT:
        if not mode.load(system):
            # Its token may follow: it is pushed through itself.
            if isinstance(resolver, MemoryResolver) or len(trust.operators) != 1:
                raise ConfigError("error resolving system account: account missing")
            mode.believe(system)
        if server.hub.topology.graph.accounts[system].options.jetstream is not None and options.jetstream.enabled:
            raise ConfigError("Not allowed to enable JetStream on the system account")
    return mode


def load_accounts_on_disk(mode: OperatorMode, names: Iterable[str]) -> None:
    """Get the accounts that have streams: these go on whether a client comes or not."""
    for name in sorted(names):
        if is_public_key(name, KeyKind.ACCOUNT):
            mode.load(name)


def _resolver(server: Server) -> AccountResolver:
    options, preload = server.options, server.options.resolver_preload
    chosen = options.resolver
    if chosen is None or chosen.type == "memory":
        return MemoryResolver(preload)
    if chosen.type == "url":
        if preload:
            raise ConfigError("resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR")
        resolver = UrlResolver(chosen.url, options.resolver_tls, server.turns)
        try:
            resolver.fetch_now("")
        except OSError as error:
            raise ConfigError(str(error)) from error
        return resolver
    try:
        directory = TokenDirectory(chosen, server.clock.now_ns)
        for name, text in preload.items():
            directory.save_if_newer(name, text)
    except (OSError, DirectoryError) as error:
        raise ConfigError(str(error)) from error
    kind = "some" if chosen.type == "cache" else "all"
    server.log("INF", f"Managing {kind} jwt in exclusive directory {directory.path}")
    return DirectoryResolver(chosen, server.turns, directory)


def _announce(server: Server, operators: tuple[OperatorClaims, ...]) -> None:
    if not operators:
        return
    server.log("INF", "Trusted Operators")
    for operator in operators:
        server.log("INF", f'  System  : "{operator.aud}"')
        server.log("INF", f'  Operator: "{operator.name}"')
        server.log("INF", f"  Issued  : {_shown(operator.iat)}")
        server.log("INF", f"  Expires : {_shown(operator.exp) if operator.exp else 'Never'}")
    if not server.options.system_account:
        server.log("WRN", "Trusted Operators should utilize a System Account")


def _shown(seconds: int) -> str:
    try:
        local = datetime.fromtimestamp(seconds, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(seconds)
    return f"{local:%Y-%m-%d %H:%M:%S %z} {local.tzname()}"


def _check_preloads(server: Server) -> None:
    preload: Mapping[str, str] = server.options.resolver_preload
    for name, text in preload.items():
        found = account_findings(decode_account(text), server.clock.now_ns() // SECOND_NS)
        if blocks(found, with_time=True):
            server.log("WRN", f"Account [{name}] has validation issues:")
            for finding in found:
                server.log("WRN", f"  - {finding.text}")


# --- the outside -----------------------------------------------------------------------------------------------------


def _token(entry: str) -> str:
    if entry.startswith(_TOKEN_START):
        return undecorated(entry)
    with open(entry, "rb") as file:
        return undecorated(file.read(_TOKEN_FILE_BYTES_MAX).decode("utf-8", "replace"))


def _reason(error: Exception, path: str) -> str:
    if isinstance(error, OSError):
        return f"open {path}: {(error.strerror or str(error)).lower()}"
    return str(error)


def _refusal(options: Options, key: str, text: str) -> ConfigError:
    at = options.positions.get(key, Position())
    return ConfigError(text, file=at.file, line=at.line, column=at.column)


@cache
def zone(name: str) -> tzinfo | None:
    """A time zone by name; "" is the server's own."""
    if name in ("", "Local"):
        return datetime.now(UTC).astimezone().tzinfo
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
