"""Endpoints with a JetStream plugged in that is made of facts only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from monitoring.world import World
from slipstream.config.jetstream_options import JetStreamOptions
from slipstream.config.options import Options
from slipstream.monitoring.endpoints.statsz import statsz
from slipstream.monitoring.endpoints.table import Endpoints
from slipstream.monitoring.jetstream_facts import (
    ApiObject,
    ApiStats,
    AtRestProgress,
    HealthProblem,
    JetStreamConfig,
    JetStreamLimits,
    JetStreamStats,
    SyncStats,
)
from slipstream.monitoring.reply import Reply
from slipstream.monitoring.system.envelope import Sender
from slipstream.monitoring.worker import Job, Worker, finished

UNLIMITED = 2**64 - 1


class Stream:
    is_led = True

    def __init__(self, name: str, messages: int, consumers: int) -> None:
        self.name, self.created = name, "2026-11-15T02:44:32.698558985Z"
        self._messages, self._consumers = messages, consumers

    def config(self) -> ApiObject:
        return {"name": self.name, "subjects": [f"{self.name}.>"]}

    def state(self) -> ApiObject:
        return {"messages": self._messages, "bytes": 10 * self._messages, "consumer_count": self._consumers}

    def cluster(self) -> ApiObject:
        return {"leader": "unit"}

    def raft_group(self) -> str:
        return ""

    def mirror(self) -> None:
        return None

    def readers(self) -> dict[str, int]:
        return {}

    def sources(self) -> list[ApiObject]:
        return []

    def consumers(self, *, direct: bool) -> list[ApiObject]:
        name = "direct" if direct else "c"
        return [{"stream_name": self.name, "name": name, "config": {"durable_name": name}, "num_pending": 1}]


class Account:
    def __init__(self, name: str, streams: list[Stream]) -> None:
        self.name, self._streams = name, streams

    def stats(self) -> JetStreamStats:
        return JetStreamStats(storage=30, reserved_storage=5)

    def streams(self) -> Iterable[Stream]:
        return self._streams


class JetStream:
    enabled = True

    def __init__(self) -> None:
        self.found: list[HealthProblem] = []
        self.looks = 0  # how often somebody looks before everything is committed

    def received(self) -> Callable[[], bool]:
        def look() -> bool:
            self.looks -= 1
            return self.looks < 0

        return look

    def config(self) -> JetStreamConfig:
        return JetStreamConfig(1000, 2000, store_dir="/data", sync_always=True, strict=True)

    def limits(self) -> JetStreamLimits:
        return JetStreamLimits(max_ack_pending=500)

    def stats(self) -> JetStreamStats:
        return JetStreamStats(storage=60, accounts=2, api=ApiStats(4, 17, 2))

    def syncs(self) -> SyncStats:
        return SyncStats(4, 0.5, 0.1)

    def accounts(self) -> list[Account]:
        return [Account("Z", [Stream("s", 3, 1), Stream("t", 4, 0)]), Account("$G", [])]

    def at_rest(self) -> AtRestProgress | None:
        return None

    leads_meta = True

    def meta_cluster(self) -> dict[str, object] | None:
        return {"name": "C", "leader": "n1"}

    def raft_groups(self, account: str, group: str) -> dict[str, dict[str, object]] | None:
        return {account or "$SYS": {group or "_meta_": {"state": "LEADER"}}}

    def queues(self) -> dict[str, int]:
        return {"JetStream API queue": 2, "[ACC:Z] stream 's' messages": 0}

    def problems(self, account: str, stream: str, consumer: str) -> Iterable[HealthProblem]:
        assert (account, stream, consumer) in (("", "", ""), ("Z", "s", "c"))
        return self.found


@pytest.fixture
def world() -> World:
    world = World(Options(server_name="unit", jetstream=JetStreamOptions(enabled=True)))
    world.facts.jetstream = JetStream()
    return world


def ask(world: World, path: str, query: str = "") -> tuple[int, Any]:
    reply = finished(Endpoints(world.facts).reply(path, query))
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize("path", ["/jsz", "/varz"])
def test_what_was_received_is_committed_first(world: World, path: str) -> None:
    jetstream = JetStream()
    jetstream.looks = 2
    world.facts.jetstream = jetstream
    worker = Worker(world)
    replies: list[Reply] = []

    def job() -> Job:
        replies.append((yield from Endpoints(world.facts).reply(path, "")))

    worker.submit(job())
    for looks in (1, 0):
        assert jetstream.looks == looks and not replies
        timer = world.timers.pop()
        assert timer.delay_ns > 0, "it does not look again and again"
        timer.callback()
    assert [reply.status for reply in replies] == [200]


def test_what_waits(world: World) -> None:
    assert ask(world, "/ipqueuesz")[1] == {"JetStream API queue": {"pending": 2}}
    shown = ask(world, "/ipqueuesz", "all=1&queues=ACC")[1]
    assert shown == {"[ACC:Z] stream 's' messages": {"pending": 0}}


def test_totals_count_everything(world: World) -> None:
    _, jsz = ask(world, "/jsz", "acc=nobody")
    assert (jsz["streams"], jsz["consumers"], jsz["messages"], jsz["bytes"], jsz["total"]) == (2, 1, 7, 70, 2)
    assert jsz["config"] == {
        "max_memory": 1000,
        "max_storage": 2000,
        "store_dir": "/data",
        "sync_always": True,
        "strict": True,
    }
    assert jsz["limits"] == {"max_ack_pending": 500}
    assert jsz["api"] == {"level": 4, "total": 17, "errors": 2}
    assert "account_details" not in jsz
    assert "disabled" not in jsz


def test_accounts_are_sorted_and_cut(world: World) -> None:
    def names(query: str) -> list[str]:
        return [account["name"] for account in ask(world, "/jsz", query)[1].get("account_details", [])]

    assert names("accounts=1") == ["$G", "Z"]
    assert names("accounts=1&limit=1") == ["$G"]
    assert names("accounts=1&offset=1") == ["Z"]
    assert names("accounts=1&offset=9223372036854775807&limit=9223372036854775807") == []
    assert names("accounts=1&offset=-3&limit=-1") == ["$G", "Z"]
    assert names("acc=Z") == ["Z"]
    assert names("acc=Z&accounts=1&limit=1") == ["Z"]
    assert names("streams=1") == ["$G", "Z"]
    assert names("acc=nobody&streams=1") == []


def test_streams_and_consumers_as_asked_for(world: World) -> None:
    def detail(query: str) -> Any:
        return ask(world, "/jsz", f"acc=Z&{query}")[1]["account_details"][0]

    assert "stream_detail" not in detail("")
    stream = detail("streams=1")["stream_detail"][0]
    assert list(stream) == ["name", "created", "cluster", "state"]
    stream = detail("consumers=1")["stream_detail"][0]
    assert stream["consumer_detail"] == [{"stream_name": "s", "name": "c", "num_pending": 1}]
    assert "direct_consumer_detail" not in stream
    stream = detail("consumers=1&direct-consumers=1&config=1")["stream_detail"][0]
    assert stream["config"]["subjects"] == ["s.>"]
    assert stream["consumer_detail"][0]["config"] == {"durable_name": "c"}
    assert stream["direct_consumer_detail"][0]["name"] == "direct"
    assert detail("")["reserved_memory"] == UNLIMITED


def test_lone_server_leads_everything(world: World) -> None:
    _, jsz = ask(world, "/jsz", "raft=1&leader-only=1")
    assert (jsz["streams_leader"], jsz["consumers_leader"]) == (2, 1)


def test_varz_metrics_accounts_and_events_know_it(world: World) -> None:
    assert ask(world, "/varz")[1]["jetstream"]["stats"]["storage"] == 60
    assert ask(world, "/accountz", "acc=$G")[1]["account_detail"]["jetstream_enabled"]
    metrics = finished(Endpoints(world.facts).reply("/metrics", "")).body
    assert b"slipstream_jetstream_storage_bytes 60\n" in metrics
    assert b"slipstream_jetstream_syncs_total 4\n" in metrics
    assert b"slipstream_jetstream_sync_seconds_total 0.5\n" in metrics
    sender = Sender(world.facts).server()
    assert (sender.jetstream, sender.flags) == (True, 3)
    shown = statsz(world.facts).jetstream
    assert shown is not None
    assert shown.config is not None
    assert shown.config.store_dir == ""


def test_health(world: World) -> None:
    jetstream = world.facts.jetstream
    assert isinstance(jetstream, JetStream)
    assert ask(world, "/healthz") == (200, {"status": "ok"})
    jetstream.found = [
        HealthProblem("STREAM", "stream is ill", account="Z", stream="s"),
        HealthProblem("CONSUMER", "consumer is ill", account="Z", stream="s", consumer="c"),
    ]
    assert ask(world, "/healthz") == (503, {"status": "unavailable", "error": "stream is ill"})
    status, health = ask(world, "/healthz", "details=1&account=Z&stream=s&consumer=c")
    assert status == 503
    assert health == {
        "status": "error",
        "errors": [
            {"type": "STREAM", "account": "Z", "stream": "s", "error": "stream is ill"},
            {"type": "CONSUMER", "account": "Z", "stream": "s", "consumer": "c", "error": "consumer is ill"},
        ],
    }
    for parameter in ("js-server-only", "js-enabled-only", "js-enabled"):
        assert ask(world, "/healthz", f"{parameter}=1") == (200, {"status": "ok"})


def test_health_of_what_is_not_there(world: World) -> None:
    jetstream = world.facts.jetstream
    assert isinstance(jetstream, JetStream)
    jetstream.found = [HealthProblem("ACCOUNT", 'JetStream account "Z" not found', account="Z", missing=True)]
    assert ask(world, "/healthz") == (404, {"status": "unavailable", "error": 'JetStream account "Z" not found'})


def test_health_when_jetstream_did_not_start(world: World) -> None:
    world.facts.jetstream = None
    assert ask(world, "/healthz") == (503, {"status": "unavailable", "error": "JetStream not enabled (10076)"})
    assert ask(world, "/healthz", "js-server-only=1") == (200, {"status": "ok"})
    status, health = ask(world, "/healthz", "details=1")
    assert (status, health["errors"][0]["type"]) == (503, "JETSTREAM")


def test_raft_groups(world: World) -> None:
    assert ask(world, "/raftz") == (200, {"$SYS": {"_meta_": {"state": "LEADER"}}})
    assert ask(world, "/raftz", "acc=A&group=g") == (200, {"A": {"g": {"state": "LEADER"}}})
    world.facts.jetstream = None
    assert finished(Endpoints(world.facts).reply("/raftz", "")).status == 404
