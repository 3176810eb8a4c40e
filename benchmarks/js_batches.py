"""Publish batches: fast ones, which are acknowledged every so many messages, and atomic ones, stored as a whole.

All frames are made before the clock starts, so the publisher does nothing but send and count answers. A fast batch
publishes as clients do by default: an ack every hundred messages, and at most two of them under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.growth_case import JETSTREAM, call
from benchmarks.js_streams import StreamAdmin
from benchmarks.scenario import Bar, Claim, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.limits import LOAD_TIMEOUT_NS
from slipstream.client.load import Lines, Tally
from slipstream.client.wire import WireClient
from slipstream.client.workers import run_together
from slipstream.kernels.client.serverscan import Scanner

__all__ = ["SCENARIOS", "AtomicBatching", "FastBatching"]

MESSAGES = 200_000
FLOW = 100  # messages to an ack of a fast batch
ACKS_UNDER_WAY = 2
SECONDS_A_RUN = 3.0  # slow runs are cut to about this
BATCH = 100  # messages of an atomic batch
BATCHES_UNDER_WAY = 10
_PAYLOAD = b"x" * 128
_SUBJECT = b"BENCH.a"
_SYNCED = ("-c", str(Path(__file__).resolve().parent / "configs" / "sync_always.conf"))


@dataclass(frozen=True, kw_only=True)
class FastBatching:
    """One fast batch of `acks * FLOW + 1` messages."""

    url: str
    name: str  # of the batch
    acks: int

    def prepare(self) -> _Publisher:
        """Connect, subscribe to the answers and make the frames."""
        total = self.acks * FLOW + 1
        frames = [
            b"PUB %b _INBOX.%b.%d.fail.%d.%d.$FI %d\r\n%b\r\n"
            % (_SUBJECT, self.name.encode(), FLOW, seq, _operation(seq, total), len(_PAYLOAD), _PAYLOAD)
            for seq in range(1, total + 1)
        ]
        chunks = [b"".join(frames[at : at + FLOW]) for at in range(0, total, FLOW)]
        # The start is answered at once, then every hundredth, then the commit.
        return _Publisher(self.url, chunks, answers_before=1, window=ACKS_UNDER_WAY, answers=self.acks + 2)


def _operation(seq: int, total: int) -> int:
    return 2 if seq == total else 0 if seq == 1 else 1


@dataclass(frozen=True, kw_only=True)
class AtomicBatching:
    """So many atomic batches of `BATCH` messages, of which only the commits are answered."""

    url: str
    name: str
    batches: int

    def prepare(self) -> _Publisher:
        """Connect, subscribe to the answers and make the frames."""
        chunks = [self._frames(f"{self.name}{number}") for number in range(self.batches)]
        return _Publisher(self.url, chunks, answers_before=0, window=BATCHES_UNDER_WAY, answers=self.batches)

    def _frames(self, name: str) -> bytes:
        frames = []
        for seq in range(1, BATCH + 1):
            last = seq == BATCH
            header = f"NATS/1.0\r\nNats-Batch-Id: {name}\r\nNats-Batch-Sequence: {seq}\r\n"
            header += "Nats-Batch-Commit: 1\r\n\r\n" if last else "\r\n"
            reply = b" _INBOX.%b" % name.encode() if last else b""
            sizes = b"%d %d" % (len(header), len(header) + len(_PAYLOAD))
            frames.append(b"HPUB %b%b %b\r\n%b%b\r\n" % (_SUBJECT, reply, sizes, header.encode(), _PAYLOAD))
        return b"".join(frames)


class _Publisher:
    """Sends chunks, each of which is answered once, and keeps few of them unanswered."""

    def __init__(self, url: str, chunks: list[bytes], *, answers_before: int, window: int, answers: int) -> None:
        self._chunks = chunks
        self._before = answers_before
        self._window = window
        self._answers = answers
        self._lines = Lines(url, [Scanner()], LOAD_TIMEOUT_NS)
        self._lines.lines[0].subscribe(["_INBOX.>"], "", self._lines.buffer)

    def run(self) -> Tally:
        (line,) = self._lines.lines
        scanner, buffer = line.scanner, self._lines.buffer
        self._lines.start()
        for sent, chunk in enumerate(self._chunks):
            while sent - (scanner.messages - self._before) >= self._window:
                line.receive(buffer)
            line.send(chunk)
        while scanner.messages < self._answers:
            line.receive(buffer)
        return self._lines.tally(scanner.messages, scanner.payload_bytes)

    def close(self) -> None:
        self._lines.close()


def _make(url: str) -> None:
    config = {"name": "BENCH", "subjects": ["BENCH.>"], "allow_batched": True, "allow_atomic": True}
    with WireClient(url) as client:
        call(client, "STREAM.CREATE.BENCH", config)


def _fast(server: Server, scale: Scale) -> Sequence[float]:
    def run(name: str, acks: int) -> float:
        (tally,) = run_together([FastBatching(url=server.url, name=name, acks=acks)])
        return acks * FLOW / tally.seconds

    _make(server.url)
    few, many = _counts(run, scale, FLOW)
    rate = run("b", many)
    StreamAdmin(server.url).check("BENCH", (few + many) * FLOW + 2)
    return [rate / 1e3]


def _atomic(server: Server, scale: Scale) -> Sequence[float]:
    def run(name: str, batches: int) -> float:
        (tally,) = run_together([AtomicBatching(url=server.url, name=name, batches=batches)])
        return batches * BATCH / tally.seconds

    _make(server.url)
    few, many = _counts(run, scale, BATCH)
    rate = run("b", many)
    StreamAdmin(server.url).check("BENCH", (few + many) * BATCH)
    return [rate / 1e3]


def _counts(run: Callable[[str, int], float], scale: Scale, size: int) -> tuple[int, int]:
    """How many groups of `size` messages warmed the server up, and how many are a few seconds' work."""
    few = max(scale.of(MESSAGES) // size // 20, 1)
    affordable = int(run("w", few) * SECONDS_A_RUN / scale.value)
    return few, min(max(affordable // size, few), scale.of(MESSAGES) // size)


def _both(name: str, title: str, run: Callable[[Server, Scale], Sequence[float]]) -> list[Scenario]:
    own = Row(f"{title}, each as it comes (ours synced)", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 0.5))
    both = Row(f"{title}, both synced", "k msg/s", Bar(Claim.RATIO_AT_LEAST, 2.0))
    return [
        Scenario(name, (own,), run, JETSTREAM),
        Scenario(f"{name}-synced", (both,), run, (*JETSTREAM, *_SYNCED)),
    ]


SCENARIOS = (
    *_both("js-fast-batch", f"fast batch, an ack every {FLOW} messages", _fast),
    *_both("js-atomic-batch", f"atomic batches of {BATCH}", _atomic),
)
