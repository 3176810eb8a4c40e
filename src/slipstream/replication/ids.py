"""Names of servers and groups as numbers, and the short forms that answers show."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from slipstream.jetstream.config.enums import StorageType

__all__ = ["META_GROUP", "NO_NODE", "group_name", "link_number", "node_id", "short_id"]

NO_NODE: Final = 0
"""In the place of a server's number: nobody."""
META_GROUP: Final = 1
"""The group of all servers; every other number is a stream's."""

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHORT_LENGTH: Final = 8


def node_id(server_name: str, incarnation: bytes = b"") -> int:
    """The number of a server in all of its groups, never 0.

    A server keeps it as long as it keeps its name and what it has written. One whose store was wiped has forgotten what
    it voted and acknowledged: it has another incarnation, and so is another member.
    """
    named = server_name.encode() + (b"\0" + incarnation if incarnation else b"")
    return int.from_bytes(blake2b(named, digest_size=8).digest(), "little") or 1


def link_number(server_name: str) -> int:
    """Where a server can be reached before it has told its number."""
    return int.from_bytes(blake2b(server_name.encode(), digest_size=8, person=b"link").digest(), "little") or 1


def short_id(number: int) -> str:
    """Eight letters and digits for a number: what answers show as `peer`, and in names of groups."""
    left = int.from_bytes(blake2b(number.to_bytes(8, "little"), digest_size=8).digest(), "little")
    out = []
    for _ in range(_SHORT_LENGTH):
        left, digit = divmod(left, len(_DIGITS))
        out.append(_DIGITS[digit])
    return "".join(out)


def group_name(group: int, replicas: int, storage: StorageType) -> str:
    """How answers call a stream's group, such as `S-R3F-jq0Mt1Pz`."""
    return f"S-R{replicas}{'M' if storage is StorageType.MEMORY else 'F'}-{short_id(group)}"
