"""The bar of `stream purge`: it moves with what the server says meanwhile, and ends full on every server.

What a server says in the middle of a purge is a matter of luck, so the moving bar is tested with a JetStream that the
test plays itself, under a prefix of its own on a real server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slipstream.cli.stream.purging import expected_purge
from slipstream.client.wire import ClientTimeout, Message, WireClient
from support.cli import Cli
from support.servers import Launcher

PREFIX = "PLAYED"
STATE = {"messages": 1_000_000, "bytes": 5, "first_seq": 1, "last_seq": 1_000_000, "consumer_count": 0}
CONFIG = {"name": "BIG", "subjects": ["big"], "retention": "limits", "discard": "old", "storage": "file"}
LIMITS = {"max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_consumers": -1, "max_msgs_per_subject": -1}


class PlayedJetStream:
    """Answers as JetStream would, when the test says so."""

    def __init__(self, url: str) -> None:
        self._client = WireClient(url)
        self._client.subscribe(f"{PREFIX}.>")
        self._client.flush()

    def expect(self, verb: str) -> Message:
        message = self._client.next_message(20_000_000_000)
        assert message.subject == f"{PREFIX}.{verb}"
        return message

    def answer(self, message: Message, answer: object) -> None:
        self._client.publish(message.reply, json.dumps(answer).encode())
        self._client.flush()

    def show(self, message: Message, messages: int) -> None:
        state = {**STATE, "messages": messages, "first_ts": "2026-01-31T12:00:00Z", "last_ts": "2026-01-31T12:00:00Z"}
        self.answer(message, {"config": {**CONFIG, **LIMITS}, "created": "2026-01-31T12:00:00Z", "state": state})

    def show_if_asked(self, verb: str, messages: int) -> None:
        with suppress(ClientTimeout):
            message = self._client.next_message(100_000_000)
            assert message.subject == f"{PREFIX}.{verb}"
            self.show(message, messages)

    def close(self) -> None:
        self._client.close()


@contextmanager
def played(url: str) -> Iterator[PlayedJetStream]:
    service = PlayedJetStream(url)
    try:
        yield service
    finally:
        service.close()


def test_the_bar_shows_how_many_are_gone(ours: Launcher, tmp_path: Path) -> None:
    cli = Cli(tmp_path, ours().url)
    with (
        played(ours().url) as server,
        cli.terminal("--js-api-prefix", PREFIX, "stream", "purge", "BIG", "-f", columns=80) as terminal,
    ):
        server.show(server.expect("STREAM.INFO.BIG"), 1_000_000)
        purge = server.expect("STREAM.PURGE.BIG")
        server.show(server.expect("STREAM.INFO.BIG"), 750_000)
        terminal.expect("250,000/1,000,000 msgs")
        server.show(server.expect("STREAM.INFO.BIG"), 400_000)
        terminal.expect("600,000/1,000,000 msgs")
        server.answer(purge, {"success": True, "purged": 1_000_000})
        while not terminal.shows("Purged 1,000,000 messages from BIG"):
            server.show_if_asked("STREAM.INFO.BIG", 0)  # the last question, perhaps after a look that was under way
        terminal.expect("100% 1,000,000/1,000,000 msgs").expect("Purged 1,000,000 messages from BIG").finish()
        assert max(map(len, terminal.screen.rpartition("Purging")[2].splitlines())) <= 80


def test_a_refusal_ends_the_bar(ours: Launcher, tmp_path: Path) -> None:
    cli = Cli(tmp_path, ours().url)
    with (
        played(ours().url) as server,
        cli.terminal("--js-api-prefix", PREFIX, "stream", "purge", "BIG", "-f") as terminal,
    ):
        server.show(server.expect("STREAM.INFO.BIG"), 1_000)
        refusal = {"code": 500, "err_code": 10110, "description": "purge failed"}
        server.answer(server.expect("STREAM.PURGE.BIG"), {"error": refusal})
        terminal.expect("slipstream: error: purge failed (10110)").finish(1)


def test_the_bar_ends_full_on_every_server(launcher: Launcher, tmp_path: Path) -> None:
    server = launcher.fresh("", "-js", "-sd", str(tmp_path / "js"))
    cli = Cli(tmp_path, server.url)
    cli.call("stream", "add", "BIG", "--subjects", "big.*", "--defaults")
    for subject in ("big.a", "big.b"):
        cli.call("pub", subject, "x", "--count", "3000", "-q")
    screen = cli.screen("stream", "purge", "BIG", "--subject", "big.a", "-f")
    assert "100% 3,000/3,000 msgs" in screen and "Purged 3,000 messages" in screen
    assert "100% 2,990/2,990 msgs" in cli.screen("stream", "purge", "BIG", "--keep", "10", "-f")
    screen = cli.screen("stream", "purge", "BIG", "--subject", "big.none", "-f")
    assert "Purging" not in screen and "Purged 0 messages" in screen
    assert b"Purging" not in cli.run("stream", "purge", "BIG", "-f").stderr, "there is no bar without a terminal"


@pytest.mark.parametrize(
    ("body", "subjects", "expected"),
    [
        ({}, {}, 100),
        ({"keep": 30}, {}, 70),
        ({"keep": 300}, {}, 0),
        ({"seq": 60}, {}, 50),
        ({"seq": 5}, {}, 0),
        ({"filter": "a"}, {"a": 40}, 40),
        ({"filter": "a.*", "keep": 10}, {"a.1": 40, "a.2": 2}, 32),
        ({"filter": "a"}, {}, 0),
    ],
)
def test_what_is_expected(body: dict[str, object], subjects: dict[str, int], expected: int) -> None:
    assert expected_purge(body, {"messages": 100, "first_seq": 10, "subjects": subjects}) == expected
