"""JetStream scenarios, small, against both servers: the load generator accounts for every ack and answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import js_restart
from benchmarks.jetstream import Way, get_messages, publish_acked
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import MessagesMissing, Scale
from benchmarks.servers import Server

from slipstream.client.js_requests import Asking, request_frames
from slipstream.client.options import ClientError
from slipstream.client.workers import run_here
from support.servers import server_binary


@pytest.fixture(params=["real", "ours"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(server_binary(request.param), tmp_path, ("-js", "-sd", "data")) as started:
        yield started


def test_frames_rotate_and_have_replies_of_their_own() -> None:
    frames = request_frames([("a", b"1"), ("b", b"22")], "_INBOX.0", 3)
    assert frames == [
        b"PUB a _INBOX.0.0 1\r\n1\r\n",
        b"PUB b _INBOX.0.1 2\r\n22\r\n",
        b"PUB a _INBOX.0.2 1\r\n1\r\n",
    ]


@pytest.mark.parametrize(("window", "connections", "messages"), [(1, 1, 20), (64, 1, 1000), (1, 5, 7), (16, 3, 100)])
def test_every_request_is_answered(server: Server, window: int, connections: int, messages: int) -> None:
    StreamAdmin(server.url).make(["S"], "memory")
    job = Asking(
        url=server.url,
        requests=tuple((f"S.{number}", b"x") for number in range(3)),
        messages=messages,
        window=window,
        connections=connections,
    )
    assert run_here(job).messages == messages * connections
    StreamAdmin(server.url).check("S", messages * connections)


def test_messages_go_to_every_subject_of_the_rotation(server: Server) -> None:
    admin = StreamAdmin(server.url)
    admin.make(["A", "B"], "memory")
    run_here(Asking(url=server.url, requests=(("A.x", b""), ("B.x", b"")), messages=101, window=8))
    assert (admin.messages("A"), admin.messages("B")) == (51, 50)


def test_a_missing_message_is_an_error(server: Server) -> None:
    StreamAdmin(server.url).make(["S"], "memory")
    with pytest.raises(MessagesMissing):
        StreamAdmin(server.url).check("S", 1)


def test_a_refusal_is_an_error(server: Server) -> None:
    with pytest.raises(ClientError):
        StreamAdmin(server.url).make(["S"], "no such storage")


def test_answers_that_are_too_small_are_an_error(server: Server) -> None:
    StreamAdmin(server.url).make(["BENCH"], "memory")
    with pytest.raises(ClientError, match="not what was asked for"):
        get_messages(server.url, subjects=1, gets=3, size=128, way=Way.DIRECT_SUBJECT)


def test_impossible_jobs_are_refused(server: Server) -> None:
    with pytest.raises(ClientError):
        run_here(Asking(url=server.url, requests=(), messages=1))
    with pytest.raises(ClientError):
        run_here(Asking(url=server.url, requests=(("a", b""),), messages=1, window=0))


def test_publish_and_get(server: Server) -> None:
    StreamAdmin(server.url).make(["BENCH"], "memory", "BENCH.>")
    assert publish_acked(server.url, messages=40, size=128, window=8).messages == 40
    run_here(Asking(url=server.url, requests=(("BENCH.k0", b"x" * 128),), messages=1))
    assert get_messages(server.url, subjects=1, gets=9, size=128, way=Way.DIRECT_SUBJECT).messages == 9
    assert get_messages(server.url, subjects=1, gets=9, size=128, way=Way.API).messages == 9


def test_restart_keeps_the_messages(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(js_restart, "MESSAGES", 2_000)
    monkeypatch.setattr(js_restart, "SUBJECTS", 100)
    monkeypatch.setattr(js_restart, "_SETTLE_S", 0.0)
    values = js_restart.SCENARIO.run(server, Scale.FULL)
    assert len(values) == len(js_restart.SCENARIO.rows)
    assert all(value > 0 for value in values)
