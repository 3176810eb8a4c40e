"""PROXY protocol headers before the client protocol, versions 1 and 2; the address a client is known by."""

from __future__ import annotations

import ipaddress
import struct

from support.raw_client import RawClient
from support.servers import Both
from support.transcript import Peer, Script, Talk, connect_line, each, pub

CONFIG = "proxy_protocol: true\n"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def version_2(command: int, family: int, addresses: bytes) -> bytes:
    """A binary header."""
    return SIGNATURE + struct.pack("!BBH", 0x20 | command, family, len(addresses)) + addresses


IPV4 = (
    ipaddress.ip_address("203.0.113.7").packed
    + ipaddress.ip_address("198.51.100.1").packed
    + struct.pack("!HH", 1234, 4222)
)
IPV6 = (
    ipaddress.ip_address("2001:db8::7").packed
    + ipaddress.ip_address("2001:db8::1").packed
    + struct.pack("!HH", 1234, 4222)
)

GOOD = {
    "v1 TCP4": b"PROXY TCP4 203.0.113.7 198.51.100.1 1234 4222\r\n",
    "v1 TCP6": b"PROXY TCP6 2001:db8::7 2001:db8::1 1234 4222\r\n",
    "v1 UNKNOWN": b"PROXY UNKNOWN\r\n",
    "v2 TCP4": version_2(1, 0x11, IPV4),
    "v2 TCP6": version_2(1, 0x21, IPV6),
    "v2 LOCAL": version_2(0, 0x00, b""),
    "v2 with more after the addresses": version_2(1, 0x11, IPV4 + b"\x03\x00\x04abcd"),
}
BAD = {
    "v1 no addresses": b"PROXY TCP4\r\n",
    "v1 bad address": b"PROXY TCP4 nonsense 198.51.100.1 1 2\r\n",
    "v1 bad port": b"PROXY TCP4 203.0.113.7 198.51.100.1 99999 2\r\n",
    "v1 too long": b"PROXY TCP4 " + b"1" * 200 + b"\r\n",
    "v2 bad version": SIGNATURE + b"\x31\x11\x00\x0c" + IPV4,
    "v2 too short": version_2(1, 0x11, IPV4[:8]),
    "v2 unknown family": version_2(1, 0x31, b"\x00" * 12),
}


def opened(talk: Talk, header: bytes) -> Peer:
    """A peer that has sent a header; the server greets after it."""
    peer = Peer("a", RawClient(talk.server.port))
    talk.peers.append(peer)
    peer.send(header)
    return peer


def accepted(name: str, header: bytes) -> Script:
    """A script whose header is good; INFO shows the address it gave."""

    def run(talk: Talk) -> None:
        peer = opened(talk, header)
        peer.until(rb"INFO [^\n]*\r\n")
        peer.send(connect_line() + b"SUB foo 1\r\n" + pub("foo", b"x")).sync()
        peer.sync()
        talk.must_show(rb"MSG foo 1 1")

    run.__name__ = name
    return run


def refused(name: str, header: bytes) -> Script:
    """A script whose header is not a header."""

    def run(talk: Talk) -> None:
        opened(talk, header).until_closed()

    run.__name__ = name
    return run


def no_header(talk: Talk) -> None:
    opened(talk, connect_line()).sync()


def header_in_pieces(talk: Talk) -> None:
    peer = opened(talk, b"")
    for byte in GOOD["v1 TCP4"] + connect_line():
        peer.send(bytes([byte]))
    peer.until(rb"INFO [^\n]*\r\n")
    peer.sync()


@each(
    [
        *[accepted(*item) for item in GOOD.items()],
        *[refused(*item) for item in BAD.items()],
        header_in_pieces,
        no_header,
    ]
)
def test_proxy_protocol(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)
