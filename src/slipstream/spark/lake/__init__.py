"""The cold side of a stream: its messages as a table of Parquet files, under a Delta log or a plain manifest.

    from slipstream.spark.lake import open_lake

    lake = open_lake("./lake/orders")
    lake.facts            # which stream, archived up to which sequence
    lake.files()          # the files of a version

Files are written by Spark's workers, columnar from end to end; a commit names them, all or none.
"""

from __future__ import annotations

from slipstream.spark.lake.base import Archived, Lake, LakeConflict, LakeError, LakeFile, NoLake, Wish
from slipstream.spark.lake.erasures import is_erased, note_erased
from slipstream.spark.lake.opening import create_lake, open_lake
from slipstream.spark.lake.vacuum import Vacuumed, vacuum
from slipstream.spark.lake.work import Work, working

__all__ = [
    "Archived",
    "Lake",
    "LakeConflict",
    "LakeError",
    "LakeFile",
    "NoLake",
    "Vacuumed",
    "Wish",
    "Work",
    "create_lake",
    "is_erased",
    "note_erased",
    "open_lake",
    "vacuum",
    "working",
]
