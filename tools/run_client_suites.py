"""Runs the test-suites of projects that use NATS with nats-server and with this server, and says where they differ.

    python tools/run_client_suites.py                          all of them, below build/suites
    python tools/run_client_suites.py --only faststream        one
    python tools/run_client_suites.py --source faststream=DIR  its repository is there already, as a clone

A suite is a repository at a commit of its own; the first run clones it and installs what it needs into an environment
below the work directory. The server listens on 4222, where these suites look for one, in a network of its own where the
system allows that; it is also first on the PATH, by the name `nats-server`, for suites that start their own. A test
that fails is run once more with a new server; one that passes then is listed as flaky.

The program ends with 1 when a test passed with nats-server and not with ours. A suite whose tool (`go`) is not
installed, or whose repository cannot be had, is left out, and said so. The tests of kine's NATS driver bring a server
of their own; what they connect to is changed in the clone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run_nats_py_suite import network_isolation

SUITE_TIMEOUT_S = 3600
START_TIMEOUT_S = 60
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # in names of tests, new every time
BAD = frozenset({"failure", "error", "fail"})

Outcomes = dict[str, str]


class NotAvailable(Exception):
    """A suite cannot be run here; the text says why."""


@dataclass(frozen=True)
class Suite:
    """One project."""

    name: str
    url: str
    needs: str  # the program that runs its tests
    packages: tuple[str, ...] = ()  # of Python, and options of pip; `.` is the project itself
    tests: tuple[str, ...] = ()  # arguments of pytest or `go test`
    environment: tuple[tuple[str, str], ...] = ()
    python: str = ""  # the interpreter it wants, if not any
    edits: tuple[tuple[str, str, str], ...] = ()  # of its files: a path, what stands there once, what takes its place


_PYTEST = ("pytest<9", "pytest-timeout")
_KINE = "pkg/drivers/nats/backend_test.go"

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "faststream",
            "https://github.com/ag2ai/faststream",
            "python",
            (".[rabbit,kafka,nats,redis,mqtt,cli,otel,prometheus]", "--group", "testing"),
            ("tests/brokers/nats", "-m", "nats"),
        ),
        Suite(
            "taskiq-nats",
            "https://github.com/taskiq-python/taskiq-nats",
            "python",
            (*_PYTEST, ".", "taskiq<0.11.10", "anyio"),  # its last release wants one of that time
            ("tests", "-p", "no:cacheprovider"),
            (("NATS_URLS", "nats://127.0.0.1:4222"),),
        ),
        Suite(
            "orbit",
            "https://github.com/synadia-io/orbit.py",
            "python",
            (*_PYTEST, "pytest-asyncio", "./nats-extra", "./orbit-jetstreamext", "./orbit-counters"),
            ("nats-extra", "orbit-jetstreamext", "orbit-counters", "--import-mode=importlib"),
            python="python3.13",
        ),
        Suite(
            "watermill-nats",
            "https://github.com/ThreeDotsLabs/watermill-nats",
            "go",
            (),
            ("./...",),
            (("WATERMILL_TEST_NATS_URL", "nats://127.0.0.1:4222"),),
        ),
        Suite(
            "kine",
            "https://github.com/k3s-io/kine",
            "go",
            (),
            ("./pkg/drivers/nats/...",),
            edits=(
                (_KINE, "nats.Connect(ns.ClientURL())", 'nats.Connect("nats://127.0.0.1:4222")'),
                # Each test had a server without a bucket.
                (_KINE, "bkt, err := js.Create", '_ = js.DeleteKeyValue(ctx, "kine")\n\tbkt, err := js.Create'),
            ),
        ),
    )
}


def checkout(suite: Suite, directory: Path, source: str) -> Path:
    """The project's files, cloned if they are not there.

    Raises:
        NotAvailable: they cannot be had.
    """
    place = directory / suite.name / "repo"
    if not place.exists():
        command = ["git", "clone", "-q", "--depth", "1", source or suite.url, str(place)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise NotAvailable(f"it cannot be cloned: {done.stderr.strip().splitlines()[-1:]}")
        for path, before, after in suite.edits:
            text = (place / path).read_text()
            if text.count(before) != 1:
                shutil.rmtree(place)
                raise NotAvailable(f"{path} is not as it was: {before}")
            (place / path).write_text(text.replace(before, after))
    return place


def prepared(suite: Suite, directory: Path, repo: Path) -> list[str]:
    """The words that run its tests.

    Raises:
        NotAvailable: what they need cannot be installed.
    """
    if suite.needs == "go":
        if shutil.which("go") is None:
            raise NotAvailable("go is not installed")
        # All of it now: the tests have no network but their own.
        done = subprocess.run(
            ["go", "mod", "download"], cwd=repo, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S
        )
        if done.returncode:
            raise NotAvailable(f"its modules cannot be had: {done.stderr.strip().splitlines()[-1:]}")
        return ["go", "test", "-count=1", "-json", "-timeout", f"{SUITE_TIMEOUT_S}s", *suite.tests]
    python = directory / suite.name / "venv" / "bin" / "python"
    stamp = directory / suite.name / ".installed"
    if not stamp.exists():
        interpreter = shutil.which(suite.python) if suite.python else sys.executable
        made = interpreter and subprocess.run([interpreter, "-m", "venv", str(python.parents[1])], capture_output=True)
        if not made or made.returncode:
            raise NotAvailable(f"it wants {suite.python or 'venv'}")
        # Groups of dependencies are known to pip from 25.1 on.
        for packages in (["pip>=25.1"], suite.packages):
            command = [str(python), "-m", "pip", "install", "-q", *packages]
            done = subprocess.run(command, cwd=repo, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S)
            if done.returncode:
                raise NotAvailable(f"its packages cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        stamp.touch()
    return [str(python), "-m", "pytest", "-q", "--timeout", "120", *suite.tests]


def run(
    suite: Suite, words: list[str], repo: Path, binary: Path, directory: Path, only: Iterable[str] = ()
) -> Outcomes:
    """The outcome of each test with a server, which is new."""
    work = directory / suite.name / "run"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    report = work / "report.xml"
    if suite.needs == "python":
        words = [*words, f"--junitxml={report}"]
    if only:
        names = sorted({test.rsplit("::", 1)[-1].split("[")[0].split("/")[0] for test in only})
        chosen = " or ".join(names) if suite.needs == "python" else "|".join(f"^{name}$" for name in names)
        words = [*words, "-k" if suite.needs == "python" else "-run", chosen]
    inside = [sys.executable, __file__, "--inside", str(binary), str(work), *words]
    environment = {**os.environ, **dict(suite.environment)}
    environment.pop("PYTHONPATH", None)
    with (work / "log.txt").open("wb") as log, (work / "output.txt").open("wb") as output:
        command = [*network_isolation(), *inside]
        subprocess.run(command, cwd=repo, env=environment, stdout=output, stderr=log, timeout=SUITE_TIMEOUT_S)
    if suite.needs == "python":
        return read_junit(report) if report.exists() else {}
    return read_go((work / "output.txt").read_text(errors="replace"))


def inside(arguments: list[str]) -> int:
    """In the network of the tests: a server, then they."""
    binary, work, *words = arguments
    programs = Path(work) / "bin"
    programs.mkdir()
    (programs / "nats-server").symlink_to(binary)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    server_command = [binary, "-a", "127.0.0.1", "-p", "4222", "-js", "-sd", f"{work}/js", "-l", f"{work}/server.log"]
    with subprocess.Popen(server_command) as server:
        try:
            end = time.monotonic() + START_TIMEOUT_S
            log = Path(work) / "server.log"
            while not (log.exists() and "Server is ready" in log.read_text(errors="replace")):
                if server.poll() is not None or time.monotonic() > end:
                    print(f"{binary} did not start", file=sys.stderr)
                    return 2
                time.sleep(0.05)
            return subprocess.run(words).returncode
        finally:
            server.kill()


def read_junit(report: Path) -> Outcomes:
    """Outcomes of a report of pytest."""
    found: Outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[f"{case.get('classname')}::{case.get('name')}"] = min(kinds, default="passed")
    return found


def read_go(output: str) -> Outcomes:
    """Outcomes of the lines of `go test -json`."""
    found: Outcomes = {}
    for line in output.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if event.get("Test") and event.get("Action") in ("run", "pass", "fail", "skip"):
                name = f"{event['Package']}::{_UUID.sub('<uuid>', event['Test'])}"
                # One that began and never ended went down with its process.
                found[name] = {"pass": "passed", "skip": "skipped"}.get(event["Action"], "fail")
    return found


def to_run_again(first: Outcomes, expected: Iterable[str]) -> list[str]:
    """Tests that failed, and those that never began, as a test before them ended their process."""
    return sorted({test for test, outcome in first.items() if outcome in BAD} | (set(expected) - set(first)))


def with_second_chance(first: Outcomes, again: Outcomes) -> tuple[Outcomes, list[str]]:
    """What holds after those were run once more, and which of the ones that failed were flaky."""
    flaky = sorted(test for test, outcome in first.items() if outcome in BAD and again.get(test) == "passed")
    began_late = {test: outcome for test, outcome in again.items() if test not in first}
    return {**first, **dict.fromkeys(flaky, "passed"), **began_late}, flaky


def differences(real: Outcomes, ours: Outcomes) -> list[str]:
    """Tests that passed with nats-server and not with ours."""
    return sorted(test for test, outcome in real.items() if outcome == "passed" and ours.get(test) != "passed")


def main() -> int:
    """Run, compare, report."""
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(SUITES))
    parser.add_argument("--source", action="append", default=[], metavar="NAME=PLACE")
    parser.add_argument("--workdir", type=Path, default=Path("build/suites"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--ours", type=Path, help="instead of the slipstream-server beside the interpreter")
    parser.add_argument("--theirs", type=Path, help="instead of the nats-server beside the interpreter")
    options = parser.parse_args()
    directory = options.workdir.absolute()
    sources = dict(each.split("=", 1) for each in options.source)
    beside = Path(sys.executable).parent
    servers = {"real": options.theirs or beside / "nats-server", "ours": options.ours or beside / "slipstream-server"}
    report: dict[str, object] = {}
    worse = 0
    for name in options.only or sorted(SUITES):
        suite = SUITES[name]
        try:
            repo = checkout(suite, directory, sources.get(name, ""))
            words = prepared(suite, directory, repo)
        except NotAvailable as error:
            print(f"{name}: left out, {error}")
            report[name] = {"left_out": str(error)}
            continue
        outcomes: dict[str, Outcomes] = {}
        flaky: dict[str, list[str]] = {}
        for server, binary in servers.items():
            first = run(suite, words, repo, binary, directory)
            failed = to_run_again(first, outcomes.get("real", {}))
            again = run(suite, words, repo, binary, directory, failed) if failed else {}
            outcomes[server], flaky[server] = with_second_chance(first, again)
            print(
                f"{name} {server}: {dict(Counter(outcomes[server].values()))}, flaky {len(flaky[server])}", flush=True
            )
        lost = differences(outcomes["real"], outcomes["ours"])
        for test in lost:
            print(f"{name}: passes with nats-server and not with ours: {test}")
        worse += len(lost) + ("passed" not in outcomes["real"].values())
        report[name] = {"outcomes": outcomes, "flaky": flaky, "lost": lost}
    if options.report:
        options.report.write_text(json.dumps(report, indent=2, sort_keys=True))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
