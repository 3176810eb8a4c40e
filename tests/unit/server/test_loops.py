"""The event loop of a server: uvloop unless another is asked for, and the program obeys too."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
import uvloop

from slipstream.server.process.runner import LOOP_VARIABLE, event_loop_type
from support.server_process import ServerProcess
from support.servers import server_binary


@pytest.mark.parametrize(
    ("name", "kind"), [("", uvloop.Loop), ("uvloop", uvloop.Loop), ("asyncio", asyncio.SelectorEventLoop)]
)
def test_the_environment_chooses(name: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, name)
    assert event_loop_type() is kind


@pytest.mark.parametrize("name", ["uvloop", "asyncio"])
def test_a_process_runs_on_what_was_chosen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, name)
    server = ServerProcess(server_binary("ours"), tmp_path).start()
    try:
        libraries = Path(f"/proc/{server.pid}/maps").read_text()
    finally:
        server.kill()
    assert ("/uvloop/" in libraries) == (name == "uvloop")


def test_an_unknown_loop_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, "fast")
    refused = subprocess.run([server_binary("ours"), "-p", "-1"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr == "slipstream-server: SLIPSTREAM_LOOP must be asyncio or uvloop, not 'fast'\n"
