"""Every snippet and command in README and docs runs.

Python blocks run as they are, in a process of their own. Of shell blocks, `make` targets must exist (the test command
and the demo are run by CI itself), and server command lines are started until they are ready, then stopped.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIG = "port: -1\n"


def blocks(language: str) -> list[object]:
    found = []
    for path in DOCUMENTS:
        for number, match in enumerate(BLOCK.finditer(path.read_text())):
            if match[1] == language:
                found.append(pytest.param(match[2], id=f"{path.relative_to(ROOT)}-{number}"))
    return found


def commands() -> list[object]:
    lines = []
    for parameter in blocks("sh"):
        text, name = parameter.values[0], parameter.id  # type: ignore[attr-defined]
        for line in text.splitlines():
            command = line.partition("#")[0].strip()
            if command:
                lines.append(pytest.param(command, id=f"{name}-{command[:40]}"))
    return lines


@pytest.mark.parametrize("code", blocks("python"))
def test_python_snippet_runs(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", commands())
def test_command_works(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    program = Path(sys.executable).parent / words[0]
    assert program.exists(), f"unknown program in the documents: {command}"
    (tmp_path / "my.conf").write_text(CONFIG)
    arguments = [re.sub(r"^\d{4}$", "-1", word) for word in words[1:]]
    process = subprocess.Popen([str(program), *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "Server is ready" in line:
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
