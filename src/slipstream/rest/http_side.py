"""The HTTP side of a connection without its socket, on the sans-io library h11.

    receive(bytes) ──► next_call() ──► answer(…)                      ──► bytes for the wire ──► next_call() …
                                  └──► begin(…) ──► piece(…)* ──► end() ──┘

Invariants: after a call comes its whole answer before the next call; after `is_closing` there is no other call.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import h11

from slipstream.monitoring.query import Query, decode_component
from slipstream.rest.call import ApiCall
from slipstream.rest.limits import HEAD_BYTES_MAX
from slipstream.rest.steps import Answer, HttpProblem

__all__ = ["HttpSide"]


class HttpSide:
    """The requests of one connection, one after the other.

    Args:
        date: the value of the Date header now.
        body_max: bytes that a body may have.
    """

    def __init__(self, date: Callable[[], str], body_max: int) -> None:
        self.is_closing = False
        self.is_idle = True  # between two requests
        self._date = date
        self._body_max = body_max
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._origin = ""  # of a page that may read the answer

    @property
    def has_head(self) -> bool:
        """Whether a request is known, but not all of its body."""
        return self._head is not None

    def receive(self, data: bytes) -> None:
        """Bytes came; no bytes: the client will send no more."""
        self.is_idle = self.is_idle and not data
        try:
            self._http.receive_data(data)
        except RuntimeError:
            self.is_closing = True

    def next_call(self) -> ApiCall | bytes | None:
        """The next whole request, None when there is none yet; bytes are to be sent, and then asked again."""
        if self.is_closing:
            return None
        try:
            return self._next_call()
        except h11.RemoteProtocolError as error:
            return self._refuse(HttpProblem(error.error_status_hint, str(error)))
        except HttpProblem as problem:
            return self._refuse(problem)

    def allow_origin(self, origin: str) -> None:
        """A page of this origin may read the answer to the request taken last."""
        self._origin = origin

    def answer(self, answer: Answer) -> bytes:
        """A whole answer."""
        headers = [*answer.headers]
        if answer.status != HTTPStatus.NO_CONTENT:
            headers += [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body)))]
        sent = self._send_head(answer.status, headers)
        if not self._asks_for_head and answer.body:
            sent += self._http.send(h11.Data(data=answer.body)) or b""
        return sent + self.end()

    def begin(self, content_type: str) -> bytes:
        """The head of an answer that follows piece by piece."""
        return self._send_head(200, [("Content-Type", content_type), ("Cache-Control", "no-store")])

    def piece(self, data: bytes) -> bytes:
        """A piece of it."""
        return (self._http.send(h11.Data(data=data)) or b"") if data and not self._asks_for_head else b""

    def end(self) -> bytes:
        """Its end; the next request may follow."""
        sent = self._http.send(h11.EndOfMessage()) or b""
        self._head = None
        self._origin = ""
        self._body = bytearray()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self.is_idle = not self._http.trailing_data[0]
        else:
            self.is_closing = True
        return sent

    @property
    def _asks_for_head(self) -> bool:
        return self._head is not None and self._head.method == b"HEAD"

    def _next_call(self) -> ApiCall | bytes | None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    return self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
                return None
            if event is h11.PAUSED:
                return None
            if isinstance(event, h11.Request):
                self._take_head(event)
            elif isinstance(event, h11.Data):
                self._body += event.data
                self._check_size(len(self._body))
            elif isinstance(event, h11.EndOfMessage):
                return self._read()
            else:
                self.is_closing = True
                return None

    def _take_head(self, head: h11.Request) -> None:
        self._head = head
        lengths = [value for name, value in head.headers if name == b"content-length"]
        if lengths and any(name == b"transfer-encoding" for name, _ in head.headers):
            # Two lengths for one body: what follows may or may not be a request, so nobody reads it.
            raise HttpProblem(400, "both Content-Length and Transfer-Encoding")
        if lengths:
            self._check_size(int(lengths[0]))

    def _check_size(self, size: int) -> None:
        if size > self._body_max:
            raise HttpProblem(413, f"more than {self._body_max} bytes, the largest payload of this server")

    def _read(self) -> ApiCall:
        head = self._head
        assert head is not None
        target = head.target.decode("latin-1")
        path, _, query = target.partition("#")[0].partition("?")
        pieces = tuple(_decoded(piece) for piece in path.removeprefix("/").split("/"))
        headers = tuple((name.decode("ascii"), _text(value)) for name, value in head.headers)
        return ApiCall(head.method.decode("ascii"), pieces, Query(query), headers, bytes(self._body))

    def _refuse(self, problem: HttpProblem) -> bytes | None:
        """An answer to something that is not a proper request; the connection ends with it."""
        self.is_closing = True
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return None
        answer = problem.answer()
        return self.answer(
            Answer(answer.status, answer.body, answer.content_type, (*answer.headers, ("Connection", "close")))
        )

    def _send_head(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        headers = [*headers, ("Date", self._date()), ("X-Content-Type-Options", "nosniff")]
        if self._origin:
            headers += [("Access-Control-Allow-Origin", self._origin), ("Vary", "Origin")]
            headers.append(("Access-Control-Expose-Headers", "*"))
        return self._http.send(h11.Response(status_code=status, reason=_phrase(status), headers=headers)) or b""


def _decoded(piece: str) -> str:
    text = decode_component(piece, plus=False)
    if text is None or any("\ud800" <= character <= "\udfff" for character in text):
        raise HttpProblem(400, f"a broken escape in the path: {piece!r}")
    return text


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
