"""Byte-level scripts run against two servers; the comparison of what each of them answered.

A script is a function of a `Talk`. The talk opens connections (`Peer`), each of which records every byte the server
sends to it. Two runs are equal when every peer saw the same bytes after normalisation. Scripts contain no sleeps:
a PING/PONG round is the barrier after which everything processed earlier has arrived.

    def headers_are_stripped(talk: Talk) -> None:
        plain = talk.connect("plain", headers=False)
        plain.send(b"SUB foo 1\\r\\n").sync()
        talk.connect("writer").send(b"HPUB foo 12 14\\r\\nNATS/1.0\\r\\n\\r\\nhi\\r\\n").sync()
        plain.sync()
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import pytest

from support.normalise import Json, normal_wire
from support.raw_client import RawClient
from support.server_process import ServerProcess

CONNECT_DEFAULTS: dict[str, Json] = {
    "verbose": False,
    "pedantic": False,
    "headers": True,
    "no_responders": True,
    "protocol": 1,
    "lang": "raw",
    "version": "1.0.0",
}
_PONG = rb"(?:^|\r\n)PONG\r\n"
_STATUS_INFO = rb'INFO \{[^\n]*"connect_info":true[^\n]*\r\n'


class Peer:
    """One connection of a talk and the record of what the server sent to it."""

    def __init__(self, name: str, client: RawClient) -> None:
        self.name = name
        self.client = client
        self.received = bytearray()
        self.closed = False

    def send(self, data: bytes) -> Self:
        """Sends exact bytes."""
        self.client.send(data)
        return self

    def sync(self) -> bytes:
        """Sends PING and records everything up to its PONG, or up to the close; returns the new bytes."""
        self.client.send(b"PING\r\n")
        return self.until(_PONG)

    def until(self, pattern: bytes, timeout_s: float | None = None) -> bytes:
        """Records everything up to a match, or up to the server's close; returns the new bytes."""
        data, closed = self.client.read_until_or_close(pattern, timeout_s)
        return self._record(data, closed)

    def until_closed(self, timeout_s: float | None = None) -> bytes:
        """Records everything up to the server's close, which must come in time; returns the new bytes."""
        return self._record(self.client.read_to_close(timeout_s), closed=True)

    def close(self) -> None:
        """Closes this side."""
        self.client.close()

    def _record(self, data: bytes, closed: bool) -> bytes:
        self.received += data
        if closed and not self.closed:
            self.closed = True
            self.received += b"<closed>"
        return data


class Talk:
    """One run of a script against one server."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.peers: list[Peer] = []
        # Facts a script found out otherwise than from a peer's bytes; compared as they are.
        self.notes: list[str] = []
        # Set by scripts in which neighbouring messages may come in any order.
        self.any_order = False

    def open(self, name: str = "a") -> Peer:
        """A connection that has read the first INFO and sent nothing."""
        peer = Peer(name, RawClient(self.server.port))
        self.peers.append(peer)
        peer.until(rb"INFO [^\n]*\r\n")
        return peer

    def connect(self, name: str = "a", /, **options: Json) -> Peer:
        """A connection that has sent CONNECT with the given options over usual defaults, and had its PONG and INFO."""
        peer = self.open(name)
        peer.send(connect_line(**options)).sync()
        # The INFO after the first PONG comes only to peers that understand it.
        if not peer.closed and options.get("protocol", 1) == 1:
            peer.until(_STATUS_INFO)
        return peer

    def note(self, fact: object) -> None:
        """Adds a fact to the record."""
        self.notes.append(str(fact))

    def must_show(self, pattern: bytes) -> None:
        """Fails unless some peer received a match: guards a script against agreeing about nothing."""
        if not any(re.search(pattern, peer.received, re.DOTALL) for peer in self.peers):
            raise AssertionError(f"nobody received {pattern!r}")

    def transcript(self) -> str:
        """What every peer received, in normal form, and the notes."""
        parts = [f"== {peer.name}\n{_readable(bytes(peer.received), any_order=self.any_order)}" for peer in self.peers]
        return "\n".join(parts + (["== notes", *self.notes] if self.notes else []))

    def close(self) -> None:
        """Closes all connections and waits until the server has too: the next script must not meet their interest."""
        for peer in self.peers:
            peer.client.shut_down_writing()
        for peer in self.peers:
            with contextlib.suppress(TimeoutError, OSError):
                peer.client.read_to_close()
            peer.close()


Script = Callable[[Talk], None]


@dataclass(frozen=True)
class Case:
    """A script that is only bytes: sent at once on one connection, then a PING.

    `seen` must occur in the real server's answer, so that a mistake in the script does not pass as agreement.
    """

    name: str
    data: bytes
    seen: bytes = b""
    # CONNECT options over the defaults; None sends no CONNECT at all.
    options: tuple[tuple[str, Json], ...] | None = ()

    def __call__(self, talk: Talk) -> None:
        peer = talk.open() if self.options is None else talk.connect(**dict(self.options))
        peer.send(self.data).sync()
        # What the server sends right after a PONG, such as INFO, comes before the next one.
        peer.sync()
        talk.must_show(self.seen)


def case(name: str, data: bytes, seen: bytes = b"", /, **options: Json) -> Case:
    """A case on a connection that has sent CONNECT."""
    return Case(name, data, seen, tuple(options.items()))


def unconnected(name: str, data: bytes, seen: bytes = b"") -> Case:
    """A case on a connection that has sent nothing."""
    return Case(name, data, seen, None)


def in_any_order(script: Script) -> Script:
    """The script with messages that follow each other compared as a set.

    Copies of one message to several subscriptions come in no defined order.
    """

    def run(talk: Talk) -> None:
        talk.any_order = True
        script(talk)

    run.__name__ = script_name(script)
    return run


def script_name(script: Script) -> str:
    """What a script is called in test names."""
    if isinstance(script, Deliberate):
        return script_name(script.script)
    return script.name if isinstance(script, Case) else str(getattr(script, "__name__", script))


def connect_line(**options: Json) -> bytes:
    """CONNECT with options over the usual defaults; an option that is None is left out."""
    merged = {key: value for key, value in (CONNECT_DEFAULTS | options).items() if value is not None}
    return b"CONNECT " + json.dumps(merged).encode() + b"\r\n"


def pub(subject: str, payload: bytes = b"", reply: str = "") -> bytes:
    """A PUB operation."""
    return f"PUB {subject} {reply}{' ' if reply else ''}{len(payload)}\r\n".encode() + payload + b"\r\n"


def hpub(subject: str, header: bytes, payload: bytes = b"", reply: str = "") -> bytes:
    """An HPUB operation; the header lines are wrapped into a block."""
    block = b"NATS/1.0\r\n" + header + b"\r\n"
    head = f"HPUB {subject} {reply}{' ' if reply else ''}{len(block)} {len(block) + len(payload)}\r\n"
    return head.encode() + block + payload + b"\r\n"


@dataclass(frozen=True)
class Outcome:
    """What a script saw, and the exception that ended it early, if one did."""

    text: str
    error: Exception | None


def run_script(script: Script, server: ServerProcess) -> Outcome:
    """Runs a script against a server."""
    talk = Talk(server)
    try:
        script(talk)
    except Exception as error:
        return Outcome(f"{talk.transcript()}\n== {type(error).__name__}\n{error}", error)
    finally:
        talk.close()
    return Outcome(talk.transcript(), None)


def run_on_all(script: Script, servers: Sequence[ServerProcess]) -> list[Outcome]:
    """Runs a script against all servers at the same time."""
    with ThreadPoolExecutor(len(servers)) as pool:
        return list(pool.map(lambda server: run_script(script, server), servers))


@dataclass(frozen=True)
class Deliberate:
    """A script on which the servers differ on purpose; the test fails when they come to agree."""

    script: Script
    reason: str

    def __call__(self, talk: Talk) -> None:
        self.script(talk)


def each(scripts: Sequence[Script]) -> pytest.MarkDecorator:
    """Runs a test once for every script, named by it, as the argument `script`."""
    names = [re.sub(r"[^\w.$*>+-]+", "-", script_name(script)) for script in scripts]
    parameters = [
        pytest.param(script, id=name, marks=_marks(script)) for script, name in zip(scripts, names, strict=True)
    ]
    return pytest.mark.parametrize("script", parameters)


def _marks(script: Script) -> list[pytest.MarkDecorator]:
    if isinstance(script, Deliberate):
        return [pytest.mark.xfail(raises=AssertionError, strict=True, reason=script.reason)]
    return []


def frames(data: bytes) -> list[bytes]:
    """Server output cut into operations, each with its payload and line ends; an unfinished rest is the last one."""
    found = []
    position = 0
    while (line_end := data.find(b"\r\n", position)) >= 0:
        words = data[position:line_end].split(b" ")
        has_payload = words[0] in (b"MSG", b"HMSG")
        end = line_end + 2 + (int(words[-1]) + 2 if has_payload else 0)
        found.append(data[position:end])
        position = end
    return [*found, data[position:]] if position < len(data) else found


def _readable(data: bytes, *, any_order: bool) -> str:
    shown = [normal_wire(frame) for frame in frames(data) if frame != b"PING\r\n"]
    if any_order:
        runs = groupby(shown, key=lambda frame: frame.startswith((b"MSG ", b"HMSG ")))
        shown = [frame for is_message, run in runs for frame in (sorted(run) if is_message else run)]
    lines = b"".join(shown).split(b"\r\n")
    return "\n".join("".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in line) for line in lines)
