"""The few facts of an X.509 certificate that the standard library does not tell, read from its DER form.

    Certificate ::= SEQUENCE { tbs SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject,
                                              public key info, ..., [3] extensions }, ... }

What this is not: verification. The TLS library has checked, or not asked for, what is read here. Input may come from a
stranger all the same: every length is compared with what is there, and nothing recurses.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from slipstream.errors import SlipstreamError

__all__ = ["CertificateFacts", "MalformedCertificate", "read_certificate"]

_INTEGER = 0x02
_OCTETS = 0x04
_OID = 0x06
_UTC_TIME = 0x17
_SEQUENCE = 0x30
_SET = 0x31
_VERSION = 0xA0
_EXTENSIONS = 0xA3
_SAN_DNS = 0x82
_SAN_IP = 0x87
_SUBJECT_ALT_NAME = "2.5.29.17"
_COMMON_NAME = "2.5.4.3"

# How Go prints attribute types; others are printed as numbers.
_TYPE_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.17": "POSTALCODE",
}
# The order in which Go 1.27 rebuilds a name from the attributes it knows. It keeps one value of the last two only.
_TYPE_ORDER = ("2.5.4.6", "2.5.4.8", "2.5.4.7", "2.5.4.9", "2.5.4.17", "2.5.4.10", "2.5.4.11", "2.5.4.3", "2.5.4.5")
_SINGLE_VALUED = ("2.5.4.3", "2.5.4.5")
_STRING_ENCODINGS = {0x0C: "utf-8", 0x12: "ascii", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}
_ESCAPED = frozenset(',+"\\<>;')

Attribute = tuple[str, str]  # object identifier, value


class MalformedCertificate(SlipstreamError):
    """The bytes are not a certificate."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """One certificate."""

    subject: str  # as Go prints it, which is what monitoring shows
    common_name: str
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    not_after_s: int  # seconds since the epoch
    key_sha256: str  # of the public key info, as `pinned_certs` has it
    sha256: str  # of the whole certificate


def read_certificate(der: bytes) -> CertificateFacts:
    """Read the facts.

    Raises:
        MalformedCertificate: it is none.
    """
    certificate = _expect(_children(der, 0, len(der)), _SEQUENCE)
    tbs = _expect(_children(der, certificate.start, certificate.end), _SEQUENCE)
    fields = [field for field in _children(der, tbs.start, tbs.end) if field.tag != _VERSION]
    if len(fields) < 6 or fields[0].tag != _INTEGER or any(field.tag != _SEQUENCE for field in fields[1:6]):
        raise MalformedCertificate("certificate has not the expected fields")
    _, _, _, validity, subject, key = fields[:6]
    attributes = _name(der, subject)
    dns_names, ip_addresses = _alternative_names(der, fields[6:])
    return CertificateFacts(
        subject=_go_name(attributes),
        common_name=next((value for kind, value in reversed(attributes) if kind == _COMMON_NAME), ""),
        dns_names=dns_names,
        ip_addresses=ip_addresses,
        not_after_s=_not_after(der, validity),
        key_sha256=hashlib.sha256(der[key.at : key.end]).hexdigest(),
        sha256=hashlib.sha256(der).hexdigest(),
    )


# --- DER ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Element:
    """A tag with its content at [start, end); `at` is where the tag stands."""

    tag: int
    at: int
    start: int
    end: int


def _children(der: bytes, start: int, end: int) -> Iterator[_Element]:
    """The elements one after another in [start, end)."""
    at = start
    while at < end:
        element = _element(der, at, end)
        yield element
        at = element.end


def _element(der: bytes, at: int, end: int) -> _Element:
    if end - at < 2:
        raise MalformedCertificate("element is cut off")
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        # Four bytes tell lengths no certificate has; fewer than one would be the indefinite form.
        if not 1 <= size <= 4 or end - start < size:
            raise MalformedCertificate("length is malformed")
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    if tag & 0x1F == 0x1F or length > end - start:
        raise MalformedCertificate("element is cut off or has a long tag")
    return _Element(tag, at, start, start + length)


def _expect(elements: Iterator[_Element], tag: int) -> _Element:
    element = next(elements, None)
    if element is None or element.tag != tag:
        raise MalformedCertificate(f"expected an element with tag 0x{tag:02x}")
    return element


def _oid(der: bytes, element: _Element) -> str:
    arcs: list[int] = []
    arc = 0
    for byte in der[element.start : element.end]:
        arc = arc << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    if not arcs:
        raise MalformedCertificate("object identifier is empty")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


# --- fields ---------------------------------------------------------------------------------------------------------


def _name(der: bytes, name: _Element) -> list[Attribute]:
    """The attributes of a distinguished name in the order of the certificate."""
    attributes: list[Attribute] = []
    for rdn in _children(der, name.start, name.end):
        if rdn.tag != _SET:
            raise MalformedCertificate("name is malformed")
        for pair in _children(der, rdn.start, rdn.end):
            parts = _children(der, pair.start, pair.end)
            kind = _oid(der, _expect(parts, _OID))
            value = next(parts, None)
            encoding = _STRING_ENCODINGS.get(value.tag) if value is not None else None
            if value is None or encoding is None:
                raise MalformedCertificate("name has an attribute that is not a text")
            try:
                attributes.append((kind, der[value.start : value.end].decode(encoding)))
            except UnicodeDecodeError as error:
                raise MalformedCertificate("name has an attribute that is not a text") from error
    return attributes


def _not_after(der: bytes, validity: _Element) -> int:
    elements = list(_children(der, validity.start, validity.end))
    if len(elements) != 2:
        raise MalformedCertificate("validity is malformed")
    text = der[elements[1].start : elements[1].end].decode("ascii", "replace")
    if elements[1].tag == _UTC_TIME:
        # Two digits for the year: 50 and above are of the last century (RFC 5280).
        text = ("20" if text < "5" else "19") + text
    try:
        return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except ValueError as error:
        raise MalformedCertificate("validity is malformed") from error


def _alternative_names(der: bytes, fields: list[_Element]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """DNS names and IP addresses among the subject alternative names."""
    dns_names: list[str] = []
    ip_addresses: list[str] = []
    for extension in _extensions(der, fields):
        parts = _children(der, extension.start, extension.end)
        if _oid(der, _expect(parts, _OID)) != _SUBJECT_ALT_NAME:
            continue
        value = next((part for part in parts if part.tag == _OCTETS), None)
        if value is None:
            raise MalformedCertificate("extension has no value")
        names = _expect(_children(der, value.start, value.end), _SEQUENCE)
        for name in _children(der, names.start, names.end):
            content = der[name.start : name.end]
            if name.tag == _SAN_DNS:
                dns_names.append(content.decode("ascii", "replace"))
            elif name.tag == _SAN_IP and len(content) in (4, 16):
                ip_addresses.append(str(ipaddress.ip_address(content)))
    return tuple(dns_names), tuple(ip_addresses)


def _extensions(der: bytes, fields: list[_Element]) -> Iterator[_Element]:
    for field in fields:
        if field.tag == _EXTENSIONS:
            extensions = _expect(_children(der, field.start, field.end), _SEQUENCE)
            yield from _children(der, extensions.start, extensions.end)


# --- a name as Go prints it -----------------------------------------------------------------------------------------


def _go_name(attributes: list[Attribute]) -> str:
    """The subject as Go's `pkix.Name.String` has it: attributes it does not know last, the others in its own order."""
    rdns = [[attribute] for attribute in attributes if attribute[0] not in _TYPE_NAMES]
    for kind in _TYPE_ORDER:
        values = [attribute for attribute in attributes if attribute[0] == kind]
        if kind in _SINGLE_VALUED:
            values = [attribute for attribute in values[-1:] if attribute[1]]
        if values:
            rdns.append(values)
    return ",".join("+".join(_go_attribute(*attribute) for attribute in rdn) for rdn in reversed(rdns))


def _go_attribute(kind: str, value: str) -> str:
    escaped = [
        f"\\{character}"
        if character in _ESCAPED
        or (character == " " and index in (0, len(value) - 1))
        or (character == "#" and index == 0)
        else character
        for index, character in enumerate(value)
    ]
    return f"{_TYPE_NAMES.get(kind, kind)}={''.join(escaped)}"
