"""TLS contexts from `tls` blocks: certificates, who is trusted, which versions, cipher suites and curves.

Names of suites and curves in a configuration are Go's; OpenSSL has its own, and both tables are here. A reload builds a
new context: connections that are open keep theirs. Contexts share nothing, so a session of one listener is worth
nothing at another.

`ssl` is imported when the first context is built: a server without TLS does not load OpenSSL.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slipstream.errors import ConfigError
from slipstream.protocol.certificate import CertificateFacts, MalformedCertificate, read_certificate

if TYPE_CHECKING:
    import ssl

    from slipstream.config.listener_options import TLSOptions

__all__ = ["CIPHER_SUITES", "INSECURE_CIPHER_SUITES", "TlsContext", "go_cipher_suite", "tls_problem"]

# Go names and OpenSSL names, best first: that is also the order of preference.
CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
INSECURE_CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
_GO_NAMES: Final = {openssl: go for go, openssl in (CIPHER_SUITES | INSECURE_CIPHER_SUITES).items()}
# Suites of TLS 1.3 have the same name everywhere and cannot be turned off, in Go as here.
_TLS13_SUITES: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_CURVES: Final = {
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519MLKEM768": "X25519MLKEM768",
    "SecP256r1MLKEM768": "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024": "SecP384r1MLKEM1024",
}


@dataclass(frozen=True, slots=True)
class TlsContext:
    """A `tls` block, ready for handshakes."""

    context: ssl.SSLContext
    options: TLSOptions
    certificate: CertificateFacts | None  # the server's own, the first when there are several
    warnings: tuple[str, ...]  # for the log: what could not be had as configured

    @staticmethod
    def for_server(options: TLSOptions) -> TlsContext:
        """Build a context for a listener.

        Raises:
            ConfigError: a file is missing or damaged, or a name unknown. The text is nats-server's where it has one.
        """
        if options.ocsp_peer is not None and options.ocsp_peer.verify and not options.ocsp_peer.warn_only:
            # To accept revoked certificates silently would be worse than not to start.
            raise ConfigError("ocsp_peer is not supported: certificates cannot be checked with OCSP")
        pairs = [(pair.cert_file, pair.key_file) for pair in options.certs]
        if options.cert_file or options.key_file:
            pairs = [(options.cert_file, options.key_file)]
        built = [
            _server_context(options, pair, _pair_name(index, len(options.certs))) for index, pair in enumerate(pairs)
        ]
        if not built:
            # nats-server starts without a certificate as well; handshakes then fail.
            built = [(_bare_context(options), None)]
        context, certificate = built[0]
        if len(built) > 1:
            context.sni_callback = _CertificateChoice(built)
        return TlsContext(context, options, certificate, tuple(_warnings(options)))

    @staticmethod
    def for_peer(options: TLSOptions | None) -> TlsContext:
        """Build a context for connections to another server.

        Raises:
            ConfigError: a file is missing or damaged.
        """
        from slipstream.config.listener_options import TLSOptions as Empty

        return TlsContext(client_context(options), options or Empty(), None, ())


def tls_problem(options: TLSOptions) -> str | None:
    """What is wrong with a `tls` block, found by building its context; None when nothing is."""
    try:
        TlsContext.for_server(options)
    except ConfigError as error:
        return error.message
    return None


def client_context(options: TLSOptions | None) -> ssl.SSLContext:
    """A context for connections that the server makes itself.

    Raises:
        ConfigError: a file is missing or damaged.
    """
    import ssl

    context = ssl.create_default_context(cafile=None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options is None:
        return context
    if options.ca_file:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_authorities(context, options.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if options.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    _set_cipher_suites(context, options)
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    own = (options.cert_file, options.key_file)
    if options.certs and not options.cert_file:
        own = (options.certs[0].cert_file, options.certs[0].key_file)
    if all(own):
        context.load_cert_chain(*own, password="")
    return context


def go_cipher_suite(openssl_name: str) -> str:
    """The name that Go, and so monitoring, has for a cipher suite of OpenSSL."""
    return _GO_NAMES.get(openssl_name, openssl_name)


# --- building ------------------------------------------------------------------------------------------------------


def _server_context(
    options: TLSOptions, pair: tuple[str, str], what: str
) -> tuple[ssl.SSLContext, CertificateFacts | None]:
    """A context with one pair of certificate and key."""
    import ssl

    context = _bare_context(options)
    cert_file, key_file = pair
    if not key_file:
        raise ConfigError("missing 'key_file' in TLS configuration")
    if not cert_file:
        raise ConfigError("missing 'cert_file' in TLS configuration")
    certificate_pem, key_pem = _read(cert_file, what), _read(key_file, what)
    _check_pem(certificate_pem, key_pem, what)
    try:
        # With a password at hand OpenSSL never asks the terminal for one.
        context.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        reason = "tls: private key does not match public key" if mismatch else _reason(error)
        raise ConfigError(f"{what}: {reason} ({cert_file}, {key_file})") from error
    try:
        return context, read_certificate(ssl.PEM_cert_to_DER_cert(_first_certificate(certificate_pem)))
    except (MalformedCertificate, ValueError) as error:
        raise ConfigError(f"error parsing certificate: {error} ({cert_file})") from error


def _bare_context(options: TLSOptions) -> ssl.SSLContext:
    """A context with everything but the server's own certificate."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Connections live long: little is gained by resuming sessions, and a full handshake always shows who it is.
    context.num_tickets = 0
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if options.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    _set_cipher_suites(context, options)
    _set_curves(context, options)
    if options.verify:
        context.verify_mode = ssl.CERT_REQUIRED
        # As in Go, every certificate in the file is an authority, also one that is not self-signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if options.ca_file:
            _load_authorities(context, options.ca_file)
        else:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    elif options.ca_file:
        # Looked at, and not kept: OpenSSL would send authorities it knows along with the server's certificate.
        _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), options.ca_file)
    return context


def _set_cipher_suites(context: ssl.SSLContext, options: TLSOptions) -> None:
    import ssl

    known = CIPHER_SUITES | INSECURE_CIPHER_SUITES
    unknown = [name for name in options.cipher_suites if name not in known and name not in _TLS13_SUITES]
    if unknown:
        raise ConfigError(f"unrecognized cipher {unknown[0]}")
    insecure = [name for name in options.cipher_suites if name in INSECURE_CIPHER_SUITES]
    if insecure and not options.allow_insecure_cipher_suites:
        names = ", ".join(insecure)
        raise ConfigError(
            f"insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: {names}"
        )
    wanted = [known[name] for name in options.cipher_suites or CIPHER_SUITES if name in known]
    if not wanted:
        # Only suites of TLS 1.3 were named.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(wanted))
    except ssl.SSLError as error:
        raise ConfigError(f"none of the cipher suites is available: {', '.join(options.cipher_suites)}") from error


def _set_curves(context: ssl.SSLContext, options: TLSOptions) -> None:
    """Pin the curve when there is one only: more cannot be told to OpenSSL from Python. See `_warnings`."""
    unknown = [name for name in options.curve_preferences if name not in _CURVES]
    if unknown:
        raise ConfigError(f"unrecognized curve preference {unknown[0]}")
    usable = _usable_curves(options)
    if options.curve_preferences and not usable:
        raise ConfigError(f"none of the curve preferences is available: {', '.join(options.curve_preferences)}")
    if len(usable) == 1:
        context.set_ecdh_curve(_CURVES[usable[0]])


def _usable_curves(options: TLSOptions) -> list[str]:
    """The configured curves that this OpenSSL knows; hybrid post-quantum ones need a newer one than most have."""
    import ssl

    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    usable = []
    for name in options.curve_preferences:
        try:
            probe.set_ecdh_curve(_CURVES[name])
        except ValueError:
            continue
        usable.append(name)
    return usable


def _warnings(options: TLSOptions) -> list[str]:
    """What the log should say about settings that could not be followed to the letter."""
    usable = _usable_curves(options)
    warnings = []
    if len(usable) > 1:
        # All of them are sound, so a wider choice weakens nothing.
        warnings.append("tls: curve_preferences with several curves are not enforced; OpenSSL's own choice is offered")
    missing = [name for name in options.curve_preferences if name not in usable]
    if missing:
        warnings.append(f"tls: curves not available in this OpenSSL: {', '.join(missing)}")
    return warnings


# --- files ---------------------------------------------------------------------------------------------------------


def _pair_name(index: int, count: int) -> str:
    name = "error parsing X509 certificate/key pair"
    return f"{name} {index + 1}/{count}" if count else name


def _read(path: str, what: str) -> str:
    try:
        return Path(path).read_text("latin-1")
    except OSError as error:
        raise ConfigError(f"{what}: open {path}: {_lower(error.strerror)}") from error


def _check_pem(certificate: str, key: str, what: str) -> None:
    if "-----BEGIN CERTIFICATE-----" not in certificate:
        raise ConfigError(f"{what}: tls: failed to find any PEM data in certificate input")
    if "PRIVATE KEY-----" not in key:
        found = "-----BEGIN CERTIFICATE-----" in key
        reason = "found a certificate rather than a key in the PEM for the private key"
        raise ConfigError(f"{what}: tls: {reason if found else 'failed to find any PEM data in key input'}")


def _first_certificate(pem: str) -> str:
    start = pem.index("-----BEGIN CERTIFICATE-----")
    end_line = "-----END CERTIFICATE-----"
    return pem[start : pem.index(end_line, start) + len(end_line)]


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    import ssl

    try:
        Path(path).open("rb").close()
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ConfigError(f"failed to parse root ca certificate ({path})") from error
    except OSError as error:
        raise ConfigError(f"open {path}: {_lower(error.strerror)}") from error


def _lower(text: str | None) -> str:
    return (text or "unknown error").lower()


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


# --- several certificates -------------------------------------------------------------------------------------------


class _CertificateChoice:
    """Chooses among several certificates by the name a client asks for; the first one when none fits."""

    def __init__(self, choices: list[tuple[ssl.SSLContext, CertificateFacts | None]]) -> None:
        self._choices = [(context, _names(facts)) for context, facts in choices if facts is not None]

    def __call__(self, socket: ssl.SSLObject, server_name: str | None, _context: ssl.SSLContext) -> None:
        if server_name is None:
            return
        name = server_name.lower()
        wildcard = "*." + name.partition(".")[2]
        for context, names in self._choices:
            if name in names or wildcard in names:
                socket.context = context
                return


def _names(facts: CertificateFacts) -> frozenset[str]:
    names = facts.dns_names or (facts.common_name,)
    return frozenset(name.lower() for name in (*names, *facts.ip_addresses))
