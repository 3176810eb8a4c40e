"""Jobs that read streams as clients do: fetches one after the other, pulls that overlap, a deliver subject.

A reader counts what comes and answers only what has to be answered: acks if asked to, and requests of flow control. The
consumers exist already; the subjects to pull from or listen on are the caller's.

Invariant: a run ends when exactly the wanted number of messages has come. Statuses are told apart by their headers, so
the messages of the stream must have none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import monotonic_ns

from slipstream.client.limits import LOAD_TIMEOUT_NS
from slipstream.client.line import Line
from slipstream.client.load import Lines, Runner, Tally
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.kernels.client.pubframes import encode_pubs
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import SECOND_NS

__all__ = ["Awaiting", "Listening", "Pulling"]

_ACK = b"+ACK"
_FLOW = b" $JS.FC."
_FLOW_SUBJECT_MAX = 600  # bytes of a head that may be cut by the end of a read
_EXPIRES_NS = 30 * SECOND_NS


@dataclass(frozen=True, kw_only=True)
class Pulling:
    """Read from a pull consumer: the next request goes out when at most `left` messages of the last one are to come."""

    url: str
    stream: str
    consumer: str
    messages: int
    batch: int = 1_000
    left: int = 0  # 0: one fetch after the other
    acks: bool = False
    heartbeat_ns: int = 0
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect and listen on an inbox."""
        return _Puller(self)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Read what a push consumer delivers, and answer its flow control. It begins to deliver when the run begins."""

    url: str
    subject: str
    messages: int
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect; the subscription is what lets the consumer begin."""
        return _Listener(self)


@dataclass(frozen=True, kw_only=True)
class Awaiting:
    """Wait in a pull for a message, publish it on a second connection, and time how long it takes; again and again."""

    url: str
    stream: str
    consumer: str
    subject: str  # to publish on
    size: int
    messages: int
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect twice."""
        return _Waiter(self)


class _Reader:
    """One connection that receives, with the answers it owes."""

    def __init__(self, url: str, *, acks: bool, timeout_ns: int) -> None:
        self.lines = Lines(url, [Scanner(reply_payload=_ACK if acks else None)], timeout_ns)
        self.line: Line = self.lines.lines[0]
        self._acks = acks

    @property
    def received(self) -> int:
        """Messages of the stream so far."""
        return self.line.scanner.messages - self.line.scanner.header_messages

    def receive(self) -> None:
        self.line.receive(self.lines.buffer)
        if self._acks and (answers := self.line.scanner.take_replies()):
            self.line.send(answers)

    def tally(self) -> Tally:
        return self.lines.tally(self.received, self.line.scanner.payload_bytes)


class _Puller:
    def __init__(self, job: Pulling) -> None:
        if job.messages < 1 or job.batch < 1 or not 0 <= job.left < job.batch:
            raise ClientError("pulling needs messages, a batch, and less than a batch left over")
        self._job = job
        self._reader = _Reader(job.url, acks=job.acks, timeout_ns=job.timeout_ns)
        try:
            self._reader.line.subscribe(["_INBOX.pull.*"], "", self._reader.lines.buffer)
        except BaseException:
            self._reader.lines.close()
            raise
        self._asked = 0
        self._requests = 0

    def run(self) -> Tally:
        job, reader = self._job, self._reader
        reader.lines.start()
        try:
            while reader.received < job.messages:
                if self._asked < job.messages and self._asked - reader.received <= job.left:
                    self._ask(min(job.batch, job.messages - self._asked))
                reader.receive()
        except ClientTimeout as error:
            raise ClientTimeout(f"{error}; {reader.received} of {job.messages} messages came") from error
        tally = reader.tally()
        # Acks are part of the work: the server has handled all of them when it answers this.
        reader.line.flush(reader.lines.buffer)
        return reader.tally() if job.acks else tally

    def _ask(self, batch: int) -> None:
        self._requests += 1
        self._asked += batch
        body: dict[str, int] = {"batch": batch, "expires": _EXPIRES_NS}
        if self._job.heartbeat_ns:
            body["idle_heartbeat"] = self._job.heartbeat_ns
        target = f"$JS.API.CONSUMER.MSG.NEXT.{self._job.stream}.{self._job.consumer}"
        reply = b"_INBOX.pull.%d" % self._requests
        self._reader.line.send(encode_pubs(target.encode(), json.dumps(body).encode(), 1, reply))

    def close(self) -> None:
        self._reader.lines.close()


class _Listener:
    def __init__(self, job: Listening) -> None:
        self._job = job
        self._reader = _Reader(job.url, acks=False, timeout_ns=job.timeout_ns)
        self._rest = b""  # end of the last read: a request of flow control may be cut there

    def run(self) -> Tally:
        job, reader = self._job, self._reader
        reader.lines.start()
        reader.line.send(f"SUB {job.subject} 1\r\n".encode())
        line, buffer = reader.line, reader.lines.buffer
        try:
            while reader.received < job.messages:
                size = line.receive_bytes(buffer)
                self._answer_flow(buffer, size)
        except ClientTimeout as error:
            raise ClientTimeout(f"{error}; {reader.received} of {job.messages} messages came") from error
        return reader.tally()

    def _answer_flow(self, buffer: bytearray, size: int) -> None:
        """Answer every request of flow control that is now complete; the answer says: all before it was read."""
        cut = self._rest + bytes(buffer[: min(size, _FLOW_SUBJECT_MAX)])
        for found in (_flow_subject(cut, len(cut), len(self._rest)), _flow_subject(buffer, size, 0)):
            if found:
                self._reader.line.send(b"PUB %b 0\r\n\r\n" % found)
        self._rest = bytes(buffer[max(size - _FLOW_SUBJECT_MAX, 0) : size])

    def close(self) -> None:
        self._reader.lines.close()


def _flow_subject(data: bytes | bytearray, end: int, before: int) -> bytes:
    """The last flow control subject; with `before`, only one that begins before and ends after that place."""
    at = data.rfind(_FLOW, 0, end)
    if at < 0 or (before and at >= before):
        return b""
    stop = data.find(b" ", at + 1, end)
    if stop < 0 or (before and stop <= before):
        return b""
    return bytes(data[at + 1 : stop])


class _Waiter:
    def __init__(self, job: Awaiting) -> None:
        self._job = job
        self._lines = Lines(job.url, [Scanner(), Scanner()], job.timeout_ns)
        try:
            self._lines.lines[0].subscribe(["_INBOX.wait.*"], "", self._lines.buffer)
        except BaseException:
            self._lines.close()
            raise

    def run(self) -> Tally:
        job, buffer = self._job, self._lines.buffer
        reader, writer = self._lines.lines
        target = f"$JS.API.CONSUMER.MSG.NEXT.{job.stream}.{job.consumer}".encode()
        body = json.dumps({"batch": 1, "expires": _EXPIRES_NS}).encode()
        frame = encode_pubs(job.subject.encode(), b"x" * job.size, 1)
        latencies = []
        self._lines.start()
        for number in range(1, job.messages + 1):
            reader.send(encode_pubs(target, body, 1, b"_INBOX.wait.%d" % number))
            reader.flush(buffer)
            sent_ns = monotonic_ns()
            writer.send(frame)
            while reader.scanner.messages < number:
                reader.receive(buffer)
            latencies.append(monotonic_ns() - sent_ns)
        if reader.scanner.header_messages:
            raise ClientError(f"{reader.scanner.header_messages} pulls were answered with a status")
        return self._lines.tally(job.messages, job.messages * job.size, latencies)

    def close(self) -> None:
        self._lines.close()
