"""A real browser before a real server. Debian's chromium is driven by Playwright, which downloads nothing here.

A test opens pages with `dashboard(server)`. Whatever the page says on its console, any script that was not meant to run
and any address outside the server fail the test.

Playwright keeps an event loop running in the thread that uses it. So these tests run in a thread of their own, and
those of other folders in the same process can have loops.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slipstream.testing import ServerThread

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Where it cannot be installed there is nothing to import.
collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]
CHROMIUM = shutil.which("chromium")
WAIT_MS = 45_000  # when to give up: a browser and three servers may have little of a busy machine


HERE = Path(__file__).parent
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser there is nothing to see here; tests of other folders are among these items as well."""
    for item in items:
        if CHROMIUM is None and HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="no chromium here"))


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Run a test of this folder where the browser is."""
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    _THREAD.submit(pyfuncitem.obj, **given).result()
    return True


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=WAIT_MS)
    # Tests may run as root, where the sandbox cannot; and in containers whose shared memory is small.
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    driver = _THREAD.submit(lambda: playwright.sync_playwright().start()).result()
    browser = _THREAD.submit(driver.chromium.launch, executable_path=CHROMIUM, args=flags).result()
    yield browser
    _THREAD.submit(browser.close).result()
    _THREAD.submit(driver.stop).result()


class Window:
    """A page of the dashboard, and what went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda line: line.type == "error" and self.faults.append(f"console: {line.text}"))
        page.on("dialog", lambda dialog: (self.faults.append(f"a script ran: {dialog.message}"), dialog.dismiss()))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url.rsplit("/ui/", 1)[0], "blob:")):
            self.faults.append(f"asked elsewhere: {request.url}")

    def go(self, place: str) -> Page:
        """Show a page of the dashboard, such as `streams`."""
        self.page.goto(f"{self.url}#/{place}")
        return self.page


Opener = Callable[..., Window]


@pytest.fixture
def dashboard(browser: Browser) -> Iterator[Opener]:
    """Opens windows: of a server, or of an address."""
    contexts: list[Any] = []
    windows: list[Window] = []

    def opened(server: ServerThread | str, place: str = "overview", **settings: Any) -> Window:
        if isinstance(server, str):
            url = server
        else:
            assert server.server.monitoring is not None
            url = f"{server.server.monitoring.url}/ui/"
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
        contexts.append(context)
        windows.append(Window(context.new_page(), url))
        windows[-1].go(place)
        return windows[-1]

    yield opened
    faults = [fault for window in windows for fault in window.faults]
    for context in contexts:
        _THREAD.submit(context.close).result()
    assert faults == []


@pytest.fixture
def server() -> Iterator[ServerThread]:
    """A server of the test's own, with a dashboard and JetStream."""
    with ServerThread(port=-1, http_host="127.0.0.1", http_port=-1, jetstream=True, server_name="ui-test") as started:
        yield started
