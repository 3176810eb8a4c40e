"""Every example runs to its end; each checks its own result. Demos run by themselves, Spark's is in tests/spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ELSEWHERE = {"demo.py", "demo_cluster.py", "spark_pipeline.py", "spark_state.py"}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.name not in ELSEWHERE], ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
