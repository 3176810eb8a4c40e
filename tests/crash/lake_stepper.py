"""Writes a table in a child for each line that it reads; the child waits until somebody says when it has to die.

python lake_stepper.py URL DIRECTORY FORMAT

    reads  a line, the name of a stream: fork; prints the child's process id
           a second line: the child goes on with one turn of a writer that cuts files small and puts them together;
           prints its status: 0, or -9 if it was killed

FORMAT is `delta` or `iceberg`, or `delta-in-two`: a writer that adds messages in one commit and moves the position in
the next, which no death may come between.

Libraries are loaded once, in the parent, which starts no thread and opens nothing.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator

import deltalake  # noqa: F401
import pyarrow as pa
import pyarrow.parquet
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow  # noqa: F401

from slipstream.bulk import ConnectOptions
from slipstream.lake import delta_table, iceberg_table  # noqa: F401 - to be there before the fork
from slipstream.lake.opening import TablePlan
from slipstream.lake.service import LakeService
from slipstream.lake.writing import WriteSettings


class TwoCommits(delta_table.DeltaStreamTable):
    """What a test must find."""

    def append(self, batches: Iterator[pa.RecordBatch], after: int, upto: int) -> int | None:
        rows = super().append(batches, after, after)
        super().append(iter(()), after, upto)
        return rows


def turn(url: str, directory: str, kind: str, stream: str) -> None:
    plan = TablePlan(directory, kind.partition("-")[0])
    if kind == "delta-in-two":
        delta_table.DeltaStreamTable = TwoCommits  # type: ignore[misc]
    settings = WriteSettings(file_bytes=2500, compact_files=4, keep_seconds=0.0)
    with LakeService(ConnectOptions(url), plan.opener(), [stream], settings) as service:
        report = service.turn()
        assert not report.failures, report.failures
        service._writers[stream].expire()


def main(*arguments: str) -> None:
    warnings.simplefilter("ignore")
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            sys.stdin.readline()
            turn(*arguments, line.strip())
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
