"""Two clusters of three servers, ours and nats-server's, asked the same; each question goes to the next of the servers.

Scripts that were written for one server run on them as they are: streams they make get copies. What is only looked at
may differ for a moment, because servers learn of each other's changes after whoever asked for them: it is looked at
again. What changes something is asked once.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from support.copies import CopyPair, Side, comparable
from support.jetstream_oracle import Answer, Both, Oracle, normalised

PATIENCE_S = 10.0
PAUSE_S = 0.02
_LOOKS = ("INFO", "LIST", "NAMES", "GET")
_VARYING = {"raft_group", "leader_since", "current", "active", "lag", "peer", "traffic_account", "system_account", "ts"}
_CLIENTS = itertools.count(1)


class ClusterPair(Both):
    """Asks both clusters and insists that they agree."""

    def __init__(self, ours: Sequence[Oracle], theirs: Sequence[Oracle], replicas: int = 3) -> None:
        """Clients of each of the servers; streams are made with so many copies unless they say something else."""
        self._ours, self._theirs = ours, theirs
        self._replicas = replicas
        self.asked = 0
        self.copies = ClusterCopies(ours, theirs, replicas)

    def ask_many(self, subject: str, body: bytes, header: bytes | None, reply_tail: str = "") -> list[Any]:
        """All answers, which must be the same."""
        if reply_tail:
            pytest.skip("how many answers a fast batch gets depends on when it is committed")
        if header and b"nats-expected-last-msg-id" in header.lower():
            pytest.skip("a stream with copies of nats-server has no leader after such a message")
        self.asked += 1
        body = _with_copies(subject, body, self._replicas)
        only_looks = subject.startswith("$JS.API.") and _only_looks(subject)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            number = self.asked % len(self._ours)
            found = [
                [_shaped(answer) for answer in _answers(servers[number], subject, body, header)]
                for servers in (self._ours, self._theirs)
            ]
            if found[0] == found[1]:
                break
            story = f"{subject} {body[:300]!r} {header!r}\n ours   {found[0]}\n theirs {found[1]}"
            assert only_looks and time.monotonic() < deadline, story
            time.sleep(PAUSE_S)
        return [answer[1] for answer in found[0]]

    def settle(self, reached: Callable[[dict[str, Any]], bool], stream: str = "S") -> None:
        """Let time pass until both streams are in a state."""
        deadline = time.monotonic() + PATIENCE_S
        for servers in (self._ours, self._theirs):
            while True:
                state = _asked(servers[0], f"STREAM.INFO.{stream}")["state"]
                if reached(state):
                    break
                assert time.monotonic() < deadline, state
                time.sleep(PAUSE_S)

    def clear(self) -> None:
        """Delete all streams of both, until no server knows any."""
        for servers in (self._ours, self._theirs):
            for client in servers:
                client.extras.clear()
            deadline = time.monotonic() + PATIENCE_S
            while left := [name for client in servers for name in _asked(client, "STREAM.NAMES").get("streams") or []]:
                assert time.monotonic() < deadline, left
                for name in set(left):
                    _asked(servers[0], f"STREAM.DELETE.{name}")


class ClusterSide(Side):
    """One of the two clusters; each question goes to the next of its servers."""

    def __init__(self, kind: str, clients: Sequence[Oracle], replicas: int) -> None:
        self.server = SimpleNamespace(binary=SimpleNamespace(name=kind))  # type: ignore[assignment]
        self._clients = itertools.cycle(clients)
        self._replicas = replicas

    @property
    def client(self) -> Oracle:  # type: ignore[override]
        """Of the next server."""
        return next(self._clients)

    def api(self, subject: str, body: Any = b"") -> Any:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        payload = _with_copies(f"$JS.API.{subject}", payload, self._replicas)
        return json.loads(_answers(self.client, f"$JS.API.{subject}", payload, None)[0][1])

    def publish(self, subject: str, payload: bytes, header: bytes | None = None) -> Any:
        ((_, answer),) = _answers(self.client, subject, payload, header)
        return json.loads(answer) if answer else None


class ClusterCopies(CopyPair):
    """Both clusters, for scripts about mirrors and sources."""

    def __init__(self, ours: Sequence[Oracle], theirs: Sequence[Oracle], replicas: int) -> None:
        self._sized = False
        self.sides = [ClusterSide("ours", ours, replicas), ClusterSide("real", theirs, replicas)]

    def api(self, subject: str, body: Any = b"") -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.same(lambda side: _without_servers(comparable(side.api(subject, body), sized=False)))
            except AssertionError:
                if not _only_looks(subject) or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)

    def settled(self, stream: str, seq: int, *, heard: bool = False) -> Any:
        return self.same(
            lambda side: _without_servers(comparable(side.until_last(stream, seq, heard=heard), sized=False))
        )


def ready_client(port: int) -> Oracle:
    """A client of a server whose cluster can keep three copies; before that, nobody may answer."""
    body = json.dumps({"name": "READY", "subjects": ["ready"], "num_replicas": 3}).encode()
    deadline = time.monotonic() + 3 * PATIENCE_S
    while True:
        client = None
        try:
            client = Oracle(port, inbox=f"_INBOX.{next(_CLIENTS)}")
            if b'"error"' not in _answers(client, "$JS.API.STREAM.CREATE.READY", body, None)[0][1]:
                return client
        except (OSError, IndexError):
            pass
        if client is not None:
            client.close()
        assert time.monotonic() < deadline, "no cluster came to be"
        time.sleep(PAUSE_S)


def _only_looks(subject: str) -> bool:
    return any(word in _LOOKS for word in subject.split("."))


def _with_copies(subject: str, body: bytes, replicas: int) -> bytes:
    """A request to make or change a stream that has so many copies, unless it says something else."""
    if not subject.startswith(("$JS.API.STREAM.CREATE.", "$JS.API.STREAM.UPDATE.")):
        return body
    try:
        config = json.loads(body)
    except ValueError:
        return body
    if not isinstance(config, dict) or "num_replicas" in config:
        return body
    return json.dumps(config | {"num_replicas": replicas}).encode()


def _answers(client: Oracle, subject: str, body: bytes, header: bytes | None) -> list[Answer]:
    """The answer; of a direct get that asks for several messages, all of them. Nobody may listen yet: again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = _request(client, subject, body, header)
        if not _is_unheard(found[0]) or time.monotonic() > deadline:
            return found
        time.sleep(PAUSE_S)


def _request(client: Oracle, subject: str, body: bytes, header: bytes | None) -> list[Answer]:
    found = client.request(subject, body, header, 1)
    if subject.startswith("$JS.API.DIRECT.GET.") and (b'"batch"' in body or b'"multi_last"' in body):
        while found[-1][0] is None or found[-1][0].startswith(b"NATS/1.0\r\n"):
            arrived, answer = client._next_message()
            assert arrived.startswith(b"_INBOX.")
            found.append(answer)
    return found


def _is_unheard(answer: Answer) -> bool:
    head, body = answer
    return (head is not None and head.startswith(b"NATS/1.0 503")) or b'"err_code":10008,' in body


def _asked(client: Oracle, subject: str) -> Any:
    return json.loads(_answers(client, f"$JS.API.{subject}", b"", None)[0][1])


def _shaped(answer: Answer) -> tuple[str, Any]:
    head, body = normalised(answer)
    return head, _without_servers(body)


def _without_servers(value: Any) -> Any:
    """An answer without what tells one server from the other."""
    if isinstance(value, dict):
        kept = {key: _without_servers(member) for key, member in value.items() if key not in _VARYING}
        if isinstance(kept.get("replicas"), list):
            kept["replicas"] = len(kept["replicas"])
        return kept
    return [_without_servers(member) for member in value] if isinstance(value, list) else value
