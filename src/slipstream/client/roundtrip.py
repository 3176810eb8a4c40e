"""Jobs that send requests one after the other, and that answer them.

The loops are as short as they can be, because what is measured is the way through the server and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

from slipstream.client.limits import LOAD_TIMEOUT_NS
from slipstream.client.line import Line
from slipstream.client.load import Lines, Runner, Tally
from slipstream.client.options import ClientError, NoResponders
from slipstream.kernels.client.pubframes import encode_pubs
from slipstream.kernels.client.serverscan import Scanner

__all__ = ["Replying", "Requesting"]


@dataclass(frozen=True, kw_only=True)
class Requesting:
    """Send a request, wait for its reply, and again."""

    url: str
    subject: str
    inbox: str  # where the replies go; a different subject for every requester
    messages: int
    size: int
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect and subscribe to the replies."""
        return _Requester(self)


@dataclass(frozen=True, kw_only=True)
class Replying:
    """Answer requests until there were `messages` of them, on all connections together."""

    url: str
    subject: str
    messages: int
    size: int  # of the replies
    queue: str = ""  # with several connections, a queue group gives a request to one of them
    connections: int = 1
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect and subscribe."""
        return _Replier(self)


class _Requester:
    def __init__(self, job: Requesting) -> None:
        if job.messages < 0 or job.size < 0:
            raise ClientError("a number of requests or a size is negative")
        self._job = job
        self._request = encode_pubs(job.subject.encode(), b"x" * job.size, 1, job.inbox.encode())
        self._lines = Lines(job.url, [Scanner()], job.timeout_ns)
        self._lines.subscribe([[job.inbox]])

    @property
    def done(self) -> int:
        return self._lines.received

    def run(self) -> Tally:
        line, buffer, request = self._lines.lines[0], self._lines.buffer, self._request
        scanner = line.scanner
        latencies_ns = []
        self._lines.start()
        for answered in range(1, self._job.messages + 1):
            sent_ns = perf_counter_ns()
            line.send(request)
            while scanner.messages < answered:
                line.receive(buffer)
            latencies_ns.append(perf_counter_ns() - sent_ns)
            if scanner.header_messages:
                raise NoResponders(f"no responders on {self._job.subject!r}")
        return self._lines.tally(scanner.messages, scanner.payload_bytes, latencies_ns)

    def close(self) -> None:
        self._lines.close()


class _Replier:
    def __init__(self, job: Replying) -> None:
        if job.messages < 0 or job.size < 0:
            raise ClientError("a number of requests or a size is negative")
        self._job = job
        payload = b"x" * job.size
        scanners = [Scanner(reply_payload=payload) for _ in range(job.connections)]
        self._lines = Lines(job.url, scanners, job.timeout_ns)
        self._lines.subscribe([[job.subject]] * job.connections, job.queue)

    @property
    def done(self) -> int:
        return self._lines.received

    def run(self) -> Tally:
        lines = self._lines.lines
        self._lines.start_with_first_message()
        for line in lines:
            _answer(line)
        self._lines.receive(self._job.messages, each=False, react=_answer)
        for line in lines:
            line.flush(self._lines.buffer)
            _answer(line)
        return self._lines.tally_received()

    def close(self) -> None:
        self._lines.close()


def _answer(line: Line) -> None:
    replies = line.scanner.take_replies()
    if replies:
        line.send(replies)
