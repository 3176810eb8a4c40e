"""`compact`: many small files of an archive become few large ones; rows and their order stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.spark.jobs.report import Report, Say, counted, quiet
from slipstream.spark.jobs.tasks import JobError, Result, run_tasks
from slipstream.spark.lake import LakeConflict, LakeError, LakeFile, Vacuumed, Work, open_lake, working
from slipstream.spark.lake import vacuum as vacuum_lake

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["compact"]

_ATTEMPTS = 20  # each is a version that somebody else made


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
    bins = _bins(before, target_bytes)
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
            _commit(work, added, [file for one in bins for file in one])
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


def _commit(work: Work, added: list[LakeFile], removed: list[LakeFile]) -> None:
    """Put new files in the place of old ones, as long as the old ones are there: an erasure rewrites what it hits."""
    lake = work.lake
    for _ in range(_ATTEMPTS):
        try:
            work.commit(lake.facts, add=added, remove=removed, operation="compact", changes_data=False)
            return
        except LakeConflict:
            lake.reload()
            named = {file.path for file in lake.files()}
            if any(file.path not in named for file in removed):
                raise
    raise LakeError(f"{lake.location} is changed all the time by somebody else; try again later")


def _plan(files: int, small: int, new: int) -> str:
    if not new:
        return f"nothing to put together in {counted(files, 'file')}"
    return f"{small:,} of {counted(files, 'file')} become {new:,}"


def _bins(files: list[LakeFile], target_bytes: int) -> list[list[LakeFile]]:
    """Neighbours that together make a file of about the wanted size; order of sequences is kept."""
    bins: list[list[LakeFile]] = []
    one: list[LakeFile] = []
    for file in files:
        if file.size >= target_bytes // 2 or sum(each.size for each in one) + file.size > target_bytes:
            bins.append(one)
            one = []
        if file.size < target_bytes // 2:
            one.append(file)
    bins.append(one)
    return [each for each in bins if len(each) > 1]


def _rewrite(item: _Rewrite) -> Result:
    """In a worker: some files into one; none if one of them is gone."""
    from slipstream.spark.lake.files import COLUMNS, read_file, write_file

    def batches() -> Iterator[pa.RecordBatch]:
        for path in item.paths:
            yield from read_file(path, COLUMNS)

    try:
        file = write_file(item.directory, batches(), job=item.job, codec=item.codec)
    except FileNotFoundError:
        return {"file": None}  # somebody has replaced one and removed it
    if file is None or file.rows != item.rows:
        raise JobError(f"{len(item.paths)} files have {file.rows if file else 0} rows, the table says {item.rows}")
    return {"file": file.as_json()}
