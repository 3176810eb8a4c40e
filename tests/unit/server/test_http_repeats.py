"""Publishes over HTTP whose heads came before: a connection that has seen them does what a new one does (ADR 121)."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from slipstream import connect
from slipstream.config.listener_options import HttpApiOptions
from slipstream.config.record import replace
from slipstream.testing import ServerThread
from support.config_loading import options as load_text

USERS = """
port: -1
http_api {{ port: -1 }}
authorization {{
  users: [
    {{user: all, password: a}}
    {{user: few, password: f, permissions: {{publish: [{few}]}}}}
  ]
}}
"""
TIMES = 4  # the first is read by h11, the second has known header lines, the third is published without a look


class Wire:
    """One HTTP connection, in bytes."""

    def __init__(self, server: ServerThread) -> None:
        assert server.server.http_api is not None
        self.socket = socket.create_connection(("127.0.0.1", server.server.http_api.port), timeout=20)
        self.reader = self.socket.makefile("rb")

    def publish(self, subject: str, payload: bytes, *lines: str) -> int:
        """Send a publish in one piece; the status of its answer."""
        self.socket.sendall(request(subject, payload, *lines))
        return self.status()

    def status(self) -> int:
        """That of the next answer."""
        status = int(self.reader.readline().split()[1])
        length = 0
        while (line := self.reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.reader.read(length)
        return status

    def close(self) -> None:
        self.reader.close()
        self.socket.close()


@contextmanager
def wire_to(server: ServerThread) -> Iterator[Wire]:
    wire = Wire(server)
    try:
        yield wire
    finally:
        wire.close()


def request(subject: str, payload: bytes, *lines: str) -> bytes:
    head = [f"POST /v1/publish/{subject} HTTP/1.1", "Host: h", *lines, f"Content-Length: {len(payload)}"]
    return "\r\n".join([*head, "", ""]).encode() + payload


def login(user: str) -> str:
    return "Authorization: Basic " + base64.b64encode(user.encode()).decode()


def on_loop(server: ServerThread, call: Callable[[], Any]) -> None:
    """Call something where the server runs, and wait for it."""
    done = Event()
    failed: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:
            failed.append(error)
        done.set()

    server.server.turns.loop.call_soon_threadsafe(run)
    assert done.wait(20)
    assert not failed, failed


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with ServerThread(http_api=HttpApiOptions(port=-1)) as thread:
        yield thread


def test_each_arrives_with_its_own_payload_and_the_headers(server: ServerThread) -> None:
    with wire_to(server) as wire, connect(server.url) as client, client.subscribe(">") as subscription:
        client.flush()
        for number in range(TIMES):
            assert wire.publish("a.b", b"%04d" % number) == 204
            assert wire.publish("a.c", b"%04d" % number, "X-Nats-Color: red") == 204
            assert wire.publish("a.b", b"%06d" % number) == 204
        got = [subscription.next(timeout=10) for _ in range(3 * TIMES)]
    expected = [
        (subject, form % number)
        for number in range(TIMES)
        for subject, form in (("a.b", b"%04d"), ("a.c", b"%04d"), ("a.b", b"%06d"))
    ]
    assert [(message.subject, message.data) for message in got] == expected
    assert all(
        (message.headers or {}).get("Color") == (["red"] if message.subject == "a.c" else None) for message in got
    )


def test_in_pieces_and_several_at_once(server: ServerThread) -> None:
    with wire_to(server) as wire, connect(server.url) as client, client.subscribe("a") as subscription:
        client.flush()
        for _ in range(TIMES):
            assert wire.publish("a", b"warm") == 204
        data = request("a", b"one.") + request("a", b"two.")
        wire.socket.sendall(data)
        assert (wire.status(), wire.status()) == (204, 204)
        for cut in (1, 20, len(data) // 2 - 2, len(data) // 2 + 3):
            wire.socket.sendall(data[:cut])
            client.flush()  # the server has read something else in between, so mostly the first piece as well
            wire.socket.sendall(data[cut:])
            assert (wire.status(), wire.status()) == (204, 204)
        got = [subscription.next(timeout=10).data for _ in range(TIMES + 10)]
    assert got == [b"warm"] * TIMES + [b"one.", b"two."] * 5


def test_a_longer_payload_than_a_read(server: ServerThread) -> None:
    with wire_to(server) as wire, connect(server.url) as client, client.subscribe("big") as subscription:
        client.flush()
        payloads = [bytes([number]) * 300_000 for number in range(TIMES)]
        for payload in payloads:
            assert wire.publish("big", payload) == 204
        assert [subscription.next(timeout=10).data for _ in payloads] == payloads


def test_rights_are_those_of_who_publishes() -> None:
    options = load_text(USERS.format(few='"ok.>"'))
    with ServerThread(options) as server, wire_to(server) as wire:
        for _ in range(TIMES):
            for user, subject, status in (
                ("all:a", "no.x", 204),
                ("few:f", "no.x", 403),
                ("few:f", "ok.x", 204),
                ("few:f", "no.x", 403),
                ("few:wrong", "ok.x", 401),
            ):
                assert wire.publish(subject, b"hi", login(user)) == status


def test_a_head_known_from_another_user_is_not_published_as_this_one() -> None:
    with ServerThread(load_text(USERS.format(few='"ok.>"'))) as server, wire_to(server) as wire:
        for user, subject in 2 * [("all:a", "no.x"), ("few:f", "ok.x")]:
            for _ in range(TIMES):
                assert wire.publish(subject, b"hi", login(user)) == 204


def test_rights_that_change_hold_for_the_next() -> None:
    before, after = (load_text(USERS.format(few=few)) for few in ('"ok.>", "a"', '"ok.>"'))
    with ServerThread(before) as server, wire_to(server) as wire:
        for _ in range(TIMES):
            assert wire.publish("a", b"hi", login("few:f")) == 204
        on_loop(server, lambda: server.server.reload(replace(after, port=server.server.options.port)))
        assert wire.publish("a", b"hi", login("few:f")) == 403
        assert wire.publish("ok.a", b"hi", login("few:f")) == 204


def test_what_the_server_says_to_one_is_its_answer(server: ServerThread) -> None:
    with wire_to(server) as wire:
        for _ in range(TIMES):
            assert wire.publish("a", b"x" * 2000) == 204
        on_loop(server, lambda: server.server.reload(replace(server.server.options, max_payload=1000)))
        assert wire.publish("a", b"x" * 2000) == 413
        assert wire.publish("a", b"x" * 900) == 204


def test_a_server_that_stops_reading_is_waited_for(server: ServerThread) -> None:
    with wire_to(server) as wire, connect(server.url) as client, client.subscribe("a") as subscription:
        client.flush()
        for _ in range(TIMES):
            assert wire.publish("a", b"before") == 204
        assert server.server.http_api is not None
        (connection,) = server.server.http_api.connections
        pipe: Any = connection._pipe
        on_loop(server, pipe.pause_reading)
        wire.socket.sendall(request("a", b"during"))
        wire.socket.sendall(request("a", b"after."))
        client.flush()
        on_loop(server, pipe.resume_reading)
        assert (wire.status(), wire.status()) == (204, 204)
        got = [subscription.next(timeout=10).data for _ in range(TIMES + 2)]
    assert got == [b"before"] * TIMES + [b"during", b"after."]
