"""A process full of bench clients, as a job of `workers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slipstream.client.bench.course import Course
from slipstream.client.bench.loop import drive
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.load import Runner, Tally
from slipstream.client.options import ClientError, ClientTimeout
from slipstream.client.wire import WireClient

__all__ = ["Bench", "BenchTally"]


@dataclass(frozen=True, kw_only=True)
class BenchTally(Tally):
    """What all clients of a process did, and what each of them did."""

    clients: tuple[Tally, ...]

    @classmethod
    def over(cls, clients: Sequence[Tally]) -> BenchTally:
        """Sum up."""
        return cls(
            messages=sum(client.messages for client in clients),
            payload_bytes=sum(client.payload_bytes for client in clients),
            started_ns=min(client.started_ns for client in clients),
            ended_ns=max(client.ended_ns for client in clients),
            clients=tuple(clients),
        )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Run a client for each course."""

    connect: Callable[[], WireClient]  # a function that can be sent to another process
    courses: tuple[Course, ...]
    wanted: int  # messages of all courses
    timeout_ns: int

    def prepare(self) -> Runner:
        """Connect and subscribe all."""
        return _Benching(self)


class _Benching:
    def __init__(self, job: Bench) -> None:
        self._job = job
        self._peers: list[BenchPeer] = []
        try:
            for course in job.courses:
                self._peers.append(BenchPeer(job.connect(), counts=course.counts))
            setups = [course.setup(peer) for course, peer in zip(job.courses, self._peers, strict=True)]
            drive(self._peers, setups, job.timeout_ns)
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> int:
        return sum(_done(peer) for peer in self._peers)

    def run(self) -> BenchTally:
        courses = [course.run(peer) for course, peer in zip(self._job.courses, self._peers, strict=True)]
        try:
            tallies = drive(self._peers, courses, self._job.timeout_ns)
        except ClientTimeout as error:
            raise ClientTimeout(f"{error}; {self.done:,} of {self._job.wanted:,} messages were done") from error
        finished = [tally for tally in tallies if tally is not None]
        if len(finished) < len(tallies):
            raise ClientError("a client ended without a result")
        return BenchTally.over(finished)

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


def _done(peer: BenchPeer) -> int:
    return peer.scanner.messages if peer.scanner is not None else peer.done
