"""The order in which workers get tests: files whole, what is long first."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from support.scheduling import WholeFiles

TESTS = [
    "tests/conformance/test_a.py::test_1",
    "tests/conformance/test_b.py::TestIt::test_1",
    "tests/conformance/test_b.py::test_2",
    "tests/spark/test_a.py::test_1",
    "tests/spark/test_b.py::test_1",
    "tests/unit/cli/test_a.py::test_1[a::b]",
    "tests/unit/cli/test_a.py::test_2",
    "tests/unit/cli/test_a.py::test_3",
    "tests/unit/server/test_a.py::test_1",
    "tests/crash/test_a.py::test_1",
]


class Worker:
    """Takes tests and does not run them."""

    shutting_down = False

    def __init__(self) -> None:
        self.given: list[list[str]] = []
        self.was_shut_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given.append([TESTS[index] for index in indices])

    def shutdown(self) -> None:
        self.was_shut_down = True


def test_files_stay_whole_and_short_ones_come_last() -> None:
    options = SimpleNamespace(loadscopereorder=True, tx=["popen"])
    config = cast("pytest.Config", SimpleNamespace(option=options, getvalue=lambda name: getattr(options, name)))
    worker = Worker()
    node = cast("WorkerController", worker)
    scheduler = WholeFiles(config, Producer("test", enabled=False))
    scheduler.add_node(node)
    scheduler.add_node_collection(node, TESTS)
    scheduler.schedule()
    for index in [3, 4, 9, 1, 2, 0, 8, 5, 6, 7]:
        scheduler.mark_test_complete(node, index)
    assert worker.given == [TESTS[3:5], TESTS[9:], TESTS[1:3], TESTS[0:1], TESTS[8:9], TESTS[5:8]]
    assert worker.was_shut_down
