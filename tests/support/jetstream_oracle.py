"""Ask the real nats-server and JetStream without a server the same questions, and compare the answers.

A question is a message with a reply subject. What must differ (times, server names) is replaced before comparing.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any

from support.jetstream_world import World

TIMEOUT_S = 5.0
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ZERO_TIME = "0001-01-01T00:00:00Z"
# Members whose values are the server's own.
_DIFFERENT = {"leader": "LEADER", "_nats.level": "LEVEL", "_nats.ver": "VERSION"}
Answer = tuple[bytes | None, bytes]


class Oracle:
    """A connection to a running nats-server with JetStream."""

    def __init__(self, port: int, login: str = "", inbox: str = "_INBOX") -> None:
        """Connect; `login` is JSON members of CONNECT, such as `"user":"a","pass":"b"`.

        Clients of one cluster need an `inbox` each.
        """
        self._inbox = inbox.encode()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self._file.readline()
        self._socket.sendall(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1%b}\r\nSUB %b.> 1\r\n'
            % (b"," + login.encode() if login else b"", self._inbox)
        )
        self._numbers = itertools.count(1)
        self.extras: list[tuple[bytes, Answer]] = []
        """Answers nobody waited for."""

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, subject: str, body: bytes, header: bytes = b"") -> None:
        """Publish without waiting for anything."""
        if header:
            total = len(header) + len(body)
            frame = b"HPUB %b %d %d\r\n%b%b\r\n" % (subject.encode(), len(header), total, header, body)
        else:
            frame = b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body)
        self._socket.sendall(frame)

    def request(
        self, subject: str, body: bytes, header: bytes | None, count: int, reply_tail: str = ""
    ) -> list[Answer]:
        """The first `count` answers; the reply subject may have more tokens than a number."""
        reply = b"%b.%d" % (self._inbox, next(self._numbers))
        if reply_tail:
            reply += b"." + reply_tail.encode()
        target = subject.encode()
        if header is None:
            self._socket.sendall(b"PUB %b %b %d\r\n%b\r\n" % (target, reply, len(body), body))
        else:
            total = len(header) + len(body)
            self._socket.sendall(b"HPUB %b %b %d %d\r\n%b%b\r\n" % (target, reply, len(header), total, header, body))
        answers: list[Answer] = []
        while len(answers) < count:
            arrived, answer = self._next_message()
            if arrived == reply:
                answers.append(answer)
            else:
                self.extras.append((arrived, answer))
        return answers

    def _next_message(self) -> tuple[bytes, Answer]:
        while True:
            line = self._file.readline()
            words = line.split()
            if words[0] == b"MSG":
                return words[1], (None, self._body(int(words[-1])))
            if words[0] == b"HMSG":
                size, total = int(words[-2]), int(words[-1])
                data = self._body(total)
                return words[1], (data[:size], data[size:])
            if words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")

    def _body(self, size: int) -> bytes:
        return self._file.read(size + 2)[:-2]


def header_block(*lines: str) -> bytes:
    """A header of these lines."""
    return ("NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def normalised(answer: Answer) -> tuple[str, Any]:
    """An answer with what must differ replaced."""
    header, body = answer
    text = "" if header is None else _TIME.sub("TIME", header.decode("utf-8", "replace"))
    try:
        return text, _scrubbed(json.loads(body))
    except ValueError:
        return text, body


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _DIFFERENT.get(key) or _scrubbed(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_scrubbed(member) for member in value]
    if isinstance(value, str) and value != _ZERO_TIME:
        return _TIME.sub("TIME", value)
    return value


class Both:
    """Asks both and insists that they agree, to the order of JSON members."""

    def __init__(self, oracle: Oracle, world: World) -> None:
        self._oracle = oracle
        self._world = world

    def ask(self, subject: str, body: Any = b"", header: bytes | None = None) -> Any:
        """The common answer (the first one, as JSON if it is)."""
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        answers = self.ask_many(subject, body, header)
        assert answers, f"no answer to {subject} {body[:200]!r}"
        return answers[0]

    def ask_many(self, subject: str, body: bytes, header: bytes | None, reply_tail: str = "") -> list[Any]:
        """All answers, which must be the same; the reply subject ends with `reply_tail`."""
        assert not self._oracle.extras, f"more than we answered: {self._oracle.extras}"
        ours = self._world.request_all(subject, body, header, reply_tail)
        theirs = self._oracle.request(subject, body, header, len(ours), reply_tail)
        if len(theirs) == 1 and b'"err_code":10049,' in theirs[0][1]:
            # It could not make a stream's files, which happens to it on a busy machine while it still removes those of
            # the stream before. What it makes next may have messages of that one: it goes, too.
            self._oracle.request(subject, body, header, 1, reply_tail)
            self._oracle.request(subject.replace("CREATE", "DELETE"), b"", None, 1)
            theirs = self._oracle.request(subject, body, header, len(ours), reply_tail)
        for our_answer, their_answer in zip(ours, theirs, strict=True):
            mine, real = normalised(our_answer), normalised(their_answer)
            assert mine == real, f"{subject} {body[:300]!r} {header!r}\n ours   {mine}\n theirs {real}"
            assert json.dumps(mine[1], default=str) == json.dumps(real[1], default=str), "members in another order"
        return [normalised(answer)[1] for answer in ours]

    def settle(self, reached: Callable[[dict[str, Any]], bool], stream: str = "S") -> None:
        """Let time pass until both streams are in a state."""
        for _ in range(100):
            if reached(self._world.state(stream)):
                break
            self._world.ports.advance(100_000_000)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            ((_, body),) = self._oracle.request(f"$JS.API.STREAM.INFO.{stream}", b"", None, 1)
            if reached(json.loads(body)["state"]):
                return
        raise AssertionError(f"nats-server did not get there: {body!r}")

    def api(self, subject: str, body: Any = b"", header: bytes | None = None) -> Any:
        """A `$JS.API.` call."""
        return self.ask("$JS.API." + subject, body, header)

    def make(self, **config: Any) -> None:
        """The stream S in memory."""
        answer = self.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory", **config})
        assert "error" not in answer, answer

    def everything(self, last: int = 12) -> None:
        """State and every message of S, as both see them."""
        self.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
        for seq in range(1, last):
            self.api("STREAM.MSG.GET.S", {"seq": seq})

    def clear(self) -> None:
        """Delete all streams of both, whatever they are."""
        self._oracle.extras.clear()
        for name in list(self._world.account.streams):
            self._world.api(f"STREAM.DELETE.{name}")
        ((_, names),) = self._oracle.request("$JS.API.STREAM.NAMES", b"", None, 1)
        for name in json.loads(names)["streams"] or []:
            self._oracle.request(f"$JS.API.STREAM.DELETE.{name}", b"", None, 1)
