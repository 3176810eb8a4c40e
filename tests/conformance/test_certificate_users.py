"""verify_and_map side by side: the same certificates are the same users, whatever names they carry."""

from __future__ import annotations

import json
import random
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both
from tlsfiles import Authority

_SHORT = {
    "CN": NameOID.COMMON_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "C": NameOID.COUNTRY_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
}


class Maker:
    """An authority that puts any name into a certificate."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "maker")])
        own = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.ca_file = directory / "maker.pem"
        self.ca_file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )

    def client(self, subject: list[list[tuple[str, str]]], names: list[x509.GeneralName]) -> ssl.SSLContext:
        """The context of a client with such a certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        rdns = [
            x509.RelativeDistinguishedName(
                x509.NameAttribute(_SHORT[kind], value, _validate=False) for kind, value in rdn
            )
            for rdn in subject
        ]
        builder = self._builder(x509.Name(rdns), key)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not rdns)
        path = self._directory / "client.pem"
        path.write_bytes(
            builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
            + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(path)
        return context


def user_of(server: ServerProcess, context: ssl.SSLContext) -> str:
    """Who a client with a certificate is; empty if nobody."""
    with RawClient(server.port) as plain:
        plain.read_until(rb"INFO [^\n]*\n")
        plain._socket = context.wrap_socket(plain._socket)
        plain.send(b'CONNECT {"verbose":false,"headers":true}\r\nSUB me 1\r\nPUB $SYS.REQ.USER.INFO me 0\r\n\r\n')
        try:
            found = plain.read_until(rb"MSG me 1 \d+\r\n[^\r]*\r\n")
        except ConnectionError:
            return ""
        return str(json.loads(found.split(b"\r\n")[-2])["data"]["user"])


def config(maker: Maker, server: str, users: list[str]) -> str:
    entries = ", ".join(f"{{ user: {json.dumps(name)} }}" for name in users)
    block = f'{server}, ca_file: "{maker.ca_file}", verify_and_map: true'
    return f"tls {{ {block} }}\nauthorization {{ users: [{entries}] }}\n"


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("maker"))


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> str:
    return Authority(tmp_path_factory.mktemp("server")).issue("localhost", "127.0.0.1").block


URI, MAIL, DNS = x509.UniformResourceIdentifier, x509.RFC822Name, x509.DNSName
SPIFFE = "spiffe://example.org/ns/shop/sa/cart"
USERS = [
    SPIFFE,
    "spiffe://example.org/ns/shop",
    "https://example.org/x?y=1",
    "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "mail@example.org",
    "host.example.org",
    "*.example.org",
    "CN=cart,O=Shop",
    "O=Order,CN=other",
    "CN=multi+OU=x,O=Shop",
    "CN=dc,DC=example,DC=org",
    "CN=comma\\\\, inc,O=Shop".replace("\\\\", "\\"),
]
CASES: dict[str, tuple[list[list[tuple[str, str]]], list[x509.GeneralName]]] = {
    "a SPIFFE id": ([], [URI(SPIFFE)]),
    "a SPIFFE id and a subject": ([[("O", "Shop")], [("CN", "cart")]], [URI(SPIFFE)]),
    "the second id": ([], [URI("spiffe://example.org/nobody"), URI("spiffe://example.org/ns/shop")]),
    "a longer id": ([], [URI(SPIFFE + "/more")]),
    "another case of the trust domain": ([], [URI("spiffe://EXAMPLE.org/ns/shop")]),
    "another case of the scheme": ([], [URI("SPIFFE://example.org/ns/shop")]),
    "an escaped path": ([], [URI("spiffe://example.org/ns/sh%6fp")]),
    "a slash more": ([], [URI("spiffe://example.org/ns/shop/")]),
    "dots in the path": ([], [URI("spiffe://example.org/ns/x/../shop")]),
    "an address": ([], [URI("https://example.org/x?y=1")]),
    "a urn": ([], [URI("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6")]),
    "mail before host and id": ([], [URI(SPIFFE), DNS("host.example.org"), MAIL("mail@example.org")]),
    "host before id": ([], [URI(SPIFFE), DNS("host.example.org")]),
    "another case of the host": ([], [DNS("HOST.example.org")]),
    "a wildcard": ([], [DNS("*.example.org")]),
    "what a wildcard would match": ([], [DNS("a.example.org")]),
    "another case of the mail": ([], [MAIL("Mail@example.org")]),
    "unknown mail, known subject": ([[("O", "Shop")], [("CN", "cart")]], [MAIL("nobody@example.org")]),
    "a subject": ([[("O", "Shop")], [("CN", "cart")]], []),
    "a subject the other way round": ([[("CN", "cart")], [("O", "Shop")]], []),
    "a subject in the order of the file": ([[("CN", "other")], [("O", "Order")]], []),
    "a subject with more": ([[("C", "DE")], [("O", "Shop")], [("CN", "cart")]], []),
    "two in one": ([[("O", "Shop")], [("CN", "multi"), ("OU", "x")]], []),
    "domain components": ([[("DC", "org")], [("DC", "example")], [("CN", "dc")]], []),
    "domain components the other way round": ([[("DC", "example")], [("DC", "org")], [("CN", "dc")]], []),
    "a comma": ([[("O", "Shop")], [("CN", "comma, inc")]], []),
    "nobody": ([[("CN", "nobody")]], [DNS("nobody.example.com")]),
}


def test_the_same_names_are_the_same_users(both: Both, maker: Maker, serving: str) -> None:
    pair = both.fresh(config(maker, serving, USERS))
    found = {}
    for name, (subject, names) in CASES.items():
        context = maker.client(subject, names)
        real, ours = user_of(pair.real, context), user_of(pair.ours, context)
        found[name] = (real, ours)
    assert {name: ours for name, (_, ours) in found.items()} == {name: real for name, (real, _) in found.items()}
    assert found["a SPIFFE id"][1] == SPIFFE
    assert found["nobody"][1] == ""


def test_random_certificates(both: Both, maker: Maker, serving: str) -> None:
    chance = random.Random(7)
    words = ["a", "b", "a.b", "x y", "A"]
    kinds = list(_SHORT)

    def subject() -> list[list[tuple[str, str]]]:
        parts = [(kind, "DE" if kind == "C" else chance.choice(words)) for kind in chance.sample(kinds, 3)]
        parts += [("OU", chance.choice(words))] * chance.randrange(2)
        return [parts[:2], *([part] for part in parts[2:])] if chance.random() < 0.2 else [[part] for part in parts]

    subjects = [subject() for _ in range(40)]
    users = {
        ",".join("+".join(f"{kind}={value}" for kind, value in rdn) for rdn in chance.sample(one, len(one)))
        for one in chance.sample(subjects, 20)
    }
    alternatives = [URI(f"spiffe://{a}/{b}") for a in "ab" for b in "ab"] + [DNS("a.b"), MAIL("a@b")]
    users |= {"spiffe://a/b", "spiffe://b/b", "a.b"}
    pair = both.fresh(config(maker, serving, sorted(users)))
    matched = 0
    for one in subjects:
        context = maker.client(one, chance.sample(alternatives, chance.randrange(3)) if chance.random() < 0.5 else [])
        real, ours = user_of(pair.real, context), user_of(pair.ours, context)
        assert ours == real, one
        matched += bool(ours)
    assert matched > 10
