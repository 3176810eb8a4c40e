"""What logs and services are told about a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.clock import rfc3339
from slipstream.protocol import texts

if TYPE_CHECKING:
    from slipstream.accounts.member import Member
    from slipstream.protocol.connection import ClientConnection

__all__ = ["account_info", "client_info", "log_line"]


def log_line(connection: ClientConnection, text: str) -> str:
    """A line about one connection."""
    peer = connection.peer
    prefix = "wid" if peer.kind == "websocket" else "cid"
    forwarded = peer.forwarded_ip
    if forwarded:
        forwarded = f"[{forwarded}]/" if ":" in forwarded else f"{forwarded}/"
    about = "".join(f" - {texts.quoted_text(label)}" for label in _labels(connection))
    return f"{forwarded}{peer.ip}:{peer.port} - {prefix}:{connection.cid}{about} - {text}"


def client_info(connection: Member, server_name: str) -> dict[str, object]:
    """Who a client is, as a service in another account may learn it."""
    account = connection.account
    info = {
        "start": rfc3339(connection.start_ns),
        "host": connection.peer.ip,
        "id": connection.cid,
        "acc": account.name if account is not None else "",
        "user": connection.identity.user if connection.identity is not None else "",
        "name": connection.name,
        "lang": connection.lang,
        "ver": connection.version,
        "rtt": connection.rtt_ns,
        "server": server_name,
        "kind": "Client",
        "client_type": connection.peer.kind,
    }
    return {key: value for key, value in info.items() if value}


def account_info(connection: Member) -> dict[str, object]:
    """What a service in another account learns about a client that is not shared."""
    account = connection.account
    return {"acc": account.name if account is not None else "", "rtt": connection.rtt_ns}


def _labels(connection: ClientConnection) -> list[str]:
    """What the log says about a client that was let in: what it runs, and who it is in which account."""
    if connection.identity is None or connection.account is None or not connection.connected:
        return []
    version = connection.version and f"v{connection.version}"
    program = ":".join(filter(None, (version, connection.lang, connection.name)))
    who = connection.claimed_as and f"{connection.account.name}/{connection.claimed_as}"
    return [label for label in (program, who) if label]
