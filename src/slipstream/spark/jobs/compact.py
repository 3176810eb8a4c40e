"""`compact`: many small files of an archive become few large ones; rows and their order stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks
from slipstream.spark.lake import LakeConflict, LakeError, LakeFile, Vacuumed, open_lake, working
from slipstream.spark.lake import vacuum as vacuum_lake
from slipstream.spark.lake.compaction import neighbours, put_in_place, rewritten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["compact"]


@dataclass(frozen=True)
class _Rewrite:
    directory: str
    paths: tuple[str, ...]
    rows: int
    codec: str
    job: str


def compact(
    spark: SparkSession,
    location: str,
    *,
    target_bytes: int = 256 << 20,
    codec: str = "zstd",
    vacuum: bool = False,
    say: Say = quiet,
) -> Report:
    """Put neighbouring small files of an archive together.

    Args:
        spark: the session.
        location: of the archive.
        target_bytes: files of about this size; what is half as large or more is left alone.
        codec: of the new files.
        vacuum: remove files that the new version does not need; older versions cannot be read afterwards.
        say: gets a line now and then.

    Raises:
        JobError: a task failed, or a file has not the rows its table says.
        LakeError: there is no such archive, or somebody else rewrote the same files meanwhile.
    """
    report = Report("compact")
    lake = open_lake(location)
    before = lake.files()
    bins = neighbours(before, target_bytes)
    say(_plan(len(before), sum(map(len, bins)), len(bins)))
    added: list[LakeFile] = []
    if bins:
        with working(lake, "compact") as work:
            items = [
                _Rewrite(location, tuple(map(lake.path_of, one)), sum(file.rows for file in one), codec, work.job)
                for one in bins
            ]
            results = run_tasks(spark, items, _rewrite)
            if any(result["file"] is None for result in results):
                lake.reload()
                lake.check_files(lake.files())
                raise LakeConflict(f"somebody else changed {location} meanwhile; run this again")
            added = [LakeFile(**result["file"]) for result in results]
            put_in_place(work, added, [file for one in bins for file in one])
    vacuumed = vacuum_lake(lake) if vacuum else Vacuumed(0, 0)
    report.figures = {
        "table": location,
        "version": lake.version,
        "files_before": len(before),
        "files_after": len(before) - sum(map(len, bins)) + len(bins),
        "rows_moved": sum(file.rows for file in added),
        "bytes": sum(file.size for file in added),
        "files_removed": vacuumed.removed,
        "files_in_flight": vacuumed.in_flight,
    }
    return report.finish()


def _plan(files: int, small: int, new: int) -> str:
    if not new:
        return f"nothing to put together in {counted(files, 'file')}"
    return f"{small:,} of {counted(files, 'file')} become {new:,}"


def _rewrite(item: _Rewrite) -> Result:
    """In a worker: some files into one; none if one of them is gone."""
    try:
        file = rewritten(item.directory, item.paths, item.rows, codec=item.codec, job=item.job)
    except LakeError as error:
        raise JobError(str(error)) from error
    return {"file": None if file is None else file.as_json()}
