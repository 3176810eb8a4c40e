"""Log lines as tools expect them."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from slipstream.server.logs import FileLog, open_log

LINE = re.compile(r"^\[(\d+)\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[(\w{3})\] (.*)$")


def test_a_line_has_pid_time_level_and_text(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "log"))
    log("INF", "Server is ready")
    log.close()
    match = LINE.match((tmp_path / "log").read_text().rstrip("\n"))
    assert match is not None
    assert match.groups() == (str(os.getpid()), "INF", "Server is ready")


def test_debug_and_trace_are_off_by_default(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = FileLog(str(path), timestamps=False)
    for level in ("DBG", "TRC", "INF"):
        log(level, "x")
    log.debug = log.trace = True
    for level in ("DBG", "TRC"):
        log(level, "y")
    assert path.read_text() == f"[{os.getpid()}] [INF] x\n[{os.getpid()}] [DBG] y\n[{os.getpid()}] [TRC] y\n"
    log.close()


def test_reopen_follows_a_moved_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = FileLog(str(path))
    log("INF", "before")
    path.rename(tmp_path / "moved")
    log.reopen()
    log("INF", "after")
    log.close()
    assert "before" in (tmp_path / "moved").read_text()
    assert "after" in path.read_text()
    assert "before" not in path.read_text()


def test_a_large_file_is_renamed_and_few_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = FileLog(str(path), size_limit=200, max_files=3)
    for number in range(60):
        log("INF", f"line {number} " + "x" * 40)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 300 for file in files)


def test_text_that_is_not_unicode_is_escaped(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "log"), timestamps=False)
    log("ERR", b"\xff\xfe".decode("utf-8", "surrogateescape"))
    log.close()
    assert (tmp_path / "log").read_bytes().endswith(b"[ERR] \\xff\\xfe\n")


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_remote_syslog_gets_one_record_a_line(scheme: str) -> None:
    kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(5)
        if scheme == "tcp":
            daemon.listen()
        log = open_log(remote_syslog=f"{scheme}://127.0.0.1:{daemon.getsockname()[1]}")
        receiver = daemon.accept()[0] if scheme == "tcp" else daemon
        log("DBG", "not asked for")
        log("WRN", "disk is slow")
        record = receiver.recv(1000)
        assert record.startswith(b"<12>") and b"nats-server disk is slow" in record
        assert b"not asked for" not in record
        log.close()
        receiver.close()


def test_a_missing_syslog_daemon_is_an_error() -> None:
    with pytest.raises(OSError):
        open_log(remote_syslog="tcp://127.0.0.1:1")
