"""What clients meet in the flow of their work: the order of answers, floors, expiry, traces; beside nats-server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_oracle import ListeningOracle
from support.servers import ServerPool

API = "$JS.API."


class Client(ListeningOracle):
    """A connection to one of the servers."""

    def call(self, subject: str, **body: object) -> Any:
        """An API call that succeeds."""
        ((_, answer),) = self.request(API + subject, json.dumps(body).encode() if body else b"", None, 1)
        found = json.loads(answer)
        assert "error" not in found, found
        return found

    def store(self, subject: str, payload: bytes = b"x", header: bytes | None = None) -> Any:
        """Publish, and wait for the ack."""
        ((_, answer),) = self.request(subject, payload, header, 1)
        found = json.loads(answer)
        assert "error" not in found, found
        return found

    def arrived(self, sid: bytes) -> int:
        """How many messages of a subscription were read so far."""
        return len(self._queues[sid])


@pytest.fixture(scope="module")
def clients(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    servers = {
        kind: server_pool.prepared(kind, "", ("-js", "-sd", str(tmp_path_factory.mktemp(kind)))).start()
        for kind in ("ours", "real")
    }
    both = {kind: Client(server.port) for kind, server in servers.items()}
    yield both
    for client in both.values():
        client.close()
    for server in servers.values():
        server.end()


@pytest.fixture(autouse=True)
def no_streams(clients: dict[str, Client]) -> Iterator[None]:
    yield
    for client in clients.values():
        for name in client.call("STREAM.NAMES")["streams"] or []:
            client.call(f"STREAM.DELETE.{name}")


def test_a_consumer_is_announced_before_it_delivers(clients: dict[str, Client]) -> None:
    """A client that makes its inbox first must know the consumer's name when the first message comes."""
    client = clients["ours"]  # nats-server answers first too, but nothing makes sure of it
    for storage in ("file", "memory"):
        client.call("STREAM.CREATE.S", name="S", subjects=["s"], storage=storage)
        for _ in range(10):
            client.store("s")
        for number in range(20):
            sid = client.subscribe(b"to.%d" % number)
            config = {"durable_name": f"C{number}", "deliver_subject": f"to.{number}", "ack_policy": "none"}
            answer = client.call(f"CONSUMER.DURABLE.CREATE.S.C{number}", stream_name="S", config=config)
            assert client.arrived(sid) == 0
            assert answer["delivered"]["stream_seq"] == 0
            assert len(client.take(sid, 10)) == 10
        client.call("STREAM.DELETE.S")
