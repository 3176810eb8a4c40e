"""Certificates to users: the order of names, and distinguished names as structures."""

import pytest

from slipstream.auth.tls_map import CertificateUsers, PeerCertificate, parse_dn


def _find(users: list[str], certificate: PeerCertificate, *, banned: str = "") -> str | None:
    return CertificateUsers({user: user for user in users}).find(certificate, lambda user: user != banned)


def _subject(text: str) -> PeerCertificate:
    dn = parse_dn(text)
    assert dn is not None
    return PeerCertificate(subject=dn)


CERTIFICATE = PeerCertificate(
    subject=((("CN", "client"),), (("OU", "NATS"),)),
    emails=("derek@nats.io", "ivan@nats.io"),
    dns_names=("client.nats.io",),
    uris=("spiffe://nats.io/client",),
)


def test_alternative_names_come_first_and_in_order() -> None:
    users = ["CN=client,OU=NATS", "spiffe://nats.io/client", "client.nats.io", "ivan@nats.io", "derek@nats.io"]
    while users:
        assert _find(users, CERTIFICATE) == users[-1]
        users.pop()
    assert _find(users, CERTIFICATE) is None


def test_a_user_who_may_not_use_the_listener_is_passed_over() -> None:
    users = ["derek@nats.io", "CN=client,OU=NATS"]
    assert _find(users, CERTIFICATE, banned="derek@nats.io") == "CN=client,OU=NATS"


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("CN=a,O=b", "CN=a,O=b"),
        ("cn=a, o = b ", "CN=a,O=b"),
        ("O=b,CN=a", "CN=a,O=b"),
        ("CN=a+UID=7,O=b", "UID=7+CN=a,O=b"),
        ("CN=a\\,b,O=c", "CN=a\\2cb,O=c"),
        ("DC=com,DC=acme,CN=x", "CN=x,DC=acme,DC=com"),
        ("OU=x,OU=y,CN=z", "CN=z,OU=y,OU=x"),
        ("CN=J\\c3\\b6rg", "CN=J\u00f6rg"),
        ("CN=trailing\\ ", "CN=trailing\\20"),
    ],
)
def test_equal_names(user: str, subject: str) -> None:
    assert _find([user], _subject(subject)) == user


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("CN=a,O=b", "CN=a,O=b,C=c"),
        ("CN=a,O=b,C=c", "CN=a,O=b"),
        ("CN=a,O=b", "CN=A,O=b"),
        ("CN=a+O=b", "CN=a,O=b"),
        ("DC=a,DC=a,DC=b", "DC=a,DC=b,DC=b"),
        ("DC=a+DC=a+DC=b", "DC=a+DC=b+DC=b"),
        ("CN=a,O=b", "CN=a\\,O=b"),
        ("CN=", "O=x"),
        ("O=x,CN=", "O=x"),
        ("CN=a ", "CN=a\\ "),
    ],
)
def test_unequal_names(user: str, subject: str) -> None:
    """CVE-2026-33248: order, multi-valued, escaped and duplicate attributes must not be confused."""
    assert _find([user], _subject(subject)) is None


@pytest.mark.parametrize(
    "text", ["", "CN", "=a", "CN=a,", "CN=a+", ",CN=a", "CN=#0401", "CN=a\\", "CN=a\\zz", "C N=a", "a@b"]
)
def test_what_is_not_a_name(text: str) -> None:
    assert parse_dn(text) is None


def test_text_of_the_subject_as_go_prints_it_names_a_user() -> None:
    """Attributes in Go's order, repeated ones joined, types it does not know left out."""
    certificate = PeerCertificate.from_ssl(
        {
            "subject": (
                (("commonName", "ignored"),),
                (("organizationalUnitName", "one"),),
                (("organizationName", "Acme, Inc"),),
                (("organizationalUnitName", "two"),),
                (("emailAddress", "x@acme.com"),),
                (("countryName", "US"),),
                (("commonName", "#1 "),),
            ),
        }
    )
    assert _find(["CN=\\#1\\ ,OU=one+OU=two,O=Acme\\, Inc,C=US"], certificate) is not None


def test_domain_components_follow_the_text_in_certificate_order() -> None:
    certificate = PeerCertificate.from_ssl(
        {
            "subject": (
                (("domainComponent", "com"),),
                (("domainComponent", "acme"),),
                (("userId", "7"),),
                (("commonName", "x"),),
            )
        }
    )
    assert _find(["CN=x,DC=com,DC=acme"], certificate) == "CN=x,DC=com,DC=acme"
    assert _find(["CN=x"], certificate) == "CN=x"


def test_names_are_read_from_the_ssl_module() -> None:
    certificate = PeerCertificate.from_ssl(
        {
            "subject": ((("organizationName", "o"),), (("commonName", "c"), ("userId", "u"))),
            "subjectAltName": (("DNS", "d1"), ("email", "e1"), ("URI", "u1"), ("IP Address", "::1"), ("DNS", "d2")),
        }
    )
    assert certificate.subject == ((("CN", "c"), ("userId", "u")), (("O", "o"),))
    assert (certificate.emails, certificate.dns_names, certificate.uris) == (("e1",), ("d1", "d2"), ("u1",))


def test_a_certificate_without_names_is_nobody() -> None:
    assert PeerCertificate.from_ssl({}) == PeerCertificate()
    assert _find(["", "CN=a"], PeerCertificate()) is None
