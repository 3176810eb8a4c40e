"""The command lines that made NATS streaming known work here: `nats` and `jsm` are called `slipstream`, nothing else.

Two texts are followed: a short introduction to streams with `nats`, and the notes of JetStream's technical preview
with `jsm` and the small tools `nats-pub`, `nats-sub`, `nats-req` and `nats-bench`. Every line runs as a process in a
terminal, with the answers that the texts give, and shows what they show.

Where the servers of today differ from the preview the test says so: a stream may not take subjects that another one
has, so `derek` goes before `wc` comes; the number of unacknowledged messages is known, not their times; bytes of a
message are counted with what is stored beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Cli
from support.server_process import ServerProcess
from support.servers import ServerPool


@pytest.fixture(scope="module")
def server(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`nats-server -js -sd /tmp/test`, on a free port."""
    directory = tmp_path_factory.mktemp("test")
    with server_pool.prepared("ours", "", ("-js", "-sd", str(directory))) as server:
        yield server


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Cli:
    return Cli(tmp_path, server.url)


def test_the_introduction(cli: Cli) -> None:
    # Questions that the line leaves open get their defaults by pressing return.
    with cli.terminal("stream", "add", "ORDERS", "--subjects", "orders.*") as terminal:
        for question in ("Storage", "Replication", "Retention Policy", "Discard Policy", "Stream Messages Limit"):
            terminal.answer(question)
        for question in ("Per Subject Messages Limit", "Total Stream Size", "Message TTL", "Max Message Size"):
            terminal.answer(question)
        for question in ("Duplicate tracking time window", "Roll-ups", "deletion", "purging"):
            terminal.answer(question)
        assert "Subjects: orders.*" in terminal.expect("Stream ORDERS was created").finish()
    body = "US Order #  {{Count}} at {{TimeStamp}}"
    with cli.terminal("pub", "orders.us", "--count=-1", "--sleep=2s", body) as terminal:
        terminal.expect('bytes to "orders.us"').expect('bytes to "orders.us"').interrupt().finish()
    cli.call("consumer", "add", "ORDERS", "my-consumer-1", "--pull", "--defaults")
    with cli.terminal("consumer", "next", "ORDERS", "my-consumer-1") as terminal:
        assert re.search(r"US Order #  1 at \d{4}-\d\d-\d\dT", terminal.finish())

    assert "my-consumer-1" in cli.screen("consumers", "ls", "ORDERS")
    with cli.terminal("consumer", "rm", "ORDERS", "my-consumer-1") as terminal:
        terminal.answer("Really delete Consumer ORDERS > my-consumer-1?", "y").finish()
    assert "ORDERS" in cli.screen("stream", "ls")
    with cli.terminal("stream", "rm", "ORDERS") as terminal:
        terminal.answer("Really delete Stream ORDERS?", "y").finish()
    assert "No Streams defined" in cli.screen("stream", "ls")


def test_message_sets_of_the_technical_preview(cli: Cli) -> None:
    assert "Usage" in cli.screen("-h")

    _add_message_set(cli, "derek", "foo bar", "", "file")
    account = cli.screen("info")
    assert re.search(r"Memory:  0 B of \S+.*\nStorage: 0 B of .*\nMsgSets: 1 of Unlimited", account)
    assert "\n1) derek\n" in cli.screen("ls")
    assert "\nMessages: 0\nBytes:    0 B\nFirstSeq: 0\nLastSeq:  0\n" in cli.screen("info", "derek")

    assert "Published [foo] : 'hello'" in _tool(cli, "slipstream-pub", "foo", "hello")
    answer = _tool(cli, "slipstream-req", "bar", "world")
    assert "Published [bar] : 'world'" in answer
    assert re.search(r"Received  \[_INBOX\.\S+\] : '\{\"stream\":\"derek\",.*\"seq\":2", answer)
    assert _state(cli, "derek")[0] == "2"

    # The text publishes a million; the line is the same.
    bench = _tool(cli, "slipstream-bench", "-np", "20", "-ns", "0", "-ms", "128", "-n", "10000", "foo")
    assert "publisher stats" in bench
    messages, _, first, last = _state(cli, "derek")
    assert (messages, first, last) == ("10,002", "1", "10,002")

    _remove_message_set(cli, "derek")
    _add_message_set(cli, "derek", "foo, bar, baz.*", "-1 -1 1m", "file")
    config = cli.json("stream", "info", "derek", "--json")["config"]
    assert (config["subjects"], config["max_age"], config["max_msgs"]) == (["foo", "bar", "baz.*"], 60 * 10**9, -1)
    _remove_message_set(cli, "derek")


def test_observables_of_the_technical_preview(cli: Cli) -> None:
    _add_message_set(cli, "wc", "*", "", "file")
    assert "Published [1] : 'hello'" in _tool(cli, "slipstream-pub", "1", "hello")
    for subject in "2345":
        cli.call("pub", subject, "hello")
    assert _state(cli, "wc")[0] == "5"
    _pull_observable(cli)
    _push_observable(cli)


def _pull_observable(cli: Cli) -> None:
    with cli.terminal("add-obs") as terminal:
        terminal.expect("Enter the following information")
        terminal.answer("Message Set Name:", "wc").answer("Durable Name:", "p1").answer("Push or Pull:", "pull")
        terminal.answer("Deliver All? (Y|n):").answer("Replay Policy (Instant|original):")
        assert 'Received response of "+OK"' in terminal.finish()
    assert '"Delivered": {\n    "ObsSeq": 1,\n    "SetSeq": 1\n  }' in cli.screen("info-obs", "wc", "p1")

    # The preview's subject for the next message is understood.
    answer = _tool(cli, "slipstream-req", "$JS.RN.wc.p1", "1")
    assert "Published [$JS.RN.wc.p1] : '1'" in answer
    assert "Received  [1] : 'hello'" in answer
    shown = cli.call("info-obs", "wc", "p1").stdout
    assert '"Delivered": {\n    "ObsSeq": 2,\n    "SetSeq": 2\n  }' in shown
    assert '"Pending": 1' in shown

    with cli.terminal("next", "wc", "p1") as terminal:
        terminal.expect("Received response of hello").expect("Reply: $JS.ACK.wc.p1.1.2.2.").answer(
            "Ack? (Y|n)"
        ).finish()
    # Message 2 is acknowledged, message 1 still waits.
    assert '"Pending": 1' in cli.call("info-obs", "wc", "p1").stdout
    assert "\n1) p1\n" in cli.screen("ls-obs", "wc")


def _push_observable(cli: Cli) -> None:
    with cli.terminal("add-obs") as terminal:
        terminal.answer("Message Set Name:", "wc").answer("Durable Name:", "p2").answer("Push or Pull:", "push")
        terminal.answer("Delivery Subject:", "d.p2").answer("Deliver All? (Y|n):")
        terminal.answer("AckPolicy (None|all|explicit):").answer("Replay Policy (Instant|original):")
        assert 'Received response of "+OK"' in terminal.finish()
    with cli.terminal("d.p2", name="slipstream-sub") as terminal:
        terminal.expect("Listening on [d.p2]")
        for number in range(1, 6):
            terminal.expect(f"[#{number}] Received on [{number}]: 'hello'")
        _tool(cli, "slipstream-pub", "foo", "hello jetsream")
        terminal.expect("[#6] Received on [foo]: 'hello jetsream'").interrupt().finish()
    with cli.terminal("rm-obs", "wc", "p2") as terminal:
        terminal.answer("Really delete Consumer wc > p2?", "y").expect('"+OK"').finish()
    with cli.terminal("rm-msg", "wc", "1") as terminal:
        terminal.answer("Really remove message 1", "y").expect('"+OK"').finish()
    with cli.terminal("purge", "wc") as terminal:
        terminal.answer("Really purge Stream wc?", "y").expect('"+OK"').finish()
    assert _state(cli, "wc")[0] == "0"
    _remove_message_set(cli, "wc")


def _add_message_set(cli: Cli, name: str, subjects: str, limits: str, storage: str) -> None:
    with cli.terminal("add") as terminal:
        terminal.expect("Enter the following information").answer("Name:", name).answer("Subjects:", subjects)
        terminal.answer("Limits (msgs, bytes, age):", limits).answer("Storage:", storage)
        terminal.expect('Received response of "+OK"').finish()


def _remove_message_set(cli: Cli, name: str) -> None:
    with cli.terminal("rm", name) as terminal:
        terminal.answer(f"Really delete Stream {name}?", "y").expect('Received response of "+OK"').finish()


def _state(cli: Cli, name: str) -> tuple[str, str, str, str]:
    """Messages, bytes, first and last sequence that `info` shows."""
    screen = cli.call("info", name).stdout
    found = re.search(r"Messages: (\S+)\nBytes:    (.+)\nFirstSeq: (\S+)\nLastSeq:  (\S+)\n", screen)
    assert found is not None, screen
    return found[1], found[2], found[3], found[4]


def _tool(cli: Cli, name: str, *arguments: str) -> str:
    with cli.terminal(*arguments, name=name) as terminal:
        return terminal.finish()
