"""verify_and_map: which user a client certificate stands for.

The names of a certificate are tried in nats-server's order: e-mail addresses, DNS names and URIs among the subject
alternative names, then the subject as a distinguished name, then two spellings of the subject as text. The first one
that names a user who may use this kind of connection wins.

Distinguished names are compared as structures, not as text: attribute types without regard to case, values exactly,
attributes of a multi-valued RDN as a multiset. First in order, then with the RDNs in any order; each RDN of one
side needs its own partner on the other, so duplicates cannot stand in for a missing one.

What it is not: verification. The TLS layer has checked the chain against the listener's own CA before this is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from slipstream.config.record import Record

__all__ = ["CertificateUsers", "Dn", "PeerCertificate", "parse_dn"]

# A distinguished name: relative names, most specific first, each one or more attributes (type, value).
Rdn = tuple[tuple[str, str], ...]
Dn = tuple[Rdn, ...]

U = TypeVar("U")

# OpenSSL's names of the attributes that have a short form in RFC 2253 or in Go, in the order in which Go lists the
# subject's attributes. Only the last two have one value in Go; a later one replaces it.
_GO_ORDER = ("C", "O", "OU", "L", "ST", "STREET", "POSTALCODE", "CN", "SERIALNUMBER")
_SINGLE_IN_GO = ("CN", "SERIALNUMBER")
_SHORT_NAMES = {
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "postalCode": "POSTALCODE",
    "commonName": "CN",
    "serialNumber": "SERIALNUMBER",
    "domainComponent": "DC",
}


class PeerCertificate(Record):
    """The names in a client certificate."""

    subject: Dn = ()  # most specific first, the reverse of the order in the certificate
    emails: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @staticmethod
    def from_ssl(certificate: Mapping[str, Any]) -> PeerCertificate:
        """Read what `SSLObject.getpeercert()` returns for a verified certificate."""
        alternatives: tuple[tuple[str, str], ...] = certificate.get("subjectAltName", ())
        return PeerCertificate(
            subject=tuple(
                tuple((_SHORT_NAMES.get(kind, kind), value) for kind, value in rdn)
                for rdn in reversed(certificate.get("subject", ()))
                if rdn
            ),
            emails=tuple(value for kind, value in alternatives if kind == "email"),
            dns_names=tuple(value for kind, value in alternatives if kind == "DNS"),
            uris=tuple(_scheme_in_lower_case(value) for kind, value in alternatives if kind == "URI"),
        )


def _scheme_in_lower_case(uri: str) -> str:
    """A URI as Go prints it: the case of a scheme means nothing, that of all else is left alone."""
    scheme, colon, rest = uri.partition(":")
    return f"{scheme.lower()}{colon}{rest}" if colon else uri


class CertificateUsers(Generic[U]):
    """Users by the names a certificate may carry."""

    def __init__(self, users: Mapping[str, U]) -> None:
        """Index users by their configured names, some of which are distinguished names."""
        self._by_name = users
        self._by_dn: dict[Dn, list[U]] = {}
        self._by_unordered_dn: dict[Dn, list[U]] = {}
        for name, user in users.items():
            dn = parse_dn(name)
            if dn is not None:
                canonical = _canonical(dn)
                self._by_dn.setdefault(canonical, []).append(user)
                self._by_unordered_dn.setdefault(tuple(sorted(canonical)), []).append(user)

    def find(self, certificate: PeerCertificate, may_use: Callable[[U], bool]) -> U | None:
        """The user of a certificate, or None; users for whom `may_use` is false are passed over."""
        return next((user for user in self._candidates(certificate) if may_use(user)), None)

    def _candidates(self, certificate: PeerCertificate) -> Iterator[U]:
        yield from self._named((*certificate.emails, *certificate.dns_names, *certificate.uris))
        canonical = _canonical(certificate.subject)
        if canonical:
            yield from self._by_dn.get(canonical, ())
            yield from self._by_unordered_dn.get(tuple(sorted(canonical)), ())
        yield from self._named(_spellings(certificate.subject))

    def _named(self, names: Iterable[str]) -> Iterator[U]:
        return (self._by_name[name] for name in names if name and name in self._by_name)


def parse_dn(text: str) -> Dn | None:
    """Read an RFC 2253 / 4514 name such as `CN=a,OU=b+L=c`; None when it is not one.

    Values in the `#hex` form are refused as nats-server refuses them.
    """
    rdns: list[Rdn] = []
    rdn: list[tuple[str, str]] = []
    position = 0
    while True:
        attribute = _ATTRIBUTE.match(text, position)
        if attribute is None:
            return None
        value = _unescaped(attribute["value"])
        if value is None:
            return None
        rdn.append((attribute["type"], value))
        position = attribute.end()
        if attribute["end"] != "+":
            rdns.append(tuple(rdn))
            rdn = []
        if not attribute["end"]:
            return tuple(rdns)


# Blanks around type and value do not count; an escaped one at the end of the value does.
_ATTRIBUTE = re.compile(
    r"[ ]*(?P<type>[A-Za-z0-9][A-Za-z0-9.-]*)[ ]*=[ ]*"
    r"(?P<value>(?!\#)(?:(?:\\.|[^\\,+ ])|[ ]+(?=[^ ,+]))*)"
    r"[ ]*(?P<end>[,+]|\Z)",
    re.DOTALL,
)
_ESCAPE = re.compile(rb'\\(?:([ "#+,;<=>\\])|([0-9A-Fa-f]{2}))')


def _unescaped(value: str) -> str | None:
    raw = value.encode("utf-8", "surrogatepass")
    if b"\\" in _ESCAPE.sub(b"", raw):
        return None
    # Hex pairs give bytes of UTF-8, possibly several for a character.
    plain = _ESCAPE.sub(lambda escape: escape[1] or bytes.fromhex(escape[2].decode()), raw)
    return plain.decode("utf-8", "surrogateescape")


def _canonical(dn: Dn) -> Dn:
    return tuple(tuple(sorted((kind.upper(), value) for kind, value in rdn)) for rdn in dn)


def _spellings(subject: Dn) -> tuple[str, ...]:
    """The subject as Go prints it, with and without its domain components.

    Go collects the values of an attribute from all RDNs into one, orders the attributes its own way, and leaves out
    the types it does not know; a configuration may name a user by exactly this text.
    """
    values: dict[str, list[str]] = {}
    for rdn in reversed(subject):
        for kind, value in rdn:
            values.setdefault(kind, []).append(value)
    for kind in _SINGLE_IN_GO:
        if kind in values:
            del values[kind][:-1]
    text = ",".join(
        "+".join(f"{kind}={_escaped(value)}" for value in values[kind])
        for kind in reversed(_GO_ORDER)
        if kind in values
    )
    components = ",".join(f"DC={value}" for value in values.get("DC", ()))
    return (f"{text},{components}", text) if components else (text,)


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if value.endswith(" "):
        text = text[:-1] + "\\ "
    if value.startswith((" ", "#")) and value != " ":
        text = "\\" + text
    return text
