"""What leaf nodes ask of the side that has sockets, files and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slipstream.links.end import LinkEnd
    from slipstream.links.leafs.handshake import LeafConnect
    from slipstream.links.leafs.link import LeafLink
    from slipstream.protocol.texts import CloseReason

__all__ = ["LeafEdge"]


class LeafEdge(Protocol):
    """Sockets, files and threads."""

    def secure(self, link: LeafLink, then: Callable[[], None]) -> None:
        """Speak TLS from here on, and go on after the handshake."""
        ...

    def sign_in(self, link: LeafLink, connect: LeafConnect) -> str | None:
        """Put the credentials of a remote into CONNECT; gives what is wrong with them."""
        ...

    def compress(self, end: LinkEnd, mode: str) -> None:
        """Send what waits as it is, and frames of S2 from here on; or change the level."""
        ...

    def await_answer(self, link: LeafLink, delay_ns: int) -> None:
        """Give a peer so much time for its next step."""
        ...

    def end_at(self, link: LeafLink, at_ns: int) -> None:
        """The login of a peer ends then."""
        ...

    def check_password(self, link: LeafLink, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        """Run a job off the loop, and report its result on the loop."""
        ...

    def called_out(self, link: LeafLink) -> None:
        """Somebody else decides about a peer, in a time of its own: its own time is over."""
        ...

    def ready(self, link: LeafLink) -> None:
        """The handshake is over; what was held back may be read."""
        ...

    def close(self, link: LeafLink, reason: CloseReason) -> None:
        """Send what waits, then close the socket; dial again if that is wanted."""
        ...

    def log(self, level: str, text: str) -> None: ...
