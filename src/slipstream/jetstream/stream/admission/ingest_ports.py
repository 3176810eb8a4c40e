"""What an ingest asks of the stream it belongs to and of the account's resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["IngestOwner", "Newest", "Resources"]

Newest = Callable[[bytes], tuple[bytes, bytes] | None]
"""Header and body of the newest message under a subject, if there is one that can be read."""


class Resources(Protocol):
    """Room left to the account and the server for one kind of storage."""

    @property
    def server_exceeded(self) -> bool:
        """The server has used up what it may."""
        ...

    @property
    def limited(self) -> bool:
        """The account has a limit of its own, so `would_exceed` has to be asked."""
        ...

    def would_exceed(self, extra_bytes: int) -> bool:
        """Whether the account has no room for this much more."""
        ...

    def report(self, delta_bytes: int) -> None:
        """A stream has grown or shrunk by this much."""
        ...

    def can_hold(self, extra_bytes: int) -> bool:
        """Whether the stream may hold this much more in memory beside its messages: open batches, message ids."""
        ...

    def hold(self, delta_bytes: int) -> None:
        """It holds this much more."""
        ...

    def can_stage(self, extra_bytes: int) -> bool:
        """Whether this much more may wait for a bulk commit."""
        ...

    def stage(self, delta_bytes: int) -> None:
        """So much more waits."""
        ...

    def release(self) -> None:
        """The stream has gone, and holds nothing any more."""
        ...


class IngestOwner(Protocol):
    """The stream, as far as an ingest needs it."""

    def has_interest(self, subject: bytes) -> bool:
        """Whether some consumer wants a message on this subject."""
        ...

    def appended(self, seq: int, subject: bytes, expires_ns: int) -> None:
        """A message joined the store and limits or timers may be concerned."""
        ...

    def rolled_up(self, subject: bytes, keep: int, below_seq: int = 0) -> None:
        """Remove all but the newest `keep` messages under `subject` (`b""`: of the stream), or those below a sequence.

        `subject` is a filter, even if it came as a message's subject.
        """
        ...

    def remembered(self) -> None:
        """A message id was added to the window."""
        ...

    def schedule_stored(self, seq: int, ts_ns: int, subject: bytes, header: bytes) -> None:
        """A message joined a stream that has schedules: it may be one, or the end of one."""
        ...
