"""The tests in four processes; what failed is run once more, alone, and named whether it passes then or not.

    python tools/run_tests.py [arguments of pytest]

Many tests wait more than they compute: four processes keep two cores busy, which three do not. Each takes whole files,
long ones first (`tests/support/scheduling.py`). And many tests watch two live processes on a machine that may be busy,
so a failure counts only if it happens again. One that does not is a fault all the same, of the test or of the product:
the last lines name it, and it is noted in `build/flaky.txt`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
FLAKY = ROOT / "build" / "flaky.txt"
_SOME_FAILED = 1  # pytest's exit code


def run(arguments: Sequence[str]) -> int:
    """Run twice if need be; the exit code is that of what counts."""
    if "--collect-only" in arguments:
        return _pytest("-p", "no:cacheprovider", *arguments)
    FAILED.unlink(missing_ok=True)  # of a run before, perhaps of other tests
    code = _pytest("-n", "4", *arguments)
    if code != _SOME_FAILED:
        return code
    failed = _failed()
    print(f"\n{_counted(len(failed))} failed; once more, alone:\n", flush=True)
    code = _pytest("--last-failed", "--last-failed-no-failures", "none", *arguments)
    again = _failed() if code else []
    passed = [name for name in failed if name not in again]
    if passed and code in (0, _SOME_FAILED):
        report = f"{_counted(len(passed))} failed at first and passed alone:\n" + "".join(f"  {x}\n" for x in passed)
        FLAKY.parent.mkdir(exist_ok=True)
        with FLAKY.open("a") as noted:
            noted.write(report)
        print(f"\n{'=' * 80}\n{report}{'=' * 80}", flush=True)
    return code


def _pytest(*arguments: str) -> int:
    # Four processes read 700 modules of tests, whose assertions pytest rewrites: once, not once a process and run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


def _failed() -> list[str]:
    return sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []


def _counted(count: int) -> str:
    return f"{count} test" if count == 1 else f"{count} tests"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
