"""The runner of the suite: a test that passes only alone does not fail the run, and is named."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "run_tests.py"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_tests", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FAILED", tmp_path / "lastfailed")
    monkeypatch.setattr(module, "FLAKY", tmp_path / "build" / "flaky.txt")
    return module


@pytest.mark.parametrize(
    ("again", "code", "flaky"),
    [
        ([], 0, "2 tests failed at first and passed alone:\n  t.py::a\n  t.py::b\n"),
        (["t.py::b"], 1, "1 test failed at first and passed alone:\n  t.py::a\n"),
        (["t.py::a", "t.py::b"], 1, None),
    ],
)
def test_what_passed_alone_is_named(
    again: list[str],
    code: int,
    flaky: str | None,
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tool.FAILED.write_text('{"of.py::before": true}')

    def pytest_run(*arguments: str) -> int:
        failed = again if "--last-failed" in arguments else ["t.py::a", "t.py::b"]
        tool.FAILED.write_text(json.dumps(dict.fromkeys(failed, True)))
        return 1 if failed else 0

    monkeypatch.setattr(tool, "_pytest", pytest_run)
    assert tool.run(["tests"]) == code
    assert (tool.FLAKY.read_text() if tool.FLAKY.exists() else None) == flaky
    assert (flaky or "2 tests failed; once more, alone:") in capsys.readouterr().out


@pytest.mark.parametrize("code", [0, 2, 3, 5])
def test_other_ends_are_final(code: int, tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, ...]] = []

    def pytest_run(*arguments: str) -> int:
        runs.append(arguments)
        return code

    monkeypatch.setattr(tool, "_pytest", pytest_run)
    assert tool.run(["tests"]) == code
    assert runs == [("-n", "4", "tests")]
