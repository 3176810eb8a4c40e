"""Addresses as text: `host:port`, `[v6]:port`."""

from __future__ import annotations

import re

__all__ = ["advertised", "is_loopback", "split_host_port"]

_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")
_PORT_DIGITS_MAX = 9  # more are no port in any case


def split_host_port(hostport: str) -> tuple[str, str] | None:
    """Split `host:port` or `[v6]:port`; None if it is neither."""
    if hostport.startswith("["):
        host, bracket, port = hostport[1:].partition("]")
        if not bracket or not port.startswith(":") or "[" in host:
            return None
        port = port[1:]
    else:
        host, colon, port = hostport.rpartition(":")
        if not colon or ":" in host:
            return None
    if "[" in port or "]" in port or "[" in host or "]" in host:
        return None
    return host, port


def is_loopback(host: str) -> bool:
    """Whether only this machine gets to a host; a name is believed if it says so itself."""
    return host == "localhost" or host == "::1" or _LOOPBACK.fullmatch(host) is not None


def advertised(text: str, listening: int) -> tuple[str, int]:
    """The host and port that clients are told; a missing port, 0 and -1 mean the one the server listens on.

    Raises:
        ValueError: it is no address, with nats-server's words.
    """
    split = split_host_port(text) or split_host_port(f"{text}:{listening}")
    if split is None:
        raise ValueError(f"address {text}: too many colons in address")
    host, port = split[0].strip(), split[1].strip()
    digits = port[1:] if port[:1] in ("+", "-") else port
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _PORT_DIGITS_MAX:
        raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
    return host, listening if int(port) in (0, -1) else int(port)
