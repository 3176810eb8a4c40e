"""Whether a message asks to be traced. What a trace tells is `routing.trace`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.protocol.headers import find_header

if TYPE_CHECKING:
    from slipstream.accounts.account import Account

__all__ = ["TRACE_DEST", "TraceRequest", "trace_request"]

TRACE_DEST = b"Nats-Trace-Dest"
_TRACE_ONLY = b"Nats-Trace-Only"
_TRACEPARENT = b"traceparent"
_ON = (b"1", b"t", b"T", b"true", b"TRUE", b"True")


class TraceRequest:
    """What a message asks for."""

    __slots__ = ("by_client", "dest", "only")

    def __init__(self, dest: bytes, *, only: bool, by_client: bool) -> None:
        self.dest = dest
        self.only = only
        self.by_client = by_client  # the client named the destination, so its rights count


def trace_request(header: bytes, account: Account, roll: Callable[[int], int]) -> TraceRequest | None:
    """Whether, and where to, a message with this header block is traced.

    Args:
        header: the block.
        account: the publisher's account, for its `msg_trace` setting.
        roll: a random number below its argument, for sampling.
    """
    dest = find_header(TRACE_DEST, header)
    if dest:
        return TraceRequest(dest, only=find_header(_TRACE_ONLY, header) in _ON, by_client=True)
    settings = account.msg_trace
    parent = find_header(_TRACEPARENT, header) if settings is not None else None
    if settings is None or parent is None or dest is not None or not _is_sampled(parent):
        return None
    if settings.sampling < 100 and roll(100) >= settings.sampling:
        return None
    return TraceRequest(settings.dest.encode(), only=False, by_client=False)


def _is_sampled(parent: bytes) -> bool:
    """`version-traceid-spanid-flags`, the lowest bit of the flags set."""
    parts = parent.strip().split(b"-")
    if len(parts) != 4 or len(parts[3]) != 2:
        return False
    try:
        return bool(int(parts[3], 16) & 1)
    except ValueError:
        return False
