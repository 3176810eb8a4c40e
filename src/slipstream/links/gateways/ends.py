"""The ends of gateway connections, which both directions build alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slipstream.kernels.wire.receivers import GATEWAY
from slipstream.links.end import LinkEnd, LinkWords

if TYPE_CHECKING:
    from slipstream.kernels.links.linkparser import LinkSink
    from slipstream.protocol.peer import Peer
    from slipstream.protocol.texts import CloseReason
    from slipstream.routing.hub import Hub

__all__ = ["gateway_end"]

_LINE_MAX: Final = 64 * 1024  # INFO names all servers of a cluster
_WORDS: Final = LinkWords("gid", "a gateway", "Gateway", "Gateway")


def gateway_end(
    hub: Hub, sink: LinkSink, peer: Peer, log: Callable[[str, str], None], on_closed: Callable[[CloseReason], None]
) -> LinkEnd:
    """This server's end; lines name accounts, and messages may have any size that the other cluster allows."""
    end = LinkEnd(
        hub,
        sink,
        peer,
        _WORDS,
        kind=GATEWAY,
        max_payload=-1,
        max_line=max(hub.options.max_control_line, _LINE_MAX),
        log=log,
        on_closed=on_closed,
    )
    end.parser.named_accounts = True
    return end
