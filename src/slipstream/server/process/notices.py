"""What a server says about its configuration when it starts: doubtful settings, and settings that do nothing here.

`notices` are nats-server's own words where it has some. `idle_keys` are those that it takes in silence and that do
nothing on a server without routes, gateways, leaf nodes, MQTT or operators: they are named in one warning, so that
nobody relies on them. What a configuration asks for and cannot have at all is refused (`config.validate`).

A feature that gets implemented loses its rows in `IDLE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from slipstream.auth.password import is_bcrypt
from slipstream.config.checker import quote
from slipstream.config.features import flag_lines
from slipstream.config.listener_options import OCSPCacheOptions
from slipstream.config.options import GLOBAL_ACCOUNT, Options
from slipstream.config.record import Record, has_default, is_compared
from slipstream.limits import MAX_PAYLOAD_WARN_BYTES
from slipstream.links.compression import BEST, BETTER, configured_mode
from slipstream.units import MIB

if TYPE_CHECKING:
    from slipstream.config.account_options import UserOptions

__all__ = ["IDLE", "Notice", "idle_keys", "notices"]

# The object identifier of the extension (RFC 7633) in DER.
_TLS_FEATURE: Final = bytes.fromhex("06082b06010505070118")

Notice = tuple[str, str]  # level of the log line, text

# Keys without effect as long as the server is alone, as `block.field` of the options; a block stands for all of it.
IDLE: Final[frozenset[str]] = frozenset(
    {
        "connect_error_reports",
        "reconnect_error_reports",
        "prof_block_rate",
        # Without operators there are no tokens to look for.
        "resolver",
        "resolver_preload",
        "resolver_pinned_accounts",
        "resolver_tls",
        "ocsp_cache",
        "jetstream.unique_tag",
        "jetstream.extension_hint",
        "jetstream.max_outstanding_catchup",
        "jetstream.meta_compact",
        "jetstream.meta_compact_size",
        "jetstream.meta_compact_sync",
        "jetstream.limits.max_ha_assets",
        "websocket.advertise",  # told to other servers
        "accounts.nkey",
        "accounts.jetstream.cluster_traffic",
        "mqtt",
        # Of connections that the server makes itself, and of the certificate store of Windows.
        "tls.insecure",
        "tls.cert_match_by",
        "tls.cert_match",
        "tls.cert_match_skip_invalid",
        "tls.ca_certs_match",
        "tls.ocsp_peer",
        "websocket.tls.insecure",
        "websocket.tls.cert_match_by",
        "websocket.tls.cert_match",
        "websocket.tls.cert_match_skip_invalid",
        "websocket.tls.ca_certs_match",
        "websocket.tls.ocsp_peer",
        # Routes speak TLS from the first byte on, and to servers alone.
        "cluster.tls.cert_match_by",
        "cluster.tls.cert_match",
        "cluster.tls.cert_match_skip_invalid",
        "cluster.tls.ca_certs_match",
        "cluster.tls.ocsp_peer",
        "cluster.tls.handshake_first",
        "cluster.tls.handshake_first_fallback_ns",
        "cluster.tls.connection_rate_limit",
        # So do gateways.
        "gateway.tls.cert_match_by",
        "gateway.tls.cert_match",
        "gateway.tls.cert_match_skip_invalid",
        "gateway.tls.ca_certs_match",
        "gateway.tls.ocsp_peer",
        "gateway.tls.handshake_first",
        "gateway.tls.handshake_first_fallback_ns",
        "gateway.tls.connection_rate_limit",
        # `handshake_timeout` of the block holds for TLS, which always comes first there.
        "websocket.tls.timeout_ns",
        "websocket.tls.handshake_first",
        "websocket.tls.handshake_first_fallback_ns",
        "websocket.tls.connection_rate_limit",
    }
)


def notices(options: Options) -> list[Notice]:
    """What is to be said at the start."""
    found = [("INF", line) for line in flag_lines(options.feature_flags)]
    found += _passwords(options)
    found += _callout(options)
    found += _openid(options)
    found += _staples(options)
    if options.max_payload > MAX_PAYLOAD_WARN_BYTES:
        size = f"{MAX_PAYLOAD_WARN_BYTES / MIB:.2f} MB"
        text = f"Maximum payloads over {size} are generally discouraged and could lead to poor performance"
        found.append(("WRN", text))
    if options.default_js_domain:
        text = "The option `default_js_domain` is a temporary backwards compatibility measure and will be removed"
        found.append(("WRN", text))
    if configured_mode(options.cluster.compression) in (BETTER, BEST):
        found.append(("WRN", "Routes have one level of compression: s2_better and s2_best compress as s2_fast does"))
    leafs = (options.leafnodes.compression, *(remote.compression for remote in options.leafnodes.remotes))
    if any(configured_mode(leaf) in (BETTER, BEST) for leaf in leafs):
        text = "Leaf links have one level of compression: s2_better and s2_best compress as s2_fast does"
        found.append(("WRN", text))
    if options.cluster.tls is not None and options.cluster.tls.insecure:
        text = "TLS certificate chain and hostname of solicited routes will not be verified. DO NOT USE IN PRODUCTION!"
        found.append(("WRN", text))
    http_api = options.http_api
    if http_api.port and http_api.tls is None and http_api.host not in ("127.0.0.1", "::1", "localhost"):
        found.append(("WRN", "http_api is not configured with TLS: passwords and tokens travel in clear"))
    idle = idle_keys(options)
    if idle:
        found.append(("WRN", f"Without effect on a server that is alone: {', '.join(idle)}"))
    return found


def _passwords(options: Options) -> list[Notice]:
    single = options.authorization.password
    plain = bool(single) and not is_bcrypt(single)
    if plain or any(_is_readable(user, options) for _, user in options.users()):
        return [("WRN", "Plaintext passwords detected, use nkeys or bcrypt")]
    return []


def _callout(options: Options) -> Iterator[Notice]:
    """An auth callout that nobody can serve."""
    callout = options.authorization.auth_callout
    if callout is None:
        return
    known = {account.name for account in options.accounts} | {GLOBAL_ACCOUNT, options.system_account_name}
    error = "<nil>"
    if callout.account not in known:
        error = "account missing"
        yield "ERR", f"Authorization callout account {quote(callout.account)} not valid"
    users = {user.name for _, user in options.users()}
    for name in callout.auth_users:
        if name not in users:
            yield "ERR", f"Authorization callout user {quote(name)} not valid: {error}"


def _openid(options: Options) -> Iterator[Notice]:
    """Keys that somebody on the way could exchange."""
    for issuer in options.authorization.oidc:
        address = issuer.jwks or issuer.issuer
        if address.lower().startswith("http://"):
            yield "WRN", f"Keys of the OpenID issuer {quote(issuer.issuer)} come without TLS: only for tests"


def _staples(options: Options) -> Iterator[Notice]:
    """Certificates that clients accept only with a staple, which nats-server sends without being told."""
    for tls in (options.tls, options.websocket.tls, options.leafnodes.tls):
        if tls is not None and tls.cert_file and _must_staple(tls.cert_file):
            what = f"The certificate {tls.cert_file} asks for OCSP stapling, which is not supported"
            yield "WRN", f"{what}: clients that insist on it will not connect"


def _must_staple(path: str) -> bool:
    import binascii
    import re

    try:
        with open(path, "rb") as file:
            found = re.search(rb"-----BEGIN CERTIFICATE-----(.+?)-----END", file.read(MIB), re.DOTALL)
        return found is not None and _TLS_FEATURE in binascii.a2b_base64(found[1])
    except (OSError, ValueError):
        return False  # whoever uses the file says what is wrong with it


def _is_readable(user: UserOptions, options: Options) -> bool:
    if user.nkey or is_bcrypt(user.password):
        return False
    by_certificate = any(tls is not None and tls.verify_and_map for tls in (options.tls, options.websocket.tls))
    return bool(user.password) or not by_certificate


# --- keys without effect ---------------------------------------------------------------------------------------------


def idle_keys(options: Options) -> list[str]:
    """Keys that the configuration sets and that do nothing here, in order."""
    changed = [*_changed(options, Options(), "")]
    if options.cluster.port or options.gateway.port:
        changed = [name for name in changed if not name.endswith("connect_error_reports")]
    if options.trusts_operators:
        changed = [name for name in changed if not name.startswith("resolver")]
    for account in options.accounts:
        changed += _changed(account, type(account)(account.name), "accounts.")
    # Their settings wait for a port.
    off = [f"{name}." for name in ("websocket", "gateway") if not getattr(options, name).port]
    found = [name for name in changed if _is_idle(name) or name.startswith(tuple(off))]
    return [*dict.fromkeys(name.removesuffix("_ns") for name in found)]


def _is_idle(name: str) -> bool:
    return name in IDLE or any(name[:dot] in IDLE for dot, char in enumerate(name) if char == ".")


def _changed(record: Record, default: Record, prefix: str) -> Iterator[str]:
    """Names of the fields that are not at their default, those of blocks with the name of the block."""
    for name in record.__match_args__:
        value, before = getattr(record, name), getattr(default, name)
        if value == before or not is_compared(record, name) or (name == "auth_timeout_ns" and not value):
            continue
        if isinstance(value, OCSPCacheOptions):
            if value.type != "none":
                yield f"{prefix}{name}"
        elif isinstance(value, Record):
            # A block that is not there by default says nothing when it is empty.
            yield from _changed(value, before if isinstance(before, Record) else _plain(value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _plain(record: Record) -> Record:
    """The same with all defaults; what has none stays as it is."""
    needed = {name: getattr(record, name) for name in record.__match_args__ if not has_default(record, name)}
    return type(record)(**needed)
