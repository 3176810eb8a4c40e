"""Every snippet and command in README and docs runs.

A document is a story: its blocks run in order, in one directory, against one server of its own, and each must succeed.

- `python` blocks run as they are, in a process of their own;
- `sh` blocks run line by line. `make` targets must exist (CI runs the important ones itself); servers are started until
  they are ready, then stopped; a line that ends with `&` runs until the document ends;
- `conf` blocks must pass `slipstream-server -t`;
- `json` blocks must parse;
- `yaml` blocks are the file `streams.yaml` from there on.

The address nats://127.0.0.1:4222 means the document's server, in blocks as well as by default in commands. A document
that speaks of files finds them in its directory (`FILES`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slipstream.testing import ServerThread

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NATS_STORE = ROOT / "tests" / "fixtures" / "nats-stores" / "2.10.tar.xz"
FILES = {"docs/coming-from/nats.md": ("nats-data", NATS_STORE)}  # what is in `store` of an archive, under this name
CLUSTERS = ("operations-cluster.md",)  # documents that start one
DEFAULT_URL = "nats://127.0.0.1:4222"
SECONDS_PER_BLOCK = 100.0
BINARIES = Path(sys.executable).parent


def blocks(path: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(path.read_text())]


class Story:
    """One document being told: a directory, a server, what runs in the background."""

    def __init__(self, directory: Path, server: ServerThread) -> None:
        self._directory = directory
        self._server_thread = server
        self._url = url = server.url
        self._background: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "NATS_URL": url,
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / ".config"),
            "COLUMNS": "120",
            # Spark's Java machines live for some seconds here: the quick compiler alone takes a quarter less of them.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
        }

    def python(self, code: str) -> None:
        self._run([sys.executable, "-c", code.replace(DEFAULT_URL, self._url)], code)

    def sh(self, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            command = line.partition(" #")[0].strip()
            if command and not command.startswith("#"):
                self._command(command.replace(DEFAULT_URL, self._url))

    def conf(self, text: str) -> None:
        path = self._directory / "my.conf"
        path.write_text(text)
        self._run([str(BINARIES / "slipstream-server"), "-c", str(path), "-t"], text)

    def json(self, text: str) -> None:
        json.loads(text)

    def yaml(self, text: str) -> None:
        (self._directory / "streams.yaml").write_text(text)

    def end(self) -> None:
        for process in self._background:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for path in self._directory.rglob("n*.pid"):  # of a cluster, in a document that was not told to its end
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)

    def _command(self, command: str) -> None:
        words = shlex.split(command)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        elif words[0] == "pip":
            assert words[1:2] == ["install"], command
        elif words[0] in ("slipstream-server", "nats-server") or words[:3] == ["slipstream", "server", "run"]:
            self._server(words)
        elif command.endswith("&"):
            self._in_background(command[:-1])
        else:
            self._run(["sh", "-c", command], command)

    def _in_background(self, command: str) -> None:
        """Start a command, and go on when the server knows its subscription."""
        before = self._subscriptions()
        self._background.append(
            subprocess.Popen(
                ["sh", "-c", command],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        deadline = time.monotonic() + SECONDS_PER_BLOCK
        while self._subscriptions() == before:
            assert time.monotonic() < deadline, f"nobody subscribes: {command}"
            time.sleep(0.01)

    def _subscriptions(self) -> int:
        return sum(account.interest.count for account in list(self._server_thread.server.hub.accounts.values()))

    def _server(self, words: list[str]) -> None:
        if not (self._directory / "my.conf").exists():
            (self._directory / "my.conf").write_text("port: -1\n")
        arguments = [re.sub(r"^\d{4}$", "-1", word) for word in words[1:]]
        if not any(word in ("-p", "--port") for word in arguments) and "-t" not in arguments:
            arguments += ["-p", "-1"]
        process = subprocess.Popen(
            [str(BINARIES / words[0]), *arguments],
            cwd=self._directory,
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = []
        try:
            for line in process.stderr:
                said.append(line)
                if "Server is ready" in line:
                    process.send_signal(signal.SIGINT)
            assert process.wait(timeout=10) == 0, "".join(said)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def _run(self, command: list[str], shown: str) -> None:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS_PER_BLOCK,
            check=False,
        )
        assert done.returncode == 0, f"{shown}\n--- said\n{done.stdout}{done.stderr}"


@contextmanager
def told_in(directory: Path) -> Iterator[Story]:
    with ServerThread(store_dir=str(directory / "server")) as server:
        story = Story(directory, server)
        try:
            yield story
        finally:
            story.end()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS])
def test_document_runs(path: Path, tmp_path: Path) -> None:
    runnable = [(language, text) for language, text in blocks(path) if hasattr(Story, language)]
    if not runnable:
        return
    if path.name in CLUSTERS:
        pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")
    if name_and_archive := FILES.get(str(path.relative_to(ROOT))):
        name, archive = name_and_archive
        with tarfile.open(archive) as files:
            files.extractall(tmp_path, filter="data")
        (tmp_path / "store").rename(tmp_path / name)
    with told_in(tmp_path) as story:
        for language, text in runnable:
            getattr(story, language)(text)


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS])
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
