"""PROXY headers: both versions, in every cut, and what is wrong with bad ones."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.protocol.proxy import ProxyDecoder, ProxySource, ProxyViolation

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def v2(
    command: int = 1, family: int = 0x11, body: bytes = b"", *, version: int = 2, length: int | None = None
) -> bytes:
    size = len(body) if length is None else length
    return SIGNATURE + bytes([version << 4 | command, family]) + size.to_bytes(2, "big") + body


def addresses(source: str, source_port: int, destination: str = "::1") -> bytes:
    packed = ipaddress.ip_address(source).packed
    other = packed if len(packed) == 4 else ipaddress.ip_address(destination).packed
    return packed + other + source_port.to_bytes(2, "big") + (4222).to_bytes(2, "big")


def decode(data: bytes, size: int = 0) -> tuple[ProxyDecoder, bytes]:
    """Reads pieces of `size` bytes, 0 for all at once; returns the decoder and what it passed on."""
    decoder = ProxyDecoder()
    step = size or max(1, len(data))
    return decoder, b"".join(decoder.receive(data[start : start + step]) for start in range(0, len(data), step))


IPV4 = addresses("192.0.2.1", 56324)
IPV6 = addresses("2001:db8::1", 443)
GOOD = [
    (b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 4222\r\n", ProxySource("192.0.2.1", 56324)),
    (b"PROXY TCP6 2001:db8::1 ::1 443 4222\r\n", ProxySource("2001:db8::1", 443)),
    (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", ProxySource("192.0.2.1", 1)),
    (b"PROXY  TCP4\t1.2.3.4 1.2.3.4 0 65535 \r\n", ProxySource("1.2.3.4", 0)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 whatever\r\n", None),
    (b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n", None),
    (v2(body=IPV4), ProxySource("192.0.2.1", 56324)),
    (v2(body=IPV4 + b"\x03\x00\x04abcd"), ProxySource("192.0.2.1", 56324)),
    (v2(body=IPV4 + bytes(65000)), ProxySource("192.0.2.1", 56324)),
    (v2(family=0x21, body=IPV6), ProxySource("2001:db8::1", 443)),
    (v2(family=0x21, body=addresses("::ffff:192.0.2.9", 7)), ProxySource("192.0.2.9", 7)),
    (v2(command=0), None),
    (v2(command=0, family=0x11, body=IPV4), None),
    (v2(family=0x01, body=b"12345"), None),
]


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize(("header", "source"), GOOD, ids=range(len(GOOD)))
def test_header_is_cut_off(header: bytes, source: ProxySource | None, size: int) -> None:
    decoder, rest = decode(header + b"CONNECT {}\r\nPING\r\n", size)
    assert decoder.done
    assert decoder.source == source
    assert rest == b"CONNECT {}\r\nPING\r\n"


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("data", [b"PING\r\n", b"PROXIMITY", b"\r\nPING\r\n", b"CONNECT {}\r\n", b"\x16\x03\x01"])
def test_other_bytes_pass(data: bytes, size: int) -> None:
    decoder, rest = decode(data, size)
    assert (decoder.done, decoder.source, rest) == (True, None, data)
    assert decoder.receive(b"more") == b"more"


BAD = [
    (b"PROXY " + b"x" * 101, "invalid PROXY protocol header: v1 line too long"),
    (b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n", "invalid PROXY protocol header: v1 line too long"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "invalid PROXY protocol header: invalid v1 format"),
    (b"PROXY \r\n", "invalid PROXY protocol header: invalid v1 format"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "invalid PROXY protocol header: invalid v1 format"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n", "invalid PROXY protocol header: invalid v1 format"),
    (b"PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", "invalid PROXY protocol header: invalid address"),
    (b"PROXY TCP6 fe80::1%lo ::1 1 2\r\n", "invalid PROXY protocol header: invalid address"),
    (b"PROXY TCP4 ::1 ::1 1 2\r\n", "invalid PROXY protocol header: TCP4 with IPv6 address"),
    (b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n", "invalid PROXY protocol header: TCP6 with IPv4 address"),
    (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "invalid PROXY protocol header: invalid protocol UDP4"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", "invalid source port: 65536"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 -2\r\n", "invalid dest port: -2"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 99999999999999999999\r\n", "invalid dest port: 99999999999999999999"),
    (b"\r\n\r\n\x00\rx", "invalid PROXY protocol header: invalid signature"),
    (v2(version=1, body=IPV4), "invalid PROXY protocol header: invalid version 0x10"),
    (v2(command=2, body=IPV4), "unknown PROXY protocol command: 0x02"),
    (v2(family=0x12, body=IPV4), "unsupported PROXY protocol feature: only STREAM protocol supported"),
    (v2(family=0x31, body=bytes(216)), "unsupported PROXY protocol feature: unsupported address family 0x30"),
    (v2(body=IPV4[:11]), "IPv4 address data too short: 11 bytes"),
    (v2(family=0x21, body=IPV4), "IPv6 address data too short: 12 bytes"),
]


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(("data", "text"), BAD, ids=[text for _, text in BAD])
def test_bad_header_is_named(data: bytes, text: str, size: int) -> None:
    with pytest.raises(ProxyViolation) as caught:
        decode(data, size)
    assert caught.value.text == text


def test_incomplete_header_waits() -> None:
    for header, _ in GOOD:
        decoder, rest = decode(header[:-1])
        assert (decoder.done, rest) == (False, b"")


def test_skipped_bytes_are_not_kept() -> None:
    decoder = ProxyDecoder()
    decoder.receive(v2(body=IPV4, length=65535))
    for _ in range(60):
        assert decoder.receive(bytes(1000)) == b""
    assert decoder._kept == b""
    assert not decoder.done


@given(
    data=st.binary(max_size=130),
    prefix=st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE]),
    size=st.integers(0, 9),
)
def test_any_bytes_are_survived(data: bytes, prefix: bytes, size: int) -> None:
    whole = prefix + data
    try:
        _, rest = decode(whole, size)
    except ProxyViolation:
        return
    assert not rest or whole.endswith(rest)
