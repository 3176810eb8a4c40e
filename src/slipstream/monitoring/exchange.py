"""HTTP/1.1 of one monitoring connection without its socket, on the sans-io library h11.

    bytes in ──receive──► h11 ──request──► respond(path, query) ──► bytes out (next_answer)

Any method is answered as GET would be, as nats-server does: no endpoint changes anything. Request bodies are read and
dropped, up to a limit. Requests that follow each other on one connection are answered one at a time, when the transport
has room for it.

Invariant: after `is_closing` nothing more is answered.
"""

from __future__ import annotations

from collections.abc import Callable

import h11

from slipstream.limits import MONITOR_BODY_BYTES_MAX, MONITOR_REQUEST_BYTES_MAX
from slipstream.monitoring.endpoints import Reply
from slipstream.monitoring.query import decode_component

__all__ = ["Exchange"]

_PHRASES = {
    200: "OK",
    307: "Temporary Redirect",
    400: "Bad Request",
    404: "Not Found",
    413: "Request Entity Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class Exchange:
    """The requests of one connection, one after the other.

    Args:
        respond: decoded path and raw query in, answer out.
        date: the value of the Date header now.
    """

    def __init__(self, respond: Callable[[str, str], Reply], date: Callable[[], str]) -> None:
        self.is_closing = False
        self.is_idle = True  # between two requests
        self._respond = respond
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

    def next_answer(self) -> bytes | None:
        """The answer to the next complete request, None when there is none yet."""
        if self.is_closing:
            return None
        try:
            return self._next_answer()
        except h11.RemoteProtocolError as error:
            return self._refuse(error.error_status_hint)

    def _next_answer(self) -> bytes | None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return None
            if isinstance(event, h11.Request):
                self._request = event
                self._body_bytes = 0
                if self._http.they_are_waiting_for_100_continue:
                    # The body would be dropped anyway; the connection ends instead.
                    return self._answer(event)
            elif isinstance(event, h11.Data):
                self._body_bytes += len(event.data)
                if self._body_bytes > MONITOR_BODY_BYTES_MAX:
                    return self._refuse(413)
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None
                return self._answer(self._request)
            else:
                self.is_closing = True
                return None

    def _answer(self, request: h11.Request) -> bytes | None:
        place = _place(request.target.decode("latin-1"))
        if place == "*":
            return self._send(Reply(200, "text/plain; charset=utf-8", b""))
        if place is None:
            return self._refuse(400)
        path, _, query = place.partition("?")
        decoded = decode_component(path, plus=False)
        return self._refuse(400) if decoded is None else self._send(self._respond(decoded, query))

    def _refuse(self, status: int) -> bytes | None:
        """An answer to something that is not a proper request; the connection ends with it."""
        self.is_closing = True
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return None
        text = f"{status} {_PHRASES.get(status, 'Error')}"
        return self._send(Reply(status, "text/plain; charset=utf-8", text.encode(), (("Connection", "close"),)))

    def _send(self, reply: Reply) -> bytes:
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


def _place(target: str) -> str | None:
    """Path and query of a request target in any of its forms; None when it is none."""
    if target == "*" or target.startswith("/"):
        return target.partition("#")[0]
    scheme, mark, rest = target.partition("://")
    if not mark or scheme.lower() not in ("http", "https"):
        return None
    return "/" + rest.partition("#")[0].partition("/")[2]
