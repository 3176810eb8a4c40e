"""How two ends come to compress what they say to each other, for links of every kind.

accepting side                         dialling side
INFO {mode} ─────────────────────────►
             ◄───────────────────────── INFO {agreed mode}, then frames of S2
frames: INFO {agreed mode} ──────────►   the handshake goes on
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.links.compression import AUTO, agreed_mode, is_framed, mode_by_rtt
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.config.listener_options import CompressionOptions
    from slipstream.links.end import LinkEnd

__all__ = ["Compressing"]


class Compressing:
    """Agrees with peers on the compression of their links.

    Args:
        now_ns: the clock.
        compress: sends what waits as it is, and frames from then on; or changes their level.
    """

    def __init__(self, now_ns: Callable[[], int], compress: Callable[[LinkEnd, str], None]) -> None:
        self._now_ns = now_ns
        self._compress = compress

    def begins(
        self,
        end: LinkEnd,
        own: str,
        theirs: str,
        options: CompressionOptions,
        info: Callable[[], bytes],
        *,
        solicited: bool,
    ) -> bool:
        """Agree with a peer; whether what it says next is compressed, its INFO once more above all.

        Args:
            end: of the link.
            own: the mode that is configured here, by its one name.
            theirs: the mode that the peer's INFO names.
            options: distances, where they decide about the level.
            info: the line that tells the peer what was agreed.
            solicited: whether this server dialled.
        """
        mode = agreed_mode(own, theirs)
        if mode is None:
            text = f"unsupported route compression mode {texts.quoted_text(theirs)}"
            end.refuse(CloseReason.PROTOCOL_VIOLATION, text)
            return True
        if mode == AUTO:
            mode = mode_by_rtt(self._now_ns() - end.start_ns, options)
        end.compression = mode
        if not is_framed(mode):
            return False
        if solicited:
            end.outbox.write(info())
            self._compress(end, mode)
        else:
            self._compress(end, mode)
            end.outbox.write(info())
        return True

    def retune(self, end: LinkEnd, own: str, options: CompressionOptions) -> None:
        """The round trip time was measured: perhaps another level is right."""
        if own != AUTO or not is_framed(end.compression):
            return
        mode = mode_by_rtt(end.keepalive.rtt_ns, options)
        if mode != end.compression:
            end.compression = mode
            self._compress(end, mode)
