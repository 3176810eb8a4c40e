"""What bulk calls give back: plans, pieces of them, identities."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Fence", "Plan", "Split", "StreamIdentity"]


@dataclass(frozen=True)
class StreamIdentity:
    """Tells a stream from an earlier one of the same name: when it was made, and an identifier if there is one."""

    created: int
    uid: str = ""

    def __str__(self) -> str:
        """As it is written into offsets and requests."""
        return f"{self.created}/{self.uid}"

    @classmethod
    def parse(cls, text: str) -> StreamIdentity:
        """The other way round.

        Raises:
            ValueError: it is no such text.
        """
        created, slash, uid = text.partition("/")
        if not slash:
            raise ValueError(f"no stream identity: {text!r}")
        return cls(int(created), uid)


@dataclass(frozen=True)
class Fence:
    """What a transaction committed last: its batch, where that is, and how many messages its parts had."""

    batch_id: int
    first_seq: int
    last_seq: int
    count: int
    offered: int | None = None


@dataclass(frozen=True)
class Split:
    """A piece of a plan: sequences `first` to `last`, both inside."""

    first: int
    last: int
    messages: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """A range of committed sequences, cut into pieces.

    With transport `bulk` messages and bytes are exact at the time of the call: a later read of a piece gives as many,
    unless messages were removed. Elsewhere they are estimated from the state of the whole stream (`exact` is False).
    """

    stream: str
    identity: str
    first: int
    last: int
    messages: int
    bytes: int
    splits: list[Split] = field(default_factory=list)
    exact: bool = True
    stream_first: int = 0
    """First sequence stored when the plan was made."""
    stream_last: int = 0
    """Last committed sequence then."""
