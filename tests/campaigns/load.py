"""Clients of a server that dies again and again: what they were promised, and whether it was kept.

Each `Publisher` numbers its messages, keeps several on the way, and sends again under the same id what was not
acknowledged when the server died. `Counter` is one writer of one subject that lets the server compare sequences.
`Ledger` is the common memory: which id was acknowledged under which sequence.
"""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 60.0  # campaigns run beside other work
IN_FLIGHT = 24
API = "$JS.API."
_inboxes = itertools.count(1)


class Connection:
    """A small synchronous client: requests and answers by number."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._inbox = f"in.{next(_inboxes)}."
        self._last = 0
        hello = 'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
        try:
            self._file.readline()
            self._socket.sendall(f"{hello}SUB {self._inbox}* 1\r\n".encode())
        except OSError:
            self.close()
            raise

    def send(self, subject: str, body: bytes, header: dict[str, str] | None = None) -> int:
        """Publish with a reply subject; the number its answer will carry."""
        self._last += 1
        reply = f"{self._inbox}{self._last}"
        if header is None:
            line = f"PUB {subject} {reply} {len(body)}\r\n".encode()
            self._socket.sendall(line + body + b"\r\n")
        else:
            lines = "".join(f"{key}: {value}\r\n" for key, value in header.items())
            block = f"NATS/1.0\r\n{lines}\r\n".encode()
            line = f"HPUB {subject} {reply} {len(block)} {len(block) + len(body)}\r\n".encode()
            self._socket.sendall(line + block + body + b"\r\n")
        return self._last

    def receive(self) -> tuple[int, bytes, bytes]:
        """The next answer: its number, header and body.

        Raises:
            OSError: the connection is gone.
        """
        while True:
            words = self._file.readline().split()
            if not words:
                raise ConnectionResetError("closed")
            if words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                data = self._file.read(size + 2)
                if len(data) < size + 2:
                    raise ConnectionResetError("closed")
                head = int(words[-2]) if words[0] == b"HMSG" else 0
                return int(words[1].rsplit(b".", 1)[1]), data[:head], data[head:-2]
            if words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")

    def ask(self, subject: str, body: Any = None, header: dict[str, str] | None = None) -> Any:
        """One request and its JSON answer."""
        number = self.send(subject, b"" if body is None else json.dumps(body).encode(), header)
        while True:
            found, _, answer = self.receive()
            if found == number:
                return json.loads(answer)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@dataclass
class Ledger:
    """What was promised, and what of it was found broken. Shared by threads that each write their own ids."""

    acked: dict[str, dict[str, int]] = field(default_factory=dict)  # stream -> message id -> sequence
    highest: dict[str, int] = field(default_factory=dict)  # stream -> highest sequence acknowledged
    duplicates_refused: int = 0  # messages sent again that the server recognised
    regressions: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ack(self, stream: str, message_id: str, seq: int, *, fresh: bool) -> None:
        """A message was acknowledged; `fresh`: as stored just now."""
        with self.lock:
            self.acked.setdefault(stream, {})[message_id] = seq
            self.duplicates_refused += not fresh
            self.highest[stream] = max(self.highest.get(stream, 0), seq)

    @property
    def acks(self) -> int:
        """Messages acknowledged."""
        return sum(len(found) for found in self.acked.values())


def payload_of(message_id: str) -> bytes:
    """What a message with this id holds."""
    number = int(message_id.rsplit("-", 1)[1])
    return (message_id + "|").encode().ljust(20 + number * 37 % 400, b"x")


class Publisher:
    """Publishes to one stream under ids of its own."""

    def __init__(self, ledger: Ledger, stream: str, number: int) -> None:
        self._ledger = ledger
        self._stream = stream
        self._number = number
        self._next = 1
        self._unacked: dict[str, None] = {}  # in the order they were first sent

    def run(self, port: int) -> None:
        """Publish until the server is gone."""
        try:
            connection = Connection(port)
        except OSError:
            return
        sent: dict[int, str] = {}
        try:
            for message_id in list(self._unacked):
                sent[self._send(connection, message_id)] = message_id
            while True:
                while len(sent) < IN_FLIGHT:
                    message_id = f"{self._stream}-{self._number}-{self._next}"
                    self._next += 1
                    self._unacked[message_id] = None
                    sent[self._send(connection, message_id)] = message_id
                number, _, body = connection.receive()
                message_id = sent.pop(number)
                answer = json.loads(body) if body else {}
                if "seq" in answer and "error" not in answer:
                    del self._unacked[message_id]
                    self._ledger.ack(self._stream, message_id, answer["seq"], fresh="duplicate" not in answer)
                else:
                    sent[self._send(connection, message_id)] = message_id
        except OSError:
            return
        finally:
            connection.close()

    def _send(self, connection: Connection, message_id: str) -> int:
        subject = f"{self._stream}.{self._number}"
        return connection.send(subject, payload_of(message_id), {"Nats-Msg-Id": message_id})


class Counter:
    """One writer of one subject: each message names the sequence of the one before.

    A refusal means that the server's idea of that sequence is not what it acknowledged.
    """

    def __init__(self, ledger: Ledger, stream: str, number: int) -> None:
        self._ledger = ledger
        self._stream = stream
        self._subject = f"{stream}.cas.{number}"
        self._number = number
        self._next = 1
        self._last_seq = 0

    def run(self, port: int) -> None:
        """Write until the server is gone."""
        try:
            connection = Connection(port)
        except OSError:
            return
        try:
            self._find_out(connection)
            while True:
                message_id = f"{self._stream}-cas{self._number}-{self._next}"
                header = {"Nats-Expected-Last-Subject-Sequence": str(self._last_seq), "Nats-Msg-Id": message_id}
                connection.send(self._subject, payload_of(message_id), header)
                _, _, body = connection.receive()
                answer = json.loads(body) if body else {}
                if answer.get("error", {}).get("err_code") == 10071:
                    self._ledger.regressions.append(f"{message_id} after {self._last_seq}: {answer['error']}")
                    self._find_out(connection)
                elif "seq" in answer and "error" not in answer:
                    self._took(message_id, answer["seq"])
        except OSError:
            return
        finally:
            connection.close()

    def _took(self, message_id: str, seq: int) -> None:
        self._ledger.ack(self._stream, message_id, seq, fresh=True)
        self._last_seq = seq
        self._next += 1

    def _find_out(self, connection: Connection) -> None:
        """Whether the message that was on the way when the server died was stored."""
        answer = connection.ask(f"{API}STREAM.MSG.GET.{self._stream}", {"last_by_subj": self._subject})
        found = answer.get("message")
        if found is None:
            if self._last_seq:
                self._ledger.regressions.append(f"{self._subject}: {self._last_seq} is gone")
            return
        if found["seq"] < self._last_seq:
            self._ledger.regressions.append(f"{self._subject}: last is {found['seq']}, was {self._last_seq}")
        elif found["seq"] > self._last_seq:
            self._took(f"{self._stream}-cas{self._number}-{self._next}", found["seq"])


def run_all(workers: list[Publisher | Counter], port: int, until: Callable[[], None]) -> None:
    """Let everybody work until `until` returns (it kills the server), then wait for them to notice."""
    threads = [threading.Thread(target=worker.run, args=(port,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    until()
    for thread in threads:
        thread.join(TIMEOUT_S * 2)
        assert not thread.is_alive(), "a client did not notice that the server is gone"
