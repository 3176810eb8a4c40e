"""HTTP without a socket: what bytes in give what bytes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.monitoring.exchange import Exchange, HttpRequest
from slipstream.monitoring.limits import MONITOR_BODY_BYTES_MAX, MONITOR_REQUEST_BYTES_MAX
from slipstream.monitoring.reply import Reply

GET = b"GET /varz HTTP/1.1\r\nHost: h\r\n\r\n"


REPLY = Reply(200, "application/json", b"{}", (("Access-Control-Allow-Origin", "*"),))


def new_exchange() -> Exchange:
    return Exchange(lambda: "Sun, 15 Nov 2026 02:40:25 GMT")


def answers_to(exchange: Exchange, data: bytes, asked: list[HttpRequest] | None = None) -> bytes:
    """Feed bytes and answer every request they complete."""
    exchange.receive(data)
    answers = b""
    while (request := exchange.next_request()) is not None:
        if isinstance(request, bytes):
            answers += request
        else:
            answers += exchange.answer(REPLY)
            if asked is not None:
                asked.append(request)
    return answers


def talk(data: bytes, asked: list[HttpRequest] | None = None) -> tuple[bytes, Exchange]:
    exchange = new_exchange()
    return answers_to(exchange, data, asked), exchange


def test_get() -> None:
    answer, exchange = talk(GET)
    assert answer == (
        b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Type: application/json\r\n"
        b"Date: Sun, 15 Nov 2026 02:40:25 GMT\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert not exchange.is_closing
    assert exchange.is_idle


def test_head_has_no_body() -> None:
    answer, _ = talk(GET.replace(b"GET", b"HEAD"))
    assert b"Content-Length: 2\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"FOO"])
def test_every_method_is_answered_like_get(method: bytes) -> None:
    answer, exchange = talk(method + b" /varz HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert not exchange.is_closing


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/connz?subs=1&x=%20", "/connz", "subs=1&x=%20"),
        (b"/%76arz", "/varz", ""),
        (b"http://elsewhere/varz?a=b", "/varz", "a=b"),
        (b"HTTP://elsewhere", "/", ""),
        (b"/a+b", "/a+b", ""),
        (b"/varz#part", "/varz", ""),
    ],
)
def test_targets(target: bytes, path: str, query: str) -> None:
    asked: list[HttpRequest] = []
    talk(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n", asked)
    assert [request[:2] for request in asked] == [(path, query)]


@pytest.mark.parametrize("target", [b"varz", b"/%zz", b"ftp://x/varz", b"?x"])
def test_targets_that_are_none(target: bytes) -> None:
    answer, exchange = talk(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert exchange.is_closing


def test_requests_in_one_piece_are_answered_in_order() -> None:
    asked: list[HttpRequest] = []
    answer, exchange = talk(GET * 3, asked)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert len(asked) == 3
    assert exchange.is_idle


def test_close_is_honoured() -> None:
    answer, exchange = talk(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + GET)
    assert answer.count(b"HTTP/1.1") == 1
    assert exchange.is_closing


def test_old_clients_are_closed_after_their_answer() -> None:
    answer, exchange = talk(b"GET / HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert exchange.is_closing


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"garbage\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nBad Header: 1\r\n\r\n", b"400"),
        (b"GET /" + b"a" * (2 * MONITOR_REQUEST_BYTES_MAX), b"431"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\n" + b"x" * (MONITOR_BODY_BYTES_MAX + 1), b"413"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    ],
)
def test_what_is_no_request_is_refused_and_closed(data: bytes, status: bytes) -> None:
    answer, exchange = talk(data)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"Connection: close\r\n" in answer
    assert exchange.is_closing


def test_nobody_waits_for_a_body_that_is_not_needed() -> None:
    answer, exchange = talk(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert exchange.is_closing


def test_end_of_input_ends_the_exchange() -> None:
    _, exchange = talk(b"GET / HT")
    assert answers_to(exchange, b"").startswith(b"HTTP/1.1 400")
    assert exchange.is_closing
    _, exchange = talk(GET)
    assert answers_to(exchange, b"") == b""
    assert exchange.is_closing


@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes_in_any_pieces_give_answers_or_nothing(data: bytes, step: int) -> None:
    exchange = new_exchange()
    for at in range(0, len(data), step):
        if exchange.is_closing:
            break
        answer = answers_to(exchange, data[at : at + step])
        assert not answer or answer.startswith(b"HTTP/1.1 ")


@given(st.integers(1, len(GET) * 2 - 1))
def test_pieces_make_no_difference(cut: int) -> None:
    whole, _ = talk(GET * 2)
    exchange = new_exchange()
    assert answers_to(exchange, (GET * 2)[:cut]) + answers_to(exchange, (GET * 2)[cut:]) == whole
