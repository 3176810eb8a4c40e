"""The server of an earlier commit as a program: what `benchmarks.compare` measures today's against.

    python -m benchmarks.earlier 01177bbc~1 build/before
    python -m benchmarks.compare --theirs build/before/slipstream-server --family jetstream --output before.md

The sources of the commit are put into the directory, with kernels of their own. Both servers are measured by today's
load and in turn, so that the table says what everything since that commit costs who does not use it.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import click

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
_PROGRAM = """#!/bin/sh
PYTHONPATH={sources} exec {python} -c 'import sys; sys.argv[0] = "slipstream-server"
from slipstream.server.main import main; sys.exit(main())' "$@"
"""


def extract(commit: str, directory: Path) -> None:
    """Put the sources of a commit into a directory."""
    words = ["git", "archive", commit, "src", "pyproject.toml", "README.md", "LICENSE"]
    packed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")


def build(directory: Path) -> None:
    """Compile its kernels where they are."""
    words = [sys.executable, "-c", "import setuptools; setuptools.setup()", "build_ext", "--inplace", "--parallel", "2"]
    flags = {**os.environ, "CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0"}
    subprocess.run(words, cwd=directory, check=True, env=flags, stdout=subprocess.DEVNULL)


def write_program(directory: Path) -> Path:
    """A program that runs the server from there."""
    program = directory / "slipstream-server"
    program.write_text(_PROGRAM.format(sources=directory / "src", python=sys.executable))
    program.chmod(0o755)
    return program


@click.command()
@click.argument("commit")
@click.argument("directory", type=click.Path(path_type=Path))
def main(commit: str, directory: Path) -> None:
    """Make it, and say where it is."""
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    extract(commit, directory)
    build(directory)
    click.echo(write_program(directory))


if __name__ == "__main__":
    main()
