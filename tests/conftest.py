"""Set-up of all tests: the source tree on the path, compiled kernels, Hypothesis profiles, servers.

The servers: `real` and `ours` start one kind each, `both` starts the pair for a comparison, `launcher` runs a test
once with each kind. All pick free ports and keep to temporary directories, so tests can run in parallel.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.servers import Both, Launcher, ServerPool

SOURCE = Path(__file__).resolve().parent.parent / "src"
KERNELS = SOURCE / "slipstream" / "kernels"

if importlib.util.find_spec("slipstream") is None:
    sys.path.insert(0, str(SOURCE))

# Programs of this environment, nats-server above all, are found whoever starts the tests, and however.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))

settings.register_profile("fast", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# A shell lets jobs in its background ignore Ctrl-C, and so would every program that they start to press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Refuses to test the uncompiled twin of a kernel that was built: it would prove nothing about the product."""
    if os.environ.get("SLIPSTREAM_PURE") == "1":
        return
    for library in KERNELS.glob("*/*.so"):
        name = f"slipstream.kernels.{library.parent.name}.{library.name.partition('.')[0]}"
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".so"):
            raise pytest.UsageError(f"{name} is built as {library.name} but {spec and spec.origin} would be loaded")


class _OpenDescriptors:
    """Those of a worker, between tests: `select` fails from 1,024 on, long after whoever left them open."""

    def __init__(self) -> None:
        self.most = 900
        self.left: Counter[str] = Counter()  # by file of tests

    @staticmethod
    def count() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Counts what each file of tests leaves open."""
        before = self.count()
        result = yield
        self.left[item.nodeid.partition("::")[0]] += self.count() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Fails the test that comes next when too many are open, and names the files of tests that left most."""
        if self.count() > self.most:
            gc.collect()
            count = self.count()
            if count > self.most:
                self.most = count + 100  # told of once
                pytest.fail(f"{count} descriptors are still open, most of them by {self.left.most_common(3)}")
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Watches descriptors."""
    config.pluginmanager.register(_OpenDescriptors())


def pytest_collection_finish() -> None:
    """Takes all that lives as long as the worker out of the garbage collector's sight: it need not look there again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _garbage() -> Iterator[None]:
    """Collects what a file of tests leaves behind: what was not closed, or fails as it goes, is told of there, and not
    in whichever test comes next."""
    yield
    gc.collect()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives whole files to workers, long ones first."""
    if config.getvalue("dist") != "load":
        return None
    from support.scheduling import WholeFiles

    return WholeFiles(config, log)


@pytest.fixture(scope="session")
def server_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPool]:
    """Servers that live as long as the worker."""
    pool = ServerPool(tmp_path_factory.mktemp("servers"))
    yield pool
    pool.stop_all()


@pytest.fixture
def real(server_pool: ServerPool) -> Iterator[Launcher]:
    """Starts nats-server."""
    yield from _launcher(server_pool, "real")


@pytest.fixture
def ours(server_pool: ServerPool) -> Iterator[Launcher]:
    """Starts the server of this project."""
    yield from _launcher(server_pool, "ours")


@pytest.fixture(params=["real", "ours"])
def launcher(request: pytest.FixtureRequest, server_pool: ServerPool) -> Iterator[Launcher]:
    """Starts servers of one kind; the test runs once for each kind."""
    yield from _launcher(server_pool, request.param)


@pytest.fixture
def both(real: Launcher, ours: Launcher) -> Both:
    """Starts pairs of servers to compare."""
    return Both(real, ours)


def _launcher(pool: ServerPool, kind: str) -> Iterator[Launcher]:
    launcher = Launcher(pool, kind)
    yield launcher
    launcher.end_own()
    slow = launcher.slow_events()
    if slow:
        pytest.fail("other clients had to wait:\n" + "\n".join(slow))
