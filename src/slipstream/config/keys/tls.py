"""The keys of a `tls` block, which every listener and every remote shares.

A TLS block is checked as nats-server checks it: names of cipher suites and curves, rules between the keys, and, through
`Checker.check_tls`, the files themselves. What this is not: it builds no TLS context.
"""

from __future__ import annotations

import re
from typing import Final

from slipstream.config.checker import (
    Checker,
    Key,
    KeyTable,
    Reader,
    go_type,
    quote,
    read_map,
    refusal,
    require_map,
    wrong_type,
)
from slipstream.config.durations import parse_duration
from slipstream.config.listener_options import OCSPPeerOptions, TLSCertificateOptions, TLSOptions
from slipstream.config.parser import Value
from slipstream.config.readers import seconds, text
from slipstream.limits import TLS_HANDSHAKE_FIRST_FALLBACK_NS, TLS_TIMEOUT_NS

__all__ = ["CIPHER_SUITES", "CURVES", "INSECURE_CIPHER_SUITES", "OCSP_PEER", "TLS", "client_tls", "peer_tls"]

CIPHER_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
)
INSECURE_CIPHER_SUITES: Final = (
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
)
CURVES: Final = (
    "X25519MLKEM768",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
    "X25519",
    "CurveP256",
    "CurveP384",
    "CurveP521",
)
_pinned_cert = re.compile(r"[a-f0-9]{64}").fullmatch


def client_tls(checker: Checker, value: Value, _key: str) -> TLSOptions:
    """A `tls` block of a listener for clients, or of a leaf node."""
    options = _tls(checker, value)
    if options.verify_cert_and_check_known_urls:
        entry = next(v for k, v in require_map(value).items() if k.lower() == "verify_cert_and_check_known_urls")
        raise refusal(entry, "verify_cert_and_check_known_urls not supported in this context")
    return options


def peer_tls(checker: Checker, value: Value, _key: str) -> TLSOptions:
    """A `tls` block of routes or gateways, where both sides show certificates."""
    return _tls(checker, value)


def _tls(checker: Checker, value: Value) -> TLSOptions:
    before = len(checker.errors)
    options = TLSOptions(**read_map(checker, value, TLS))  # type: ignore[arg-type]  # the table names its fields
    if len(checker.errors) > before:
        return options
    if options.certs and options.cert_file:
        raise refusal(value, "error parsing tls config, cannot combine 'cert_file' option with 'certs' option")
    insecure = [name for name in options.cipher_suites if name in INSECURE_CIPHER_SUITES]
    if insecure and not options.allow_insecure_cipher_suites:
        names = ", ".join(insecure)
        raise refusal(
            value,
            f"insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: {names}",
        )
    problem = _files_problem(options)
    if problem is None and checker.check_tls is not None:
        problem = checker.check_tls(options)
    if problem is not None:
        raise refusal(value, problem)
    return options


def _files_problem(options: TLSOptions) -> str | None:
    if options.cert_store:
        # The Windows certificate store, which does not exist where this server runs.
        return (
            "'cert_file' and 'cert_store' may not both be configured"
            if options.cert_file
            else ("certificate store type not implemented: OS must be Windows")
        )
    if options.cert_file and not options.key_file:
        return "missing 'key_file' in TLS configuration"
    if options.key_file and not options.cert_file:
        return "missing 'cert_file' in TLS configuration"
    return None


# --- readers of single keys ------------------------------------------------------------------------------------------


def _filename(_checker: Checker, value: Value, key: str) -> str:
    if not isinstance(value.data, str):
        raise refusal(value, f"error parsing tls config, expected '{key.lower()}' to be filename")
    return value.data


def _boolean(_checker: Checker, value: Value, key: str) -> bool:
    if not isinstance(value.data, bool):
        raise refusal(value, f"error parsing tls config, expected '{key.lower()}' to be a boolean")
    return value.data


def _verifying(field: str) -> Reader:
    """A boolean that, when true, also means `verify`."""

    def read(checker: Checker, value: Value, key: str) -> dict[str, object]:
        return {field: True, "verify": True} if _boolean(checker, value, key) else {field: False}

    return read


def _names(known: tuple[str, ...], what: str) -> Reader:
    """A list of names that must be known and not empty."""

    def read(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
        if not isinstance(value.data, list):
            raise wrong_type(value, "[]interface {}")
        if not value.data:
            raise refusal(value, f"error parsing tls config, '{key.lower()}' cannot be empty")
        names = []
        for entry in value.data:
            name = text(checker, entry, key)
            if name not in known:
                raise refusal(entry, f"unrecognized {what} {name}")
            names.append(name)
        return tuple(names)

    return read


def _rate_limit(_checker: Checker, value: Value, _key: str) -> int:
    if not isinstance(value.data, int) or isinstance(value.data, bool):
        raise refusal(value, "error parsing tls config, 'connection_rate_limit' wrong type")
    return value.data


def _pinned_certs(checker: Checker, value: Value, key: str) -> frozenset[str]:
    what = "hex-encoded sha256 of DER encoded SubjectPublicKeyInfo"
    if not isinstance(value.data, list):
        raise refusal(value, f"error parsing tls config, expected 'pinned_certs' to be a list of {what}")
    pinned = set()
    for entry in value.data:
        digest = text(checker, entry, key).lower()
        if _pinned_cert(digest) is None:
            raise refusal(entry, f"error parsing tls config, 'pinned_certs' key {digest} does not look like {what}")
        pinned.add(digest)
    return frozenset(pinned)


def _handshake_first(_checker: Checker, value: Value, key: str) -> dict[str, object]:
    data = value.data
    if isinstance(data, bool):
        return {"handshake_first": data}
    if not isinstance(data, str):
        raise refusal(value, f"field {quote(key)} should be a boolean or a string, got {go_type(value)}")
    words = {"true": True, "on": True, "false": False, "off": False}
    if data.lower() in words:
        return {"handshake_first": words[data.lower()]}
    if data.lower() in ("auto", "auto_fallback"):
        return {"handshake_first": True, "handshake_first_fallback_ns": TLS_HANDSHAKE_FIRST_FALLBACK_NS}
    try:
        return {"handshake_first": True, "handshake_first_fallback_ns": parse_duration(data)}
    except ValueError:
        raise refusal(value, f"field {quote(key)}'s value {quote(data)} is invalid") from None


def _min_version(_checker: Checker, value: Value, _key: str) -> str:
    version = value.data
    if not isinstance(version, str):
        raise refusal(value, f"error parsing tls config: 'min_version' wrong type: {version}")
    if version in ("1.0", "1.1"):
        raise refusal(value, f"error parsing tls config: unsupported TLS version: TLS {version}")
    if version not in ("1.2", "1.3"):
        raise refusal(value, f"error parsing tls config: unknown version: {version}")
    return version


def _certificates(_checker: Checker, value: Value, _key: str) -> tuple[TLSCertificateOptions, ...]:
    prefix = "error parsing certificates config: "
    if not isinstance(value.data, list):
        raise refusal(value, f"{prefix}unsupported type {go_type(value)}")
    pairs = []
    for entry in value.data:
        if not isinstance(entry.data, dict):
            raise refusal(entry, f"{prefix}unsupported type {go_type(entry)}")
        files = {"cert_file": "", "key_file": ""}
        for name, file in entry.data.items():
            if not isinstance(file.data, str):
                raise refusal(file, f"{prefix}unsupported type {go_type(file)}")
            if name not in files:
                raise refusal(file, f"error parsing tls certs config, unknown field {quote(name)}")
            files[name] = file.data
        if not all(files.values()):
            at = list(entry.data.values())[-1] if entry.data else entry
            raise refusal(at, f"{prefix}both 'cert_file' and 'cert_key' options are required")
        pairs.append(TLSCertificateOptions(files["cert_file"], files["key_file"]))
    return tuple(pairs)


def _store_text(message: str) -> Reader:
    def read(_checker: Checker, value: Value, _key: str) -> str:
        if not isinstance(value.data, str) or not value.data:
            raise refusal(value, message)
        return value.data

    return read


def _skip_invalid(_checker: Checker, value: Value, _key: str) -> bool:
    if not isinstance(value.data, bool):
        raise refusal(value, "expected 'cert_match_skip_invalid' to be a boolean")
    return value.data


def _ca_certs_match(_checker: Checker, value: Value, _key: str) -> tuple[str, ...]:
    if isinstance(value.data, str):
        return (value.data,)
    names = []
    for entry in value.data if isinstance(value.data, list) else ():
        if not isinstance(entry.data, str):
            message = "error parsing ca_cert_match: unsupported type *conf.token where string is expected"
            raise refusal(value, message)
        names.append(entry.data)
    return tuple(names)


def _ocsp_peer(checker: Checker, value: Value, _key: str) -> OCSPPeerOptions:
    if isinstance(value.data, bool):
        return OCSPPeerOptions(verify=value.data)
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing ocsp peer config: unsupported type {go_type(value)}")
    return OCSPPeerOptions(**read_map(checker, value, OCSP_PEER))  # type: ignore[arg-type]  # the table names its fields


def _tls_timeout(checker: Checker, value: Value, key: str) -> int:
    # 0 is the same as not set, as for every timeout of nats-server.
    timeout_ns = seconds("tls")(checker, value, key)
    assert isinstance(timeout_ns, int)
    return timeout_ns or TLS_TIMEOUT_NS


# --- tables ----------------------------------------------------------------------------------------------------------

_FLAG = ("boolean", _boolean)

OCSP_PEER: Final = KeyTable(
    Key("verify", _FLAG, "Check the certificates of peers with OCSP."),
    Key("ca_timeout", ("duration", seconds("ocsp peer")), "Wait for the responder.", field="ca_timeout_ns"),
    Key(
        "allowed_clockskew",
        ("duration", seconds("ocsp peer")),
        "Difference of clocks that is tolerated.",
        field="allowed_clockskew_ns",
    ),
    Key("warn_only", _FLAG, "Log bad certificates and accept them."),
    Key("unknown_is_good", _FLAG, "Accept a certificate the responder does not know."),
    Key("allow_when_ca_unreachable", _FLAG, "Accept a certificate when no responder answers."),
    Key(
        "cache_ttl_when_next_update_unset",
        ("duration", seconds("ocsp peer")),
        "How long to keep an answer that has no end of its own.",
        field="cache_ttl_when_next_update_unset_ns",
    ),
    unknown="error parsing tls peer config, unknown field [{}]",
)

TLS: Final = KeyTable(
    Key("cert_file", ("path", _filename), "Certificate chain of the server, PEM.", reloadable=True),
    Key("key_file", ("path", _filename), "Private key of the certificate, PEM.", reloadable=True),
    Key("ca_file", ("path", _filename), "Authorities that client certificates are checked against.", reloadable=True),
    Key("verify", _FLAG, "Clients must show a certificate.", reloadable=True),
    Key(
        "verify_and_map",
        ("boolean", _verifying("verify_and_map")),
        "Clients must show a certificate, and its names decide which user they are.",
        field="",
        reloadable=True,
    ),
    Key(
        "verify_cert_and_check_known_urls",
        ("boolean", _verifying("verify_cert_and_check_known_urls")),
        "Routes and gateways only: the certificate must name a configured URL.",
        field="",
    ),
    Key("insecure", _FLAG, "As a client: accept any server certificate."),
    Key("timeout", ("duration", _tls_timeout), "Time for the handshake.", field="timeout_ns", reloadable=True),
    Key(
        "cipher_suites",
        ("list of names", _names(CIPHER_SUITES + INSECURE_CIPHER_SUITES, "cipher")),
        "Cipher suites offered, by their IANA names.",
        reloadable=True,
    ),
    Key(
        "curve_preferences",
        ("list of names", _names(CURVES, "curve preference")),
        "Curves offered, best first.",
        reloadable=True,
    ),
    Key("allow_insecure_cipher_suites", _FLAG, "Allow suites known to be weak in `cipher_suites`.", reloadable=True),
    Key(
        "pinned_certs",
        ("list of hex", _pinned_certs),
        "Only accept certificates whose public key has one of these SHA-256 hashes.",
        reloadable=True,
    ),
    Key("connection_rate_limit", ("integer", _rate_limit), "TLS connections accepted a second; 0 means all."),
    Key(
        "handshake_first first immediate",
        ("boolean, `auto` or duration", _handshake_first),
        "Do the handshake before INFO; with `auto` or a duration, clients that stay silent get INFO after that time.",
        field="",
        reloadable=True,
    ),
    Key("min_version", ("`1.2` or `1.3`", _min_version), "Oldest TLS version accepted, in quotes.", reloadable=True),
    Key("certs certificates", ("list of maps", _certificates), "Several pairs of `cert_file` and `key_file`."),
    Key("cert_store", ("string", _store_text("malformed cert_store field")), "Windows only; refused here."),
    Key("cert_match_by", ("string", _store_text("malformed cert_match_by field")), "Windows only."),
    Key("cert_match", ("string", _store_text("malformed cert_match field")), "Windows only."),
    Key("cert_match_skip_invalid", ("boolean", _skip_invalid), "Windows only."),
    Key("ca_certs_match", ("list of strings", _ca_certs_match), "Windows only."),
    Key("ocsp_peer", ("boolean or map", _ocsp_peer), "Check the certificates of peers with OCSP."),
    unknown="error parsing tls config, unknown field {}",
)
