"""Two servers, ours and the real one, told the same about mirrors and sources; and what they then hold, comparably.

What must differ is replaced: times of servers, how long ago an origin was heard, what nats-server 2.15 added to 2.14
(the sequence of a source, the identity in the source header, and so the bytes of what was sourced). Sources are
compared in any order, as nats-server's is random; so are messages of different sources.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

from support.jetstream_oracle import Oracle, header_block, normalised
from support.server_process import ServerProcess
from support.servers import ServerPool

API = "$JS.API."
PATIENCE_S = 20.0
_HEADER_WORDS = 5


class Side:
    """One of the two servers, and a client of it."""

    def __init__(self, server: ServerProcess, login: str = "") -> None:
        self.server = server
        self.client = Oracle(server.port, login)

    def api(self, subject: str, body: Any = b"") -> Any:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        ((_, answer),) = self.client.request(API + subject, payload, None, 1)
        return json.loads(answer)

    def publish(self, subject: str, payload: bytes, header: bytes | None = None) -> Any:
        ((_, answer),) = self.client.request(subject, payload, header, 1)
        return json.loads(answer) if answer else None

    def until(self, stream: str, condition: Callable[[Any], bool]) -> Any:
        """Ask for a stream until it is as wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            info = self.api(f"STREAM.INFO.{stream}", {"deleted_details": True, "subjects_filter": ">"})
            if condition(info):
                return info
            assert time.monotonic() < deadline, f"{self.server.binary.name}: {info}"

    def until_last(self, stream: str, seq: int, *, heard: bool = False) -> Any:
        """Ask for a stream until it has come so far, and if it is a mirror has heard of its origin."""

        def come_so_far(info: Any) -> bool:
            return info["state"]["last_seq"] >= seq and not (heard and info["mirror"]["active"] < 0)

        return self.until(stream, come_so_far)

    def messages(self, stream: str, last: int) -> list[Any]:
        """Everything stored up to a sequence."""
        found = []
        for seq in range(1, last + 1):
            answer = self.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})
            if "message" in answer:
                found.append(_comparable_message(answer["message"]))
        return found


class CopyPair:
    """Both sides."""

    def __init__(
        self, pool: ServerPool, directories: Callable[[str], Any], config: str = "", *, sized: bool = True
    ) -> None:
        self._sized = sized
        self.sides = [
            Side(pool.prepared(kind, config, ("-js", "-sd", str(directories(kind)))).start())
            for kind in ("ours", "real")
        ]

    @property
    def ours(self) -> Side:
        return self.sides[0]

    def close(self) -> None:
        for side in self.sides:
            side.client.close()
            side.server.end()

    def same(self, ask: Callable[[Side], Any]) -> Any:
        """What both sides answer alike."""
        ours, theirs = (ask(side) for side in self.sides)
        assert ours == theirs, f"\n ours   {ours}\n theirs {theirs}"
        return ours

    def api(self, subject: str, body: Any = b"") -> Any:
        return self.same(lambda side: comparable(side.api(subject, body), sized=self._sized))

    def publish(self, subject: str, payload: bytes, header: bytes | None = None) -> Any:
        return self.same(lambda side: side.publish(subject, payload, header))

    def fill(self, name: str = "O", count: int = 6, **config: Any) -> None:
        """An origin with a few subjects and headers."""
        self.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config})
        for number in range(1, count + 1):
            header = header_block(f"Nats-Msg-Id: {number}", f"Nats-Expected-Stream: {name}", "K: v")
            self.publish(f"{name.lower()}.{number % 3}", b"m%d" % number, header if number % 2 else None)

    def clear(self) -> None:
        """Delete all streams of both."""
        for side in self.sides:
            for name in side.api("STREAM.NAMES")["streams"] or []:
                side.api(f"STREAM.DELETE.{name}")

    def settled(self, stream: str, seq: int, *, heard: bool = False) -> Any:
        """A stream that has come so far, as both show it."""
        return self.same(lambda side: comparable(side.until_last(stream, seq, heard=heard), sized=self._sized))

    def messages(self, stream: str, last: int) -> list[Any]:
        return list(self.same(lambda side: side.messages(stream, last)))

    def restart(self) -> None:
        for side in self.sides:
            side.client.close()
            side.server.restart()
            side.client = Oracle(side.server.port)


def comparable(answer: Any, *, sized: bool = True) -> Any:
    """An answer without what must differ; `sized=False`: and without bytes."""
    _, scrubbed = normalised((None, json.dumps(answer).encode()))
    for info in [scrubbed, *(scrubbed.get("streams") or [])]:
        if isinstance(info, dict):
            _scrub_info(info)
            if not sized:
                info.get("state", {}).pop("bytes", None)
    return scrubbed


def _scrub_info(scrubbed: dict[str, Any]) -> None:
    for member in [scrubbed.get("mirror"), *(scrubbed.get("sources") or [])]:
        if member is not None:
            member.pop("seq", None)
            member["active"] = "heard" if member["active"] >= 0 else "never"
    if scrubbed.get("sources"):
        scrubbed["sources"].sort(key=json.dumps)


def _comparable_message(message: dict[str, Any]) -> Any:
    header = base64.b64decode(message.get("hdrs", "")).decode()
    lines = []
    for line in header.split("\r\n"):
        if line.startswith("Nats-Stream-Source: "):
            line = "Nats-Stream-Source: " + " ".join(line.split(": ", 1)[1].split(" ")[:_HEADER_WORDS])
        lines.append(line)
    return message["seq"], message["subject"], lines, message.get("data")
