"""What a server checks before it starts, on top of a configuration that is right in itself.

`problems` are contradictions nats-server refuses at start, in its words. `unsupported` lists what nats-server would do
and this server cannot do yet: never ignored in silence, always a start-up error with the place in the file. A feature
that gets implemented loses its row in `UNSUPPORTED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from slipstream.config.addresses import advertised
from slipstream.config.durations import format_duration
from slipstream.config.jetstream_options import JetStreamOptions
from slipstream.config.listener_options import TLSOptions
from slipstream.config.options import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, Options, Position
from slipstream.config.subject_rules import ACCOUNT_KEY, is_public_key
from slipstream.errors import ConfigError

__all__ = ["UNSUPPORTED", "problems", "unsupported"]


def problems(options: Options) -> list[ConfigError]:
    """Contradictions that keep a server from starting; empty if there are none."""
    return [ConfigError(text) for check in _CHECKS for text in check(options)]


def unsupported(options: Options) -> list[ConfigError]:
    """What the configuration asks for and this server cannot do; empty if there is nothing."""
    found = []
    for key, is_asked_for, what in UNSUPPORTED:
        if is_asked_for(options):
            at = options.positions.get(key, Position())
            found.append(ConfigError(what, file=at.file, line=at.line, column=at.column))
    return found


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def _checks_ocsp(tls: TLSOptions | None) -> bool:
    return tls is not None and tls.ocsp_peer is not None and tls.ocsp_peer.verify


_NO_STAPLING = (
    "OCSP stapling is not supported, since Python's TLS cannot send staples: remove `ocsp`, or say `mode: never`"
)
_NO_OCSP_PEER = (
    "ocsp_peer is not supported: certificates cannot be checked with OCSP. Short-lived certificates do the same, or an "
    "auth callout, which is shown the certificate"
)

# key whose place is reported, whether it is asked for, what to say
UNSUPPORTED: tuple[tuple[str, Callable[[Options], object], str], ...] = (
    (
        "jetstream",
        lambda o: (
            o.jetstream.enabled and o.jetstream.audit is not None and o.system_account_name in ("", GLOBAL_ACCOUNT)
        ),
        "audit is kept in the system account: there must be one, and not $G, which has other streams",
    ),
    (
        "jetstream",
        lambda o: o.jetstream.declared is not None and o.has_tenants,
        "declared streams of a server with accounts belong to one of them: write `declared` in its `jetstream` block, "
        "or use `slipstream apply` where accounts come from tokens",
    ),
    (
        "accounts",
        lambda o: any(
            account.name == o.system_account_name and account.jetstream is not None and account.jetstream.declared
            for account in o.accounts
        ),
        "the system account has no streams that could be declared",
    ),
    ("lake", lambda o: o.lake and not o.jetstream.enabled, "lake writes streams to tables: it needs JetStream"),
    (
        "lake",
        lambda o: o.lake and (not _is_installed("deltalake") or not _is_installed("pyarrow")),
        "lake needs the extra `lake`: pip install 'slipstream-server[lake]'",
    ),
    ("cluster", lambda o: _checks_ocsp(o.cluster.tls), _NO_OCSP_PEER),
    (
        "cluster",
        lambda o: o.cluster.password.startswith(("$2a$", "$2b$", "$2x$", "$2y$")),
        "a bcrypt password of routes is not supported: servers of a cluster give it to each other as it is",
    ),
    (
        "cluster",
        lambda o: o.replicates and not _is_installed("slipstream_raft"),
        "JetStream on a server of a cluster needs the extra `cluster`: pip install 'slipstream-server[cluster]'",
    ),
    (
        "jetstream",
        lambda o: o.replicates and o.jetstream.decrypt,
        "encryption of a server of a cluster cannot be turned off in place: move streams with one copy off it, and "
        "start it without a key and with an empty store_dir",
    ),
    (
        "gateway",
        lambda o: o.gateway.port and o.jetstream.enabled and not o.cluster.port,
        "JetStream on a server with gateways needs a `cluster` block with `listen`: all clusters of a supercluster "
        "agree on one set of streams, as servers of a cluster do",
    ),
    (
        "gateway",
        lambda o: _checks_ocsp(o.gateway.tls) or any(_checks_ocsp(one.tls) for one in o.gateway.gateways),
        _NO_OCSP_PEER,
    ),
    (
        "gateway",
        lambda o: o.gateway.password.startswith(("$2a$", "$2b$", "$2x$", "$2y$")),
        "a bcrypt password of gateways is not supported: clusters give it to each other as it is",
    ),
    (
        "leafnodes",
        lambda o: (
            o.jetstream.extension_hint.lower() == "will_extend"
            and any(remote.account == o.system_account_name for remote in o.leafnodes.remotes)
        ),
        "JetStream is not extended over the system account of a leaf node: each side keeps its own. Give each a "
        "domain, or say extension_hint: no_extend",
    ),
    ("leafnodes", lambda o: any(not remote.urls for remote in o.leafnodes.remotes), "a leaf node remote needs a URL"),
    ("mqtt", lambda o: o.mqtt.port, "MQTT is not supported yet"),
    ("ocsp", lambda o: o.ocsp and o.ocsp.mode != "never", _NO_STAPLING),
    ("tls", lambda o: _checks_ocsp(o.tls), _NO_OCSP_PEER),
    ("websocket", lambda o: _checks_ocsp(o.websocket.tls), _NO_OCSP_PEER),
    ("leafnodes", lambda o: _checks_ocsp(o.leafnodes.tls), _NO_OCSP_PEER),
    ("prof_port", lambda o: o.prof_port, "profiling over HTTP is not supported"),
    (
        "jetstream",
        lambda o: o.jetstream.enabled and o.jetstream.tpm is not None,
        "keys in a TPM are not supported: key_command in jetstream takes the key from any program, also one that "
        "unseals it",
    ),
)


# --- start-up checks -------------------------------------------------------------------------------------------------


def _limits(options: Options) -> Iterator[str]:
    grace_ns, duration_ns = options.lame_duck_grace_period_ns, options.lame_duck_duration_ns
    if grace_ns >= duration_ns > 0:
        yield (
            f"lame duck grace period ({format_duration(grace_ns)}) should be strictly lower than "
            f"lame duck duration ({format_duration(duration_ns)})"
        )
    if options.max_payload > options.max_pending:
        yield f"max_payload ({options.max_payload}) cannot be higher than max_pending ({options.max_pending})"
    if " " in options.server_name:
        yield "server name cannot contain spaces"


def _advertised(options: Options) -> Iterator[str]:
    if options.client_advertise:
        try:
            advertised(options.client_advertise, options.port)
        except ValueError as error:
            value = options.client_advertise
            yield f"Error setting server INFO with ClientAdvertise value of {value}, err={error}"


def _leafnodes(options: Options) -> Iterator[str]:
    if options.operator:
        yield from _leafnodes_of_operators(options)
    else:
        yield from _leafnodes_of_accounts(options)
    for remote in options.leafnodes.remotes:
        if len({url.startswith(("ws://", "wss://")) for url in remote.urls}) > 1:
            from slipstream.config.keys.remote import redacted

            shown = " ".join(f'"{redacted(url)}"' for url in remote.urls)
            yield f"remote leaf node configuration cannot have a mix of websocket and non-websocket urls: [{shown}]"


def _leafnodes_of_accounts(options: Options) -> Iterator[str]:
    known = {account.name for account in options.accounts} | {"", "$G", options.system_account_name}
    bound = [options.leafnodes.account, *(user.account for user in options.leafnodes.users)]
    for name in bound:
        if name not in known:
            yield f'cannot find local account "{name}" specified in leafnode authorization'
    for remote in options.leafnodes.remotes:
        if remote.account not in known:
            yield f'cannot find local account "{remote.account}" specified in leafnode remote'


def _leafnodes_of_operators(options: Options) -> Iterator[str]:
    """Accounts come with tokens: no configuration names them, so only their keys can be checked."""
    leafnodes = options.leafnodes
    if leafnodes.users:
        yield "operator mode does not allow specifying users in leafnode config"
    if not all(is_public_key(remote.account, ACCOUNT_KEY) for remote in leafnodes.remotes):
        yield (
            "operator mode requires account nkeys in remotes. Please add an `account` key to each remote in your "
            "`leafnodes` section, to assign it to an account. Each account value should be a 56 character public "
            "key, starting with the letter 'A'"
        )
    if leafnodes.port and leafnodes.account and not is_public_key(leafnodes.account, ACCOUNT_KEY):
        yield "operator mode and non account nkeys are incompatible"


# What `compression` may say; the first word of a pair is the canonical one.
_COMPRESSION_MODES = frozenset(
    [
        "on",
        "enabled",
        "true",
        "off",
        "disabled",
        "false",
        "accept",
        "not_supported",
        "s2_auto",
        "auto",
        "s2_fast",
        "fast",
        "s2_better",
        "better",
        "s2_best",
        "best",
    ]
) | {"not supported"}


def _compression(options: Options) -> Iterator[str]:
    modes = [options.cluster.compression.mode, options.leafnodes.compression.mode]
    modes += [remote.compression.mode for remote in options.leafnodes.remotes]
    for mode in modes:
        if mode and mode.lower() not in _COMPRESSION_MODES:
            yield f'unsupported compression mode "{mode}"'


def _system_account(options: Options) -> Iterator[str]:
    known = {account.name for account in options.accounts} | {"", GLOBAL_ACCOUNT, SYSTEM_ACCOUNT}
    if options.system_account not in known and not options.trusts_operators:
        yield "error resolving system account: account missing"


def _no_auth_user(options: Options, name: str) -> Iterator[str]:
    if not name:
        return
    if options.operator:
        yield "no_auth_user not compatible with Trusted Operator"
        return
    names = [user.name for _, user in options.users()]
    if not names:
        yield f'no_auth_user: "{name}" present, but users/nkeys are not defined'
    elif name not in names:
        yield f'no_auth_user: "{name}" not present as user or nkey in authorization block or account configuration'


def _users(options: Options) -> Iterator[str]:
    yield from _no_auth_user(options, options.no_auth_user)
    if options.default_sentinel and not options.operator:
        yield "default sentinel requires operators and accounts"
    if options.authorization.oidc and options.trusts_operators:
        yield "oidc not compatible with Trusted Operator: accounts come with tokens there, and users with theirs"


def _gateway(options: Options) -> Iterator[str]:
    gateway = options.gateway
    if not gateway.name and not gateway.port:
        return
    if not gateway.name:
        yield "gateway has no name"
    elif not gateway.port:
        yield f'gateway "{gateway.name}" has no port specified (select -1 for random port)'
    for index, remote in enumerate(gateway.gateways):
        if not remote.name:
            yield f"gateway in the list {index} has no name"
        elif not remote.urls:
            yield f'gateway "{remote.name}" has no URL'
    if options.leafnodes.port and not options.system_account:
        yield "leaf nodes and gateways (both being defined) require a system account to also be configured"
    if gateway.name and options.cluster.name and gateway.name != options.cluster.name:
        yield "cluster name conflicts between cluster and gateway definitions"


def _cluster(options: Options) -> Iterator[str]:
    accounts = options.cluster.accounts
    if accounts and options.cluster.pool_size < 0:
        yield "pool_size cannot be negative if pinned accounts are specified"
    duplicates = sorted({name for name in accounts if accounts.count(name) > 1})
    if duplicates:
        shown = " ".join(f'"{name}"' for name in accounts)
        yield f'found duplicate account name "{duplicates[0]}" in pinned accounts list [{shown}]'


def _default_domains(options: Options) -> Iterator[str]:
    accounts = {account.name: account for account in options.accounts}
    for name, domain in options.default_js_domain.items():
        if name not in accounts and name not in (GLOBAL_ACCOUNT, SYSTEM_ACCOUNT):
            yield f'in non operator mode, `default_js_domain` references non existing account "{name}"'
        elif domain and name in accounts and accounts[name].jetstream is not None:
            yield f'default_js_domain contains account name "{name}" with enabled JetStream'
        elif name == (options.system_account or SYSTEM_ACCOUNT):
            yield f'system account "{name}" can not be in default_js_domain'
        elif domain and (re.search(r"[\s*>]", domain) or "" in domain.split(".")):
            yield f'default_js_domain contains account "{name}" with invalid domain name "{domain}"'


def _jetstream(options: Options) -> Iterator[str]:
    domain = options.jetstream.domain
    if domain and re.search(r"[\s.*>]", domain):
        yield "invalid domain name: may not contain ., * or >"
    if options.jetstream.enabled:
        yield from _encryption(options.jetstream)
    if options.jetstream.enabled and options.cluster.port:
        if not options.server_name:
            yield "jetstream cluster requires `server_name` to be set"
        if not options.cluster.name:
            yield "jetstream cluster requires `cluster.name` to be set"
        hint = options.jetstream.extension_hint.lower()
        if hint not in ("", "will_extend", "no_extend"):
            yield f"expected 'no_extend' for string value, got '{hint}'"


def _http_api(options: Options) -> Iterator[str]:
    tls = options.http_api.tls
    if tls is not None:
        # Settings of the other listeners' TLS that would do nothing here.
        asked = {
            "verify_and_map": tls.verify_and_map,
            "pinned_certs": tls.pinned_certs,
            "connection_rate_limit": tls.connection_rate_limit,
            "handshake_first": tls.handshake_first,
            "insecure": tls.insecure,
            "ocsp_peer": tls.ocsp_peer,
        }
        for name, is_set in asked.items():
            if is_set:
                yield f"http_api: tls has no {name} here"
    for origin in options.http_api.allowed_origins:
        yield from _origin_problem(origin)


def _encryption(jetstream: JetStreamOptions) -> Iterator[str]:
    sources = [name for name in ("key", "key_file", "key_command") if getattr(jetstream, name)]
    if len(sources) > 1:
        yield f"jetstream takes its encryption key from one place: {' and '.join(sources)} are given"
    if jetstream.decrypt and not sources and not jetstream.prev_key:
        yield "jetstream is to decrypt and has no key: give the one that stored data has"
    if jetstream.decrypt and jetstream.cipher:
        yield "jetstream is to decrypt and has a cipher: nothing would be encrypted"
    if jetstream.prev_key and not sources and not jetstream.decrypt:
        yield "jetstream has a prev_key and no key: the key that data is to have from now on is missing"
    if jetstream.cipher and not sources and jetstream.tpm is None:
        yield "jetstream has a cipher and no key: nothing would be encrypted"


def _websocket(options: Options) -> Iterator[str]:
    websocket = options.websocket
    if not websocket.port:
        return
    if websocket.tls is None and not websocket.no_tls:
        yield "websocket requires TLS configuration"
    for origin in websocket.allowed_origins:
        yield from _origin_problem(origin)
    yield from _no_auth_user(options, websocket.no_auth_user)
    if any(True for _ in options.users()):
        if websocket.user:
            yield "websocket authentication username not compatible with presence of users/nkeys"
        if websocket.token:
            yield "websocket authentication token not compatible with presence of users/nkeys"
    if websocket.jwt_cookie and not options.operator and not options.trusted_keys and not options.authorization.oidc:
        yield (
            "trusted operators or trusted keys configuration is required for JWT authentication via cookie "
            f'"{websocket.jwt_cookie}"'
        )
    for name in websocket.headers:
        if name.lower() in ("host", "content-length", "connection", "upgrade", "nats-no-masking"):
            yield f'websocket: invalid header "{name}" not allowed'
        elif name.lower().startswith("sec-websocket-"):
            yield f'websocket: invalid header "{name}", "Sec-WebSocket-" prefix not allowed'


def _origin_problem(origin: str) -> Iterator[str]:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(origin)
        host = parts.hostname
        _ = parts.port  # raises if it is not a number
    except ValueError as error:
        yield f"unable to parse allowed origin: {error}"
        return
    if parts.scheme not in ("http", "https"):
        yield (
            f'unable to parse allowed origin "{origin}": allowed origins must be absolute URLs with http or '
            "https scheme"
        )
    elif not host:
        yield f'unable to parse allowed origin "{origin}": host is required'


_CHECKS: tuple[Callable[[Options], Iterator[str]], ...] = (
    _limits,
    _advertised,
    _leafnodes,
    _compression,
    _users,
    _gateway,
    _cluster,
    _default_domains,
    _jetstream,
    _websocket,
    _http_api,
    _system_account,
)
