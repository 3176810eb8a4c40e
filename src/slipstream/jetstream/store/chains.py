"""What is said about the hash chain of a stream: values that a store gives and takes."""

from __future__ import annotations

from typing import NamedTuple

from slipstream.dataclass import dataclass

__all__ = ["NO_HEAD", "ChainBreak", "ChainHead", "ChainReport"]


class ChainHead(NamedTuple):
    """A place in a chain."""

    records: int
    """How many are linked."""
    link: bytes
    last_seq: int
    """The stream's last sequence there."""


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """What is wrong, and the messages that may be concerned: all that share a link. Zeros: none in particular."""

    first_seq: int
    last_seq: int
    problem: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a check found."""

    uid: bytes
    config: bytes
    """The stream's configuration as the log has it."""
    chained: bool
    """Whether there is a chain at all."""
    broken: ChainBreak | None
    start: ChainHead
    """Where the chain begins that could be checked: what was before is removed."""
    head: ChainHead
    """Where it ends, or breaks."""
    unlinked: tuple[int, int] | None
    """Messages behind the last link: of a commit that was cut off, if nobody put them there."""

    @property
    def intact(self) -> bool:
        """Whether there is a chain and all of it holds."""
        return self.chained and self.broken is None


NO_HEAD = ChainHead(0, b"", 0)
