"""Jobs that send requests to JetStream, many at a time: publishes that want acks, and questions to the API.

A connection keeps at most `window` requests unanswered. What comes back is counted, not read: whether the answers say
what they should is checked afterwards, by their sizes here and by the state of the streams where jobs are combined.

The frames of all requests are made before the clock starts. Each has a reply subject of its own under the inbox of its
connection, as clients do it; after `_DISTINCT_REPLIES` the subjects repeat, which is more than servers cache.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from slipstream.client.limits import LOAD_TIMEOUT_NS
from slipstream.client.line import Line
from slipstream.client.load import Lines, Runner, Tally
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.kernels.client.pubframes import encode_pubs
from slipstream.kernels.client.serverscan import Scanner

__all__ = ["Asking", "request_frames"]

_DISTINCT_REPLIES = 32_768
_CHUNKS_A_WINDOW = 8  # a full window goes out in so many sends, so that server and client work at the same time
_CHUNK_MAX = 512  # requests in one send


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Send requests in rotation on every connection, and wait for an answer to each."""

    url: str
    requests: tuple[tuple[str, bytes], ...]  # subject and payload; connections begin at different places
    messages: int  # a connection
    window: int = 1  # requests of a connection that may be unanswered
    connections: int = 1
    answer_bytes_min: int = 0  # smaller answers on average mean that something else was said
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect, subscribe to the answers and make the frames."""
        return _Asker(self)


def request_frames(requests: Sequence[tuple[str, bytes]], inbox: str, count: int) -> list[bytes]:
    """Return `count` PUB frames in rotation, each with a reply subject of its own."""
    rotation = islice(cycle(requests), count)
    return [
        encode_pubs(subject.encode(), payload, 1, b"%b.%d" % (inbox.encode(), number))
        for number, (subject, payload) in enumerate(rotation)
    ]


class _Course:
    """The requests of one connection, as chunks that are sent again and again."""

    def __init__(self, job: Asking, number: int) -> None:
        begin = number * len(job.requests) // job.connections
        turned = job.requests[begin:] + job.requests[:begin]
        distinct = max(_DISTINCT_REPLIES // job.connections, 1)
        # Whole rounds, so that the rotation goes on where it stopped.
        distinct = -(-min(distinct, job.messages) // len(turned)) * len(turned)
        size = max(min(job.window // _CHUNKS_A_WINDOW, _CHUNK_MAX), 1)
        frames = request_frames(turned, f"_INBOX.{number}", distinct)
        self._chunks = [b"".join(frames[at : at + size]) for at in range(0, distinct, size)]
        self._sizes = [len(frames[at : at + size]) for at in range(0, distinct, size)]
        whole, rest = divmod(job.messages, distinct)
        self._frames_of_rest = frames[:rest]
        self._rounds = whole
        self._chunk_size = size

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Frames to send, and how many they are."""
        for _ in range(self._rounds):
            yield from zip(self._chunks, self._sizes, strict=True)
        for at in range(0, len(self._frames_of_rest), self._chunk_size):
            part = self._frames_of_rest[at : at + self._chunk_size]
            yield b"".join(part), len(part)


class _Stream:
    """One connection at work."""

    def __init__(self, line: Line, course: _Course, window: int) -> None:
        self.line = line
        self._course = iter(course)
        self._next = next(self._course, None)
        self._window = window
        self._sent = 0

    @property
    def done(self) -> bool:
        """Everything was sent and answered."""
        return self._next is None and self.line.scanner.messages >= self._sent

    def send_what_fits(self) -> None:
        """Fill the window."""
        while self._next is not None and self._sent - self.line.scanner.messages + self._next[1] <= self._window:
            frames, count = self._next
            self.line.send(frames)
            self._sent += count
            self._next = next(self._course, None)


class _Asker:
    def __init__(self, job: Asking) -> None:
        if job.messages < 0 or job.window < 1 or not job.requests:
            raise ClientError("requests, a window and a number of messages are needed")
        self._job = job
        self._lines = Lines(job.url, [Scanner() for _ in range(job.connections)], job.timeout_ns)
        try:
            for number, line in enumerate(self._lines.lines):
                line.subscribe([f"_INBOX.{number}.*"], "", self._lines.buffer)
            self._streams = [
                _Stream(line, _Course(job, number), job.window) for number, line in enumerate(self._lines.lines)
            ]
        except BaseException:
            self._lines.close()
            raise

    def run(self) -> Tally:
        self._lines.start()
        for stream in self._streams:
            stream.send_what_fits()
        if len(self._streams) == 1:
            self._run_blocking(self._streams[0])
        else:
            self._run_multiplexed()
        scanners = [line.scanner for line in self._lines.lines]
        tally = self._lines.tally(sum(s.messages for s in scanners), sum(s.payload_bytes for s in scanners))
        if tally.payload_bytes < tally.messages * self._job.answer_bytes_min:
            raise ClientError(f"{tally.messages} answers have {tally.payload_bytes} bytes: not what was asked for")
        return tally

    def close(self) -> None:
        self._lines.close()

    def _run_blocking(self, stream: _Stream) -> None:
        buffer, line = self._lines.buffer, stream.line
        try:
            while not stream.done:
                line.receive(buffer)
                stream.send_what_fits()
        except ClientTimeout as error:
            raise ClientTimeout(f"{error}; {line.scanner.messages} of {self._job.messages} answers came") from error

    def _run_multiplexed(self) -> None:
        buffer = self._lines.buffer
        working = {stream.line.fileno(): stream for stream in self._streams if not stream.done}
        with select.epoll() as epoll:
            for stream in working.values():
                epoll.register(stream.line, select.EPOLLIN)
            while working:
                ready = epoll.poll(self._job.timeout_ns / 1e9)
                if not ready:
                    raise ClientTimeout(f"nothing came for {self._job.timeout_ns / 1e9:g} s")
                for number, _ in ready:
                    stream = working[number]
                    stream.line.receive_ready(buffer)
                    stream.send_what_fits()
                    if stream.done:
                        del working[number]
                        epoll.unregister(number)
