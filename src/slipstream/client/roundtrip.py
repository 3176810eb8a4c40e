"""Jobs that send requests one after the other, and that answer them.

The loops are as short as they can be, because what is measured is the way through the server and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

from slipstream import limits
from slipstream.client.load import Lines, Runner, Tally
from slipstream.client.options import ClientError, ClientTimeout, NoResponders
from slipstream.kernels.loadgen import Scanner, encode_pubs

__all__ = ["Replying", "Requesting"]


@dataclass(frozen=True, kw_only=True)
class Requesting:
    """Send a request, wait for its reply, and again."""

    url: str
    subject: str
    inbox: str  # where the replies go; a different subject for every requester
    messages: int
    size: int
    timeout_ns: int = limits.LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect and subscribe to the replies."""
        return _Requester(self)


@dataclass(frozen=True, kw_only=True)
class Replying:
    """Answer requests until there were `messages` of them."""

    url: str
    subject: str
    messages: int
    size: int  # of the replies
    queue: str = ""
    timeout_ns: int = limits.LOAD_TIMEOUT_NS

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
        try:
            self._lines.lines[0].subscribe([job.inbox], "", self._lines.buffer)
        except BaseException:
            self._lines.close()
            raise

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
        self._lines = Lines(job.url, [Scanner(reply_payload=b"x" * job.size)], job.timeout_ns)
        try:
            self._lines.lines[0].subscribe([job.subject], job.queue, self._lines.buffer)
        except BaseException:
            self._lines.close()
            raise

    def run(self) -> Tally:
        line, buffer, wanted = self._lines.lines[0], self._lines.buffer, self._job.messages
        scanner = line.scanner
        self._lines.start()
        self._answer()
        try:
            while scanner.messages < wanted:
                line.receive(buffer)
                self._answer()
        except ClientTimeout as error:
            raise ClientTimeout(f"{error}; {scanner.messages} of {wanted} requests came") from error
        line.flush(buffer)
        return self._lines.tally(scanner.messages, scanner.payload_bytes)

    def close(self) -> None:
        self._lines.close()

    def _answer(self) -> None:
        replies = self._lines.lines[0].scanner.take_replies()
        if replies:
            self._lines.lines[0].send(replies)
