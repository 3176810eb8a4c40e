"""The PROXY protocol header that a load balancer sends before the client's own bytes, versions 1 and 2.

    v1   PROXY TCP4 192.0.2.1 198.51.100.2 56324 4222 CR LF           at most 107 bytes
    v2   signature (12) | version, command (1) | family, transport (1) | length (2) | addresses, then TLVs (length)

A connection that does not begin like either is no error: its bytes go on to the client protocol, as in nats-server.
LOCAL and UNKNOWN (health checks of the balancer itself) keep the address of the socket.

Memory is bounded: at most one v1 line or the fixed part and addresses of v2 are kept; TLVs are counted, not kept.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from slipstream.errors import PeerViolation
from slipstream.limits import PROXY_LINE_BYTES_MAX

__all__ = ["ProxyDecoder", "ProxySource", "ProxyViolation"]

_V1_PREFIX = b"PROXY "
_V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_HEAD_BYTES = 16
_VERSION_2 = 0x20
_COMMAND_LOCAL = 0
_COMMAND_PROXY = 1
_FAMILY_UNSPECIFIED = 0x00
_FAMILY_INET = 0x10
_FAMILY_INET6 = 0x20
_TRANSPORT_STREAM = 1
_PORT_MAX = 65535


class ProxyViolation(PeerViolation):
    """The header is not what it should be; the connection is closed without a word. The text is for the log."""


@dataclass(frozen=True, slots=True)
class ProxySource:
    """Where the client behind the proxy comes from."""

    ip: str
    port: int


class ProxyDecoder:
    """Reads the header of one connection.

    After `done` is True, `source` is the client's address or None (no header, or one that names no client), and the
    bytes that `receive` returned and all later ones belong to the next protocol.
    """

    def __init__(self) -> None:
        self.done = False
        self.source: ProxySource | None = None
        self._kept = b""  # the header so far
        self._skip = 0  # bytes of v2 TLVs still to come

    def receive(self, data: bytes) -> bytes:
        """Read the next bytes; returns those that do not belong to the header.

        Raises:
            ProxyViolation: it begins like a header and is none.
        """
        if self.done:
            return data
        if self._skip:
            return self._skip_over(data)
        self._kept += data
        if _V1_PREFIX.startswith(self._kept[:6]):
            return self._read_v1()
        if _V2_SIGNATURE[:6].startswith(self._kept[:6]):
            return self._read_v2()
        return self._finish(self._kept)

    def _finish(self, rest: bytes) -> bytes:
        self.done = True
        self._kept = b""
        return rest

    # --- version 1 ----------------------------------------------------------------------------------------------

    def _read_v1(self) -> bytes:
        line, newline, rest = self._kept[:PROXY_LINE_BYTES_MAX].partition(b"\r\n")
        # A line feed alone ends no header; what follows it would only be waited for in vain.
        if b"\n" in line:
            raise ProxyViolation("invalid PROXY protocol header: invalid v1 format")
        if not newline:
            if len(self._kept) >= PROXY_LINE_BYTES_MAX:
                raise ProxyViolation("invalid PROXY protocol header: v1 line too long")
            return b""
        self.source = _v1_source(line[len(_V1_PREFIX) :])
        return self._finish(rest + self._kept[PROXY_LINE_BYTES_MAX:])

    # --- version 2 ----------------------------------------------------------------------------------------------

    def _read_v2(self) -> bytes:
        kept = self._kept
        if not _V2_SIGNATURE.startswith(kept[: len(_V2_SIGNATURE)]):
            raise ProxyViolation("invalid PROXY protocol header: invalid signature")
        if len(kept) < _V2_HEAD_BYTES:
            return b""
        length = int.from_bytes(kept[14:16], "big")
        address_bytes = _v2_address_bytes(kept[12], kept[13], length)
        end = _V2_HEAD_BYTES + address_bytes
        if len(kept) < end:
            return b""
        self.source = _v2_source(kept[_V2_HEAD_BYTES:end])
        self._skip = length - address_bytes
        self._kept = b""
        return self._skip_over(kept[end:])

    def _skip_over(self, data: bytes) -> bytes:
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        return b"" if self._skip else self._finish(data[skipped:])


def _v1_source(line: bytes) -> ProxySource | None:
    words = line.decode("latin-1").split()
    if words[:1] == ["UNKNOWN"]:
        return None
    if len(words) != 5:
        raise ProxyViolation("invalid PROXY protocol header: invalid v1 format")
    family, source, destination, source_port, destination_port = words
    if family not in ("TCP4", "TCP6"):
        raise ProxyViolation(f"invalid PROXY protocol header: invalid protocol {family}")
    for address in (source, destination):
        if not _is_address(address):
            raise ProxyViolation("invalid PROXY protocol header: invalid address")
        if (":" in address) != (family == "TCP6"):
            other = "IPv6" if family == "TCP4" else "IPv4"
            raise ProxyViolation(f"invalid PROXY protocol header: {family} with {other} address")
    _port(destination_port, "dest")
    return ProxySource(_canonical(source), _port(source_port, "source"))


def _v2_address_bytes(version_command: int, family_transport: int, length: int) -> int:
    """How many bytes of the variable part are addresses; 0 when it names no client."""
    command = version_command & 0x0F
    family = family_transport & 0xF0
    if version_command & 0xF0 != _VERSION_2:
        raise ProxyViolation(f"invalid PROXY protocol header: invalid version 0x{version_command & 0xF0:02x}")
    if command == _COMMAND_LOCAL:
        return 0
    if command != _COMMAND_PROXY:
        raise ProxyViolation(f"unknown PROXY protocol command: 0x{command:02x}")
    if family_transport & 0x0F != _TRANSPORT_STREAM:
        raise ProxyViolation("unsupported PROXY protocol feature: only STREAM protocol supported")
    if family == _FAMILY_UNSPECIFIED:
        return 0
    if family not in (_FAMILY_INET, _FAMILY_INET6):
        raise ProxyViolation(f"unsupported PROXY protocol feature: unsupported address family 0x{family:02x}")
    name, needed = ("IPv4", 12) if family == _FAMILY_INET else ("IPv6", 36)
    if length < needed:
        raise ProxyViolation(f"{name} address data too short: {length} bytes")
    return needed


def _v2_source(addresses: bytes) -> ProxySource | None:
    """Addresses are: source, destination, source port, destination port."""
    if not addresses:
        return None
    size = (len(addresses) - 4) // 2
    ip = str(ipaddress.ip_address(addresses[:size]))
    return ProxySource(_canonical(ip), int.from_bytes(addresses[2 * size : 2 * size + 2], "big"))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _canonical(text: str) -> str:
    """The address as Go prints it: an IPv4 address inside IPv6 is shown as IPv4."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _port(text: str, which: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(_PORT_MAX)) or int(text) > _PORT_MAX:
        raise ProxyViolation(f"invalid {which} port: {text}")
    return int(text)
