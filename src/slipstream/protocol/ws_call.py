"""The HTTP request by which this side asks for a WebSocket (RFC 6455, section 4.1), and what is made of the answer.

    request ──► 101 with the right proof ──► `WebSocketTerms`, and what came behind the answer
            └─► anything else ──► `WebSocketRefused`

Memory is bounded by `WEBSOCKET_REQUEST_BYTES_MAX`; time is bounded by the caller.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

import h11

from slipstream.errors import SlipstreamError
from slipstream.protocol.limits import WEBSOCKET_REQUEST_BYTES_MAX
from slipstream.protocol.ws_handshake import HttpHeaders, accept_of

__all__ = ["WebSocketCall", "WebSocketRefused", "WebSocketTerms"]

_DEFLATE = "permessage-deflate"
_NO_TAKEOVER = ("server_no_context_takeover", "client_no_context_takeover")
_SWITCHING = 101


class WebSocketRefused(SlipstreamError):
    """The other side did not agree to a WebSocket; the text says what it did, for the log."""


class WebSocketTerms(NamedTuple):
    """What both sides agreed on."""

    compressed: bool  # permessage-deflate, without context takeover on either side
    masked: bool  # this side masks its frames
    rest: bytes  # came behind the answer: frames


class WebSocketCall:
    """Asks once.

    Args:
        host: of the URL, with its port.
        path: to ask for.
        nonce: sixteen random bytes.
        compression: offer permessage-deflate.
        masking: False asks to go without masks.
    """

    def __init__(self, host: str, path: str, nonce: bytes, *, compression: bool, masking: bool) -> None:
        self._key = base64.b64encode(nonce)
        self._compression = compression
        self._masking = masking
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=WEBSOCKET_REQUEST_BYTES_MAX)
        headers = [
            ("Host", host),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", self._key.decode()),
            ("Sec-WebSocket-Version", "13"),
        ]
        if compression:
            headers.append(("Sec-WebSocket-Extensions", "; ".join((_DEFLATE, *_NO_TAKEOVER))))
        if not masking:
            headers.append(("Nats-No-Masking", "true"))
        self.request: bytes = self._http.send(h11.Request(method="GET", target=path, headers=headers)) or b""
        self.request += self._http.send(h11.EndOfMessage()) or b""

    def receive(self, data: bytes) -> WebSocketTerms | None:
        """Read the next bytes of the answer; None: there have to be more.

        Raises:
            WebSocketRefused: it is none that agrees.
        """
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise WebSocketRefused(f"invalid websocket connection: {error}") from error
        if event is h11.NEED_DATA:
            return None
        if not isinstance(event, (h11.InformationalResponse, h11.Response)):
            raise WebSocketRefused("invalid websocket connection")
        if event.status_code != _SWITCHING:
            raise WebSocketRefused(f"invalid websocket connection: status {event.status_code}")
        return self._judge(HttpHeaders(event))

    def _judge(self, headers: HttpHeaders) -> WebSocketTerms:
        if headers.first("upgrade").lower() != "websocket" or headers.first("connection").lower() != "upgrade":
            raise WebSocketRefused("invalid websocket connection")
        if headers.first("sec-websocket-accept").encode("latin-1") != accept_of(self._key):
            raise WebSocketRefused("invalid websocket connection: its proof is wrong")
        compressed = self._compression and headers.offers_extension(_DEFLATE)
        if compressed and not all(headers.offers_extension(one) for one in _NO_TAKEOVER):
            raise WebSocketRefused("compression negotiation error")
        masked = self._masking or headers.first("nats-no-masking") != "true"
        return WebSocketTerms(compressed, masked, self._http.trailing_data[0])
