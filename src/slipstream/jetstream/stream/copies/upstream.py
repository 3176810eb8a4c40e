"""What a stream asks of whatever copies messages into it. Without a mirror or sources nothing does."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NoUpstream", "Upstream"]


class Upstream(Protocol):
    """A mirror, or the sources of one stream."""

    def fields(self) -> dict[str, object]:
        """The member `mirror` or `sources` of a StreamInfo, if there is one."""
        ...

    def on_removing(self) -> None:
        """Messages are about to be removed on request: what is known only from them must be written down."""
        ...

    def on_fault(self) -> None:
        """What was not committed did not happen: go back to what the store holds."""
        ...

    def stop(self, *, deleted: bool) -> None:
        """The stream is going: copy no more. `deleted`: for good, so origins need not keep anything for it."""
        ...


class NoUpstream:
    """A stream that only its publishers fill."""

    def fields(self) -> dict[str, object]:
        """Nothing to show."""
        return {}

    def on_removing(self) -> None:
        """Nothing is known from messages."""

    def on_fault(self) -> None:
        """Nothing to go back to."""

    def stop(self, *, deleted: bool) -> None:
        """Nothing runs."""
