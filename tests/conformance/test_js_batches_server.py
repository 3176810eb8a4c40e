"""Batches, counters and schedules of running servers: files, restarts, configured limits, advisories, real time."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.consumer_oracle import ListeningOracle
from support.jetstream_oracle import Oracle, header_block, normalised
from support.server_process import ServerProcess
from support.servers import ServerPool

API = "$JS.API."
CONFIG = """
jetstream {
  limits { batch { max_inflight_per_stream: 2, max_msgs: 3, timeout: "1s" } }
}
"""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[^\"\\]*?(Z|[+-]\d\d:\d\d)")


class Servers:
    """Both servers, asked the same."""

    def __init__(self, pool: ServerPool, tmp_path_factory: pytest.TempPathFactory, config: str) -> None:
        self.servers: list[ServerProcess] = [
            pool.prepared(kind, config, ("-js", "-sd", str(tmp_path_factory.mktemp(kind)))).start()
            for kind in ("ours", "real")
        ]
        self.connect()

    def connect(self) -> None:
        self.clients = [ListeningOracle(server.port) for server in self.servers]

    def ask(self, subject: str, body: Any = b"", *lines: str, count: int = 1) -> Any:
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        header = header_block(*lines) if lines else None
        ours, theirs = (
            [normalised(answer) for answer in client.request(subject, body, header, count)] for client in self.clients
        )
        assert ours == theirs, f"{subject} {body[:200]!r} {lines}"
        return ours[0][1]

    def until(self, subject: str, body: Any, reached: Any) -> None:
        """Ask each until its answer is as wanted; pytest's timeout bounds this."""
        for client in self.clients:
            while True:
                ((_, answer),) = client.request(subject, json.dumps(body).encode(), None, 1)
                if reached(json.loads(answer)):
                    break

    def restart(self) -> None:
        self.close()
        for server in self.servers:
            server.restart()
        self.connect()

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def end(self) -> None:
        self.close()
        for server in self.servers:
            server.end()


@pytest.fixture
def servers(
    server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Servers]:
    both = Servers(server_pool, tmp_path_factory, getattr(request, "param", ""))
    yield both
    both.end()


def part(batch: str, seq: int, *more: str) -> list[str]:
    return [f"Nats-Batch-Id: {batch}", f"Nats-Batch-Sequence: {seq}", *more]


def everything(servers: Servers, last: int) -> None:
    servers.ask(f"{API}STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    for seq in range(1, last + 1):
        servers.ask(f"{API}STREAM.MSG.GET.S", {"seq": seq})


def test_batches_in_files(servers: Servers) -> None:
    servers.ask(f"{API}STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_atomic": True, "max_msgs": 5})
    servers.ask("s.a", b"before")
    servers.ask("s.a", b"1", *part("b", 1))
    servers.ask("s.b", b"2", *part("b", 2, "Nats-Msg-Id: x"))
    servers.ask("s.a", b"3", *part("b", 3, "Nats-Batch-Commit: 1"))
    servers.ask("s.a", b"open", *part("never", 1))
    everything(servers, 5)
    servers.restart()
    everything(servers, 5)
    servers.ask("s.a", b"of a batch that is gone", *part("never", 2))
    servers.ask("s.b", b"seen", *part("c", 1, "Nats-Msg-Id: x", "Nats-Batch-Commit: 1"))
    servers.ask("s.a", b"4", *part("d", 1))
    servers.ask("s.a", b"5", *part("d", 2))
    servers.ask("s.a", b"", *part("d", 3, "Nats-Batch-Commit: eob"))
    everything(servers, 7)


def test_counters_in_files(servers: Servers) -> None:
    servers.ask(f"{API}STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_msg_counter": True})
    for value in ("5", "-7", "9" * 30):
        servers.ask("s.a", b"", f"Nats-Incr: {value}")
    servers.restart()
    servers.ask("s.a", b"", "Nats-Incr: 1")
    everything(servers, 5)


def test_counters_of_counters(servers: Servers) -> None:
    for name in ("EU", "US"):
        config = {"name": name, "subjects": [f"{name.lower()}.>"], "allow_msg_counter": True}
        servers.ask(f"{API}STREAM.CREATE.{name}", config)
    sources = [
        {"name": name, "subject_transforms": [{"src": f"{name.lower()}.>", "dest": "sum.>"}]} for name in ("EU", "US")
    ]
    created = json.dumps({"name": "S", "sources": sources, "allow_msg_counter": True}).encode()
    for client in servers.clients:
        client.request(f"{API}STREAM.CREATE.S", created, None, 1)  # in which order it lists the sources is not the same
    total = 0
    for stream, value in (("eu", 5), ("us", 7), ("eu", -3), ("us", 100), ("eu", 1)):
        servers.ask(f"{stream}.hits", b"", f"Nats-Incr: {value}")
        total += 1
        servers.until(f"{API}STREAM.INFO.S", {}, lambda answer, total=total: answer["state"]["messages"] == total)
    shown = [[stored(client, seq) for seq in range(1, total + 1)] for client in servers.clients]
    assert shown[0] == shown[1]


def stored(client: Oracle, seq: int) -> tuple[object, ...]:
    """A message, without times and without the identity that newer servers put behind the name of a source."""
    ((_, body),) = client.request(f"{API}STREAM.MSG.GET.S", b'{"seq":%d}' % seq, None, 1)
    message = json.loads(body)["message"]
    header = _TIME.sub("TIME", base64.b64decode(message.get("hdrs", "")).decode())
    header = re.sub(r"(Nats-Stream-Source:(?: \S+){5}) \S+", r"\1", header)
    return message["subject"], message["seq"], message.get("data"), header


@pytest.mark.parametrize("servers", [CONFIG], indirect=True)
def test_configured_limits_and_advisories(servers: Servers) -> None:
    servers.ask(f"{API}STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_atomic": True})
    heard = [client.subscribe(b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>") for client in servers.clients]
    for client in servers.clients:
        client.settled()

    def expect(reason: str) -> None:
        ours, theirs = (client.take(sid, 1)[0] for client, sid in zip(servers.clients, heard, strict=True))
        assert (ours[0], ours[1], ours[2]) == (theirs[0], theirs[1], theirs[2])
        mine, real = (json.loads(frame[3]) for frame in (ours, theirs))
        assert mine.pop("id") and real.pop("id") and mine.pop("timestamp") and real.pop("timestamp")
        assert list(mine.items()) == list(real.items())
        assert mine["reason"] == reason

    servers.ask("s.a", b"1", *part("first", 1))
    servers.ask("s.a", b"1", *part("second", 1))
    servers.ask("s.a", b"1", *part("third", 1))
    expect("timeout")
    expect("timeout")
    servers.ask("s.a", b"1", *part("gap", 1))
    servers.ask("s.a", b"1", *part("gap", 3))
    expect("incomplete")
    for seq in range(1, 5):
        servers.ask("s.a", b"1", *part("large", seq))
    expect("large")
    servers.ask("s.a", b"1", *part("level", 1, "Nats-Required-Api-Level: 99"))
    expect("unsupported")
    for seq in range(1, 4):
        servers.ask("s.a", b"1", *part("fits", seq))
    servers.ask("s.a", b"", *part("fits", 4, "Nats-Batch-Commit: eob"))
    everything(servers, 4)


def test_schedules_survive_a_restart(servers: Servers) -> None:
    config = {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True}
    servers.ask(f"{API}STREAM.CREATE.S", config)
    target = "Nats-Schedule-Target: s.t"
    servers.ask("s.zone", b"z", "Nats-Schedule: 0 30 2 1 1 *", "Nats-Schedule-Time-Zone: America/New_York", target)
    servers.ask("s.far", b"far", "Nats-Schedule: @at 2120-01-01T00:00:00Z", target)
    servers.ask("s.every", b"every", "Nats-Schedule: @every 1h", target)
    servers.ask("s.second", b"tick", "Nats-Schedule: * * * * * *", "Nats-Schedule-TTL: 5m", "A: b", target)
    servers.restart()
    # The first two ticks of each; when they come differs.
    servers.until(f"{API}STREAM.INFO.S", {}, lambda answer: answer["state"]["last_seq"] >= 6)
    shown = [[stored(client, seq) for seq in range(1, 7)] for client in servers.clients]
    assert shown[0] == shown[1]


def test_a_batch_is_whole_after_a_kill(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> None:
    server = server_pool.prepared("ours", "", ("-js", "-sd", str(tmp_path_factory.mktemp("kill")))).start()
    client = Oracle(server.port)
    client.request(f"{API}STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"],"allow_atomic":true}', None, 1)
    answered = 0
    for number in range(40):
        for seq in range(1, 8):
            lines = part(f"b{number}", seq, *(["Nats-Batch-Commit: 1"] if seq == 7 else []))
            if number < 20:
                client.request("s.a", b"x", header_block(*lines), 1)
                answered = number + 1
            else:
                client.send("s.a", b"x", header_block(*lines))
    server.kill()
    server.start()
    survivor = Oracle(server.port)
    ((_, body),) = survivor.request(f"{API}STREAM.INFO.S", b"", None, 1)
    state = json.loads(body)["state"]
    assert state["messages"] % 7 == 0 and state["messages"] >= answered * 7
    assert state["last_seq"] == state["messages"]
    survivor.close()
    client.close()
    server.end()
