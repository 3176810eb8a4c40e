"""Which worker runs which tests, and which are given out first.

A file of tests stays whole: its servers, and whatever else its fixtures share, start once and not once a worker. All
tests with Spark are one unit, as one Java machine serves them, and so are all with a browser.

What takes longest is given out first, so that no worker is left with minutes of work when the others have none: the
two units above, then what plays whole lives or runs documents, with few tests of many seconds, then what talks to
servers, and last the unit tests, whose files are short. Of equal kinds, the file with more tests comes first.

The marker `xdist_group` would say the first half, but pytest 9.2 and xdist 3.8 do not agree on where a test keeps its
id.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

ONE_WORKER = ("tests/spark/", "tests/ui/")
LONG = ("tests/crash/", "tests/sim/", "tests/docs/")
SHORT = "tests/unit/"
NOT_SHORT = "tests/unit/server/"  # servers in the process of the test, with sockets


def unit_of(nodeid: str) -> str:
    """What a test is given out with."""
    return next((suite for suite in ONE_WORKER if nodeid.startswith(suite)), nodeid.partition("::")[0])


def rank_of(unit: str) -> int:
    """Smaller ones are given out first."""
    if unit in ONE_WORKER:
        return 0
    if unit.startswith(LONG):
        return 1
    return 3 if unit.startswith(SHORT) and not unit.startswith(NOT_SHORT) else 2


class WholeFiles(LoadScopeScheduling):
    """Gives out units, the next to whichever worker is nearly done."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank_of), last=False)  # they are sorted by number already
        super()._assign_work_unit(node)
