"""Streams of a running server beside those of nats-server: files, restarts, and what only the edge can break."""

from collections.abc import Iterator

import pytest

from support.consumer_oracle import ListeningOracle
from support.jetstream_oracle import Oracle, normalised
from support.server_process import ServerProcess
from support.servers import ServerPool

API = "$JS.API."


class Pair:
    """Both servers, asked the same."""

    def __init__(self, pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.servers: list[ServerProcess] = [
            pool.prepared(kind, "", ("-js", "-sd", str(tmp_path_factory.mktemp(kind)))).start()
            for kind in ("ours", "real")
        ]
        self.connect()

    def connect(self) -> None:
        self.clients = [Oracle(server.port) for server in self.servers]

    def ask(self, subject: str, body: bytes = b"", header: bytes | None = None, count: int = 1) -> None:
        ours, theirs = (
            [normalised(answer) for answer in client.request(subject, body, header, count)] for client in self.clients
        )
        assert ours == theirs, f"{subject} {body[:200]!r}"

    def restart(self) -> None:
        self.close()
        for server in self.servers:
            server.restart()
        self.connect()

    def close(self) -> None:
        for client in self.clients:
            client.close()


@pytest.fixture
def pair(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    both = Pair(server_pool, tmp_path_factory)
    yield both
    both.close()
    for server in both.servers:
        server.end()


def test_a_stream_in_files(pair: Pair) -> None:
    config = b'{"name":"Q","subjects":["q.>"],"allow_direct":true,"allow_rollup_hdrs":true,"allow_msg_ttl":true}'
    pair.ask(f"{API}STREAM.CREATE.Q", config)
    for number in range(20):
        header = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % (number % 7) if number % 2 else None
        pair.ask(f"q.{number % 3}", b"x" * number, header)
    details = b'{"subjects_filter":">","deleted_details":true}'
    pair.ask(f"{API}STREAM.INFO.Q", details)
    for seq in (3, 5, 99, 0):
        pair.ask(f"{API}STREAM.MSG.DELETE.Q", b'{"seq":%d}' % seq)
    pair.ask(f"{API}STREAM.PURGE.Q", b'{"filter":"q.1","keep":1}')
    pair.ask("q.2", b"roll", b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n")
    pair.restart()
    pair.ask(f"{API}STREAM.INFO.Q", details)
    # An id whose message is there, and a new one; those of removed messages are ours alone (docs/adr/0006).
    pair.ask("q.2", b"again", b"NATS/1.0\r\nNats-Msg-Id: 2\r\n\r\n")
    pair.ask("q.2", b"again", b"NATS/1.0\r\nNats-Msg-Id: new\r\n\r\n")
    for seq in range(1, 20):
        pair.ask(f"{API}STREAM.MSG.GET.Q", b'{"seq":%d}' % seq)
    pair.ask(f"{API}DIRECT.GET.Q", b'{"seq":1,"batch":100}', count=9)
    pair.ask(f"{API}DIRECT.GET.Q.q.2")
    pair.ask(f"{API}DIRECT.GET.NONE", b'{"seq":1}')
    pair.ask(f"{API}STREAM.LIST")
    pair.ask(f"{API}STREAM.DELETE.Q")
    pair.ask("q.1", b"nobody stores this")


def test_acked_messages_survive_a_kill(pair: Pair) -> None:
    ours, client = pair.servers[0], pair.clients[0]
    client.request(f"{API}STREAM.CREATE.K", b'{"name":"K"}', None, 1)
    for number in range(50):
        client.request("K", b"%d" % number, None, 1)
    ours.kill()
    ours.start()
    survivor = Oracle(ours.port)
    ((_, body),) = survivor.request(f"{API}STREAM.MSG.GET.K", b'{"seq":50}', None, 1)
    assert b'"data":"NDk="' in body
    ((_, body),) = survivor.request("K", b"next", None, 1)
    assert body == b'{"stream":"K","seq":51}'
    survivor.close()


def test_waiting_clients_hear_of_the_shutdown(pair: Pair) -> None:
    shown = []
    for server in pair.servers:
        client = ListeningOracle(server.port)
        client.request(f"{API}STREAM.CREATE.W", b'{"name":"W"}', None, 1)
        client.request(
            f"{API}CONSUMER.DURABLE.CREATE.W.C", b'{"stream_name":"W","config":{"durable_name":"C"}}', None, 1
        )
        inbox = client.subscribe(b"waits")
        client.publish(b"$JS.API.CONSUMER.MSG.NEXT.W.C", b"waits", b'{"batch":3,"expires":60000000000}')
        client.request(f"{API}CONSUMER.INFO.W.C", b"", None, 1)
        server.stop()
        shown.append(client.take(inbox, 1))
        client.close()
    assert shown[0] == shown[1]
    assert b"409 Server Shutdown" in shown[0][0][2]
