"""`slipstream bench js` and `kv`: the lines of the NATS documentation with our server and with nats-server.

What a run leaves in streams and buckets shows that it did what it counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.bench_words import words
from support.cli import Cli
from support.server_process import ServerProcess
from support.servers import ServerPool

RATES = "N msgs/sec ~ N/sec"
TIMED = f"{RATES} ~ min: Nus ~ avg: Nus ~ max: Nus ~ P50: Nus ~ P90: Nus ~ P99: Nus ~ P99.9: Nus"
SECOND_NS = 10**9

PUB_SYNC = f"""\
HH:MM:SS Starting JetStream synchronous publisher benchmark [batch=0, clients=1, dedup-window=2m0s, \
deduplication=false, max-bytes=1,073,741,824, msg-size=16 B, msgs=20, multi-subject=false, multi-subject-max=100,000, \
multi-subject-randomize=false, purge=false, replicas=1, sleep=0s, storage=memory, stream=benchstream, subject=jsfoo]
HH:MM:SS Using stream: benchstream
HH:MM:SS [1] Starting JetStream synchronous publisher, publishing 20 messages

NATS JetStream synchronous publisher stats: {TIMED}
"""

CONSUME = f"""\
HH:MM:SS Starting JetStream durable consumer (callback) benchmark [acks=explicit, batch=500, clients=2, \
consumer=nats-bench, double-acked=false, msg-size=128 B, msgs=1,500, purge=false, sleep=0s, stream=benchstream]
HH:MM:SS [1] Starting JetStream durable consumer (callback), expecting 750 messages
HH:MM:SS [2] Starting JetStream durable consumer (callback), expecting 750 messages

  [1] {RATES} ~ Nus (750 msgs)
  [2] {RATES} ~ Nus (750 msgs)

 NATS JetStream durable consumer (callback) aggregated stats: {RATES}
 message rates min N | avg N | max N | stddev N msgs
 avg latencies min Nus | avg Nus | max Nus | stddev Nus
"""

KV_PUT = f"""\
HH:MM:SS Starting JetStream KV putter benchmark [bucket=benchbucket, clients=1, msg-size=128 B, msgs=30, purge=false, \
sleep=0s]
HH:MM:SS [1] Starting JetStream KV putter, publishing 30 messages

NATS JetStream KV putter stats: {TIMED}
"""


class Bench:
    """The command line, and what the server has afterwards."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli

    def __call__(self, line: str, *more: str, status: int = 0) -> str:
        """Run a line; what it shows, remarks first."""
        done = self.cli.call("bench", *line.split(), *more, status=status)
        assert "Traceback" not in done.output
        return words(done.stderr + done.stdout)

    def stream(self, name: str = "benchstream") -> tuple[dict[str, Any], dict[str, Any]]:
        """Settings and state of a stream."""
        info = self.cli.json("stream", "info", name, "--json")
        return info["config"], info["state"]


@pytest.fixture(scope="module", params=["ours", "real"])
def server(
    request: pytest.FixtureRequest, server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    flags = ("-js", "-sd", str(tmp_path_factory.mktemp("js")))
    with server_pool.prepared(request.param, "", flags) as server:
        yield server


@pytest.fixture
def bench(server: ServerProcess, tmp_path: Path) -> Iterator[Bench]:
    """Streams and buckets are removed again."""
    cli = Cli(tmp_path, server.url)
    yield Bench(cli)
    for name in cli.call("stream", "ls", "-n", "-a").stdout.split():
        cli.call("stream", "rm", name, "-f")


def test_publish(bench: Bench) -> None:
    assert bench("js pub sync jsfoo --size 16 --create --storage memory --msgs 20") == PUB_SYNC
    config, state = bench.stream()
    assert (config["subjects"], config["storage"], config["num_replicas"]) == (["jsfoo"], "memory", 1)
    assert (config["max_bytes"], config["discard"], config["duplicate_window"]) == (2**30, "new", 120 * SECOND_NS)
    assert config["allow_direct"] and config["allow_atomic"] and config["allow_batched"]
    assert state["messages"] == 20

    screen = bench("js pub batch jsfoo --size 16 --batch 30 --purge --storage memory --msgs 100")
    assert "Purging the stream" in screen and f"atomic batch publisher stats: {TIMED}" in screen
    assert bench.stream()[1]["messages"] == 100
    screen = bench("js pub async jsfoo --clients 3 --msgs 100 --batch 7 --no-progress")
    assert f"  [3] {TIMED} (33 msgs)\n" in screen and "latencies per operation" in screen
    assert bench.stream()[1]["messages"] == 200
    bench("js pub fast jsfoo --clients 2 --msgs 1001 --batch 10 --max-outstanding-acks 2")
    assert bench.stream()[1]["messages"] == 1201
    bench("js pub fast jsfoo --msgs 1")
    bench("js pub jsfoo --msgs 3 --batch 2")  # the form of older versions
    assert bench.stream()[1]["messages"] == 1205


def test_publish_to_many_subjects_with_ids(bench: Bench) -> None:
    bench("js pub async many --create --msgs 60 --multisubject --multisubjectmax 5 --dedup --stream MANY --clients 2")
    config, state = bench.stream("MANY")
    assert (config["subjects"], config["storage"]) == (["many.*"], "file")
    assert (state["messages"], state["num_subjects"]) == (60, 5)
    header = bench.cli.json("stream", "get", "MANY", "1", "--json")["hdrs"]
    assert header
    paused = bench("js pub sync many --msgs 4 --multisubject --stream MANY --sleep 1ms -H a:b")
    assert "sleep=1ms" in paused
    bench("js pub atomic many --msgs 6 --batch 3 --multisubject --stream MANY --throughput 500 --dedup")
    bench("js pub fast many --msgs 6 --batch 3 --multisubject --stream MANY --sleep 1ms --dedup")
    assert bench.stream("MANY")[1]["messages"] == 76


def test_consume(bench: Bench) -> None:
    bench("js pub async jsfoo --create --msgs 1500")
    assert bench("js consume --clients 2 --no-progress --msgs 1500") == CONSUME
    assert bench.cli.call("consumer", "ls", "benchstream", "-n").stdout == ""  # so the next one begins at the start
    screen = bench("js fetch --acks none --clients 2 --msgs 1500 --batch 400")
    assert f"  [2] {TIMED} (750 msgs)\n" in screen
    bench("js fetch --acks all --msgs 1500")
    assert f"(callback) stats: {RATES} ~ Nus\n" in bench("js consume --doubleack --msgs 50 --batch 20 --double-ack")
    bench("js consume --msgs 10 --sleep 1ms --acks none")
    screen = bench("js ordered --clients 2 --msgs 1500 --batch 100")
    assert f"  [2] {RATES} ~ Nus (1,500 msgs)\n" in screen
    assert bench("js ordered --msgs 1 --batch 1").endswith(f"ephemeral consumer stats: {RATES} ~ Nus\n")


def test_consume_from_a_consumer_that_is_there(bench: Bench) -> None:
    bench("js pub async a --create --msgs 20 --multisubject --multisubjectmax 2")
    bench.cli.call("consumer", "add", "benchstream", "mine", "--pull", "--defaults")
    bench("js consume --consumer mine --msgs 15")
    info = bench.cli.json("consumer", "info", "benchstream", "mine", "--json")
    assert (info["ack_floor"]["stream_seq"], info["num_pending"]) == (15, 5)
    bench("js consume --filter a.0 --msgs 10")
    bench("js ordered --filter a.0 --filter a.1 --msgs 20")
    screen = bench("js ordered --filter a.0 --msgs 11 --timeout 300ms", status=1)
    assert "filter=a.0" in screen and "10 of 11 messages" in screen


def test_get(bench: Bench) -> None:
    bench("js pub async a --create --msgs 90 --multisubject --multisubjectmax 3")
    assert f"synchronous getter stats: {TIMED}\n" in bench("js get sync --msgs 90")
    screen = bench("js get batch --clients 2 --batch 40 --msgs 90")
    assert "batch=40, clients=2, filter=>, " in screen and f"  [2] {TIMED} (90 msgs)\n" in screen
    bench("js get batch --filter a.1 --msgs 30 --batch 7")
    assert "has 30 messages that match 'a.1', not 31" in bench("js get batch --filter a.1 --msgs 31", status=1)
    for verb in ("sync", "batch"):
        assert "holds 90 messages, not 91; say how many with --msgs" in bench(f"js get {verb} --msgs 91", status=1)
    bench.cli.call("stream", "edit", "benchstream", "--no-allow-direct", "-f")
    bench("js get sync --msgs 5")
    assert "has no direct access" in bench("js get batch --msgs 5", status=1)


def test_waiting_for_messages(bench: Bench) -> None:
    bench("js pub sync jsfoo --create --msgs 5")
    for verb in ("consume", "fetch", "ordered"):
        screen = bench(f"js {verb} --msgs 8 --timeout 400ms", status=1)
        assert "Stream benchstream holds 5 of 8 messages: waiting for more" in screen
        assert "the server sent nothing for 0.4 s; 5 of 8 messages" in screen
    with bench.cli.terminal("bench", "js", "ordered", "--purge", "--clients", "2", "--msgs", "30") as shown:
        shown.expect("[2] Starting JetStream ordered ephemeral consumer, expecting 30 messages")
        bench("js pub async jsfoo --msgs 30 --clients 3")
        shown.expect("aggregated stats").finish()


def test_kv(bench: Bench) -> None:
    assert bench("kv put --msgs 30") == KV_PUT
    config, state = bench.stream("KV_benchbucket")
    assert (config["max_msgs_per_subject"], config["max_bytes"], state["messages"]) == (1, 2**30, 30)
    assert bench.cli.call("kv", "get", "benchbucket", "29", "--raw").stdout == "\0" * 128
    screen = bench("kv get --clients 5 --randomize 30 --no-progress --msgs 52")
    assert "[1] Starting JetStream KV getter, trying to get 11 messages" in screen and "randomize=30" in screen
    bench("kv get --msgs 30 --clients 2")
    assert "getting key '30': message not found" in bench("kv get --msgs 31", status=1)
    bench("kv put --purge --msgs 40 --clients 4 --randomize 3 --history 5 --storage memory --size 7")
    config, state = bench.stream("KV_benchbucket")
    assert (config["max_msgs_per_subject"], config["storage"], state["num_subjects"]) == (5, "memory", 3)
    assert "different configuration (10058)" in bench("kv put --history 2", status=1)
    bench.cli.call("kv", "add", "MINE")
    bench("kv put --bucket MINE --msgs 3")
    bench("kv get --bucket MINE --msgs 3 --sleep 1ms")


def test_mistakes(bench: Bench) -> None:
    bench("js pub sync jsfoo --create --msgs 1")
    lines = {
        "js pub sync jsfoo --stream NONE": "could not access stream NONE: stream not found (10059): NONE; --create",
        "js pub sync jsfoo --stream a.b": "'a.b' cannot be the name",
        "js pub sync other --msgs 3": "no stream takes messages on 'other'",
        "js pub async other --msgs 3": "no stream takes messages on 'other'",
        "js pub sync jsfoo --create --storage memory": "`slipstream stream rm benchstream` makes room",
        "js pub atomic jsfoo --batch 1001 --msgs 1001": "batch is too large",
        "js consume --stream NONE": "could not access stream NONE",
        "js consume --consumer NONE": "consumer not found (10014): benchstream > NONE",
        "js ordered --purge --stream NONE": "could not access stream NONE",
        "js get sync --stream NONE": "could not access stream NONE",
        "kv get": "there is no bucket 'benchbucket'; `slipstream bench kv put` creates benchbucket",
        "kv put --bucket NONE": "there is no bucket 'NONE'",
    }
    for line, text in lines.items():
        assert text in bench(line, status=1), line
    wrong = {
        "js pub atomic jsfoo --persistasync": "not for atomic batches",
        "js pub fast jsfoo --max-outstanding-acks 0": "not between 1 and",
        "js pub async jsfoo --batch 5000 --size 1MB": "A batch is more than 256 MiB",
        "js pub asnc jsfoo": "Did you mean 'async'?",
        "js pub sync jsfoo --storage disk": "'disk' is not one of",
        "js fetch --acks maybe": "'maybe' is not one of",
        "js get async": "No such command 'async'",
    }
    for line, text in wrong.items():
        assert text in bench(line, status=2), line


def test_without_jetstream(server_pool: ServerPool, tmp_path: Path) -> None:
    bench = Bench(Cli(tmp_path, server_pool.shared("ours", "", ()).url))
    for line in ("js pub sync jsfoo --create", "js consume", "js get sync", "kv put", "kv get"):
        assert "JetStream is not available" in bench(line, status=1)
