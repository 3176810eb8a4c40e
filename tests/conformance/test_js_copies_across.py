"""Mirrors and sources of another account's stream, over imports: both servers hold the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.copies import CopyPair, Side, comparable
from support.jetstream_oracle import Oracle
from support.server_process import ServerProcess
from support.servers import ServerPool

CONFIG = """
jetstream: {store_dir: %s}
no_auth_user: b
accounts {
  A {
    jetstream: enabled
    users: [{user: a, password: a}]
    exports: [{service: "$JS.API.CONSUMER.>"}, {service: "$JS.FC.>"}, {stream: "deliver.b.>"}, {stream: "events.>"}]
  }
  B {
    jetstream: enabled
    users: [{user: b, password: b}]
    imports: [
      {service: {account: A, subject: "$JS.API.CONSUMER.>"}, to: "A.API.CONSUMER.>"}
      {service: {account: A, subject: "$JS.FC.>"}}
      {stream: {account: A, subject: "deliver.b.>"}}
      {stream: {account: A, subject: "events.>"}, prefix: "from.a"}
    ]
  }
}
"""
EXTERNAL = {"api": "A.API", "deliver": "deliver.b"}


class TwoAccounts(CopyPair):
    """Both servers, with a client in the account of the origin and one in that of the copies."""

    def __init__(self, pool: ServerPool, tmp_path: Path) -> None:
        servers: list[ServerProcess] = [
            pool.prepared(kind, CONFIG % (tmp_path / kind), ()).start() for kind in ("ours", "real")
        ]
        self._sized = False
        self.sides = [Side(server) for server in servers]
        self.origins = [Side(server, login='"user":"a","pass":"a"') for server in servers]

    def fill(self, count: int) -> None:
        """An origin."""
        for side in self.origins:
            side.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
            for number in range(count):
                side.publish(f"o.{number % 3}", b"m%d" % number)

    def close(self) -> None:
        for side in self.origins:
            side.client.close()
        super().close()


@pytest.fixture
def pair(server_pool: ServerPool, tmp_path: Path) -> Iterator[TwoAccounts]:
    both = TwoAccounts(server_pool, tmp_path)
    yield both
    both.close()


def test_a_mirror_and_a_source_over_imports(pair: TwoAccounts) -> None:
    pair.fill(20)
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O", "external": EXTERNAL}})
    transforms = [{"src": "o.*", "dest": "t.{{wildcard(1)}}"}]
    source: dict[str, Any] = {"name": "O", "external": EXTERNAL, "subject_transforms": transforms}
    pair.api("STREAM.CREATE.S", {"name": "S", "sources": [source]})
    pair.settled("M", 20)
    pair.settled("S", 20)
    pair.messages("M", 21)
    pair.messages("S", 21)
    for side in pair.origins:
        side.publish("o.1", b"late")
    pair.settled("M", 21)
    pair.settled("S", 21)


def test_prefixes_that_lead_nowhere(pair: TwoAccounts) -> None:
    pair.fill(1)
    pair.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "NONE", "external": EXTERNAL}})
    for side in pair.sides:
        side.until("M", lambda info: "error" in info["mirror"])
    pair.same(lambda side: comparable(side.api("STREAM.INFO.M")))


def test_a_stream_collects_what_is_imported(pair: TwoAccounts) -> None:
    pair.api("STREAM.CREATE.E", {"name": "E", "subjects": ["from.a.events.>"]})
    for side in pair.origins:
        client: Oracle = side.client
        client.send("events.x", b"1")
        client.send("events.y", b"2")
    pair.settled("E", 2)
    pair.messages("E", 2)
