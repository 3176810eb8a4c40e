"""`cluster up` and `down`: what they refuse. That they work is shown by the page about operating a cluster."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path

import pytest

from support.cli import Cli


def test_a_cluster_needs_the_raft_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    refused = Cli(tmp_path).call("cluster", "up", str(tmp_path / "try"), status=1)
    assert "slipstream-server[cluster]" in refused.stderr and not (tmp_path / "try").exists()


def test_servers_that_run_are_not_started_again_and_other_programs_left_alone(tmp_path: Path) -> None:
    pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")
    cli = Cli(tmp_path)
    (tmp_path / "n1.pid").write_text(str(os.getpid()))  # this program, which is no server of that directory
    assert cli.call("cluster", "down", str(tmp_path)).output == "Stopped 0 servers\n"
    (tmp_path / "n2.pid").write_text("nothing")
    assert cli.call("cluster", "down", str(tmp_path)).output == "Stopped 0 servers\n"


def test_servers_that_end_at_once_are_named(tmp_path: Path) -> None:
    pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")
    (tmp_path / "try" / "n1.log").mkdir(parents=True)  # where a file should be
    refused = Cli(tmp_path).call("cluster", "up", str(tmp_path / "try"), "--port", "15222", status=1)
    assert "n1 ended; see the logs" in refused.stderr


def test_a_port_that_another_program_has_is_named(tmp_path: Path) -> None:
    pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = Cli(tmp_path).call("cluster", "up", str(tmp_path / "try"), "--port", str(port - 1), status=1)
    assert f"another program listens on {port}" in refused.stderr
    assert not list((tmp_path / "try").glob("*.conf"))
