"""Examples with other frameworks run to their end, with those frameworks as the package index has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "integrations"
# What each needs, besides what this project is developed with.
NEEDS = {
    "fastapi_orders": ("fastapi", "httpx"),
    "celery_tasks": ("celery",),
    "airflow_trigger": ("apache-airflow-core",),
}
INSTALL_TIMEOUT_S = 900


def test_each_is_named() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(NEEDS)


@pytest.mark.long
@pytest.mark.timeout(INSTALL_TIMEOUT_S + 180)
@pytest.mark.parametrize("name", sorted(NEEDS))
def test_integration_runs(name: str, tmp_path: Path) -> None:
    packages = Path(os.environ.get("SLIPSTREAM_EXAMPLE_PACKAGES") or tmp_path) / name
    if not packages.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(packages), *NEEDS[name]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S)
        if done.returncode:
            pytest.skip(f"{', '.join(NEEDS[name])} cannot be installed here: {done.stderr.strip()[-200:]}")
    paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
