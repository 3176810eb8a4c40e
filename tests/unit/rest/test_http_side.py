"""HTTP of the API's connections, without sockets."""

from __future__ import annotations

import pytest

from slipstream.rest.call import ApiCall
from slipstream.rest.http_side import HttpSide
from slipstream.rest.steps import Answer

BODY_MAX = 64


def side() -> HttpSide:
    return HttpSide(lambda: "now", BODY_MAX)


def taken(http: HttpSide, data: bytes) -> ApiCall:
    http.receive(data)
    call = http.next_call()
    assert isinstance(call, ApiCall), call
    return call


def refused(data: bytes) -> bytes:
    http = side()
    http.receive(data)
    answer = http.next_call()
    assert isinstance(answer, bytes)
    assert http.is_closing
    assert http.next_call() is None
    return answer


def test_a_request_is_read() -> None:
    call = taken(
        side(),
        b"POST /v1/publish/a%2Eb/c?ack=true HTTP/1.1\r\nHost: h\r\nNats-Msg-Id: 1\r\nContent-Length: 2\r\n\r\nhi",
    )
    assert (call.method, call.path, call.body) == ("POST", ("v1", "publish", "a.b", "c"), b"hi")
    assert call.flag("ack")
    assert call.message_headers == [("Nats-Msg-Id", "1")]


def test_requests_follow_each_other() -> None:
    http = side()
    first = taken(http, b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    assert first.path == ("a",)
    assert http.next_call() is None  # not before the answer to the first
    assert http.answer(Answer(200, b"x")).endswith(b"\r\n\r\nx")
    assert not http.is_idle
    second = http.next_call()
    assert isinstance(second, ApiCall)
    assert second.path == ("b",)
    http.answer(Answer(204))
    assert http.is_idle


def test_a_body_behind_a_known_head_is_awaited() -> None:
    """Many clients send head and body apart; the head came before, so h11 need not read it again."""
    http, head = side(), b"POST /v1/publish/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
    taken(http, head + b"once")
    http.answer(Answer(204))
    http.receive(head)
    assert http.next_call() is None
    assert (http.has_head, http.is_idle) == (True, False)
    http.receive(b"tw")
    assert http.next_call() is None
    call = taken(http, b"o.")
    assert (call.body, http.known_request) == (b"two.", head + b"two.")
    http.answer(Answer(204))
    assert (http.has_head, http.is_idle) == (False, True)
    # Who leaves in between is told what h11 tells.
    http.receive(head)
    assert http.next_call() is None
    http.receive(b"")
    assert isinstance(http.next_call(), bytes)
    assert http.is_closing


def test_who_waits_for_a_word_gets_it() -> None:
    http = side()
    http.receive(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    said = http.next_call()
    assert isinstance(said, bytes)
    assert said.startswith(b"HTTP/1.1 100 ")
    assert http.next_call() is None
    assert taken(http, b"hi").body == b"hi"


def test_an_answer_in_pieces() -> None:
    http = side()
    taken(http, b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    sent = http.begin("text/event-stream") + http.piece(b"one") + http.piece(b"") + http.piece(b"two") + http.end()
    assert sent.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert http.is_idle


def test_head_has_no_body() -> None:
    http = side()
    taken(http, b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = http.answer(Answer(200, b"abc"))
    assert b"Content-Length: 3" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /a HTTP/1.1\r\n\r\n", 400),
        (b"GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /a%ff HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 65\r\n\r\n", 413),
        (b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n" + b"x" * 65 + b"\r\n", 413),
        (b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 20_000, 431),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
    ],
)
def test_what_is_no_proper_request_is_refused(data: bytes, status: int) -> None:
    assert refused(data).startswith(b"HTTP/1.1 %d " % status)
