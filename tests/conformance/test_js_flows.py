"""What clients meet in the flow of their work: the order of answers, floors, expiry, traces; beside nats-server."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_oracle import ListeningOracle
from support.jetstream_oracle import TIMEOUT_S
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

    def pull(self, batch: int) -> list[bytes]:
        """The reply subjects of the next messages of consumer C."""
        sid = self.subscribe(b"pulled.%d" % self._sid)
        self.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"pulled.%d" % (self._sid - 1), b"%d" % batch)
        return [reply for _, reply, _, _ in self.take(sid, batch)]

    def ack(self, reply: bytes) -> None:
        """Acknowledge, and wait until that is confirmed."""
        self.request(reply.decode(), b"+ACK", None, 1)

    def progress(self) -> dict[str, object]:
        """Where consumer C is."""
        info = self.call("CONSUMER.INFO.S.C")
        found = {name: info[name] for name in ("num_ack_pending", "num_redelivered", "num_pending")}
        for name in ("delivered", "ack_floor"):
            found[name] = info[name]["consumer_seq"], info[name]["stream_seq"]
        return found

    def until_given_up(self) -> None:
        """Wait until nothing of consumer C is out."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.progress()["num_ack_pending"]:
            assert time.monotonic() < deadline

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


@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_the_floor_stays_below_what_was_given_up(clients: dict[str, Client], policy: str) -> None:
    seen: dict[str, list[object]] = {}
    for kind, client in clients.items():
        client.call("STREAM.CREATE.S", name="S", subjects=["s"])
        config = {"durable_name": "C", "ack_policy": policy, "ack_wait": 50_000_000, "max_deliver": 1}
        client.call("CONSUMER.DURABLE.CREATE.S.C", stream_name="S", config=config)
        for _ in range(2):
            client.store("s")
        first = client.pull(2)
        client.until_given_up()
        config["ack_wait"] = 60_000_000_000
        client.call("CONSUMER.DURABLE.CREATE.S.C", stream_name="S", config=config)
        client.store("s")
        steps: list[object] = [client.progress()]
        client.publish(first[0], b"", b"+ACK")  # too late
        steps.append(client.progress())
        (third,) = client.pull(1)
        steps.append(client.progress())
        client.ack(third)
        steps.append(client.progress())
        seen[kind] = steps
    assert seen["ours"] == seen["real"]


def test_the_floor_passes_what_was_given_up_above_it(clients: dict[str, Client]) -> None:
    seen: dict[str, list[object]] = {}
    for kind, client in clients.items():
        client.call("STREAM.CREATE.S", name="S", subjects=["s"])
        config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60_000_000_000, "max_deliver": 1}
        client.call("CONSUMER.DURABLE.CREATE.S.C", stream_name="S", config=config)
        for _ in range(5):
            client.store("s")
        one, two, three, four, five = client.pull(5)
        steps: list[object] = []
        for reply, answer in ((two, b"-NAK"), (one, b"+ACK"), (three, b"-NAK"), (five, b"+ACK"), (four, b"+ACK")):
            client.request(reply.decode(), answer, None, 1)
            client.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"nobody", b'{"no_wait":true}')
            steps.append(client.progress())
        seen[kind] = steps
    assert seen["ours"] == seen["real"]


def test_a_filter_holds_for_messages_from_elsewhere(clients: dict[str, Client]) -> None:
    """One that covers the stream's own subjects leaves out what sources, transforms and the past have stored."""
    streams: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"sources": [{"name": "O"}]}, {}),
        ({"subject_transform": {"src": "s.*", "dest": "moved.$1"}}, {}),
        ({"subjects": ["s.*", "old.*"]}, {"subjects": ["s.*"]}),
        ({"subject_transform": {"src": "s.*", "dest": "moved.$1"}}, {"subject_transform": None}),
    ]
    seen: dict[str, list[object]] = {}
    for kind, client in clients.items():
        for config, update in streams:
            client.call("STREAM.CREATE.O", name="O", subjects=["o.*"])
            client.store("o.1")
            config = {"name": "S", "subjects": ["s.*"], **config}
            client.call("STREAM.CREATE.S", **config)
            client.store("s.1")
            if "old.*" in str(config):
                client.store("old.1")
            wanted = 2 if "sources" in config or "old.*" in str(config) else 1
            deadline = time.monotonic() + TIMEOUT_S
            while client.call("STREAM.INFO.S")["state"]["messages"] < wanted:
                assert time.monotonic() < deadline
            if update:
                client.call("STREAM.UPDATE.S", **{**config, **update})
            client.store("s.2")
            found = []
            for number, filter_subject in enumerate(("s.*", "s.>", ">", "moved.*", "o.*")):
                body = {"durable_name": f"C{number}", "ack_policy": "none", "filter_subject": filter_subject}
                body["deliver_subject"] = f"to.{number}.{len(seen)}"
                sid = client.subscribe(str(body["deliver_subject"]).encode())
                pending = client.call(f"CONSUMER.DURABLE.CREATE.S.C{number}", stream_name="S", config=body)
                found.append([subject for subject, _, _, _ in client.take(sid, pending["num_pending"])])
                client.unsubscribe(sid)
            seen.setdefault(kind, []).append(found)
            client.call("STREAM.DELETE.S")
            client.call("STREAM.DELETE.O")
    assert seen["ours"] == seen["real"]


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_only_values_leave_a_marker_when_they_expire(clients: dict[str, Client], storage: str) -> None:
    lines = ["KV-Operation: PURGE", "KV-Operation: DEL", "KV-Operation: purge", "A: b"]
    lines += ["Nats-Marker-Reason: Purge", "Nats-Marker-Reason:"]
    seen: dict[str, object] = {}
    sids = {}
    for kind, client in clients.items():
        config = {"allow_msg_ttl": True, "subject_delete_marker_ttl": 1_000_000_000, "allow_rollup_hdrs": True}
        client.call("STREAM.CREATE.S", name="S", subjects=["s.*"], storage=storage, **config)
        sids[kind] = client.subscribe(b"to.watcher")
        watcher = {"durable_name": "W", "deliver_subject": "to.watcher", "ack_policy": "none"}
        client.call("CONSUMER.DURABLE.CREATE.S.W", stream_name="S", config=watcher)
        for number, line in enumerate(lines):
            client.store(f"s.{number}", b"", f"NATS/1.0\r\n{line}\r\nNats-TTL: 1s\r\n\r\n".encode())
    for kind, client in clients.items():
        deadline = time.monotonic() + 2 * TIMEOUT_S
        while (state := client.call("STREAM.INFO.S")["state"])["messages"]:
            assert time.monotonic() < deadline
        seen[kind] = sorted(subject for subject, _, _, _ in client.take(sids[kind], state["last_seq"]))
    assert seen["ours"] == seen["real"]


def test_the_account_counts_readers_of_copies_too(clients: dict[str, Client]) -> None:
    seen: dict[str, object] = {}
    for kind, client in clients.items():
        client.call("STREAM.CREATE.O", name="O", subjects=["o"])
        client.store("o")
        client.call("CONSUMER.CREATE.O", stream_name="O", config={"ack_policy": "explicit"})
        client.call("STREAM.CREATE.M", name="M", mirror={"name": "O"})
        client.call("STREAM.CREATE.S", name="S", sources=[{"name": "O"}])
        for name in ("M", "S"):
            deadline = time.monotonic() + TIMEOUT_S
            while not client.call(f"STREAM.INFO.{name}")["state"]["messages"]:
                assert time.monotonic() < deadline
        shown = client.call("STREAM.INFO.O")["state"]["consumer_count"], client.call("CONSUMER.LIST.O")["total"]
        seen[kind] = client.call("INFO")["consumers"], *shown
    assert seen["ours"] == seen["real"] == (3, 1, 1)
