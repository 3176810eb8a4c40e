"""Log lines as tools expect them."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from slipstream.server.process.logs import FileLog, open_log

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
        tag = f"{Path(sys.argv[0]).name}[{os.getpid()}]"
        expected = rf"<4>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\S+ {socket.gethostname()} {re.escape(tag)}: disk is slow\n"
        assert re.fullmatch(expected.encode(), record)
        log.close()
        receiver.close()


def test_a_missing_syslog_daemon_is_an_error() -> None:
    with pytest.raises(OSError):
        open_log(remote_syslog="tcp://127.0.0.1:1")


def test_a_syslog_daemon_that_does_not_read_costs_lines_and_no_time() -> None:
    """And what a stream has taken in part is completed, so that lines stay whole."""
    with socket.socket() as daemon:
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        daemon.bind(("127.0.0.1", 0))
        daemon.listen()
        log = open_log(remote_syslog=f"tcp://127.0.0.1:{daemon.getsockname()[1]}")
        receiver = daemon.accept()[0]
        receiver.settimeout(5)
        for number in range(20_000):
            log("INF", f"line {number} " + "x" * 1000)
        seen = b""
        while not seen.endswith(b"the end\n"):
            log("INF", "the end")
            seen += receiver.recv(1 << 20)
        log.close()
        receiver.close()
    lines = seen.decode().splitlines()
    assert all(re.fullmatch(r"<5>\S+ \S+ \S+: (line \d+ x{1000}|the end)", line) for line in lines)
    assert len(lines) < 20_000


def test_a_syslog_daemon_that_comes_back_is_found_again() -> None:
    with socket.socket() as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.listen()
        log = open_log(remote_syslog=f"tcp://127.0.0.1:{daemon.getsockname()[1]}")
        first = daemon.accept()[0]
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        first.close()
        daemon.settimeout(0.05)
        second = None
        while second is None:
            log("INF", "again")
            try:
                second = daemon.accept()[0]
            except TimeoutError:
                continue
        second.settimeout(5)
        log("INF", "again")
        assert b"again" in second.recv(1000)
        log.close()
        second.close()


def test_an_address_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match='error invalid network type: "http"'):
        open_log(remote_syslog="http://127.0.0.1")


def test_the_daemon_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`syslog: true`: the first of the usual sockets that somebody listens to."""
    path = str(tmp_path / "log")
    monkeypatch.setattr("slipstream.server.process.syslog._LOCAL_SOCKETS", (str(tmp_path / "none"), path))
    with pytest.raises(OSError, match="Unix syslog delivery error"):
        open_log(syslog=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(path)
        log = open_log(syslog=True)
        log("ERR", "disk is gone")
        record = daemon.recv(1000).decode()
        assert re.fullmatch(r"<27>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+\[\d+\]: disk is gone\n", record)
        log.close()
