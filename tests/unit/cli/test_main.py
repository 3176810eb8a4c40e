"""The root of the command line, through real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from slipstream.cli.main import main; main()"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_help_lists_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "bench" in done.stdout and "server" in done.stdout


def test_unknown_commands_suggest_the_nearest() -> None:
    done = run("sever")
    assert done.returncode == 2
    assert "Did you mean 'server'?" in done.stderr


def test_server_takes_the_flags_of_nats_server(tmp_path: Path) -> None:
    assert run("server", "--version").stdout.startswith("nats-server: v")
    config = tmp_path / "c.conf"
    config.write_text("port: -1\nnonsense: 1\n")
    done = run("server", "-c", str(config))
    assert done.returncode == 1
    assert 'unknown field "nonsense"' in done.stderr


def test_server_runs_until_it_is_told_to_stop() -> None:
    process = subprocess.Popen([*PROGRAM, "server", "-p", "-1", "-a", "127.0.0.1"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if "Server is ready" in line:
                process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
