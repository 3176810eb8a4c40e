"""Starts that fail or only print something, log files: exit status and what is said on standard error."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server_process import ServerProcess
from support.servers import Launcher, server_binary

RUN_TIMEOUT_S = 10
# Where a mistake is, and words of the system or of the language a server is written in: neither is compared.
POSITION = re.compile(r"bad\.conf:\d+:\d+: ")
FOREIGN = re.compile(r"(?<=Error listening on port: )(\S+), .*|listen tcp.*|interface conversion.*")

FLAGS = {
    "port too large": ["-p", "99999"],
    "port is text": ["-p", "x"],
    "port missing": ["-p"],
    "unknown flag": ["--nosuch"],
    "unknown word": ["extra"],
    "config missing": ["-c", "no-such-file.conf"],
    "version": ["--version"],
    "version, short": ["-v"],
    "version, one dash": ["-version"],
    "version as a word": ["version"],
    "help": ["-h"],
    "check without a file": ["-t"],
    "routes without a cluster": ["--routes", "nats://127.0.0.1:1"],
    "TLS without files": ["--tls"],
    "TLS with missing files": ["--tls", "--tlscert", "none.pem", "--tlskey", "none.pem"],
    "monitor port is text": ["-m", "x"],
    "both monitor ports": ["-m", "-1", "-ms", "-1"],
    "bool flag with a value": ["-D=maybe", "-v"],
    "flag with equals": ["-p=-1", "--addr=127.0.0.1", "-v"],
    "host that is not ours": ["-a", "203.0.113.1", "-p", "-1"],
}
CONFIGS = {
    "unknown field": "nonsense: 1\n",
    "value out of range": "http: 127.0.0.1:99999\n",
    "unknown variable": "port: $NOT_SET_ANYWHERE\n",
    "payload over pending": "max_payload: 1MB\nmax_pending: 1KB\n",
    "unknown no_auth_user": "no_auth_user: nobody\nauthorization { users: [ { user: a, password: b } ] }\n",
    "duplicate user": "authorization { users: [ { user: a, password: b }, { user: a, password: c } ] }\n",
    "token and users": "authorization { token: t, users: [ { user: a, password: b } ] }\n",
    "bad nkey": "authorization { users: [ { nkey: UABC } ] }\n",
    "import from nowhere": "accounts { A { imports: [ { stream: { account: B, subject: x } } ] } }\n",
    "import of what is not exported": "accounts { A { imports: [ { stream: { account: B, subject: x } } ] }, B {} }\n",
    "bad mapping": 'mappings { "a.*": "b.$2" }\n',
    "weights over 100": "mappings { a: [ { destination: b, weight: 60% }, { destination: c, weight: 60% } ] }\n",
    "bad permission": 'authorization { users: [ { user: a, password: b, permissions: { publish: "a..b" } } ] }\n',
    "lame duck too short": 'lame_duck_duration: "1s"\n',
    "system account unknown": "system_account: NOPE\n",
    "server name with blank": 'server_name: "a b"\n',
}


def end_of(kind: str, arguments: list[str], directory: Path) -> tuple[int, list[str]]:
    """Exit status and what was said, without information lines, times, directories and the program's own name."""
    binary = server_binary(kind)
    done = subprocess.run(
        [binary, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    lines = [re.sub(r"^\[\d+\] \d{4}/\S+ \S+ ", "", line) for line in done.stderr.splitlines()]
    # Both call themselves nats-server here, whatever the program file is called.
    plain = [re.sub(r"^(nats|slipstream)-server: ", "<server>: ", line).replace(f"{directory}/", "") for line in lines]
    said = [FOREIGN.sub("<reason>", POSITION.sub("", line)) for line in plain]
    return done.returncode, [line for line in said if line and not line.startswith("[INF]")]


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name: str, tmp_path: Path) -> None:
    real, ours = (end_of(kind, FLAGS[name], tmp_path) for kind in ("real", "ours"))
    assert ours == real


@pytest.mark.parametrize("name", CONFIGS)
def test_configuration(name: str, tmp_path: Path) -> None:
    (tmp_path / "bad.conf").write_text(CONFIGS[name])
    real, ours = (end_of(kind, ["-p", "-1", "-c", "bad.conf"], tmp_path) for kind in ("real", "ours"))
    assert real[0] != 0
    assert ours == real


def test_port_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        real, ours = (end_of(kind, ["-a", "127.0.0.1", "-p", port], tmp_path) for kind in ("real", "ours"))
    assert [real[0], ours[0]] == [1, 1]
    assert ours == real


def test_version_text(tmp_path: Path) -> None:
    """Harnesses read this line: the program's public name stays nats-server's."""
    for kind in ("real", "ours"):
        text = subprocess.run([server_binary(kind), "--version"], capture_output=True, text=True, cwd=tmp_path).stdout
        assert re.fullmatch(r"nats-server: v2\.\d+\.\d+\S*\n", text)


@pytest.fixture
def logging_server(launcher: Launcher) -> Iterator[ServerProcess]:
    """A server that writes its log to a file; its standard error stays silent, so readiness is asked on the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = launcher.prepared("", "-l", "server.log", "-p", str(port))
    yield server


def test_log_file_is_reopened(logging_server: ServerProcess) -> None:
    server = logging_server
    log = server.directory / "server.log"
    command = [str(server.binary), *server.flags, "-a", "127.0.0.1"]
    with subprocess.Popen(command, cwd=server.directory, stdin=subprocess.DEVNULL) as process:
        try:
            wait_for_line(log, "Server is ready")
            log.rename(server.directory / "old.log")
            process.send_signal(signal.SIGUSR1)
            wait_for_line(log, "File log re-opened")
        finally:
            process.kill()


def wait_for_line(path: Path, text: str) -> None:
    """Follows a file until it holds a text; `tail -F` wakes on every write and survives a rename."""
    with subprocess.Popen(
        ["tail", "-n", "+1", "-s", "0.05", "-F", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as tail:
        try:
            assert tail.stdout is not None
            assert any(text in line.decode() for line in tail.stdout)
        finally:
            tail.kill()
