"""Consumers of a server that is killed at random moments: acks, redelivery and dead letters.

A client publishes, pulls, and answers each message in one of several ways, until the server is killed under it. What
must hold, whatever the moment:

* a message whose double ack was confirmed never comes again,
* one that was not acknowledged comes again, or is still there to come,
* one whose termination was confirmed is in the dead letter stream, once.

One connection does everything for one stream, so that the order in which the client sees a confirmation and a delivery
is the order in which the server sent them.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from slipstream.client.options import ClientError, ClientTimeout, WireOptions
from slipstream.client.wire import Message, WireClient
from slipstream.units import MILLISECOND_NS, SECOND_NS
from support.raw_files import of_directory, told
from support.server_process import ServerProcess, ServerStartError
from support.servers import server_binary

STREAMS = {"KEEP": "limits", "WORK": "workqueue", "WISH": "interest"}
DEAD = "DEAD"
KEY = "the-key-of-the-campaign-of-consumers"
WORDS = (
    b"DEAD.KEEP",
    b"DEAD.WORK",
    b"DEAD.WISH",
    b"durable_name",
    b"ack_policy",
    b"Slipstream-Dlq",
    b"text of a message",
)
"""What is stored and what it is called."""
START_S = 120.0  # campaigns run beside other work
_API = "$JS.API."


@dataclass
class Promises:
    """What the clients of one stream were told, by sequence."""

    published: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)  # an ack was sent, perhaps in vain
    confirmed: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)  # a termination was sent, perhaps in vain
    buried: set[int] = field(default_factory=set)  # and confirmed
    delivered: int = 0
    broken: list[str] = field(default_factory=list)


class Worker:
    """The client of one stream."""

    def __init__(self, stream: str, seed: int) -> None:
        self.stream = stream
        self.promises = Promises()
        self._rng = random.Random(seed)
        self._waiting: dict[str, tuple[str, int]] = {}  # reply subject → what it confirms
        self._numbers = 0

    def run(self, url: str) -> None:
        """Work until the connection is gone."""
        try:
            with WireClient(url, WireOptions(timeout_ns=10 * SECOND_NS)) as client:
                self._waiting = {}
                client.subscribe(f"in.{self.stream}.*")
                while True:
                    self._turn(client)
        except ClientError:
            return

    def _turn(self, client: WireClient) -> None:
        for _ in range(self._rng.randrange(4)):
            self._ask(client, "publish", 0, f"{self.stream}.x", b"text of a message" * self._rng.randrange(18))
        body = json.dumps({"batch": self._rng.randrange(1, 12), "expires": 20 * MILLISECOND_NS}).encode()
        self._ask(client, "pull", 0, f"{_API}CONSUMER.MSG.NEXT.{self.stream}.C", body)
        deadline = time.monotonic() + 0.03
        while time.monotonic() < deadline:
            try:
                messages = client.next_messages(5 * MILLISECOND_NS)
            except ClientTimeout:
                continue
            for message in messages:
                self._take(client, message)

    def _ask(self, client: WireClient, kind: str, seq: int, subject: str, body: bytes) -> None:
        self._numbers += 1
        reply = f"in.{self.stream}.{self._numbers}"
        self._waiting[reply] = (kind, seq)
        client.publish(subject, body, reply=reply)

    def _take(self, client: WireClient, message: Message) -> None:
        promises = self.promises
        if message.reply.startswith("$JS.ACK."):
            self._answer(client, message)
            return
        kind, seq = self._waiting.pop(message.subject, ("", 0))
        if kind == "publish" and b"error" not in message.payload:
            promises.published.add(json.loads(message.payload)["seq"])
        elif kind == "ack":
            promises.confirmed.add(seq)
        elif kind == "term":
            promises.buried.add(seq)

    def _answer(self, client: WireClient, message: Message) -> None:
        promises, seq = self.promises, sequence(message)
        promises.delivered += 1
        if seq in promises.confirmed or seq in promises.buried:
            promises.broken.append(f"{self.stream}: {seq} came after its confirmation")
        choice = self._rng.random()
        if choice < 0.35:
            promises.acked.add(seq)
            self._ask(client, "ack", seq, message.reply, b"+ACK")
        elif choice < 0.6:
            promises.acked.add(seq)
            client.publish(message.reply, b"+ACK")
        elif choice < 0.7:
            promises.ended.add(seq)
            self._ask(client, "term", seq, message.reply, b"+TERM enough")
        elif choice < 0.8:
            client.publish(message.reply, b"-NAK")


def sequence(message: Message) -> int:
    """The stream sequence in an ack subject."""
    return int(message.reply.split(".")[5])


class ConsumerDeaths:
    """One server directory, and clients that come back after each death."""

    def __init__(
        self,
        directory: Path,
        *,
        binary: Path | None = None,
        seed: int = 1,
        ack_wait_ns: int = 2 * SECOND_NS,
        encrypted: bool = False,
    ) -> None:
        """Prepare; nothing runs yet. `binary` is another program, for a control."""
        self._ack_wait_ns = ack_wait_ns
        self._rng = random.Random(seed)
        self._store = directory / "store"
        self._encrypted = encrypted
        config = f'jetstream {{\n store_dir: "{self._store}"\n {f"key: {KEY}" if encrypted else ""}\n}}\n'
        self._server = ServerProcess(binary or server_binary("ours"), directory, config=config)
        self._server.start_timeout_s = START_S
        self.workers = [Worker(stream, seed * 100 + number) for number, stream in enumerate(STREAMS)]
        self.cycles = 0
        self.letters = 0
        self.broken: list[str] = []
        self.readable: list[str] = []

    def search(self) -> list[str]:
        """Where something of what was stored, a name or a key can be read: in files, their names and the log."""
        return told(of_directory(self._store), WORDS, KEY.encode(), self._server.log_lines)

    def run(self, cycles: int, *, most_s: float = 0.5) -> None:
        """Let the server die that often, then read everything that is left."""
        self._server.start()
        self._make()
        try:
            for _ in range(cycles):
                self._live_and_die(self._rng.uniform(0.05, most_s))
                self.cycles += 1
                self._server.start()
            self._read_the_rest()
        except ServerStartError as error:
            self.broken.append(f"a start was refused: {str(error)[-500:]}")
        finally:
            self._server.end()
            self.readable = self.search() if self._encrypted else []
            self.broken += self.readable
        for worker in self.workers:
            self.broken += worker.promises.broken

    def _live_and_die(self, pause_s: float) -> None:
        threads = [threading.Thread(target=worker.run, args=(self._server.url,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        time.sleep(pause_s)  # the moment of death, not a wait for anything
        self._server.kill()
        for thread in threads:
            thread.join()

    def _make(self) -> None:
        with WireClient(self._server.url) as client:
            _call(client, f"STREAM.CREATE.{DEAD}", {"name": DEAD, "subjects": [f"{DEAD}.>"]})
            for stream, retention in STREAMS.items():
                _call(
                    client,
                    f"STREAM.CREATE.{stream}",
                    {"name": stream, "subjects": [f"{stream}.>"], "retention": retention},
                )
                config = {
                    "durable_name": "C",
                    "name": "C",
                    "ack_policy": "explicit",
                    "ack_wait": self._ack_wait_ns,
                    "max_ack_pending": -1,
                    "metadata": {"slipstream.dlq": f"{DEAD}.{stream}"},
                }
                _call(client, f"CONSUMER.CREATE.{stream}.C", {"stream_name": stream, "config": config})

    # --- the end ---

    def _read_the_rest(self) -> None:
        with WireClient(self._server.url, WireOptions(timeout_ns=30 * SECOND_NS)) as client:
            for worker in self.workers:
                self._check_stream(client, worker.stream, worker.promises)
            self._check_letters(client)

    def _check_stream(self, client: WireClient, stream: str, promises: Promises) -> None:
        came = drain(client, stream, "C", wait_ns=2 * self._ack_wait_ns)
        again = came & (promises.confirmed | promises.buried)
        missing = promises.published - promises.acked - promises.ended - came
        self.broken += [f"{stream}: {seq} was confirmed and came again" for seq in sorted(again)]
        self.broken += [f"{stream}: {seq} was not acknowledged and did not come" for seq in sorted(missing)]
        info = _call(client, f"CONSUMER.INFO.{stream}.C", None)
        if info["num_pending"] or info["num_ack_pending"]:
            self.broken.append(f"{stream}: the consumer is stuck: {info}")
        left = _call(client, f"STREAM.INFO.{stream}", None)["state"]["messages"]
        if STREAMS[stream] != "limits" and left:
            self.broken.append(f"{stream}: {left} acknowledged messages are left over")

    def _check_letters(self, client: WireClient) -> None:
        _call(
            client,
            f"CONSUMER.CREATE.{DEAD}.R",
            {"stream_name": DEAD, "config": {"name": "R", "ack_policy": "explicit"}},
        )
        found: Counter[tuple[str, int]] = Counter()
        for message in drained(client, DEAD, "R", wait_ns=self._ack_wait_ns):
            fields = dict(line.split(b": ", 1) for line in message.header.split(b"\r\n") if b": " in line)
            found[fields[b"Slipstream-Dlq-Stream"].decode(), int(fields[b"Slipstream-Dlq-Sequence"])] += 1
        self.letters = found.total()
        self.broken += [f"dead letter {key} is there {count} times" for key, count in found.items() if count > 1]
        for worker in self.workers:
            stream, promises = worker.stream, worker.promises
            for seq in sorted(promises.buried):
                if (stream, seq) not in found:
                    self.broken.append(f"{stream}: {seq} was terminated and has no dead letter")
            for name, seq in found:
                if name == stream and seq not in promises.ended:
                    self.broken.append(f"{stream}: {seq} was not terminated and has a dead letter")


def drained(client: WireClient, stream: str, consumer: str, *, wait_ns: int) -> list[Message]:
    """Everything a consumer gives until it gives nothing for so long; all of it is acknowledged."""
    client.subscribe(f"drain.{stream}")
    found: list[Message] = []
    while True:
        body = json.dumps({"batch": 500, "expires": wait_ns}).encode()
        client.publish(f"{_API}CONSUMER.MSG.NEXT.{stream}.{consumer}", body, reply=f"drain.{stream}")
        got = 0
        while True:
            message = client.next_message(wait_ns + 20 * SECOND_NS)
            if message.reply.startswith("$JS.ACK."):
                found.append(message)
                got += 1
                client.request(message.reply, b"+ACK")
                if got == 500:
                    break
            elif message.header.startswith(b"NATS/1.0 "):
                break
        if not got:
            return found


def drain(client: WireClient, stream: str, consumer: str, *, wait_ns: int) -> set[int]:
    """The same as sequences."""
    return {sequence(message) for message in drained(client, stream, consumer, wait_ns=wait_ns)}


def _call(client: WireClient, subject: str, body: dict[str, object] | None) -> dict[str, object]:
    answer: dict[str, object] = json.loads(
        client.request(f"{_API}{subject}", json.dumps(body).encode() if body is not None else b"").payload
    )
    assert "error" not in answer, answer
    return answer
