"""The numbers of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULTS", "META_DEFAULTS", "STREAM_DEFAULTS", "GroupSettings"]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Times are in ticks (`groups.TICK_NS`)."""

    election_ticks: int = 10
    """Without a word of the leader for so long, a follower may ask for votes."""
    election_spread: int = 5
    """... and waits up to so many more, by dice, so that two rarely ask at once. At most `election_ticks`."""
    heartbeat_ticks: int = 2
    quiet_ticks: int = 20
    """Nothing happens for so long: the leader asks whether all may rest."""
    tells_commits: bool = True
    """Followers are told at once of what is committed; else with the next entries, or with a heartbeat."""
    rests: bool = True
    """It is not ticked while it has nothing to do (ADR 78)."""
    message_bytes: int = 1 << 20
    """Entries in one message, if there is more than one."""
    messages_in_flight: int = 8
    """To a follower that has not answered them: about 8 MB, more would delay heartbeats and make long events."""
    uncommitted_bytes: int = 1 << 62
    """The stream itself bounds what waits for its commit (`STREAM_MAX_BUFFERED_BYTES`); here nothing is dropped."""
    apply_bytes: int = 1 << 20
    """Committed entries handled at once, so that no event takes long."""
    window_bytes: int = 1 << 20
    """Newest entries kept in memory for followers."""


DEFAULTS: Final = GroupSettings()
STREAM_DEFAULTS: Final = GroupSettings(tells_commits=False)
"""Of a stream: its leader answers, and half of the messages of a publish would only say that it did (ADR 79)."""
META_DEFAULTS: Final = GroupSettings(rests=False)
"""Of the meta group: servers act on what it commits, and there is one."""
