"""TLS contexts: files, names of suites and curves, versions, several certificates. And their errors."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from slipstream.config.keys.tls import CIPHER_SUITES as CONFIG_SUITES
from slipstream.config.keys.tls import CURVES as CONFIG_CURVES
from slipstream.config.keys.tls import INSECURE_CIPHER_SUITES as CONFIG_INSECURE_SUITES
from slipstream.config.listener_options import OCSPPeerOptions, TLSCertificateOptions, TLSOptions
from slipstream.errors import ConfigError
from slipstream.server.sockets import tls
from slipstream.server.sockets.tls import TlsContext, go_cipher_suite, tls_problem
from tlsfiles import Authority, Pair

PAIR_ERROR = "error parsing X509 certificate/key pair"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost", "127.0.0.1")


def options(pair: Pair, **changes: object) -> TLSOptions:
    return TLSOptions(cert_file=str(pair.cert_file), key_file=str(pair.key_file), **changes)  # type: ignore[arg-type]


def suites(context: TlsContext) -> set[str]:
    return {str(suite["name"]) for suite in context.context.get_ciphers()}


def test_defaults(pair: Pair) -> None:
    built = TlsContext.for_server(options(pair))
    assert built.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert built.context.verify_mode is ssl.CERT_NONE
    assert built.context.options & ssl.OP_NO_RENEGOTIATION
    assert built.context.num_tickets == 0
    assert suites(built) == set(tls.CIPHER_SUITES.values()) | set(tls._TLS13_SUITES)
    assert built.certificate is not None and built.certificate.dns_names == ("localhost",)
    assert built.warnings == ()


def test_minimum_version(pair: Pair) -> None:
    context = TlsContext.for_server(options(pair, min_version="1.3")).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_verify_needs_certificates_of_the_authority(pair: Pair, authority: Authority) -> None:
    context = TlsContext.for_server(options(pair, verify=True, ca_file=str(authority.ca_file))).context
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_authorities_without_verify_are_read_and_not_asked_for(pair: Pair, authority: Authority) -> None:
    context = TlsContext.for_server(options(pair, ca_file=str(authority.ca_file))).context
    assert context.verify_mode is ssl.CERT_NONE


def test_chosen_cipher_suites(pair: Pair) -> None:
    chosen = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256")
    built = TlsContext.for_server(options(pair, cipher_suites=chosen))
    assert suites(built) == {"ECDHE-RSA-AES256-GCM-SHA384", *tls._TLS13_SUITES}
    assert built.context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_only_suites_of_tls13_mean_tls13(pair: Pair) -> None:
    context = TlsContext.for_server(options(pair, cipher_suites=("TLS_AES_128_GCM_SHA256",))).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_insecure_suites_must_be_allowed(pair: Pair) -> None:
    chosen = ("TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_RC4_128_SHA")
    text = f"insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: {', '.join(chosen)}"
    assert tls_problem(options(pair, cipher_suites=chosen)) == text
    built = TlsContext.for_server(options(pair, cipher_suites=chosen, allow_insecure_cipher_suites=True))
    assert suites(built) - set(tls._TLS13_SUITES) == {"AES128-SHA"}


def test_suites_that_openssl_does_not_have(pair: Pair) -> None:
    chosen = ("TLS_RSA_WITH_RC4_128_SHA",)
    problem = tls_problem(options(pair, cipher_suites=chosen, allow_insecure_cipher_suites=True))
    assert problem == "none of the cipher suites is available: TLS_RSA_WITH_RC4_128_SHA"


def test_names_are_those_of_the_configuration() -> None:
    assert set(CONFIG_SUITES) == set(tls.CIPHER_SUITES) | set(tls._TLS13_SUITES)
    assert set(CONFIG_INSECURE_SUITES) == set(tls.INSECURE_CIPHER_SUITES)
    assert set(CONFIG_CURVES) == set(tls._CURVES)


def test_every_secure_suite_is_known_to_openssl() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in tls.CIPHER_SUITES.values():
        context.set_ciphers(name)
        assert name in {str(suite["name"]) for suite in context.get_ciphers()}


def test_suites_have_go_names() -> None:
    assert go_cipher_suite("ECDHE-RSA-AES128-GCM-SHA256") == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert go_cipher_suite("TLS_AES_256_GCM_SHA384") == "TLS_AES_256_GCM_SHA384"


def test_curves(pair: Pair) -> None:
    assert TlsContext.for_server(options(pair, curve_preferences=("CurveP384",))).warnings == ()
    several = TlsContext.for_server(options(pair, curve_preferences=("X25519", "CurveP256")))
    assert several.warnings == (
        "tls: curve_preferences with several curves are not enforced; OpenSSL's own choice is offered",
    )


def test_unavailable_curves(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tls._CURVES, "X25519MLKEM768", "no-such-curve")
    built = TlsContext.for_server(options(pair, curve_preferences=("X25519MLKEM768", "X25519")))
    assert built.warnings == ("tls: curves not available in this OpenSSL: X25519MLKEM768",)
    problem = tls_problem(options(pair, curve_preferences=("X25519MLKEM768",)))
    assert problem == "none of the curve preferences is available: X25519MLKEM768"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cipher_suites": ("TLS_FOO",)}, "unrecognized cipher TLS_FOO"),
        ({"curve_preferences": ("foo",)}, "unrecognized curve preference foo"),
        ({"cert_file": "/none.pem"}, f"{PAIR_ERROR}: open /none.pem: no such file or directory"),
        ({"key_file": "/none.pem"}, f"{PAIR_ERROR}: open /none.pem: no such file or directory"),
        ({"key_file": ""}, "missing 'key_file' in TLS configuration"),
        ({"cert_file": ""}, "missing 'cert_file' in TLS configuration"),
        ({"ca_file": "/none.pem", "verify": True}, "open /none.pem: no such file or directory"),
        (
            {"ocsp_peer": OCSPPeerOptions(verify=True)},
            "ocsp_peer is not supported: certificates cannot be checked with OCSP",
        ),
    ],
)
def test_errors(pair: Pair, changes: dict[str, object], text: str) -> None:
    files: dict[str, object] = {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file)}
    assert tls_problem(TLSOptions(**(files | changes))) == text  # type: ignore[arg-type]


def test_files_that_are_something_else(pair: Pair, authority: Authority, tmp_path: Path) -> None:
    other = authority.issue("other", name="other")
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    cert, key = str(pair.cert_file), str(pair.key_file)

    def problem(cert_file: str, key_file: str, ca_file: str = "") -> str | None:
        return tls_problem(TLSOptions(cert_file=cert_file, key_file=key_file, ca_file=ca_file, verify=bool(ca_file)))

    assert problem(str(junk), key) == f"{PAIR_ERROR}: tls: failed to find any PEM data in certificate input"
    assert problem(cert, str(junk)) == f"{PAIR_ERROR}: tls: failed to find any PEM data in key input"
    assert problem(cert, cert) == (
        f"{PAIR_ERROR}: tls: found a certificate rather than a key in the PEM for the private key"
    )
    mismatch = problem(cert, str(other.key_file))
    assert mismatch is not None and mismatch.startswith(f"{PAIR_ERROR}: tls: private key does not match public key (")
    broken = problem(str(damaged), key)
    assert broken is not None and broken.startswith(f"{PAIR_ERROR}: ") and "damaged.pem" in broken
    assert problem(cert, key, str(junk)) == f"failed to parse root ca certificate ({junk})"


def test_encrypted_key_is_an_error_and_asks_nobody(pair: Pair, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pair.key_file.read_bytes(), None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    problem = tls_problem(TLSOptions(cert_file=str(pair.cert_file), key_file=str(encrypted)))
    assert problem is not None and problem.startswith(PAIR_ERROR)


def test_pairs_are_numbered_in_errors(pair: Pair) -> None:
    good = TLSCertificateOptions(str(pair.cert_file), str(pair.key_file))
    bad = TLSCertificateOptions(str(pair.cert_file), "/none.pem")
    with pytest.raises(ConfigError, match=rf"^{PAIR_ERROR} 2/2: open /none.pem: no such file or directory$"):
        TlsContext.for_server(TLSOptions(certs=(good, bad)))


def test_no_certificate_is_no_error() -> None:
    assert TlsContext.for_server(TLSOptions(verify=True)).certificate is None


def test_a_reload_shares_nothing(pair: Pair) -> None:
    first, second = (TlsContext.for_server(options(pair)) for _ in range(2))
    assert first.context is not second.context


def test_without_verify_the_authority_is_not_sent_along(pair: Pair, authority: Authority) -> None:
    """A client that trusts it has it; one that does not learns nothing from it. nats-server sends the leaf alone."""
    server = TlsContext.for_server(options(pair, ca_file=str(authority.ca_file))).context
    client = authority.client_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(incoming, outgoing, server_side=True)
    theirs = client.wrap_bio(outgoing, incoming, server_hostname="localhost")
    for side in (theirs, ours, theirs, ours):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    chain = theirs._sslobj.get_unverified_chain()  # type: ignore[attr-defined]  # public from Python 3.13 on
    assert len(chain) == 1
