"""Jobs that publish and receive as many messages as the server takes.

Many connections share one process through epoll; a single connection blocks, which saves a system call a chunk. The
payloads are equal bytes, encoded once; the receiver counts by the sizes in the heads.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from slipstream.client.limits import LOAD_TIMEOUT_NS
from slipstream.client.line import Line
from slipstream.client.load import Lines, Runner, Tally
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.kernels.client.pubframes import encode_pubs
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import KIB

__all__ = ["PublishLoad", "Receiving", "publish_frames"]

_SEND_BYTES = 128 * KIB  # large enough that system calls do not count, small enough to stay in the cache
_LOOK_EVERY = 64  # chunks a blocking sender sends between two looks at what the server says


@dataclass(frozen=True, kw_only=True)
class PublishLoad:
    """Publish on one connection for each entry of `subjects`; a connection rotates over the subjects of its entry."""

    url: str
    subjects: tuple[tuple[str, ...], ...]
    messages: int  # a connection
    size: int
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect."""
        return _Publisher(self)


@dataclass(frozen=True, kw_only=True)
class Receiving:
    """Receive on one connection for each entry of `subjects`, which has the subscriptions of that connection.

    With a queue group nobody knows how many messages one connection will get, so then `messages` is the sum over all.
    """

    url: str
    subjects: tuple[tuple[str, ...], ...]
    messages: int  # a connection; the run ends when every connection has got at least that many
    queue: str = ""
    timeout_ns: int = LOAD_TIMEOUT_NS

    def prepare(self) -> Runner:
        """Connect and subscribe."""
        return _Receiver(self)


def publish_frames(subjects: Sequence[str], size: int, messages: int) -> bytes:
    """Return PUB frames that rotate over the subjects, the payloads `size` bytes of x."""
    payload = b"x" * size
    if len(subjects) == 1:
        return encode_pubs(subjects[0].encode(), payload, messages)
    rounds, rest = divmod(messages, len(subjects))
    frames = [encode_pubs(subject.encode(), payload, 1) for subject in subjects]
    return b"".join(frames) * rounds + b"".join(frames[:rest])


def _chunks(subjects: Sequence[str], size: int, messages: int) -> Iterator[memoryview]:
    """All frames of one connection: one chunk of whole rounds again and again, then the rest."""
    frame_size = len(publish_frames(subjects[:1], size, 1))
    chunk = max(_SEND_BYTES // frame_size // len(subjects), 1) * len(subjects)
    times, rest = divmod(messages, chunk)
    view = memoryview(publish_frames(subjects, size, chunk if times else 0))
    tail = memoryview(publish_frames(subjects, size, rest))
    return chain(repeat(view, times), repeat(tail, 1 if rest else 0))


class _Publisher:
    def __init__(self, job: PublishLoad) -> None:
        if job.messages < 0 or job.size < 0 or not all(job.subjects):
            raise ClientError("publishing needs a subject for every connection, and no negative numbers")
        self._job = job
        self._sent_bytes = 0
        self._frame_bytes = len(publish_frames(job.subjects[0][:1], job.size, 1)) if job.subjects else 1
        self._lines = Lines(job.url, [Scanner() for _ in job.subjects], job.timeout_ns)

    @property
    def done(self) -> int:
        return self._sent_bytes // self._frame_bytes

    def run(self) -> Tally:
        job, lines = self._job, self._lines.lines
        work = [_chunks(subjects, job.size, job.messages) for subjects in job.subjects]
        self._lines.start()
        if len(lines) == 1:
            self._send_blocking(lines[0], work[0])
        else:
            self._send_multiplexed(work)
        for line in lines:
            line.flush(self._lines.buffer)
        messages = job.messages * len(lines)
        return self._lines.tally(messages, messages * job.size)

    def close(self) -> None:
        self._lines.close()

    def _send_blocking(self, line: Line, chunks: Iterator[memoryview]) -> None:
        for count, chunk in enumerate(chunks, 1):
            line.send(chunk)
            self._sent_bytes += len(chunk)
            if count % _LOOK_EVERY == 0:
                line.receive_ready(self._lines.buffer)

    def _send_multiplexed(self, work: Sequence[Iterator[memoryview]]) -> None:
        with select.epoll() as epoll:
            sending: dict[int, tuple[Line, memoryview, Iterator[memoryview]]] = {}
            for line, chunks in zip(self._lines.lines, work, strict=True):
                for first in chunks:
                    sending[line.fileno()] = line, first, chunks
                    epoll.register(line, select.EPOLLOUT | select.EPOLLIN)
                    break
            while sending:
                ready = epoll.poll(self._job.timeout_ns / 1e9)
                if not ready:
                    raise ClientTimeout(f"the server took nothing for {self._job.timeout_ns / 1e9:g} s")
                for descriptor, events in ready:
                    line, chunk, chunks = sending[descriptor]
                    if events & ~select.EPOLLOUT:
                        line.receive_ready(self._lines.buffer)
                    sent = line.send_some(chunk)
                    self._sent_bytes += sent
                    left = chunk[sent:] or next(chunks, memoryview(b""))
                    if left:
                        sending[descriptor] = line, left, chunks
                    else:
                        del sending[descriptor]
                        epoll.unregister(descriptor)


class _Receiver:
    def __init__(self, job: Receiving) -> None:
        if job.messages < 0 or not all(job.subjects):
            raise ClientError("receiving needs a subscription for every connection and a number of messages")
        self._job = job
        self._lines = Lines(job.url, [Scanner() for _ in job.subjects], job.timeout_ns)
        self._lines.subscribe(job.subjects, job.queue)

    @property
    def done(self) -> int:
        return self._lines.received

    def run(self) -> Tally:
        self._lines.start_with_first_message()
        self._lines.receive(self._job.messages, each=not self._job.queue)
        return self._lines.tally_received()

    def close(self) -> None:
        self._lines.close()
