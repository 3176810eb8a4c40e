"""Heads that are remembered say what h11 said of them: with and without memory a connection does the same."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slipstream.client.frames import message_frame
from slipstream.rest.call import ApiCall
from slipstream.rest.handlers import publish_of
from slipstream.rest.http_side import HttpSide
from slipstream.rest.known_heads import KnownHeads
from slipstream.rest.known_publishes import KnownPublishes
from slipstream.rest.steps import Answer, HttpProblem, PublishStep

_BODY_MAX = 40
_METHODS = st.sampled_from(["POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "post"])
_TARGETS = st.sampled_from(
    [
        "/v1/publish/a.b",
        "/v1/publish/a.b?ack=true",
        "/v1/kv/B/k%20",
        "/v1/kv/B/k#x",
        "/",
        "*",
        "/a?b=%41",
        "/v1//x/",
        "a",
    ]
)
_PLAIN_TARGETS = st.sampled_from(["/v1/publish/a.b", "/v1/publish/c?ack=true", "/v1/kv/B/k?ttl=1s"])
_VERSIONS = st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1"])
_LINES = st.sampled_from(
    [
        "Host: h",
        "Host: other",
        "Accept: */*",
        "Nats-Msg-Id: 1",
        "Authorization: Basic dTpw",
        "Connection: close",
        "Connection: keep-alive",
        "Expect: 100-continue",
        "Transfer-Encoding: chunked",
        "Upgrade: websocket",
        "Content-Length: 2",
        "Content-Length: +2",
        "X: a\r\n folded",
        "Bad Name: x",
        "Y: a\nZ: b",
    ]
)
_ENDS = st.sampled_from(["\r\n", "\r\n", "\r\n", "\n"])
_BODIES = st.sampled_from([b"", b"hi", b"2\r\nhi\r\n0\r\n\r\n", b"x" * _BODY_MAX, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
_ANSWERS = st.sampled_from(
    [
        Answer(204),
        Answer.json({"seq": 1}),
        Answer.json({"error": "x"}, 404),
        Answer(200, b"value", headers=(("ETag", '"1"'),)),
        Answer(200),
    ]
)


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    end, body = draw(_ENDS), draw(_BODIES)
    lines = draw(st.lists(_LINES, max_size=4))
    if draw(st.booleans()):
        lines = ["Host: h", f"Content-Length: {len(body)}", *lines[:1]]
    head = end.join([f"{draw(_METHODS)} {draw(_TARGETS)} {draw(_VERSIONS)}", *lines])
    return f"{head}{end}{end}".encode() + body


@st.composite
def _plain_requests(draw: st.DrawFn) -> bytes:
    """Requests that can be remembered."""
    method, target, body = draw(st.sampled_from(["POST", "PUT"])), draw(_PLAIN_TARGETS), draw(_BODIES)
    return f"{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _run(heads: KnownHeads, pieces: list[bytes], answers: list[Answer], origin: str) -> list[object]:
    """What a connection says and is asked, in order."""
    http = HttpSide(lambda: "now", _BODY_MAX, heads=heads)
    seen: list[object] = []
    for piece in pieces:
        if http.is_closing:
            break
        http.receive(piece)
        while (call := http.next_call()) is not None:
            if isinstance(call, bytes):
                seen.append(call)
                continue
            assert isinstance(call, ApiCall)
            query = sorted(call.query._values.items())
            seen.append((call.method, call.path, query, call.headers.lines, call.body))
            http.allow_origin(origin)
            answer = answers[len(seen) % len(answers)]
            if answer.status == 200 and not answer.body:
                seen.append(http.begin("text/event-stream") + http.piece(b"one") + http.end())
            else:
                seen.append(http.answer(answer))
        seen.append((http.is_idle, http.is_closing, http.has_head))
    return seen


@given(
    requests=st.lists(_requests(), min_size=1, max_size=2) | st.lists(_plain_requests(), min_size=1, max_size=2),
    order=st.lists(st.integers(0, 1), min_size=3, max_size=8),
    cuts=st.just([]) | st.lists(st.integers(0, 400), max_size=4),
    answers=st.lists(_ANSWERS, min_size=1, max_size=3),
    origin=st.sampled_from(["", "", "https://a"]),
    ends=st.booleans(),
)
def test_memory_changes_nothing(
    requests: list[bytes], order: list[int], cuts: list[int], answers: list[Answer], origin: str, ends: bool
) -> None:
    pieces = [requests[number % len(requests)] for number in order]
    whole = b"".join(pieces)
    if cuts:
        places = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
        pieces = [whole[at:to] for at, to in pairwise(places)]
    if ends:
        pieces.append(b"")
    assert _run(KnownHeads(), pieces, answers, origin) == _run(KnownHeads(0), pieces, answers, origin)


def _publish(call: ApiCall | bytes | None) -> PublishStep | None:
    """What a request publishes, if it is one and does nothing else."""
    try:
        return publish_of(call) if isinstance(call, ApiCall) else None
    except HttpProblem:
        return None


@given(
    first=_requests() | _plain_requests(),
    second=_requests() | _plain_requests(),
    payload=st.sampled_from([b"", b"hi", b"ho", b"x" * _BODY_MAX, b"\r\n"]),
)
def test_known_publishes_are_what_h11_reads(first: bytes, second: bytes, payload: bytes) -> None:
    known, learned = KnownPublishes(), HttpSide(lambda: "now", _BODY_MAX)
    for _ in range(2):
        learned.receive(first)
        step = _publish(call := learned.next_call())
        if step is not None and learned.known_request is not None:
            known.learn(learned.known_request, step)
        if not isinstance(call, ApiCall) or learned.is_closing:
            break
        learned.answer(Answer(204))
    for data in (first, second, first[: len(first) - len(payload)] + payload, first + second):
        found = known.find(data)
        if found is not None:
            http = HttpSide(lambda: "now", _BODY_MAX, heads=KnownHeads(0))
            http.receive(data)
            call = http.next_call()
            assert isinstance(call, ApiCall)
            read = publish_of(call)
            assert read is not None
            assert found == message_frame(read.subject, read.payload, header=read.header)
            http.answer(Answer(204))
            assert http.is_idle, "nothing was left"
