"""Random permissions where writer and reader are at different servers: a route, a gateway and a leaf link between them.

A witness at each server who may have everything sees each message first. What comes over a link reaches all
subscriptions of a server in one step, so what a reader does not have then, he does not get.

Short form: one world. Long form (`-m long`): forty.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from slipstream.testing import ServerThread
from support.config_loading import options as load_text
from support.entrances import Client, Received
from support.permitted_readers import CONCRETE, READERS, Reader, check_deliveries, entries, rules
from support.ports import free_port

WAIT_S = 60.0
SERVERS = ("first", "second", "third", "far", "leaf")


class LinkedServers:
    """Three servers of a cluster, one of another cluster, and a leaf of the first; all know the same users."""

    def __init__(self, stack: ExitStack, seed: int) -> None:
        self.rng = random.Random(seed)
        self.reads = [rules(self.rng) for _ in range(2 * READERS)]
        self._stack = stack
        users = "\n".join(
            f"{{ user: r{number}, password: x, permissions: {{ subscribe: {entries(read)} }} }}"
            for number, read in enumerate(self.reads)
        )
        accounts = f"accounts {{ A {{ users = [ {{ user: all, password: x }}\n{users} ] }} }}"
        route, near, far, leaf = (free_port() for _ in range(4))
        gateways = (
            f'gateways: [ {{ name: NEAR, url: "nats://127.0.0.1:{near}" }}, '
            f'{{ name: FAR, url: "nats://127.0.0.1:{far}" }} ]'
        )
        mesh = f'routes: ["nats://127.0.0.1:{route}"], no_advertise: true'
        texts = {
            "first": f"""
                cluster {{ name: NEAR, listen: "127.0.0.1:{route}" }}
                gateway {{ name: NEAR, listen: "127.0.0.1:{near}", {gateways} }}
                leafnodes {{ listen: "127.0.0.1:{leaf}" }}
            """,
            **{
                name: f"""
                cluster {{ name: NEAR, listen: "127.0.0.1:{free_port()}", {mesh} }}
                gateway {{ name: NEAR, listen: "127.0.0.1:{free_port()}", {gateways} }}
                """
                for name in ("second", "third")
            },
            "far": f'gateway {{ name: FAR, listen: "127.0.0.1:{far}", {gateways} }}',
            "leaf": f'leafnodes {{ remotes: [{{ url: "nats://all:x@127.0.0.1:{leaf}", account: A }}] }}',
        }
        self._servers = {
            name: stack.enter_context(
                ServerThread(load_text(f'server_name: {name}\nlisten: "127.0.0.1:-1"\n{accounts}\n{texts[name]}'))
            )
            for name in SERVERS
        }
        self.witnesses = {name: self.client("all", name) for name in SERVERS}
        for witness in self.witnesses.values():
            witness.send(b"SUB > 1\r\n")
            witness.sync()

    def client(self, user: str, at: str) -> Client:
        made = Client(self._servers[at].server.port, user)
        self._stack.callback(made.close)
        made.sync()
        return made

    def join(self, writers: dict[str, Client]) -> None:
        """Wait until what is said at each server is heard at all."""
        for name, writer in writers.items():
            deaf = set(SERVERS)
            deadline = time.monotonic() + WAIT_S
            while deaf:
                writer.send(f"PUB hello.{name} 0\r\n\r\n".encode())
                writer.sync()
                deaf -= {
                    other
                    for other, witness in self.witnesses.items()
                    if any(one.subject == f"hello.{name}" for one in witness.sync()[0])
                }
                assert time.monotonic() < deadline, (name, deaf)

    def said(self, way: str, writer: Client) -> None:
        """Say something on each subject; each witness has it then."""
        for subject in CONCRETE:
            body = f"{way}:{subject}"
            writer.send(f"PUB {subject} {len(body)}\r\n{body}\r\n".encode())
        deadline = time.monotonic() + WAIT_S
        for name, witness in self.witnesses.items():
            left = set(CONCRETE)
            while left:
                left -= {came_to(way, one) for one in witness.sync()[0]}  # type: ignore[arg-type]  # None is not there
                assert time.monotonic() < deadline, (way, name, left)


def came_to(way: str, one: Received) -> str | None:
    """The subject, of what was said on this way."""
    return one.subject if one.body.decode() == f"{way}:{one.subject}" else None


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 42))])
def test_delivered_is_what_is_allowed(stack: ExitStack, seed: int) -> None:
    """CVE-2022-29946 and advisory 2026-26, between servers."""
    world = LinkedServers(stack, seed)
    writers = {name: world.client("all", name) for name in SERVERS}
    readers = [
        Reader(world.rng, read, world.client(f"r{number}", SERVERS[number % len(SERVERS)]))
        for number, read in enumerate(world.reads)
    ]
    world.join(writers)
    for name, writer in writers.items():
        turn, lacking, deadline = 0, {("", "")}, time.monotonic() + WAIT_S
        while lacking:  # which groups there are has to travel first
            way, turn = f"{name} {turn}", turn + 1
            for reader in readers:
                reader.client.sync()
            world.said(way, writer)
            lacking = check_deliveries(way, readers, came_to)
            assert time.monotonic() < deadline, (way, lacking)
