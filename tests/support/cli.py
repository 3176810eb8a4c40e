"""The command line under test: in this process, as a process, or in a terminal; with a home and a server of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from slipstream.cli.main import cli
from support.terminal import Terminal, program

_TIMES = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b")
_AGES = re.compile(r"\b\d+(?:\.\d\d)?(?:µs|ms|s)\b *")


class Cli:
    """`slipstream` with an environment that belongs to the test alone."""

    def __init__(self, home: Path, url: str = "") -> None:
        """Use a home directory and a server."""
        self.home = home
        self.env: dict[str, str] = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "NATS_URL": url,
            "NATS_CONTEXT": "",
            "NATS_COLOR": "",
            "EDITOR": "true",
        }

    def call(self, *arguments: str, status: int = 0, stdin: str = "") -> Result:
        """Run a command in this process."""
        result = CliRunner(env=self.env).invoke(cli, list(arguments), input=stdin, prog_name="slipstream")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, f"{arguments} ended with {result.exit_code}:\n{result.output}"
        return result

    def json(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.call(*arguments).stdout)

    def run(
        self, *arguments: str, status: int = 0, stdin: bytes = b"", name: str = "slipstream"
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command as a process, without a terminal."""
        command = [program(name), *arguments]
        env = {**os.environ, **self.env}
        done = subprocess.run(command, env=env, input=stdin, capture_output=True, timeout=30, check=False)
        assert done.returncode == status, f"{arguments} ended with {done.returncode}:\n{done.stderr.decode()}"
        return done

    def terminal(self, *arguments: str, name: str = "slipstream", columns: int = 120) -> Terminal:
        """Run a command in a terminal."""
        return Terminal([program(name), *arguments], env=self.env, columns=columns)

    def screen(self, *arguments: str, status: int = 0, columns: int = 120) -> str:
        """What a command that asks nothing shows in a terminal."""
        with self.terminal(*arguments, columns=columns) as terminal:
            return terminal.finish(status)


def steady(text: str) -> str:
    """A screen with the same letters every time: times and ages are replaced by texts of the same width."""
    text = _TIMES.sub(lambda found: "T" * len(found[0]), text)
    text = _CLOCK.sub("HH:MM:SS", text)
    text = _AGES.sub(lambda found: "AGE".ljust(len(found[0])), text)
    return re.sub(r" +$", "", text, flags=re.MULTILINE)
