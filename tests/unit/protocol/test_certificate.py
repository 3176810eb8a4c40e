"""Facts of certificates, against the cryptography library; damaged ones are refused, never a crash."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from slipstream.protocol.certificate import MalformedCertificate, read_certificate

KEY = ec.generate_private_key(ec.SECP256R1())
EMAIL = NameOID.EMAIL_ADDRESS


def certificate(
    rdns: list[list[tuple[x509.ObjectIdentifier, str]]],
    alternatives: list[x509.GeneralName] | None = None,
    year: int = 2040,
) -> bytes:
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(*pair) for pair in rdn]) for rdn in rdns])
    builder = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=KEY.public_key())
        .serial_number(7)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(year, 2, 3, 4, 5, 6))
    )
    if alternatives is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


PLAIN = certificate([[(NameOID.COUNTRY_NAME, "US")], [(NameOID.COMMON_NAME, "a")]])


def test_facts() -> None:
    der = certificate(
        [[(NameOID.COMMON_NAME, "first")], [(NameOID.COMMON_NAME, "localhost")]],
        [
            x509.DNSName("a.example.com"),
            x509.RFC822Name("me@example.com"),
            x509.DNSName("*.b"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ],
    )
    facts = read_certificate(der)
    assert facts.common_name == "localhost"
    assert facts.dns_names == ("a.example.com", "*.b")
    assert facts.ip_addresses == ("127.0.0.1", "::1")
    assert facts.sha256 == hashlib.sha256(der).hexdigest()
    key_info = KEY.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert facts.key_sha256 == hashlib.sha256(key_info).hexdigest()


@pytest.mark.parametrize("year", [2021, 2049, 2050, 9999])
def test_end_of_validity(year: int) -> None:
    end = datetime.datetime(year, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    assert read_certificate(certificate([[(NameOID.COMMON_NAME, "a")]], year=year)).not_after_s == end.timestamp()


# The texts on the right are what nats-server 2.15.1 shows in connz for such certificates.
@pytest.mark.parametrize(
    ("rdns", "text"),
    [
        (
            [[(NameOID.COUNTRY_NAME, "US")], [(NameOID.ORGANIZATION_NAME, "O")], [(NameOID.COMMON_NAME, "a b")]],
            "CN=a b,O=O,C=US",
        ),
        ([[(NameOID.COMMON_NAME, "a")], [(NameOID.COUNTRY_NAME, "US")]], "CN=a,C=US"),
        ([[(NameOID.ORGANIZATIONAL_UNIT_NAME, "x"), (NameOID.LOCALITY_NAME, "y")]], "OU=x,L=y"),
        ([[(NameOID.ORGANIZATIONAL_UNIT_NAME, "x")], [(NameOID.ORGANIZATIONAL_UNIT_NAME, "y")]], "OU=x+OU=y"),
        ([[(NameOID.COMMON_NAME, "one")], [(NameOID.COMMON_NAME, "two")]], "CN=two"),
        ([[(NameOID.COMMON_NAME, ' #a,b+c"\\<>; ')]], r"CN=\ #a\,b\+c\"\\\<\>\;\ "),
        (
            [
                [(kind, str(number))]
                for number, kind in enumerate(
                    (
                        NameOID.ORGANIZATION_NAME,
                        NameOID.ORGANIZATIONAL_UNIT_NAME,
                        NameOID.LOCALITY_NAME,
                        NameOID.STATE_OR_PROVINCE_NAME,
                        NameOID.STREET_ADDRESS,
                        NameOID.POSTAL_CODE,
                        NameOID.COMMON_NAME,
                        NameOID.SERIAL_NUMBER,
                    )
                )
            ],
            "SERIALNUMBER=7,CN=6,OU=1,O=0,POSTALCODE=5,STREET=4,L=2,ST=3",
        ),
        ([[(NameOID.COMMON_NAME, "#x#")]], r"CN=\#x#"),
        ([[(EMAIL, "a@b.c")], [(NameOID.COMMON_NAME, "x")]], "CN=x,1.2.840.113549.1.9.1=a@b.c"),
        (
            [[(NameOID.DOMAIN_COMPONENT, "com")], [(NameOID.COMMON_NAME, "x")]],
            "CN=x,0.9.2342.19200300.100.1.25=com",
        ),
        ([[(NameOID.COMMON_NAME, "Grüße")]], "CN=Grüße"),
        ([], ""),
    ],
)
def test_subject_is_printed_as_go_does(rdns: list[list[tuple[x509.ObjectIdentifier, str]]], text: str) -> None:
    assert read_certificate(certificate(rdns)).subject == text


@pytest.mark.parametrize("kind", [_ASN1Type.UTF8String, _ASN1Type.BMPString, _ASN1Type.PrintableString])
def test_kinds_of_text(kind: _ASN1Type) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Name", kind)])
    der = certificate([[(NameOID.COMMON_NAME, "a")]])
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 7)
    builder = builder.not_valid_before(datetime.datetime(2020, 1, 1)).not_valid_after(datetime.datetime(2030, 1, 1))
    der = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    assert read_certificate(der).common_name == "Name"


@pytest.mark.parametrize(
    "der", [b"", b"0", b"\x30\x80\x00\x00", b"\x30\x85\x01\x01\x01\x01\x01", b"\x30\x03\x02\x01\x01"]
)
def test_other_bytes_are_refused(der: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        read_certificate(der)


def test_every_truncation_is_refused() -> None:
    for size in range(len(PLAIN)):
        with pytest.raises(MalformedCertificate):
            read_certificate(PLAIN[:size])


@given(place=st.integers(0, len(PLAIN) - 1), byte=st.integers(0, 255))
def test_damage_is_refused_or_harmless(place: int, byte: int) -> None:
    damaged = bytearray(PLAIN)
    damaged[place] = byte
    try:
        facts = read_certificate(bytes(damaged))
    except MalformedCertificate:
        return
    assert facts.sha256 == hashlib.sha256(damaged).hexdigest()
