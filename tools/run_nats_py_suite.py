"""Runs the test-suites of nats.py with a chosen server first on the PATH, and says where two servers differ.

The suites look for a program called `nats-server`; a directory holding a link of that name to the server under test
is put in front of the PATH. Every group (a test class, or the functions of one file) runs in a process group of its
own, one after the other, so that a server left behind by a failing test cannot reach the next one. The older suites
use fixed ports, so where the system lets us each group also gets a network of its own (`unshare --net`).

A test that fails is run once more alone; if it then passes it counts as passed and is listed under `flaky`.

    python tools/run_nats_py_suite.py --checkout ~/nats.py --workdir /tmp/natspy \\
        --server real=/usr/bin/nats-server --report baseline.json
    python tools/run_nats_py_suite.py --checkout ~/nats.py --workdir /tmp/natspy \\
        --baseline baseline.json --server ours=.venv/bin/slipstream-server --report report.json

The report holds the outcome of each test for each server and, for two servers, the tests whose outcomes differ.
The program ends with 1 when a test passed with the first server and not with the second. It downloads nothing but the
Python packages the suites need, into the virtual environment below `--workdir`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

TEST_TIMEOUT_S = 60  # One test; the longest of the suites takes about 20 s.
GROUP_TIMEOUT_S = 1800  # One class of tests; JetStream's largest takes about five minutes.
COLLECT_TIMEOUT_S = 120
PACKAGES = [
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-benchmark",
    "nkeys",
    "aiohttp",
    "aiofiles",
    "websockets>=16",
]

Outcomes = dict[str, str]


@dataclass(frozen=True)
class Project:
    """One package of the nats.py repository and how its tests are run."""

    name: str
    # Where pytest starts, below the checkout, and where the tests are, below that.
    directory: str
    tests: str
    # Directories of the checkout that go on the import path.
    sources: tuple[str, ...]


# All but the first want Python 3.13.
PROJECTS = {
    project.name: project
    for project in (
        Project("nats", ".", "nats/tests", ("nats/src", "nats")),
        Project("nats-server", "nats-server", "tests", ("nats-server/src",)),
        Project("nats-core", "nats-core", "tests", ("nats-core/src", "nats-server/src")),
        Project(
            "nats-jetstream", "nats-jetstream", "tests", ("nats-jetstream/src", "nats-core/src", "nats-server/src")
        ),
        Project(
            "nats-key-value",
            "nats-key-value",
            "tests",
            ("nats-key-value/src", "nats-jetstream/src", "nats-core/src", "nats-server/src"),
        ),
    )
}


@dataclass
class ServerRun:
    """What one server did with the suites."""

    name: str
    binary: str
    version: str
    outcomes: Outcomes = field(default_factory=dict)
    flaky: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        """The part of the report about this server."""
        passed = sorted(test for test, outcome in self.outcomes.items() if outcome == "passed")
        return {
            "binary": self.binary,
            "version": self.version,
            "seconds": round(self.seconds, 1),
            "passed": len(passed),
            "total": len(self.outcomes),
            "flaky": sorted(self.flaky),
            "outcomes": dict(sorted(self.outcomes.items())),
        }


class SuiteRunner:
    """Runs projects of one checkout against one server binary."""

    def __init__(self, checkout: Path, workdir: Path, python: Path, server: Path) -> None:
        self._checkout = checkout
        self._python = python
        self._isolation = network_isolation()
        self._bin_dir = Path(tempfile.mkdtemp(prefix="server-", dir=workdir))
        (self._bin_dir / "nats-server").symlink_to(server)

    def run(self, project: Project, only: re.Pattern[str], result: ServerRun) -> None:
        """Runs the groups of a project whose names match and adds their outcomes to the result."""
        for group, tests in self._groups(project).items():
            selected = [test for test in tests if only.search(test)]
            if not selected:
                continue
            started = time.monotonic()
            outcomes = self._run_tests(project, [group] if len(selected) == len(tests) else selected)
            for test in [test for test, outcome in outcomes.items() if outcome not in ("passed", "skipped")]:
                again = self._run_tests(project, [node_id(tests, test)])
                if again.get(test) == "passed":
                    outcomes[test] = "passed"
                    result.flaky.append(test)
            result.outcomes.update(outcomes)
            seconds = time.monotonic() - started
            result.seconds += seconds
            counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(outcomes.values()).items())
            print(f"{result.name}: {project.name}: {group}: {counts}, {seconds:.1f} s", flush=True)

    def _groups(self, project: Project) -> dict[str, list[str]]:
        command = [str(self._python), "-m", "pytest", "--collect-only", "-q", project.tests]
        listing = subprocess.run(
            command,
            cwd=self._checkout / project.directory,
            env=self._environment(project),
            capture_output=True,
            text=True,
            timeout=COLLECT_TIMEOUT_S,
        )
        groups: dict[str, list[str]] = {}
        for line in listing.stdout.splitlines():
            if "::" in line and not line.startswith(("ERROR", " ")):
                groups.setdefault(line.partition("[")[0].rpartition("::")[0], []).append(line)
        if not groups:
            raise SystemExit(f"no test found in {project.tests}:\n{listing.stdout}{listing.stderr}")
        return groups

    def _run_tests(self, project: Project, tests: list[str]) -> Outcomes:
        with tempfile.TemporaryDirectory(prefix="group-", dir=self._bin_dir) as scratch:
            report = Path(scratch) / "junit.xml"
            options = ["-q", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}", f"--junitxml={report}"]
            command = [*self._isolation, str(self._python), "-m", "pytest", *options, *tests]
            environment = self._environment(project) | {"HOME": scratch, "TMPDIR": scratch}
            process = subprocess.Popen(
                command,
                cwd=self._checkout / project.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                process.wait(GROUP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                print(f"{tests[0]}: stopped after {GROUP_TIMEOUT_S} s", file=sys.stderr)
            finally:
                end_process_group(process)
            return read_outcomes(project, report) if report.exists() else dict.fromkeys(tests, "no report")

    def _environment(self, project: Project) -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TERM")}
        path = f"{self._bin_dir}:{self._python.parent}:{os.environ.get('PATH', os.defpath)}"
        sources = os.pathsep.join(str(self._checkout / source) for source in project.sources)
        # NATS_SERVER_VERSION turns on the tests that ask for a recent server.
        own = {"PATH": path, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1", "NATS_SERVER_VERSION": "main"}
        return keep | own


def network_isolation() -> list[str]:
    """The words that put a command into a network of its own, or none where that is not allowed."""
    words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "isolated"]
    if not shutil.which("unshare"):
        return []
    return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []


def end_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kills what is left of a group, servers included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_outcomes(project: Project, report: Path) -> Outcomes:
    """Outcome per test of a junit report; a test with several entries keeps the worst."""
    rank = {"passed": 0, "skipped": 1, "failure": 2, "error": 3}
    outcomes: Outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{project.name}:{case.get('classname')}::{case.get('name')}"
        found = {child.tag for child in case} & rank.keys()
        outcome = max(found, key=rank.__getitem__, default="passed")
        outcomes[test] = max(outcomes.get(test, "passed"), outcome, key=rank.__getitem__)
    return outcomes


def node_id(tests: list[str], test: str) -> str:
    """The pytest name of a test known by its junit name."""
    plain, bracket, parameters = test.partition("[")
    suffix = "::" + plain.rpartition("::")[2] + bracket + parameters
    return next((candidate for candidate in tests if candidate.endswith(suffix)), tests[0])


def prepare_venv(workdir: Path, python: str) -> Path:
    """A virtual environment with what the suites import; made once."""
    venv = workdir / f"venv-{Path(python).name}"
    interpreter = venv / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(interpreter), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return interpreter


def version_of(binary: Path) -> str:
    """What the server says it is."""
    return subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30).stdout.strip()


def load_baseline(path: Path) -> list[ServerRun]:
    """The servers of an earlier report."""
    stored = json.loads(path.read_text())["servers"]
    return [
        ServerRun(name, run["binary"], run["version"], run["outcomes"], run["flaky"], run["seconds"])
        for name, run in stored.items()
    ]


def compare(first: ServerRun, second: ServerRun) -> dict[str, dict[str, str]]:
    """Tests that both ran and that came out differently."""
    return {
        test: {first.name: outcome, second.name: second.outcomes[test]}
        for test, outcome in sorted(first.outcomes.items())
        if test in second.outcomes and second.outcomes[test] != outcome
    }


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkout", type=Path, required=True, help="a work tree of nats-io/nats.py")
    parser.add_argument("--workdir", type=Path, required=True, help="where virtual environments and scratch files go")
    parser.add_argument("--server", action="append", required=True, metavar="NAME=BINARY", help="server to test")
    parser.add_argument("--baseline", type=Path, help="earlier report to compare with")
    parser.add_argument("--report", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--project", action="append", choices=sorted(PROJECTS), help="default: nats")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the suites")
    parser.add_argument("--only", default="", metavar="REGEX", help="run the tests whose pytest names match")
    return parser.parse_args()


def main() -> int:
    """Runs the chosen servers, writes the report, tells regressions."""
    arguments = parse_arguments()
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    python = prepare_venv(arguments.workdir.resolve(), arguments.python)
    runs = load_baseline(arguments.baseline) if arguments.baseline else []
    for item in arguments.server:
        name, _, binary = item.partition("=")
        path = Path(binary).absolute()
        run = ServerRun(name, str(path), version_of(path))
        runner = SuiteRunner(arguments.checkout.resolve(), arguments.workdir.resolve(), python, path)
        for project in arguments.project or ["nats"]:
            runner.run(PROJECTS[project], re.compile(arguments.only), run)
        runs.append(run)
    report: dict[str, object] = {"servers": {run.name: run.as_json() for run in runs}}
    differences = compare(runs[0], runs[-1]) if len(runs) > 1 else {}
    report["differ"] = differences
    arguments.report.write_text(json.dumps(report, indent=1) + "\n")
    for run in runs:
        print(f"{run.name} ({run.version}): {run.as_json()['passed']} of {len(run.outcomes)} passed")
    lost = [test for test, outcomes in differences.items() if outcomes[runs[0].name] == "passed"]
    for test in lost:
        print(f"only with {runs[0].name}: {test}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
