"""The few facts of an X.509 certificate that monitoring shows: its end, the hash of its key, its subject.

    Certificate  ::= SEQUENCE { tbsCertificate, ... }
    tbsCertificate ::= SEQUENCE { [0] version?, serial, signature, issuer, validity, subject, subjectPublicKeyInfo, ... }
    validity     ::= SEQUENCE { notBefore, notAfter }

A reader of DER just large enough for that. What it is not: verification; the TLS layer did that. A certificate that
cannot be read gives empty facts, never an error.
"""

from __future__ import annotations

import binascii
import hashlib
import re

from slipstream.limits import CERTIFICATE_BYTES_MAX

__all__ = ["fingerprints", "not_after"]

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x17, 0x18, 0xA0


def not_after(path: str) -> str:
    """When the first certificate of a PEM file ends, RFC 3339; empty when there is none to read."""
    try:
        with open(path, "rb") as file:
            text = file.read(CERTIFICATE_BYTES_MAX)
        found = _PEM.search(text)
        if found is None:
            return ""
        validity = _fields(binascii.a2b_base64(found[1]))[3]
        kind, start, end = _elements(validity, *_inside(validity, 0))[1]
        return _time(kind, validity[start:end].decode("ascii"))
    except (OSError, ValueError, IndexError):
        return ""


def fingerprints(der: bytes) -> tuple[str, str]:
    """SHA-256 of the public key info and of the whole certificate, in hex; empty texts when it cannot be read."""
    try:
        key = _fields(der)[5]
    except (ValueError, IndexError):
        return "", ""
    return hashlib.sha256(key).hexdigest(), hashlib.sha256(der).hexdigest()


def _fields(der: bytes) -> list[bytes]:
    """Serial, signature, issuer, validity, subject, public key info, ... each with its tag and length."""
    start, _ = _inside(der, 0)
    first, last = _inside(der, start)
    fields = []
    at = first
    while at < last:
        _, end = _inside(der, at)
        if der[at] != _VERSION:
            fields.append(der[at:end])
        at = end
    return fields


def _elements(der: bytes, at: int, end: int) -> list[tuple[int, int, int]]:
    found = []
    while at < end:
        start, stop = _inside(der, at)
        found.append((der[at], start, stop))
        at = stop
    return found


def _inside(der: bytes, at: int) -> tuple[int, int]:
    """Where the content of the element at `at` starts and ends.

    Raises:
        ValueError: it does not fit into what is there.
        IndexError: there is nothing.
    """
    size, start = der[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(der[start : start + count], "big")
        start += count
    if size > len(der) - start:
        raise ValueError("an element ends behind its end")
    return start, start + size


def _time(kind: int, text: str) -> str:
    """Both forms of ASN.1 time as RFC 3339; two-digit years are 1950 to 2049."""
    if kind == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    elif kind != _GENERALIZED_TIME:
        raise ValueError("not a time")
    year, month, day, hour, minute, second = text[:4], text[4:6], text[6:8], text[8:10], text[10:12], text[12:14]
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}Z"
