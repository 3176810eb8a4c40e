"""Comparison of monitoring answers: the same load on both servers, then every answer side by side.

An answer is compared as text: keys in their order, values where they are the same on any two servers, and the kind of
the value where they cannot be (times, ids, ports, memory).
"""

from __future__ import annotations

import difflib
import http.client
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from support.normalise import Json
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Pair
from support.transcript import connect_line

TIMEOUT_S = 5.0

# Values that differ between any two servers, or between two runs of one.
VOLATILE = frozenset(
    {
        "server_id",
        "server_name",
        "version",
        "go",
        "start",
        "now",
        "uptime",
        "idle",
        "mem",
        "cores",
        "gomaxprocs",
        "cpu",
        "port",
        "config_load_time",
        "config_digest",
        "last_activity",
        "rtt",
        "stop",
        "update_time",
        "num_inserts",
        "num_removes",
        "num_matches",
        "num_cache",
        "cache_hit_rate",
        "max_fanout",
        "avg_fanout",
        "seq",
        "time",
        "id",
        "timestamp",
        "ver",
        "feature_flags",
        "git_commit",
        "cid",
        "pending_bytes",
    }
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_FORMS = {
    "<time>": _TIME,
    "<server key>": re.compile(r"N[A-Z2-7]{55}"),
    "<duration>": re.compile(r"(\d+(\.\d+)?(ns|µs|ms|[ydhms]))+"),
    "<digest>": re.compile(r"sha256:[0-9a-f]{64}"),
}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def get(server: ServerProcess, path: str, method: str = "GET") -> Answer:
    """Ask the monitoring port."""
    connection = http.client.HTTPConnection("127.0.0.1", server.monitor_port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, {key.lower(): value for key, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def outline(value: Json, volatile: Iterable[str] = VOLATILE, key: str = "") -> str:
    """A JSON value as text with everything volatile replaced by its kind."""
    return "\n".join(_lines(value, frozenset(volatile), key, ""))


def agree(real: str, ours: str, what: str) -> None:
    """Fails with the difference, if there is one."""
    if real != ours:
        lines = difflib.unified_diff(real.split("\n"), ours.split("\n"), "real", "ours", lineterm="", n=6)
        raise AssertionError(f"{what} differs:\n" + "\n".join(lines))


def paths_agree(
    pair: Pair, path: str, *, hide: Iterable[str] = (), order: Callable[[Json], Json] | None = None
) -> None:
    """Ask both servers the same and compare status, content type and body.

    Args:
        pair: the servers.
        path: what to ask.
        hide: further keys whose values differ.
        order: brings lists whose order means nothing into one.
    """
    real, ours = get(pair.real, path), get(pair.ours, path)
    agree(_shown(real, hide, order), _shown(ours, hide, order), path)


def _shown(answer: Answer, hide: Iterable[str], order: Callable[[Json], Json] | None) -> str:
    head = f"{answer.status} {answer.headers.get('content-type')} {answer.headers.get('access-control-allow-origin')}"
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return head + "\n" + answer.body.decode()
    value = json.loads(answer.body)
    indent = re.search(rb"\n( *)", answer.body)
    spaces = len(indent[1]) if indent else 0
    return f"{head} indent {spaces}\n" + outline(order(value) if order else value, VOLATILE | frozenset(hide))


def _lines(value: Json, volatile: frozenset[str], key: str, indent: str) -> Iterable[str]:
    if key in volatile:
        yield f"{indent}{key}: {_kind(value)}"
    elif isinstance(value, dict):
        yield f"{indent}{key} {{"
        for name, item in value.items():
            yield from _lines(item, volatile, name, indent + "  ")
        yield indent + "}"
    elif isinstance(value, list):
        yield f"{indent}{key} ["
        for item in value:
            yield from _lines(item, volatile, "", indent + "  ")
        yield indent + "]"
    else:
        yield f"{indent}{key}: {value!r}"


def _kind(value: Json) -> str:
    if isinstance(value, str):
        return next((form for form, pattern in _FORMS.items() if pattern.fullmatch(value)), "<text>" if value else "''")
    if isinstance(value, dict):
        return "{" + " ".join(value) + "}"
    if isinstance(value, bool):
        return "<bool>"
    return "<number>" if isinstance(value, int | float) else type(value).__name__


class Load:
    """Clients that do the same on a server each time: the cids, names and counts are then the same on both."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.clients: list[RawClient] = []

    def client(self, data: bytes = b"", **connect: Json) -> RawClient:
        """A connected client that sent these bytes, all of which the server has handled."""
        client = RawClient(self._server.port)
        client.read_until(rb"INFO [^\n]*\r\n")
        client.send(connect_line(**connect))
        self.clients.append(client)
        return self.send(client, data)

    def send(self, client: RawClient, data: bytes) -> RawClient:
        """Send bytes and wait until they are handled."""
        client.send(data + b"PING\r\n")
        client.read_until(rb"PONG\r\n")
        return client

    def close(self) -> None:
        """End the clients."""
        for client in self.clients:
            client.close()


class Asker:
    """A client that asks services and tells what came back: an answer, the news that nobody listens, or silence."""

    def __init__(self, server: ServerProcess, *, inbox: bytes = b"in", **connect: Json) -> None:
        """Connects; with the credentials of a system user everything can be asked.

        Args:
            server: whom to ask.
            inbox: where answers come; askers that live in one account at the same time need one each.
            **connect: credentials, and whatever else is said about the client.
        """
        self.client = RawClient(server.port)
        self.client.read_until(rb"INFO [^\n]*\r\n")
        self.inbox = inbox
        self.client.send(connect_line(**connect) + b"SUB %b.> 1\r\nPING\r\n" % self.inbox)
        self.client.read_until(rb"PONG\r\n")

    def ask(self, subject: str, payload: bytes = b"", *, header: bytes = b"", barrier: str = "IDZ") -> bytes:
        """The answer with its header; `503` when nobody listens; `silence`.

        A second request, to which every server answers, shows that the first was handled. It needs the same queue
        inside nats-server as the first.
        """
        if header:
            sizes = b"%d %d" % (len(header), len(header) + len(payload))
            asked = b"HPUB %b %b.answer %b\r\n%b%b\r\n" % (subject.encode(), self.inbox, sizes, header, payload)
        else:
            asked = b"PUB %b %b.answer %d\r\n%b\r\n" % (subject.encode(), self.inbox, len(payload), payload)
        self.client.send(asked + b"PUB $SYS.REQ.SERVER.PING.%b %b.barrier 0\r\n\r\n" % (barrier.encode(), self.inbox))
        inbox, answer = self.next_message()
        if inbox.endswith(".barrier"):
            return b"silence"
        second, more = self.next_message()
        assert second.endswith(".barrier"), f"{subject} was answered twice: {answer!r} and {more!r}"
        return b"503" if answer.startswith(b"NATS/1.0 503") else answer

    def next_message(self) -> tuple[str, bytes]:
        """Subject and payload of the next message, header included."""
        line = self.client.read_until(rb"H?MSG [^\r]*\r\n").rpartition(b"MSG ")[2]
        words = line.split()
        return words[0].decode(), self.client.read_exactly(int(words[-1]) + 2)[:-2]

    def close(self) -> None:
        """Ends the client."""
        self.client.close()


def shown_answer(answer: bytes, volatile: Iterable[str] = VOLATILE, order: Callable[[Json], Json] | None = None) -> str:
    """An answer of a service as text that two servers can agree on."""
    head, _, body = answer.rpartition(b"\r\n\r\n")
    if not body.startswith((b"{", b"[")):
        return answer.decode("utf-8", "replace")
    value = json.loads(body)
    return head.decode() + outline(order(value) if order else value, volatile)
