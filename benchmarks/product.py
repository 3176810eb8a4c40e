"""What somebody notices who installs the server and looks at it, each beside its bar; status 1 if one is missed.

    python -m benchmarks.product                     all that can be measured here
    python -m benchmarks.product --only http         one: import, install, page, tabs, http
    python -m benchmarks.product --wheel FILE        with `install`: from this wheel, in an environment of its own

`page` and `tabs` need Chromium and Playwright, `install` a wheel (`make wheel`) and the package index; what cannot be
measured is said, and is no miss. Figures count on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks import http_publish
from benchmarks.figure import Figure, NotHere

__all__ = ["MEASURES", "main"]

_ROUNDS: Final = 7
_TABS: Final = 10
_SETTLED_SECONDS: Final = 2.0  # until all tabs have what they begin with
_TABS_SECONDS: Final = 10.0
_CONFIG: Final = 'port: -1\nhost: "127.0.0.1"\nhttp: "127.0.0.1:-1"\njetstream {{ store_dir: "{directory}" }}\n'
_FIRST_PAINT: Final = "performance.getEntriesByName('first-contentful-paint').map((each) => each.startTime)"
_WIRE_BYTES: Final = (
    "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    ".reduce((sum, each) => sum + each.transferSize, 0)"
)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(MEASURES))
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    missed = 0
    for name in options.only or MEASURES:
        try:
            for figure in MEASURES[name](options.wheel):
                print(figure, flush=True)
                missed += not figure.holds
        except NotHere as reason:
            print(f"{name}: left out, {reason}", flush=True)
    return 1 if missed else 0


def _import(_wheel: Path | None) -> Iterator[Figure]:
    code = "from time import perf_counter as now; begun = now(); import slipstream; print(now() - begun)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(_ROUNDS)
    ]
    yield Figure("import slipstream", statistics.median(times) * 1e3, 50, "ms")


def _install(wheel: Path | None) -> Iterator[Figure]:
    if wheel is None:
        raise NotHere("name a wheel with --wheel")
    with tempfile.TemporaryDirectory() as directory:
        programs = Path(directory) / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["PATH"] = str(programs)  # no compiler, nor anything else
        install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
        begun = time.monotonic()
        subprocess.run([*install, str(wheel.resolve())], env=environment, cwd=directory, check=True)
        with _serving([str(programs / "slipstream-server")], _CONFIG, environment):
            yield Figure("from a wheel to a ready server", time.monotonic() - begun, 15, "s")


def _page(_wheel: Path | None) -> Iterator[Figure]:
    with _dashboard() as (page, _server):
        paints, sizes = [], []
        for _ in range(_ROUNDS):
            with page() as tab:
                tab.wait_for_selector("main")
                paints += tab.evaluate(_FIRST_PAINT)
                sizes.append(tab.evaluate(_WIRE_BYTES))
        yield Figure("first paint of the dashboard", statistics.median(paints), 300, "ms")
        yield Figure("the dashboard over the wire", statistics.median(sizes) / 1024, 250, "KiB")


def _tabs(_wheel: Path | None) -> Iterator[Figure]:
    with _dashboard() as (page, server):
        tabs = [page() for _ in range(_TABS)]
        for tab in tabs:
            tab.__enter__().wait_for_selector("main")
        time.sleep(_SETTLED_SECONDS)
        before, begun = http_publish.cpu_s(server.pid), time.monotonic()
        time.sleep(_TABS_SECONDS)
        share = (http_publish.cpu_s(server.pid) - before) / (time.monotonic() - begun)
        yield Figure(f"the server with {_TABS} open tabs", share * 100, 2, "% of a core")


def _http(_wheel: Path | None) -> Iterator[Figure]:
    measured = http_publish.measure()
    yield Figure("publishes over HTTP from 64 connections", measured.rate, 20_000, "a second", more_is_better=True)


@contextmanager
def _serving(
    command: list[str], config: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that is ready, and what it said until then."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "server.conf"
        path.write_text(config.format(directory=directory))
        words = [*command, "-c", str(path)]
        with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as server:
            try:
                yield server, _said_until_ready(server)
            finally:
                server.kill()


def _said_until_ready(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    said = ""
    for line in server.stderr:
        said += line
        if "Server is ready" in line:
            return said
    raise RuntimeError(f"the server did not start:\n{said}")


@contextmanager
def _dashboard() -> Iterator[tuple[Callable[[], Any], subprocess.Popen[str]]]:
    """What opens a tab with the dashboard of a new server, each with nothing in its cache."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise NotHere("there is no chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NotHere("playwright is not installed") from None
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with (
        _serving([sys.executable, "-m", "slipstream.server"], _CONFIG) as (server, said),
        sync_playwright() as driver,
    ):
        port = re.search(r"Starting http monitor on \S+:(\d+)", said)
        assert port is not None, said
        browser = driver.chromium.launch(executable_path=chromium, args=flags)

        @contextmanager
        def page() -> Iterator[Any]:
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(f"http://127.0.0.1:{port[1]}/ui/#/overview")
            yield tab
            context.close()

        yield page, server
        browser.close()


MEASURES: Final[dict[str, Callable[[Path | None], Iterator[Figure]]]] = {
    "import": _import,
    "install": _install,
    "page": _page,
    "tabs": _tabs,
    "http": _http,
}
"""By name: what is measured, with a wheel if there is one."""


if __name__ == "__main__":
    sys.exit(main())
