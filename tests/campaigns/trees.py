"""Random trees of operator mode at two servers, nats-server and ours: clients one by one, and together."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from campaigns.figures import Figures
from support.random_trees import alone
from support.server_process import ServerProcess
from support.servers import server_binary
from support.shared_clients import Agreed, agree
from support.shared_trees import server_config

SEEDS_FROM = 1_000
MIXED = 20
ATTEMPTS = 4
TREES_A_START = 20
"""With every account that there ever was nats-server takes longer for the next."""


def trees(cases: range) -> Figures:
    """Of each case a tree of clients that come one by one, and one whose clients are there together."""
    broken: list[str] = []
    came = 0
    found = Agreed(0, 0, 0, 0)
    seeds = [SEEDS_FROM + case for case in cases]
    for first in range(0, len(seeds), TREES_A_START):
        if len(broken) > 10:
            break
        with _servers() as ports:
            for seed in seeds[first : first + TREES_A_START]:
                try:
                    here, together = _tried(ports, seed)
                    came += here
                    found = Agreed(*(one + more for one, more in zip(found, together, strict=True)))
                except (AssertionError, OSError) as error:
                    broken.append(f"seed {seed}: {error!r}"[:500])
    return Figures(
        {
            "trees of each kind": len(seeds),
            "clients let in": came + found.logins,
            "tokens of accounts judged": found.pushed,
            "messages that came alike": found.messages,
            "messages that only nats-server sends, against a deny or beyond an allow": found.withheld,
            "differences": len(broken),
        },
        broken,
    )


def control() -> Figures:
    """The same clients, those of ours in another order."""
    noticed = 0
    with _servers() as ports:
        for seed in range(MIXED):
            try:
                alone(ports, seed, mixed=True)
            except AssertionError:
                noticed += 1
    return Figures(
        {},
        [],
        f"clients of ours in another order: noticed in {noticed} of {MIXED} trees",
        noticed > MIXED // 2,
    )


def _tried(ports: tuple[int, int], seed: int) -> tuple[int, Agreed]:
    """A tree of each kind; again if a server took too long: on a busy machine either does, and that says nothing."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return alone(ports, seed), agree(ports, seed)
        except TimeoutError:
            if not left:
                raise
    raise AssertionError("unreachable")


@contextmanager
def _servers() -> Iterator[tuple[int, int]]:
    """The ports of nats-server and of ours, with no accounts yet."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trees-")))
        yield _port(stack, "real", directory), _port(stack, "ours", directory)


def _port(stack: ExitStack, kind: str, directory: Path) -> int:
    (directory / kind).mkdir()
    server = ServerProcess(server_binary(kind), directory / kind, config=server_config("tokens"))
    server.start_timeout_s = 60.0
    return stack.enter_context(server).port
