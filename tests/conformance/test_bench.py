"""The synchronous client, every benchmark scenario and `slipstream bench`, small, against a real server.

They run with nats-server: what is proved here is that the generator accounts for every message, not that a server is
fast.
"""

from __future__ import annotations

import contextlib
import resource
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from benchmarks import core
from benchmarks.ceiling import measure_ceiling
from benchmarks.compare import SCENARIOS
from benchmarks.compare import main as compare
from benchmarks.report import Measured
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale
from benchmarks.servers import Server, ServerFailed
from benchmarks.soak import SoakResult, soak
from benchmarks.soak_load import Churning, SoakPublishing, SoakReceiving, SoakTally
from click.testing import CliRunner

from slipstream.cli.bench import bench
from slipstream.client.load import Counting
from slipstream.client.options import ClientError, ClientTimeout, ServerRefused
from slipstream.client.roundtrip import Replying, Requesting
from slipstream.client.throughput import PublishLoad, Receiving
from slipstream.client.wire import NoResponders, WireClient, WireOptions
from slipstream.client.workers import run_here, run_together
from support.cli import Cli
from support.servers import Launcher, server_binary

ONE = (("s",),)
SECOND_NS = 1_000_000_000


@pytest.fixture
def url(real: Launcher) -> str:
    return real().url


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(server_binary("real"), tmp_path) as started:
        yield started


class TestClient:
    def test_publish_subscribe_request(self, url: str) -> None:
        with WireClient(url) as one, WireClient(url) as two:
            sid = two.subscribe("greet.*")
            two.flush()
            one.publish("greet.joe", b"hello", header=b"NATS/1.0\r\nk: v\r\n\r\n")
            message = two.next_message()
            assert (message.subject, message.sid, message.payload) == ("greet.joe", sid, b"hello")
            assert message.header == b"NATS/1.0\r\nk: v\r\n\r\n"
            with pytest.raises(NoResponders):
                one.request("nobody.home")

    def test_unsubscribe_after_some_messages(self, url: str) -> None:
        with WireClient(url) as client:
            sid = client.subscribe("few")
            client.unsubscribe(sid, after=2)
            for number in range(5):
                client.publish("few", b"%d" % number)
            client.flush()
            assert [m.payload for m in client.next_messages()] == [b"0", b"1"]

    def test_messages_of_the_largest_size(self, url: str) -> None:
        with WireClient(url) as client:
            client.subscribe("big")
            payload = bytes(range(256)) * 4096
            client.publish("big", payload)
            assert client.next_message().payload == payload

    def test_credentials(self, real: Launcher) -> None:
        url = real("authorization { user: u, password: p }").url
        WireClient(url, WireOptions(user="u", password="p")).close()
        WireClient(url.replace("//", "//u:p@")).close()
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            WireClient(url, WireOptions(user="u", password="wrong"))

    def test_token(self, real: Launcher) -> None:
        WireClient(real("authorization { token: t0 }").url.replace("//", "//t0@")).close()

    def test_tls(self, real: Launcher, tmp_path: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(tmp_path / "key.pem")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        server = real.fresh(f'tls {{ cert_file: "{tmp_path}/cert.pem", key_file: "{tmp_path}/key.pem" }}')
        with WireClient(server.url, WireOptions(tls=context)) as client:
            client.subscribe("secret")
            client.publish("secret", b"x" * 300_000)
            assert len(client.next_message().payload) == 300_000
        with pytest.raises(ClientError, match="TLS handshake"):
            WireClient(server.url)


class TestJobs:
    @pytest.mark.parametrize(("messages", "size"), [(0, 0), (1, 0), (7, 16), (5000, 128), (50, 16384)])
    def test_publishing_is_accounted_for(self, url: str, messages: int, size: int) -> None:
        tally = run_here(PublishLoad(url=url, subjects=ONE, messages=messages, size=size))
        assert (tally.messages, tally.payload_bytes) == (messages, messages * size)

    def test_many_connections_each_with_its_subject(self, url: str) -> None:
        subjects = tuple((f"many.{index}",) for index in range(5))
        received, published = run_together(
            [
                Receiving(url=url, subjects=subjects, messages=300),
                PublishLoad(url=url, subjects=subjects, messages=300, size=100),
            ]
        )
        assert received.messages == published.messages == 1500
        assert received.payload_bytes == 150_000

    def test_queue_group_shares(self, url: str) -> None:
        receiver = Receiving(url=url, subjects=(("q",),) * 3, messages=900, queue="group")
        received, _ = run_together([receiver, PublishLoad(url=url, subjects=(("q",),), messages=900, size=1)])
        assert received.messages == 900

    def test_requests_are_answered_by_several_connections(self, url: str) -> None:
        replying = Replying(url=url, subject="svc", messages=60, size=9, queue="g", connections=3)
        requesting = [
            Requesting(url=url, subject="svc", inbox=f"_INBOX.{n}", messages=30, size=5, timeout_ns=5 * SECOND_NS)
            for n in range(2)
        ]
        answered, *asked = run_together([replying, *requesting])
        assert answered.messages == 60
        assert [(t.messages, t.payload_bytes, len(t.latencies_ns)) for t in asked] == [(30, 270, 30)] * 2

    def test_how_far_it_is(self, url: str) -> None:
        seen: list[int] = []
        with WireClient(url) as publisher:

            def on_progress(done: int) -> None:
                if done in (0, 4) and done not in seen:
                    for _ in range(4 if done == 0 else 6):
                        publisher.publish("far", b"x")
                seen.append(done)

            (tally,) = run_together([Receiving(url=url, subjects=(("far",),), messages=10)], on_progress=on_progress)
        assert tally.messages == 10
        assert {0, 4} <= set(seen) <= {0, 4, 10}

    @pytest.mark.parametrize("connections", [1, 3])
    def test_publishers_count_what_they_sent(self, url: str, connections: int) -> None:
        job = PublishLoad(url=url, subjects=(("sent",),) * connections, messages=5_000, size=100)
        runner = job.prepare()
        try:
            assert isinstance(runner, Counting) and runner.done == 0
            runner.run()
            assert runner.done == 5_000 * connections
        finally:
            runner.close()

    def test_missing_messages_are_an_error(self, url: str) -> None:
        receiver = Receiving(url=url, subjects=(("missing",),), messages=3, timeout_ns=SECOND_NS // 10)
        with pytest.raises(ClientError, match="2 of 3 messages came"):
            run_together([receiver, PublishLoad(url=url, subjects=(("missing",),), messages=2, size=1)])

    def test_first_failure_ends_all(self, url: str) -> None:
        waiting = Receiving(url=url, subjects=(("never",),), messages=1)
        with pytest.raises(ClientError, match="no responders"):
            run_together([waiting, Requesting(url=url, subject="none", inbox="_INBOX.x", messages=1, size=1)])

    def test_payload_too_large_is_the_servers_word(self, url: str) -> None:
        with pytest.raises(ServerRefused, match="Maximum Payload Violation"):
            run_here(PublishLoad(url=url, subjects=ONE, messages=1, size=2_000_000))

    def test_server_that_goes_away_is_an_error(self, real: Launcher) -> None:
        server = real.fresh()
        runner = Receiving(url=server.url, subjects=ONE, messages=1).prepare()
        server.kill()
        with pytest.raises(ClientError, match="connection"):
            runner.run()
        runner.close()

    @pytest.mark.parametrize(
        "job",
        [
            PublishLoad(url="u", subjects=(), messages=1, size=1),
            PublishLoad(url="u", subjects=((),), messages=1, size=1),
            PublishLoad(url="u", subjects=ONE, messages=-1, size=1),
            Receiving(url="u", subjects=((),), messages=1),
            Requesting(url="u", subject="s", inbox="i", messages=1, size=-1),
            Replying(url="u", subject="s", messages=-1, size=1),
        ],
    )
    def test_senseless_jobs_are_refused(self, job: PublishLoad | Receiving | Requesting | Replying) -> None:
        with pytest.raises(ClientError):
            run_here(job)


class TestScenarios:
    def test_publish(self, url: str) -> None:
        result = core.publish(url, messages=2_000)
        assert (result.messages, result.payload_bytes) == (2_000, 256_000)
        assert result.rate > 0

    @pytest.mark.parametrize(
        ("publishing", "receiving", "delivered"),
        [(ONE, ONE, 500), (ONE, ONE * 10, 5_000), ((("a.1",), ("a.2",)), (("a.1",), ("a.2",)), 1_000)],
    )
    def test_deliver(self, url: str, publishing: core.Subjects, receiving: core.Subjects, delivered: int) -> None:
        result = core.deliver(url, publishing=publishing, receiving=receiving, messages=500, size=128)
        assert (result.messages, result.payload_bytes) == (delivered, delivered * 128)

    def test_deliver_does_not_hide_surplus_messages(self, url: str) -> None:
        with pytest.raises(MessagesMissing, match="20 messages came instead of 10"):
            core.deliver(url, publishing=ONE, receiving=(("s", ">"),), messages=10)

    def test_request_reply(self, url: str) -> None:
        result = core.request_reply(url, requests=50)
        assert 0 < result.p50_ns <= result.p99_ns

    def test_idle_memory(self, server: Server) -> None:
        result = core.idle_memory(server.url, server.resident_bytes, connections=50)
        assert result.after_bytes >= result.before_bytes > 0

    def test_idle_memory_needs_descriptors(self, server: Server) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with pytest.raises(OSError, match="RLIMIT_NOFILE"):
            core.idle_memory(server.url, server.resident_bytes, connections=hard + 1)

    def test_wildcard_cost(self, url: str) -> None:
        result = core.wildcard_cost(url, messages=1_000, subscriptions=400, rotation=100)
        assert result.before.messages == result.after.messages == 1_000
        assert result.kept > 0

    def test_soak(self, server: Server) -> None:
        result = soak(server, duration_ns=SECOND_NS // 2, rate=4_000, sample_ns=SECOND_NS // 10)
        assert result.faults() == []
        assert result.published > 0 and result.rounds > 0
        assert result.received.messages == 3 * result.published

    def test_soak_answers_whoever_still_asks(self, server: Server) -> None:
        jobs = [
            SoakReceiving(url=server.url),
            SoakPublishing(url=server.url, rate=4_000, duration_ns=SECOND_NS // 20),
            Churning(url=server.url, duration_ns=SECOND_NS // 2),
        ]
        *_, churned = run_together(jobs, timeout_ns=20 * SECOND_NS)
        assert churned.messages > 0

    def test_ceiling(self) -> None:
        ceiling = measure_ceiling(messages=2_001)
        assert ceiling.publish_rate > 0 and ceiling.receive_rate > 0


class TestCompare:
    def test_names_are_distinct(self) -> None:
        assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)

    def test_table_of_one_scenario(self, tmp_path: Path) -> None:
        real, output = server_binary("real"), tmp_path / "table.md"
        flags = ["--ours", real, "--theirs", real, "--only", "start", "--repeat", "2", "--output", output]
        done = CliRunner().invoke(compare, [str(flag) for flag in flags])
        assert done.exit_code == 0, done.output
        assert "| start to ready | s |" in output.read_text()
        assert "| pass |" in output.read_text()

    def test_failing_server_fails_its_row(self, tmp_path: Path) -> None:
        broken, output = tmp_path / "broken-server", tmp_path / "table.md"
        broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken: v0\n')
        broken.chmod(0o755)
        flags = ["--ours", broken, "--theirs", server_binary("real"), "--only", "start", "--quick", "--output", output]
        done = CliRunner().invoke(compare, [str(flag) for flag in flags])
        assert done.exit_code == 1
        assert "| FAIL |" in output.read_text() and "broken-server is not ready" in output.read_text()

    def test_server_that_does_not_start(self, tmp_path: Path) -> None:
        with pytest.raises(ServerFailed, match="cannot start"):
            Server(tmp_path / "none", tmp_path)

    @pytest.mark.parametrize("scale", Scale)
    def test_scaled_counts_stay_positive(self, scale: Scale) -> None:
        assert [scale.of(count) > 0 for count in (1, 5, 1000)] == [True] * 3


class TestVerdicts:
    @pytest.mark.parametrize(
        ("claim", "limit", "good", "bad"),
        [
            (Claim.RATIO_AT_LEAST, 1.0, (10, 10), (9.9, 10)),
            (Claim.RATIO_AT_MOST, 1.2, (12, 10), (12.1, 10)),
            (Claim.OURS_AT_LEAST, 0.5, (0.5, 9), (0.49, 0.1)),
            (Claim.OURS_AT_MOST, 0.4, (0.4, 0.01), (0.41, 9)),
        ],
    )
    def test_bars(self, claim: Claim, limit: float, good: tuple[float, float], bad: tuple[float, float]) -> None:
        bar = Bar(claim, limit)
        assert bar.cleared(*good) and not bar.cleared(*bad)
        row = Row("title", "unit", bar)
        assert Measured(row, [good[0]] * 3, [good[1]]).verdict() == "pass"
        assert Measured(row, [bad[0]] * 3, [bad[1]]).verdict() == "FAIL"
        assert Measured(row, [good[0]], [good[1]], ["messages are missing"]).verdict() == "FAIL"

    def test_row_without_a_bar_has_no_verdict(self) -> None:
        assert Measured(Row("title", "unit", None), [1.0], [2.0]).verdict() == ""

    @pytest.mark.parametrize(
        ("lost", "group", "delivered", "words"),
        [
            (0, 100, 300, []),
            (2, 100, 298, ["2 messages lost", "298 deliveries instead of 300"]),
            (0, 99, 299, ["the queue group got 99 of 100", "299 deliveries instead of 300"]),
        ],
    )
    def test_soak_counts(self, lost: int, group: int, delivered: int, words: list[str]) -> None:
        received = SoakTally(
            messages=delivered, payload_bytes=0, started_ns=0, ended_ns=1, lost=lost, group_messages=group
        )
        faults = SoakResult(100, received, 5, (50, 50)).faults()
        assert len(faults) == len(words)
        assert all(word in fault for word, fault in zip(words, faults, strict=True))

    @pytest.mark.parametrize(
        ("minutes", "mebibytes", "faults"),
        [
            (30, [*range(0, 400, 10)], ["memory grew by 200 MiB"]),
            (30, [*range(0, 200, 10), *[195] * 20], ["memory grew by 50 MiB"]),
            (30, [*range(0, 100, 10), *[100] * 30], []),
            (30, [*range(0, 390, 10)], []),  # too few samples
            (10, [*range(0, 400, 10)], []),  # too short
        ],
    )
    def test_soak_memory(self, minutes: int, mebibytes: list[int], faults: list[str]) -> None:
        received = SoakTally(
            messages=3, payload_bytes=0, started_ns=0, ended_ns=minutes * 60 * SECOND_NS, group_messages=1
        )
        assert SoakResult(1, received, 5, tuple(value * 2**20 for value in mebibytes)).faults() == faults


class TestCommand:
    def invoke(self, url: str, *args: str) -> str:
        done = CliRunner().invoke(bench, [*args, "--server", url])
        return f"{done.exit_code} {done.output}"

    def test_pub(self, url: str) -> None:
        text = self.invoke(url, "pub", "cli.pub", "--msgs", "1001", "--clients", "3", "--size", "1KB")
        assert text.startswith("0 ") and "clients=3, msg-size=1.0 KiB, msgs=1,001, " in text
        assert "[3] Starting Core NATS publisher, publishing 333 messages" in text
        assert "publisher aggregated stats: " in text and " msgs/sec ~ " in text and " MiB/sec" in text

    def test_a_terminal_shows_how_far_it_is(self, url: str, tmp_path: Path) -> None:
        screen = Cli(tmp_path, url).screen("bench", "pub", "cli.bar", "--msgs", "1001", "--clients", "2")
        assert "Measuring" in screen and "100% 1,001/1,001 msgs" in screen and "publisher aggregated stats: " in screen
        screen = Cli(tmp_path, url).screen("bench", "pub", "cli.bar", "--msgs", "1001", "--no-progress")
        assert "Measuring" not in screen and "publisher stats: " in screen

    def test_the_others_on_a_terminal(self, url: str, tmp_path: Path) -> None:
        cli = Cli(tmp_path, url)
        with WireClient(url) as client:
            with cli.terminal("bench", "sub", "cli.tsub", "--msgs", "5") as terminal:
                while not terminal.shows("subscriber stats: "):
                    client.publish("cli.tsub", b"x")
                terminal.expect("100% 5/5 msgs").finish()
            with cli.terminal("bench", "reply", "cli.treply", "--msgs", "1") as terminal:
                while not terminal.shows("responder stats: "):
                    with contextlib.suppress(NoResponders, ClientTimeout):  # not there yet, or just gone
                        client.request("cli.treply", b"x", timeout_ns=SECOND_NS // 2)
                terminal.expect("100% 1/1 msgs").finish()
        responder = Replying(url=url, subject="cli.task", messages=20, size=1).prepare()
        serving = threading.Thread(target=responder.run)
        serving.start()
        screen = cli.screen("bench", "request", "cli.task", "--msgs", "20")
        serving.join()
        responder.close()
        assert "100% 20/20 msgs" in screen and "requester stats: " in screen and "us ~ P99.9: " in screen

    def test_sub(self, url: str) -> None:
        enough = threading.Event()

        def publish() -> None:
            with WireClient(url) as client:
                while not enough.is_set():
                    client.publish("cli.sub", b"hello")

        publisher = threading.Thread(target=publish)
        publisher.start()
        text = self.invoke(url, "sub", "cli.sub", "--msgs", "50", "--clients", "2")
        enough.set()
        publisher.join()
        assert text.startswith("0 ") and "subscriber aggregated stats: " in text

    def test_request(self, url: str) -> None:
        responder = Replying(url=url, subject="cli.request", messages=20, size=1).prepare()
        serving = threading.Thread(target=responder.run)
        serving.start()
        text = self.invoke(url, "request", "cli.request", "--msgs", "20", "--clients", "2")
        serving.join()
        responder.close()
        assert text.startswith("0 ") and "requester aggregated stats: " in text and "| P99 " in text

    def test_reply(self, url: str) -> None:
        answers: list[bytes] = []

        def ask() -> None:
            with WireClient(url) as client:
                while len(answers) < 20:
                    with contextlib.suppress(NoResponders):  # until the command has subscribed
                        answers.append(client.request("cli.reply").payload)

        asking = threading.Thread(target=ask)
        asking.start()
        text = self.invoke(url, "reply", "cli.reply", "--msgs", "20", "--clients", "2", "--size", "3")
        asking.join()
        assert text.startswith("0 ") and "responder stats: " in text
        assert answers == [b"xxx"] * 20

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (("pub", "a b"), "subject is empty, too long or has blanks"),
            (("pub", "a", "--size", "12parsecs"), "is not a size"),
            (("pub", "a", "--size", "65MB"), "is more than"),
            (("pub", "a", "--msgs", "0"), "Invalid value for '--msgs'"),
            (("request", "nobody.there"), "no responders on 'nobody.there'"),
            (("sub", "silence", "--timeout", "0.05"), "the server sent nothing for 0.05 s; 0 of 100,000"),
            (("pub", "a", "-s", "http://h"), "not a server URL"),
        ],
    )
    def test_clear_errors(self, url: str, args: tuple[str, ...], words: str) -> None:
        done = CliRunner().invoke(bench, [*args[:2], "-s", url, *args[2:]])
        assert done.exit_code in (1, 2) and words in done.output
