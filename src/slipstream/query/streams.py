"""What a query knows of a stream when it begins, and what it tells of each scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slipstream.bulk import BulkClient, BulkError

__all__ = ["QueriedStream", "ScanReport", "stream_now"]

_STREAM_NOT_FOUND: Final = 10059


@dataclass(frozen=True)
class QueriedStream:
    """What a stream has when a query begins."""

    name: str
    identity: str
    first: int  # sequence of the oldest message; last + 1 when there is none
    last: int
    messages: int


@dataclass
class ScanReport:
    """What one scan has asked for and got."""

    stream: str
    first: int
    last: int
    subjects: tuple[str, ...]
    columns: tuple[str, ...]
    rest: bool  # whether rows were checked here, too
    archived: int = 0  # rows read from the archive
    live: int = 0  # rows read from the stream, or counted by it
    counted: bool = False  # the server's index counted; no message was read


def stream_now(client: BulkClient, name: str) -> QueriedStream | None:
    """Ask for a stream; None if there is none of this name."""
    try:
        info = client.stream_info(name)
    except BulkError as error:
        if error.err_code == _STREAM_NOT_FOUND:
            return None
        raise
    state = info["state"]
    first = state["first_seq"] if state["messages"] else state["last_seq"] + 1
    return QueriedStream(name, info["identity"], first, state["last_seq"], state["messages"])
