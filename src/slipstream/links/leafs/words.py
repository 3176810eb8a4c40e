"""How logs speak of leaf links, and how those over WebSocket are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slipstream.links.end import LinkWords

if TYPE_CHECKING:
    from slipstream.protocol.peer import Peer

__all__ = ["WEBSOCKET_LEAF", "words_of"]

WEBSOCKET_LEAF: Final = "leafnode_ws"  # the kind of a peer
_WORDS: Final = LinkWords("lid", "a leaf node", "Leafnode", "Leafnode")
_WEBSOCKET_WORDS: Final = LinkWords("lid_ws", "a leaf node", "Leafnode", "Leafnode")


def words_of(peer: Peer) -> LinkWords:
    """How logs speak of the link to a peer."""
    return _WEBSOCKET_WORDS if peer.kind == WEBSOCKET_LEAF else _WORDS
