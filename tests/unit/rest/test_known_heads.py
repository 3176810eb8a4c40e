"""What is remembered of HTTP heads, and what is not."""

from __future__ import annotations

import pytest

from slipstream.rest.call import ApiCall
from slipstream.rest.http_side import HttpSide
from slipstream.rest.known_heads import KnownHeads
from slipstream.rest.limits import KNOWN_HEAD_BYTES_MAX, KNOWN_HEADS_MAX
from slipstream.rest.steps import Answer

_REQUEST = b"POST /v1/publish/a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"


def _learnt(request: bytes) -> KnownHeads:
    """The memory of a connection that has answered a request."""
    heads = KnownHeads()
    http = HttpSide(lambda: "now", 1000, heads=heads)
    http.receive(request)
    assert isinstance(http.next_call(), ApiCall)
    http.answer(Answer(204))
    return heads


def test_the_same_lines_are_known_for_another_subject() -> None:
    heads = _learnt(_REQUEST)
    found = heads.find(_REQUEST.replace(b"/a ", b"/b.c?ack=true "))
    assert found is not None
    line, lines, at = found
    assert (line.method, line.path, line.query.text("ack")) == ("POST", ("v1", "publish", "b.c"), "true")
    assert (lines.length, _REQUEST[at - len(b"b.c?ack=true") + 1 :]) == (2, b"hi")


@pytest.mark.parametrize(
    "other",
    [
        _REQUEST.replace(b"Host: h", b"Host: i"),
        _REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"),
        _REQUEST.replace(b"POST", b"HEAD"),
        _REQUEST.replace(b"/a ", b"/a%20 "),
        _REQUEST.replace(b"\r\n", b"\n"),
    ],
)
def test_anything_else_is_not(other: bytes) -> None:
    assert _learnt(_REQUEST).find(other) is None


@pytest.mark.parametrize(
    "line", [b"Connection: keep-alive", b"Expect: x", b"X: a\r\n\tb\nc", b"X: " + b"x" * KNOWN_HEAD_BYTES_MAX]
)
def test_what_says_more_than_one_request_or_too_much_is_not_remembered(line: bytes) -> None:
    request = _REQUEST.replace(b"Host: h", b"Host: h\r\n" + line)
    http = HttpSide(lambda: "now", 1000)
    http.receive(request)
    if isinstance(http.next_call(), ApiCall):  # h11 refuses some of it
        assert _learnt(request).find(request) is None


def test_a_connection_remembers_few() -> None:
    heads = KnownHeads()
    http = HttpSide(lambda: "now", 1000, heads=heads)
    for number in range(KNOWN_HEADS_MAX * 3):
        http.receive(_REQUEST.replace(b"Host: h", b"Host: h%d" % number))
        assert isinstance(http.next_call(), ApiCall)
        http.answer(Answer(204))
        assert len(heads._blocks) <= KNOWN_HEADS_MAX


def test_a_body_that_is_not_whole_is_waited_for() -> None:
    http = HttpSide(lambda: "now", 1000, heads=_learnt(_REQUEST))
    http.receive(_REQUEST[:-1])
    assert http.next_call() is None and http.has_head
    http.receive(b"!")
    call = http.next_call()
    assert isinstance(call, ApiCall) and call.body == b"h!"
