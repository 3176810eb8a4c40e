"""Hours of mixed load on one server: does it lose messages, does its memory grow?

    python -m benchmarks.soak --minutes 60 [--server PROGRAM] [--rate 50000]

Prints a line of memory every few seconds and a verdict at the end; exits with 1 when messages were lost or repeated,
or memory grew.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic

import click

from benchmarks.servers import Server
from benchmarks.soak_load import Churning, SoakPublishing, SoakReceiving, SoakTally
from slipstream.client.limits import LOAD_RUN_TIMEOUT_NS
from slipstream.client.options import ClientError
from slipstream.client.workers import run_together
from slipstream.units import MIB, MINUTE_NS, SECOND_NS

_GROWTH_MAX = 1.10  # the end of the run against its second quarter
_GROWTH_SAMPLES_MIN = 40  # fewer say nothing about growth
# By the second quarter of so long a run the list of closed connections that a server keeps for monitoring is full.
_GROWTH_SECONDS_MIN = 20 * 60
_GROWTH_MIN_BYTES = 16 * MIB  # less is the allocator's own breathing


@dataclass(frozen=True)
class SoakResult:
    """What a soak found."""

    published: int
    received: SoakTally
    rounds: int  # of clients that came and went
    resident_bytes: tuple[int, ...]  # samples in order

    def faults(self) -> list[str]:
        """What is wrong, in words; empty is good."""
        received, faults = self.received, []
        if received.lost or received.repeated:
            faults.append(f"{received.lost} messages lost, {received.repeated} repeated or out of order")
        if received.group_messages != self.published:
            faults.append(f"the queue group got {received.group_messages} of {self.published} messages")
        if received.messages != 3 * self.published:
            faults.append(f"{received.messages} deliveries instead of {3 * self.published}")
        grown = self.growth_bytes()
        if grown > _GROWTH_MIN_BYTES and grown > (_GROWTH_MAX - 1) * self._settled_bytes():
            faults.append(f"memory grew by {grown / MIB:.0f} MiB")
        return faults

    def growth_bytes(self) -> float:
        """Median memory of the last quarter less that of the second, when caches and pools were filled.

        0 when the run was too short to tell.
        """
        if not self.judges_growth():
            return 0.0
        return median(self.resident_bytes[-(len(self.resident_bytes) // 4) :]) - self._settled_bytes()

    def judges_growth(self) -> bool:
        """Whether the run was long enough to tell growth from warming up."""
        return self.received.seconds >= _GROWTH_SECONDS_MIN and len(self.resident_bytes) >= _GROWTH_SAMPLES_MIN

    def _settled_bytes(self) -> float:
        quarter = len(self.resident_bytes) // 4
        return median(self.resident_bytes[quarter : 2 * quarter])


def soak(server: Server, *, duration_ns: int, rate: int, sample_ns: int) -> SoakResult:
    """Load a server for a time and watch its memory.

    Raises:
        ClientError: the load broke off.
    """
    samples = [server.resident_bytes()]
    ended = threading.Event()
    began = monotonic()

    def watch() -> None:
        while not ended.wait(sample_ns / SECOND_NS):
            samples.append(server.resident_bytes())
            click.echo(f"{monotonic() - began:8.0f} s  {samples[-1] / MIB:8.1f} MiB", err=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        received, published, churned = run_together(
            [
                SoakReceiving(url=server.url),
                SoakPublishing(url=server.url, rate=rate, duration_ns=duration_ns),
                Churning(url=server.url, duration_ns=duration_ns),
            ],
            timeout_ns=duration_ns + LOAD_RUN_TIMEOUT_NS,
        )
    finally:
        ended.set()
        watcher.join()
    assert isinstance(received, SoakTally)
    samples.append(server.resident_bytes())
    return SoakResult(published.messages, received, churned.messages, tuple(samples))


@click.command()
@click.option(
    "--server",
    "binary",
    type=click.Path(path_type=Path, exists=True),
    default=Path(sys.executable).parent / "slipstream-server",
    help="The program to load.",
)
@click.option("--minutes", default=10.0, type=click.FloatRange(0.01, 10_000), show_default=True)
@click.option("--rate", default=50_000, type=click.IntRange(1_000, 10_000_000), show_default=True, help="Messages/s.")
@click.option("--sample", default=5.0, type=click.FloatRange(0.1, 600), show_default=True, help="Seconds.")
def main(binary: Path, minutes: float, rate: int, sample: float) -> None:
    """Soak one server."""
    duration_ns, sample_ns = int(minutes * MINUTE_NS), int(sample * SECOND_NS)
    with tempfile.TemporaryDirectory(prefix="soak-") as home, Server(binary.absolute(), Path(home)) as server:
        try:
            result = soak(server, duration_ns=duration_ns, rate=rate, sample_ns=sample_ns)
        except ClientError as error:
            raise click.ClickException(f"{error}\n{server.log}") from error
    _print(result)
    faults = result.faults()
    click.echo("\n".join(faults) or "nothing lost")
    sys.exit(1 if faults else 0)


def _print(result: SoakResult) -> None:
    received, resident = result.received, _mib(result.resident_bytes)
    seconds = received.seconds
    click.echo(f"published  {result.published:,} ({result.published / seconds:,.0f}/s)")
    click.echo(f"delivered  {received.messages:,} ({received.messages / seconds:,.0f}/s)")
    click.echo(f"latency    p50 {received.p50_ns / 1e3:,.0f} µs, p99 {received.p99_ns / 1e3:,.0f} µs")
    click.echo(f"clients    {result.rounds:,} came and went")
    click.echo(f"memory     first {resident[0]:.1f}, last {resident[-1]:.1f}, most {max(resident):.1f} MiB")
    if not result.judges_growth():
        minutes = _GROWTH_SECONDS_MIN // 60
        click.echo(f"           too short to judge its growth: {minutes} minutes and {_GROWTH_SAMPLES_MIN} samples do")


def _mib(values: Sequence[int]) -> list[float]:
    return [value / MIB for value in values]


if __name__ == "__main__":
    main()
