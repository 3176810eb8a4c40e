"""Fuzzing guided by coverage: every target under libFuzzer, kernels with sanitizers, a process for each.

    known inputs ──► worker (libFuzzer, through atheris) ──► corpus that grows, in `build/fuzzing/corpus`
                       └── a broken promise, a finding of a sanitizer, a hang, too much memory ──► the input, and why

The next run begins with the corpus of the last. What was found is kept under `build/fuzzing/found`. What is worth
keeping for ever goes to `tests/fixtures/fuzz` by hand, minimised: the fuzzer does that with `-minimize_crash=1`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import util
from os import cpu_count
from pathlib import Path
from time import monotonic
from types import ModuleType

from fuzz.catalogue import known
from fuzz.target import INPUT_BYTES_MAX, Target

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "fuzzing" / "found"
CORPORA = ROOT / "build" / "fuzzing" / "corpus"
MEMORY_MB_MAX = 2048  # of a worker, Python and the corpus included
ALLOCATION_MB_MAX = 64  # at once: far more than anything of a few KB may ask for
HANG_S = 20  # for one input, on a busy machine
PLANTED_RUNS = 300_000  # within which a planted fault must be found


@dataclass(frozen=True)
class Fuzzed:
    """What became of one target."""

    name: str
    executions: int
    coverage: int
    """Edges and features that libFuzzer counts."""
    seconds: float
    """Of the worker, its start included."""
    broken: str
    """The last words of the worker, empty when it found nothing."""


def fuzz(
    runs: int, targets: Iterable[Target], *, workers: int = 0, seed: int = 1, corpora: Path = CORPORA
) -> list[Fuzzed]:
    """So many executions of each target; what is tried depends on the seed and on what was found before."""
    environment = tools().fuzzing_environment()
    FOUND.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(workers or cpu_count() or 1) as pool:
        return list(pool.map(partial(_fuzzed, runs, seed, corpora, environment), targets))


def tools() -> ModuleType:
    """`tools/sanitize.py`, which builds the kernels."""
    spec = util.spec_from_file_location("sanitize", ROOT / "tools" / "sanitize.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fuzzed(runs: int, seed: int, corpora: Path, environment: dict[str, str], target: Target) -> Fuzzed:
    name, corpus = target.name, corpora / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        begin, words = Path(directory) / "known", Path(directory) / "words"
        begin.mkdir()
        for number, data in enumerate(known(target)):
            (begin / f"known{number}").write_bytes(data)
        words.write_text("".join(map(_quoted, target.words)))
        command = [sys.executable, str(ROOT / "tests" / "fuzz" / "worker.py"), target.run.__module__, name]
        command += [str(corpus), str(begin)]
        command += [
            f"-runs={max(runs // target.cost, 1)}",
            f"-max_len={INPUT_BYTES_MAX}",
            f"-timeout={HANG_S}",
            f"-seed={seed}",
        ]
        command += [f"-dict={words}"] if target.words else []
        command += [f"-rss_limit_mb={MEMORY_MB_MAX}", f"-malloc_limit_mb={ALLOCATION_MB_MAX}", "-print_final_stats=1"]
        command += [f"-artifact_prefix={FOUND}/{name}-", "-verbosity=1"]
        began = monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", cwd=ROOT)
    said = done.stdout + done.stderr
    executed = re.search(r"stat::number_of_executed_units: (\d+)", said)
    seen = re.findall(r"#(\d+)\s.*cov: (\d+)", said)
    executions = int(executed[1]) if executed else int(seen[-1][0]) if seen else 0
    broken = "" if done.returncode == 0 else f"{name}: {_reason(said)}"
    return Fuzzed(name, executions, int(seen[-1][1]) if seen else 0, monotonic() - began, broken)


def _quoted(word: bytes) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def _reason(said: str) -> str:
    """The lines that say what broke."""
    lines = [line for line in said.splitlines() if re.search(r"Error|ERROR|error:|Exception|SUMMARY|Test unit", line)]
    return " | ".join(lines[-6:])[:1000] or said[-1000:]
