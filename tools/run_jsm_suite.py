"""Runs the tests of jsm.go, the library under the official command line, with servers of our choice.

They start a Go server inside the test program. In a copy of the checkout that import is replaced by a package which
starts a program instead (`tools/jsm/server.go.txt`); the tests stay as they are. They need Go and the modules of
jsm.go. Tests of clusters fail with every server and are left out.

    python tools/run_jsm_suite.py --checkout ~/jsm.go --workdir /tmp/jsm \\
        --server real=/usr/bin/nats-server --server ours=.venv/bin/slipstream-server

It says which tests pass with the first server and fail with another, and ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

RUN_TIMEOUT_S = 1800  # all tests with one server; three minutes where nothing else runs
_OWN_SERVER = '"github.com/nats-io/nats-server/v2/server"'
_OUTSIDE = '"github.com/nats-io/jsm.go/outside"'
_OUTCOME = re.compile(r"^--- (PASS|FAIL): (\w+)", re.MULTILINE)
_NO_CLUSTER = re.compile(r"no clusters here\n(?:.*\n)*?--- FAIL: (\w+)")


def build(checkout: Path, workdir: Path) -> Path:
    """The test program, built from a copy of the checkout."""
    copy = workdir / "jsm.go"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    (copy / "outside").mkdir()
    shutil.copy(Path(__file__).parent / "jsm" / "server.go.txt", copy / "outside" / "server.go")
    for path in (copy / "test").glob("*.go"):
        text = re.sub(rf"^\t{re.escape(_OWN_SERVER)}", f"\tserver {_OUTSIDE}", path.read_text(), flags=re.MULTILINE)
        path.write_text(text.replace(f"natsd {_OWN_SERVER}", f"natsd {_OUTSIDE}"))
    program = workdir / "jsm.test"
    subprocess.run(["go", "test", "-mod=mod", "-c", "-o", program.absolute(), "./test"], cwd=copy, check=True)
    return program


def run(program: Path, workdir: Path, server: str, only: str) -> dict[str, str]:
    """The outcome of each test with one server."""
    command = [str(program.absolute()), "-test.v", *(["-test.run", only] if only else [])]
    environment = {**os.environ, "EXTERNAL_SERVER": str(Path(server).absolute())}
    where = workdir / "jsm.go" / "test"
    log = workdir / "output.txt"
    # In a group of its own: a test that fails leaves its server behind.
    with log.open("w") as out:
        tests = subprocess.Popen(
            command, cwd=where, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            tests.wait(RUN_TIMEOUT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)
    output = log.read_text()
    outcomes = {name: outcome for outcome, name in _OUTCOME.findall(output)}
    for name in _NO_CLUSTER.findall(output):
        outcomes.pop(name, None)
    return outcomes


def run_again(program: Path, workdir: Path, server: str, outcomes: dict[str, str]) -> None:
    """Run tests that failed once more, each alone: they allow a second for every call, also on a busy machine."""
    for name in [name for name, outcome in outcomes.items() if outcome == "FAIL"]:
        outcomes.update(run(program, workdir, server, f"^{name}$"))


def main() -> int:
    """Build once, run with each server, compare with the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="a checkout of jsm.go")
    parser.add_argument("--workdir", type=Path, required=True, help="where the copy and the program go")
    parser.add_argument("--server", action="append", required=True, help="name=program; the first one is compared with")
    parser.add_argument("--run", default="", help="only tests whose names match, as for `go test`")
    arguments = parser.parse_args()
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    program = build(arguments.checkout, arguments.workdir)
    servers = dict(server.split("=", 1) for server in arguments.server)
    found = {name: run(program, arguments.workdir, path, arguments.run) for name, path in servers.items()}
    for name, path in servers.items():
        run_again(program, arguments.workdir, path, found[name])
    first, *others = found
    different = 0
    for name, outcomes in found.items():
        passed = sum(outcome == "PASS" for outcome in outcomes.values())
        print(f"{name}: {passed} of {len(outcomes)} pass")
    for name in others:
        for test, outcome in found[first].items():
            if outcome == "PASS" and found[name].get(test) != "PASS":
                print(f"{test}: {found[name].get(test, 'not run')} with {name}")
                different += 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
