"""Orders by keys beside the order of the stream: the same messages to 64 workers that pull and acknowledge.

    python -m benchmarks.orders [--messages 200000] [--workers 64] [--rounds 3]

The orders take turns, each round with a new server. Besides the rate it prints the processor time of the server for a
message: where other programs share the machine, that is the number that can be compared. The bar is on key-shared
delivery: 0.7 of the plain rate. The exit status is 1 if it is missed.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from benchmarks.figure import Figure
from benchmarks.js_consumers import fill, make_consumer
from benchmarks.servers import Server
from slipstream.client.line import Line
from slipstream.client.load import Lines, Tally
from slipstream.client.wire import WireClient
from slipstream.kernels.client.pubframes import encode_pubs
from slipstream.kernels.client.serverscan import Scanner
from slipstream.units import SECOND_NS

__all__ = ["main"]

_BATCH: Final = 50
_KEYS: Final = 5_000
_BAR: Final = 0.7
_ORDERS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "key-shared": {"slipstream.delivery": "key-shared"},
    "fair": {"slipstream.delivery": "fair"},
}


class _Workers:
    """Connections that pull so many at a time, and ask again when these have come."""

    def __init__(self, url: str, count: int) -> None:
        self._lines = Lines(url, [Scanner(reply_payload=b"+ACK") for _ in range(count)], 60 * SECOND_NS)
        self._lines.subscribe([[f"_INBOX.worker{number}"] for number in range(count)])
        body = json.dumps({"batch": _BATCH, "expires": 60 * SECOND_NS}).encode()
        target = b"$JS.API.CONSUMER.MSG.NEXT.BENCH.WORK"
        self._ask = {
            line.fileno(): encode_pubs(target, body, 1, b"_INBOX.worker%d" % number)
            for number, line in enumerate(self._lines.lines)
        }
        self._asked = dict.fromkeys(self._ask, 0)

    def run(self, messages: int) -> Tally:
        self._lines.start()
        for line in self._lines.lines:
            self._pull(line)
        self._lines.receive(messages, each=False, react=self._react)
        for line in self._lines.lines:
            line.flush(self._lines.buffer)  # acks are part of the work
        tally = self._lines.tally_received()
        self._lines.close()
        return tally

    def _pull(self, line: Line) -> None:
        self._asked[line.fileno()] += _BATCH
        line.send(self._ask[line.fileno()])

    def _react(self, line: Line) -> None:
        if answers := line.scanner.take_replies():
            line.send(answers)
        if line.scanner.messages >= self._asked[line.fileno()]:
            self._pull(line)


def _measured(order: str, messages: int, workers: int) -> tuple[float, float]:
    """Messages a second, and microseconds of the server's processor for each."""
    with tempfile.TemporaryDirectory() as directory:
        binary = Path(sys.executable).parent / "slipstream-server"
        with Server(binary, Path(directory), ("-js", "-sd", "data")) as server:
            fill(server.url, messages, _KEYS)
            with WireClient(server.url) as client:
                make_consumer(
                    client, "WORK", ack_policy="explicit", max_ack_pending=10_000, metadata=dict(_ORDERS[order])
                )
            load = _Workers(server.url, workers)
            before_ns = server.cpu_ns()
            tally = load.run(messages)
            return tally.rate, (server.cpu_ns() - before_ns) / messages / 1e3


@click.command()
@click.option("--messages", default=200_000, show_default=True)
@click.option("--workers", default=64, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(messages: int, workers: int, rounds: int) -> None:
    """Measure, print, judge."""
    found: dict[str, list[tuple[float, float]]] = {order: [] for order in _ORDERS}
    for _ in range(rounds):
        for order, figures in found.items():
            figures.append(_measured(order, messages, workers))
    rates = {order: statistics.median(rate for rate, _ in figures) for order, figures in found.items()}
    for order, figures in found.items():
        used = statistics.median(each for _, each in figures)
        print(f"{order}: {rates[order] / 1e3:,.1f} k messages/s, {used:.1f} µs of the server's processor each")
    shares = [
        Figure(
            f"{order} of plain, {workers} workers", rates[order] / rates["plain"], _BAR, "times", more_is_better=True
        )
        for order in _ORDERS
        if order != "plain"
    ]
    for share in shares:
        print(share)
    sys.exit(0 if shares[0].holds else 1)


if __name__ == "__main__":
    main()
