"""Whether a message asks to be traced. What a trace tells is `routing.trace`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slipstream.protocol.headers import find_header, remove_header, set_header

if TYPE_CHECKING:
    from slipstream.accounts.account import Account

__all__ = ["SAMPLED_OUT", "TRACE_DEST", "TRACE_HOP", "TraceRequest", "trace_request", "untraced"]

TRACE_DEST = b"Nats-Trace-Dest"
TRACE_HOP = b"Nats-Trace-Hop"
_TRACE_ONLY = b"Nats-Trace-Only"
_TRACEPARENT = b"traceparent"
_DISABLED: Final = b"trace disabled"  # in the place of a destination, and no subject
_ON = (b"1", b"true", b"on")


class TraceRequest:
    """What a message asks for."""

    __slots__ = ("by_client", "dest", "hop", "only")

    def __init__(self, dest: bytes, *, only: bool, by_client: bool, hop: bytes = b"") -> None:
        self.dest = dest
        self.only = only
        self.by_client = by_client  # the client named the destination, so its rights count
        self.hop = hop  # of a message that another server traced before: the name of its way here


SAMPLED_OUT: Final = TraceRequest(b"", only=False, by_client=False)
"""Of a message that is not traced, by no other server either: this one has drawn the lot."""


def trace_request(header: bytes, account: Account, roll: Callable[[int], int] | None) -> TraceRequest | None:
    """Whether, and where to, a message with this header block is traced.

    Args:
        header: the block.
        account: the publisher's account, for its `msg_trace` setting.
        roll: a random number below its argument, for sampling; None: the message came from another server, which has
            drawn the lot, and tells by which hop.
    """
    dest = find_header(TRACE_DEST, header)
    hop = find_header(TRACE_HOP, header) or b"" if roll is None else b""
    if dest == _DISABLED:
        return None
    if dest:
        only = (find_header(_TRACE_ONLY, header) or b"").lower() in _ON
        return TraceRequest(dest, only=only, by_client=True, hop=hop)
    settings = account.msg_trace
    parent = find_header(_TRACEPARENT, header) if settings is not None else None
    if settings is None or parent is None or dest is not None or not _is_sampled(parent):
        return None
    if settings.sampling < 100 and roll is not None and roll(100) >= settings.sampling:
        return SAMPLED_OUT
    return TraceRequest(settings.dest.encode(), only=False, by_client=False, hop=hop)


def untraced(header_size: int, body: bytes) -> tuple[int, bytes]:
    """The message with the word that nobody traces it."""
    header_size, body = remove_header(TRACE_DEST, header_size, body)
    return set_header(TRACE_DEST, _DISABLED, header_size, body)


def _is_sampled(parent: bytes) -> bool:
    """`version-traceid-spanid-flags`, the lowest bit of the flags set."""
    parts = parent.strip().split(b"-")
    if len(parts) != 4 or len(parts[3]) != 2:
        return False
    try:
        return bool(int(parts[3], 16) & 1)
    except ValueError:
        return False
