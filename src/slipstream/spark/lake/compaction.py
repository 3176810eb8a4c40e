"""Neighbouring small files of an archive into one; rows and their order stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slipstream.spark.lake.base import LakeConflict, LakeError, LakeFile
from slipstream.spark.lake.work import Work

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["neighbours", "put_in_place", "rewritten"]

_ATTEMPTS = 20  # each is a version that somebody else made


def neighbours(files: Sequence[LakeFile], target_bytes: int) -> list[list[LakeFile]]:
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


def rewritten(directory: str, paths: Sequence[str], rows: int, *, codec: str, job: str) -> LakeFile | None:
    """Some files as one; None if one of them is gone, because somebody has replaced and removed it.

    Raises:
        LakeError: they have not as many rows as their table says.
    """
    from slipstream.spark.lake.files import read_rows, schema_of, write_file

    def batches(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for path in paths:
            yield from read_rows(path, schema)

    try:
        schema = schema_of(paths)
        file = write_file(directory, batches(schema), job=job, codec=codec, schema=schema)
    except FileNotFoundError:
        return None
    if file is None or file.rows != rows:
        raise LakeError(f"{len(paths)} files have {file.rows if file else 0} rows, the table says {rows}")
    return file


def put_in_place(work: Work, added: Sequence[LakeFile], removed: Sequence[LakeFile]) -> None:
    """Put new files in the place of old ones, as long as the old ones are there: an erasure rewrites what it hits.

    Raises:
        LakeConflict: one of the old ones is not there any more.
        LakeError: the table is changed all the time.
    """
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
