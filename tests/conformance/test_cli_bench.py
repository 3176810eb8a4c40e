"""`slipstream bench` for core NATS: the lines of the NATS documentation as processes, their words, their mistakes."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path

import pytest
import trustme

from slipstream.client.wire import ClientTimeout, Message, NoResponders, WireClient
from slipstream.kernels.client.pubframes import encode_pubs
from support.bench_words import words
from support.cli import Cli
from support.server_process import ServerProcess
from support.servers import Launcher

SECOND_NS = 10**9

PUB = """\
HH:MM:SS Starting Core NATS publisher benchmark [clients=1, msg-size=16 B, msgs=1,000, multi-subject=false, \
multi-subject-max=100,000, multi-subject-randomize=false, sleep=0s, subject=foo]
HH:MM:SS [1] Starting Core NATS publisher, publishing 1,000 messages

NATS Core NATS publisher stats: N msgs/sec ~ N/sec ~ Nus
"""

PUB_OF_TWO = """\
HH:MM:SS Starting Core NATS publisher benchmark [clients=2, msg-size=128 B, msgs=1,001, multi-subject=false, \
multi-subject-max=100,000, multi-subject-randomize=false, sleep=0s, subject=foo]
HH:MM:SS [1] Starting Core NATS publisher, publishing 501 messages
HH:MM:SS [2] Starting Core NATS publisher, publishing 500 messages

  [1] N msgs/sec ~ N/sec ~ Nus (501 msgs)
  [2] N msgs/sec ~ N/sec ~ Nus (500 msgs)

 NATS Core NATS publisher aggregated stats: N msgs/sec ~ N/sec
 message rates min N | avg N | max N | stddev N msgs
 avg latencies min Nus | avg Nus | max Nus | stddev Nus
"""

SUB = """\
HH:MM:SS Starting Core NATS subscriber benchmark [clients=1, msg-size=16 B, msgs=50, multi-subject=false, subject=foo]
HH:MM:SS [1] Starting Core NATS subscriber, expecting 50 messages

NATS Core NATS subscriber stats: N msgs/sec ~ N/sec ~ Nus
"""

REQUEST = """\
HH:MM:SS Starting Core NATS service requester benchmark [clients=3, msg-size=16 B, msgs=60, sleep=0s, subject=svc]
HH:MM:SS [1] Starting Core NATS service requester, requesting 20 messages
HH:MM:SS [2] Starting Core NATS service requester, requesting 20 messages
HH:MM:SS [3] Starting Core NATS service requester, requesting 20 messages

  [1] {0} (20 msgs)
  [2] {0} (20 msgs)
  [3] {0} (20 msgs)

 NATS Core NATS service requester aggregated stats: N msgs/sec ~ N/sec
 message rates min N | avg N | max N | stddev N msgs
 latencies per operation min Nus | avg Nus | max Nus | stddev Nus | P50 Nus | P90 Nus | P99 Nus | P99.9 Nus
"""
TIMED = (
    "N msgs/sec ~ N/sec ~ min: Nus ~ avg: Nus ~ max: Nus ~ P50: Nus ~ P90: Nus ~ P99: Nus ~ P99.9: Nus"  # one client
)


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a process wrote: remarks first, then results."""
    return words((done.stderr + done.stdout).decode())


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Cli:
    return Cli(tmp_path, server.url)


def receive(client: WireClient, count: int) -> list[Message]:
    """The next messages."""
    return [client.next_message() for _ in range(count)]


class TestPublishers:
    def test_words(self, cli: Cli) -> None:
        assert said(cli.run("bench", "pub", "foo", "--size", "16", "--msgs", "1000")) == PUB
        assert said(cli.run("bench", "pub", "foo", "--clients", "2", "--msgs", "1001")) == PUB_OF_TWO

    def test_what_is_published(self, cli: Cli, server: ServerProcess) -> None:
        with WireClient(server.url) as client:
            client.subscribe("what.>")
            client.flush()
            cli.call("bench", "pub", "what.plain", "--msgs", "7", "--clients", "2", "--size", "1KB")
            assert {(m.subject, len(m.payload), m.header) for m in receive(client, 7)} == {("what.plain", 1024, b"")}

            flags = ("--multisubject", "--multisubjectmax", "3", "-H", "a:b", "--header", "c: d")
            cli.call("bench", "pub", "what.many", "--msgs", "6", "--clients", "2", *flags)
            found = sorted((m.subject, m.header) for m in receive(client, 6))
            header = b"NATS/1.0\r\na: b\r\nc: d\r\n\r\n"
            assert found == [(f"what.many.{number // 2}", header) for number in range(6)]

            cli.call("bench", "pub", "what.all", "--msgs", "4", "--clients", "2", "--multisubject")
            subjects = [f"what.all.{number:06d}" for number in range(4)]
            assert sorted(m.subject for m in receive(client, 4)) == subjects
            cli.call("bench", "pub", "what.all", "--msgs", "2", "--multisubject", "--multisubjectmax", "0")
            assert [m.subject for m in receive(client, 2)] == ["what.all.0", "what.all.1"]
            cli.call(
                *("bench", "pub", "what.any", "--msgs", "5", "--multisubject", "--multisubjectrandomize"),
                *("--multisubjectmax", "2"),
            )
            assert {m.subject for m in receive(client, 5)} <= {"what.any.0", "what.any.1"}

            body = cli.home / "body"
            body.write_bytes(b"from a file")
            cli.call("bench", "pub", "what.plain", "--msgs", "1", "--payload", str(body))
            assert client.next_message().payload == b"from a file"
            with pytest.raises(ClientTimeout):
                client.next_message(SECOND_NS // 20)

    def test_pauses(self, cli: Cli, server: ServerProcess) -> None:
        with WireClient(server.url) as client:
            client.subscribe("slow")
            client.flush()
            paused = cli.call("bench", "pub", "slow", "--msgs", "6", "--clients", "2", "--sleep", "5ms")
            assert "sleep=5ms" in paused.stderr and len(receive(client, 6)) == 6
            assert rate(paused.stdout) < 2 * 1000 / 5  # two clients, a message in 5 ms each
            steady = cli.call("bench", "pub", "slow", "--throughput", "200", "--duration", "250ms")
            assert "duration=250ms" in steady.stderr and "throughput=200" in steady.stderr
            assert "publishing 50 messages" in steady.stderr and len(receive(client, 50)) == 50
            assert rate(steady.stdout) <= 200

    def test_csv(self, cli: Cli) -> None:
        place = cli.home / "numbers.csv"
        done = cli.call("bench", "pub", "foo", "--msgs", "30", "--clients", "2", "--csv", str(place))
        assert done.stdout.endswith(f"Saved metric data in csv file {place}\n")
        head, *rows = csv.reader(place.read_text().splitlines())
        assert head == ["#RunID", "ClientID", "MsgCount", "MsgBytes", "MsgsPerSec", "BytesPerSec", "DurationSecs"]
        assert [row[1:4] for row in rows] == [["P0", "15", "1920"], ["P1", "15", "1920"]]
        assert len({row[0] for row in rows}) == 1 and all(float(value) > 0 for row in rows for value in row[4:])
        lost = cli.call("bench", "pub", "foo", "--msgs", "1", "--csv", str(cli.home / "no" / "such.csv"), status=1)
        assert "No such file or directory" in lost.stderr


def rate(screen: str) -> float:
    """Messages a second, over all clients."""
    found = re.search(r"stats: ([\d,]+) msgs/sec", screen)
    assert found is not None
    return int(found[1].replace(",", ""))


class TestSubscribers:
    def test_words(self, cli: Cli, server: ServerProcess) -> None:
        with (
            WireClient(server.url) as client,
            cli.terminal("bench", "sub", "foo", "--size", "16", "--msgs", "50", "--no-progress", columns=200) as shown,
        ):
            while not shown.shows("subscriber stats: "):
                client.send(encode_pubs(b"foo", b"x", 20))
            assert words(shown.finish()).rstrip("\n") + "\n" == SUB

    def test_each_of_many_gets_all(self, cli: Cli, server: ServerProcess) -> None:
        arguments = ("bench", "sub", "all", "--msgs", "20", "--clients", "3", "--multisubject")
        with WireClient(server.url) as client, cli.terminal(*arguments) as shown:
            while not shown.shows("stddev"):
                client.send(encode_pubs(b"all.17", b"x", 20))
            screen = shown.finish()
        assert "subject=all.*" in screen and "subscriber aggregated stats: " in screen and "  [3] " in screen

    def test_a_queue_group_shares(self, cli: Cli, server: ServerProcess) -> None:
        arguments = ("bench", "sub", "shared", "--msgs", "20", "--clients", "3", "--queue", "g")
        with WireClient(server.url) as client, cli.terminal(*arguments) as shown:
            while not shown.shows("subscriber stats: "):
                client.send(encode_pubs(b"shared", b"x", 20))
            shown.finish()


class TestServices:
    def test_serve_and_request(self, cli: Cli, server: ServerProcess) -> None:
        with WireClient(server.url) as client, cli.terminal("bench", "service", "serve", "svc", "--clients", "2") as it:
            it.expect("[2] Starting Core NATS service server, hit control-c to stop")
            wait_for(client, "svc")
            done = cli.run("bench", "service", "request", "svc", "--size", "16", "--clients", "3", "--msgs", "60")
            assert said(done) == REQUEST.format(TIMED)

            inbox = client.new_inbox()
            client.subscribe(inbox)
            client.publish("$SRV.STATS", reply=inbox)
            stats = [json.loads(message.payload) for message in receive(client, 2)]
            assert {each["type"] for each in stats} == {"io.nats.micro.v1.stats_response"}
            assert len({each["id"] for each in stats}) == 2
            asked = [each["endpoints"][0]["num_requests"] for each in stats]
            assert sum(asked) >= 60 and all(asked)
            info = json.loads(client.request(f"$SRV.INFO.nats-bench-service.{stats[0]['id']}").payload)
            assert (info["name"], info["version"]) == ("nats-bench-service", "1.0.0")
            assert info["endpoints"][0]["subject"] == "svc"
            assert json.loads(client.request("$SRV.PING").payload)["type"] == "io.nats.micro.v1.ping_response"
            it.interrupt()
            assert "Traceback" not in it.finish()
            with pytest.raises(NoResponders):
                client.request("svc")

    def test_requests_pause_and_have_headers(self, cli: Cli, server: ServerProcess) -> None:
        arguments = ("bench", "service", "serve", "slow", "--sleep", "3ms")
        with WireClient(server.url) as client, cli.terminal(*arguments) as it:
            wait_for(client, "slow")
            client.subscribe("slow")
            client.flush()
            flags = ("--msgs", "5", "--sleep", "2ms", "-H", "a:b")
            done = cli.call("bench", "request", "slow", *flags)
            assert {message.header for message in receive(client, 5)} == {b"NATS/1.0\r\na: b\r\n\r\n"}
            assert rate(done.stdout) < 1000 / 5
            it.interrupt().finish()

    def test_a_bad_answer_ends_it(self, cli: Cli, server: ServerProcess) -> None:
        with WireClient(server.url) as client, cli.terminal("bench", "service", "request", "bad", "--msgs", "5") as it:
            client.subscribe("bad")
            client.flush()
            client.publish(client.next_message().reply, b"-ERR no")
            assert "was answered with b'-ERR no'" in it.finish(1)


def wait_for(client: WireClient, subject: str) -> None:
    """Ask until somebody answers."""
    while True:
        try:
            assert client.request(subject).payload == b"ok"
            return
        except NoResponders:
            with pytest.raises(ClientTimeout):
                client.next_message(SECOND_NS // 50)


class TestMistakes:
    @pytest.mark.parametrize(
        ("line", "status", "text"),
        [
            ("pub foo --size 2MB --msgs 3", 1, "Maximum Payload Violation"),
            ("pub foo --size none", 2, "'none' is not a size"),
            ("pub foo --size 65MB", 2, "is more than"),
            ("pub foo --duration 1s", 2, "--duration requires --throughput"),
            ("pub foo --duration 1ms --throughput 1", 2, "there are no messages"),
            ("pub foo --sleep -1", 2, "negative"),
            ("pub foo --sleep soon", 2, "'soon' is not a duration"),
            ("pub foo --timeout 2d", 2, "is not between 1ms and 24h"),
            ("pub foo --payload nowhere", 2, "'nowhere' does not exist"),
            ("pub foo --header nothing", 2, "is not a header such as"),
            ("pub foo --clients 1001", 2, "not between 1 and 1000"),
            ("sub silence --timeout 50ms --msgs 3", 1, "the server sent nothing for 0.05 s; 0 of 3 messages"),
            ("service request nobody --msgs 3", 1, "no responders on 'nobody'"),
            ("service ask foo", 2, "No such command 'ask'"),
            ("pub foo --server nats://127.0.0.1:1", 1, "cannot connect to 127.0.0.1:1"),
        ],
    )
    def test_are_told(self, cli: Cli, line: str, status: int, text: str) -> None:
        done = cli.call("bench", *line.split(), status=status)
        assert text in done.stderr.replace("\n  ", " ") and "Traceback" not in done.output

    def test_flags_may_stand_before_the_command(self, cli: Cli, server: ServerProcess) -> None:
        done = cli.call("bench", "--msgs", "3", "pub", "foo", "--clients", "2")
        assert "clients=2" in done.stderr and "msgs=3," in done.stderr

    @pytest.mark.parametrize("after", ["expecting 100,000 messages", "0/100,000 msgs"])
    def test_ctrl_c(self, cli: Cli, after: str) -> None:
        with cli.terminal("bench", "sub", "silence") as shown:
            shown.expect(after).interrupt()
            screen = shown.finish(1)
        assert "Aborted!" in screen and "Traceback" not in screen


class TestConnections:
    def test_tls_and_a_user(self, ours: Launcher, tmp_path: Path) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
        config = f"""
            tls {{ cert_file: "{tmp_path}/both.pem", key_file: "{tmp_path}/both.pem" }}
            authorization {{ user: ann, password: secret }}
        """
        cli = Cli(tmp_path, ours.fresh(config).url)
        login = ("--user", "ann", "--password", "secret", "--tlsca", str(tmp_path / "ca.pem"))
        assert said(cli.run("bench", "pub", "foo", "--size", "16", "--msgs", "1000", *login)) == PUB
        wrong = cli.call("bench", "pub", "foo", "--msgs", "1", *login, "--password", "no", status=1)
        assert "Authorization Violation" in wrong.stderr
