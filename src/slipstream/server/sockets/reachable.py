"""Under which addresses others reach this machine."""

from __future__ import annotations

import socket

__all__ = ["reachable"]


def reachable(host: str, port: int) -> list[str]:
    """`host:port` under which others reach this server; all interfaces mean all addresses of the machine."""
    if host not in ("", "0.0.0.0", "::"):
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    found: list[str] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(socket.gethostname(), port, type=socket.SOCK_STREAM):
            ip = str(address[0])
            url = f"[{ip}]:{port}" if family == socket.AF_INET6 else f"{ip}:{port}"
            if not ip.startswith(("127.", "::1", "fe80")) and url not in found:
                found.append(url)
    except OSError:
        pass
    return found or [f"127.0.0.1:{port}"]
