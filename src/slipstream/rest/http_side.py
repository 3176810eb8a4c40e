"""The HTTP side of a connection without its socket, on the sans-io library h11.

A request whose head is known (`known_heads`), and that is there in full, does not go through h11, nor does its answer
if that is a plain one. Any other answer needs h11 to know of the request, which it is then given.

    receive(bytes) ──► next_call() ──► answer(…)                      ──► bytes for the wire ──► next_call() …
                                  └──► begin(…) ──► piece(…)* ──► end() ──┘

Invariants: after a call comes its whole answer before the next call; after `is_closing` there is no other call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import h11

from slipstream.monitoring.query import UrlQuery, decode_component
from slipstream.rest.call import ApiCall, CallHeaders
from slipstream.rest.known_heads import KnownAnswers, KnownHeads, phrase
from slipstream.rest.limits import HEAD_BYTES_MAX, KNOWN_BODY_BYTES_MAX
from slipstream.rest.steps import Answer, HttpProblem

__all__ = ["ALWAYS", "HttpSide"]

_NO_CONTENT: Final = 204
# What every answer says; the date is the current one.
ALWAYS: Final = (("Date", ""), ("X-Content-Type-Options", "nosniff"))


class HttpSide:
    """The requests of one connection, one after the other.

    Args:
        date: the value of the Date header now.
        body_max: bytes that a body may have.
        answers: heads of answers that other connections know as well.
        heads: what is remembered of requests.
    """

    def __init__(
        self,
        date: Callable[[], str],
        body_max: int,
        answers: KnownAnswers | None = None,
        heads: KnownHeads | None = None,
    ) -> None:
        self.is_closing = False
        self.is_idle = True  # between two requests
        self._date = date
        self._body_max = body_max
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._origin = ""  # of a page that may read the answer
        self._answers = answers or KnownAnswers()
        self._heads = heads or KnownHeads()
        self._waiting = b""  # bytes that h11 was not given
        self._has_ended = False  # the client will send no more, which h11 does not know yet
        self._is_fresh = True  # h11 is between two requests, and has no bytes
        self._first = b""  # what h11 was given when it was fresh
        self._awaits_body = False  # of a request whose head is known
        self._known: bytes | None = None  # the request that is being answered, if h11 does not know of it

    @property
    def has_head(self) -> bool:
        """Whether a request is known, but not all of its body."""
        return self._head is not None or self._awaits_body

    @property
    def known_request(self) -> bytes | None:
        """All bytes of the request that is being answered, if its head was known."""
        return self._known

    def receive(self, data: bytes) -> None:
        """Bytes came; no bytes: the client will send no more."""
        self.is_idle = self.is_idle and not data
        if data:
            self._waiting = self._waiting + data if self._waiting else data
        else:
            self._has_ended = True
        if self._known is None and not self._is_fresh:
            self._hand_over()

    def next_call(self) -> ApiCall | bytes | None:
        """The next whole request, None when there is none yet; bytes are to be sent, and then asked again."""
        if self.is_closing or self._known is not None:
            return None
        if self._is_fresh and self._waiting:
            call = self._known_call()
            if call is not None or self._awaits_body:
                return call
        self._hand_over()
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
        headers = answer.headers
        if answer.status != _NO_CONTENT:
            headers += (("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body))))
        if self._known is not None and not answer.headers and not self._origin:
            self._known = None
            self.is_idle = not self._waiting
            head = self._answers.head(answer.status, (*headers, *ALWAYS), self._date())
            return head + answer.body
        sent = self._send_head(answer.status, headers)
        if not self._asks_for_head and answer.body:
            sent += self._http.send(h11.Data(data=answer.body)) or b""
        return sent + self.end()

    def begin(self, content_type: str) -> bytes:
        """The head of an answer that follows piece by piece."""
        return self._send_head(200, (("Content-Type", content_type), ("Cache-Control", "no-store")))

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
            self._is_fresh = self._http.trailing_data == (b"", False)
            self.is_idle = not self._waiting and not self._http.trailing_data[0]
        else:
            self.is_closing = True
        return sent

    @property
    def _asks_for_head(self) -> bool:
        return self._head is not None and self._head.method == b"HEAD"

    def _known_call(self) -> ApiCall | None:
        """The request that waits, if its head is known and all of it is there; of a short body the rest is awaited."""
        self._awaits_body = False
        data = self._waiting
        found = self._heads.find(data)
        if found is None:
            return None
        line, lines, at = found
        end = at + lines.length
        if len(data) < end:
            # Many clients send head and body apart. Longer bodies come in many pieces, which h11 collects.
            self._awaits_body = lines.length <= KNOWN_BODY_BYTES_MAX and not self._has_ended
            return None
        if len(data) == end:
            self._known, self._waiting = data, b""
        else:
            self._known, self._waiting = data[:end], data[end:]
        return ApiCall(line.method, line.path, line.query, lines.headers, data[at:end])

    def _hand_over(self) -> None:
        """Give h11 what waits."""
        if self._is_fresh:
            self._first = self._waiting
        if self._waiting:
            self._is_fresh = False
        data, self._waiting = self._waiting, b""
        try:
            if data:
                self._http.receive_data(data)
            if self._has_ended:
                self._is_fresh = self._has_ended = False
                self._http.receive_data(b"")
        except RuntimeError:
            self.is_closing = True

    def _admit_known(self) -> None:
        """Let h11 know of the request that is being answered."""
        if self._known is not None:
            self._http.receive_data(self._known)
            self._known, self._is_fresh = None, False
            while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    self._head = event

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
        headers = CallHeaders(tuple((name.decode("ascii"), _text(value)) for name, value in head.headers))
        if self._first:
            self._heads.learn(self._first, head, headers)
            self._first = b""
        return ApiCall(head.method.decode("ascii"), pieces, UrlQuery(query), headers, bytes(self._body))

    def _refuse(self, problem: HttpProblem) -> bytes | None:
        """An answer to something that is not a proper request; the connection ends with it."""
        self.is_closing = True
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return None
        answer = problem.answer()
        return self.answer(
            Answer(answer.status, answer.body, answer.content_type, (*answer.headers, ("Connection", "close")))
        )

    def _send_head(self, status: int, given: tuple[tuple[str, str], ...]) -> bytes:
        self._admit_known()
        headers = [*given, *((name, self._date() if name == "Date" else value) for name, value in ALWAYS)]
        if self._origin:
            headers += [("Access-Control-Allow-Origin", self._origin), ("Vary", "Origin")]
            headers.append(("Access-Control-Expose-Headers", "*"))
        return self._http.send(h11.Response(status_code=status, reason=phrase(status), headers=headers)) or b""


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
