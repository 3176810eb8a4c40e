"""HTTP/1.1 of one monitoring connection without its socket, on the sans-io library h11.

    receive(bytes) ──► next_request() ──► ... ──► answer(reply) ──► bytes for the wire ──► next_request() ...

Any method is answered as GET would be, as nats-server does: no endpoint changes anything. Request bodies are read and
dropped, up to a limit. Requests that follow each other on one connection are taken one at a time.

Invariants: after a request the next call is `answer`; after `is_closing` there are no more requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import h11

from slipstream.monitoring.limits import MONITOR_BODY_BYTES_MAX, MONITOR_REQUEST_BYTES_MAX
from slipstream.monitoring.query import decode_component
from slipstream.monitoring.reply import Reply

__all__ = ["Exchange", "HttpRequest"]

_PHRASES = {
    200: "OK",
    304: "Not Modified",
    307: "Temporary Redirect",
    400: "Bad Request",
    404: "Not Found",
    413: "Request Entity Too Large",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class HttpRequest(NamedTuple):
    """What is asked: a decoded path and a raw query."""

    path: str
    query: str
    known: str = ""  # If-None-Match: what the client has already
    upgrade: bytes = b""  # the whole request, if it asks for a WebSocket


class Exchange:
    """The requests of one connection, one after the other.

    Args:
        date: the value of the Date header now.
    """

    def __init__(self, date: Callable[[], str]) -> None:
        self.is_closing = False
        self.is_idle = True  # between two requests
        self._date = date
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MONITOR_REQUEST_BYTES_MAX)
        self._request: h11.Request | None = None
        self._body_bytes = 0

    def receive(self, data: bytes) -> None:
        """Bytes came; no bytes: the client will send no more."""
        self.is_idle = self.is_idle and not data
        try:
            self._http.receive_data(data)
        except RuntimeError:
            # The client closed and went on, which no transport does; whatever it is, it ends here.
            self.is_closing = True

    def next_request(self) -> HttpRequest | bytes | None:
        """The next complete request, None when there is none yet.

        What is not a proper request, or needs no thought, is answered here: those bytes are to be sent.
        """
        if self.is_closing:
            return None
        try:
            return self._next_request()
        except h11.RemoteProtocolError as error:
            return self._refuse(error.error_status_hint)

    def _next_request(self) -> HttpRequest | bytes | None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return None
            if isinstance(event, h11.Request):
                self._request = event
                self._body_bytes = 0
                names = {name for name, _ in event.headers}
                if b"content-length" in names and b"transfer-encoding" in names:
                    # Two lengths for one body: what follows may or may not be a request, so nobody reads it.
                    return self._refuse(400)
                if self._http.they_are_waiting_for_100_continue:
                    # The body would be dropped anyway; the connection ends instead.
                    return self._read(event)
            elif isinstance(event, h11.Data):
                self._body_bytes += len(event.data)
                if self._body_bytes > MONITOR_BODY_BYTES_MAX:
                    return self._refuse(413)
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None
                return self._read(self._request)
            else:
                self.is_closing = True
                return None

    def _read(self, request: h11.Request) -> HttpRequest | bytes | None:
        place = _place(request.target.decode("latin-1"))
        if place == "*":
            return self.answer(Reply(200, "text/plain; charset=utf-8", b""))
        path, _, query = (place or "").partition("?")
        decoded = decode_component(path, plus=False) if place is not None else None
        if decoded is None:
            return self._refuse(400)
        headers = dict(request.headers)
        wants_socket = headers.get(b"upgrade", b"").lower() == b"websocket"
        known = headers.get(b"if-none-match", b"").decode("latin-1")
        return HttpRequest(decoded, query, known, _written(request) if wants_socket else b"")

    def _refuse(self, status: int) -> bytes | None:
        """An answer to something that is not a proper request; the connection ends with it."""
        self.is_closing = True
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return None
        text = f"{status} {_PHRASES.get(status, 'Error')}"
        return self.answer(Reply(status, "text/plain; charset=utf-8", text.encode(), (("Connection", "close"),)))

    def answer(self, reply: Reply) -> bytes:
        """The answer to the request taken last, as it goes over the wire."""
        headers = [
            *reply.headers,
            ("Content-Type", reply.content_type),
            ("Date", self._date()),
            ("Content-Length", str(len(reply.body))),
        ]
        response = h11.Response(status_code=reply.status, reason=_PHRASES.get(reply.status, ""), headers=headers)
        sent = self._http.send(response) or b""
        if self._request is None or self._request.method != b"HEAD":
            sent += self._http.send(h11.Data(data=reply.body)) or b""
        sent += self._http.send(h11.EndOfMessage()) or b""
        self._request = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self.is_idle = not self._http.trailing_data[0]
        else:
            self.is_closing = True
        return sent


def _written(request: h11.Request) -> bytes:
    """A request without a body as it came."""
    lines = [b"%s %s HTTP/%s" % (request.method, request.target, request.http_version)]
    lines += [b"%s: %s" % (name, value) for name, value in request.headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _place(target: str) -> str | None:
    """Path and query of a request target in any of its forms; None when it is none."""
    if target == "*" or target.startswith("/"):
        return target.partition("#")[0]
    scheme, mark, rest = target.partition("://")
    if not mark or scheme.lower() not in ("http", "https"):
        return None
    return "/" + rest.partition("#")[0].partition("/")[2]
