"""The Raft core of TiKV for Python, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from slipstream_raft._engine import GroupStopped, ProposalDropped, RaftError, RawNode, Ready, Status

__all__ = [
    "ADD_LEARNER",
    "ADD_VOTER",
    "CONF_CHANGE",
    "CONF_CHANGE_V2",
    "NORMAL",
    "REMOVE",
    "ConfState",
    "Entry",
    "GroupStopped",
    "HardState",
    "LogReader",
    "Message",
    "ProposalDropped",
    "RaftError",
    "RawNode",
    "Ready",
    "Snapshot",
    "Status",
]

NORMAL: Final = 0
CONF_CHANGE: Final = 1
CONF_CHANGE_V2: Final = 2
"""Kinds of entries."""

ADD_VOTER: Final = 0
REMOVE: Final = 1
ADD_LEARNER: Final = 2
"""Kinds of changes of the membership."""

Entry = tuple[int, int, int, bytes]
"""Index, term, kind, data."""

HardState = tuple[int, int, int]
"""Term, vote, commit."""

ConfState = tuple[list[int], list[int], list[int], list[int], bool]
"""Voters, learners, outgoing voters, next learners, whether a joint state is left by itself."""

Snapshot = tuple[int, int, ConfState, bytes]
"""Index, term, membership, data."""

Message = tuple[int, int, bytes]
"""To whom, kind, bytes."""


class LogReader(Protocol):
    """What is no longer in memory. Called from within calls of a node, and must not call it."""

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """Entries from `low` to below `high` as far as they fit into `max_bytes`, at least one."""
        ...

    def snapshot(self, request_index: int, to: int) -> Snapshot | None:
        """What a peer gets that is too far behind, at `request_index` or later; None: ask again later."""
        ...
