"""The data pipeline's jobs, as functions. Each takes a Spark session first and returns a `Report`.

    from slipstream.spark import jobs

    from slipstream.spark import session

    jobs.archive(session(), "ORDERS", "./lake/orders")

The same jobs are `slipstream spark <job>` on the command line. They run on `local[*]` and on any cluster alike, as long
as workers can reach the server and the directory.
"""

from __future__ import annotations

from slipstream.spark.jobs.archive import archive
from slipstream.spark.jobs.audit import audit
from slipstream.spark.jobs.compact import compact
from slipstream.spark.jobs.dlq import dlq
from slipstream.spark.jobs.erase import erase
from slipstream.spark.jobs.materialize import materialize
from slipstream.spark.jobs.mirror import mirror
from slipstream.spark.jobs.replay import replay
from slipstream.spark.jobs.report import Report
from slipstream.spark.jobs.stats import stats
from slipstream.spark.jobs.tasks import JobError

__all__ = [
    "JobError",
    "Report",
    "archive",
    "audit",
    "compact",
    "dlq",
    "erase",
    "materialize",
    "mirror",
    "replay",
    "stats",
]
