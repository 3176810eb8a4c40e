"""Which process gets a signal. Nobody gets one here: processes are files, and `kill` notes what it is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstream.errors import ConfigError
from slipstream.server.process.signals import running_servers, send_signal

Sent = list[tuple[int, int]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    found: Sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid, number)))
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., str]:
    """Builds a machine with these processes: id → command line."""

    def build(processes: dict[int, str]) -> str:
        for pid, command in processes.items():
            (tmp_path / str(pid)).mkdir()
            (tmp_path / str(pid) / "cmdline").write_bytes(b"\0".join(command.encode().split()) + b"\0")
        (tmp_path / "sys").mkdir()
        (tmp_path / "77").mkdir()  # ended meanwhile
        return str(tmp_path)

    return build


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("/usr/bin/python3.11 /venv/bin/slipstream-server -js", True),
        ("python /usr/local/bin/nats-server -c server.conf", True),
        ("python3 -m slipstream.server -p 4222", True),
        ("python3 /venv/bin/slipstream server run", True),
        ("/usr/bin/nats-server -js", False),  # another program
        ("python3 /venv/bin/slipstream-server --signal reload", False),  # sends one itself
        ("python3 /venv/bin/slipstream-server -sl=reload", False),
        ("python3 /venv/bin/slipstream-server -t -c server.conf", False),
        ("python3 /venv/bin/slipstream stream ls", False),
        ("vim slipstream-server", False),
        ("python3", False),
        ("", False),
    ],
)
def test_what_counts_as_a_server(machine: Callable[..., str], command: str, is_one: bool) -> None:
    assert list(running_servers(machine({4711: command}))) == ([4711] if is_one else [])


def test_the_process_itself_does_not(machine: Callable[..., str]) -> None:
    assert not list(running_servers(machine({os.getpid(): "python slipstream-server"})))


def test_the_only_server_needs_no_pid(machine: Callable[..., str], sent: Sent) -> None:
    send_signal("reload", machine({4711: "python slipstream-server", 1: "init"}))
    assert sent == [(4711, signal.SIGHUP)]


def test_several_servers_need_one(machine: Callable[..., str], sent: Sent) -> None:
    processes = machine({22: "python slipstream-server", 111: "python nats-server", 23: "python slipstream-server"})
    with pytest.raises(ConfigError, match="multiple nats-server processes running:\n22\n23\n111"):
        send_signal("stop", processes)
    assert not sent
    send_signal("stop=2*", processes)
    assert sent == [(22, signal.SIGKILL), (23, signal.SIGKILL)]
    sent.clear()
    send_signal("ldm=*", processes)
    assert [pid for pid, _ in sent] == [22, 23, 111]


def test_no_server_at_all(machine: Callable[..., str], sent: Sent) -> None:
    processes = machine({1: "init"})
    for asked in ("stop", "stop=", "stop=*", "stop=1*"):
        with pytest.raises(ConfigError, match="no nats-server processes running"):
            send_signal(asked, processes)
    assert not sent


def test_a_machine_that_does_not_show_its_processes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unable to resolve pid, try providing one"):
        send_signal("stop", str(tmp_path / "none"))


def test_an_unknown_signal_is_sent_to_nobody(machine: Callable[..., str], sent: Sent) -> None:
    with pytest.raises(ConfigError, match='unknown signal "nope"'):
        send_signal("nope", machine({4711: "python slipstream-server"}))
    assert not sent
