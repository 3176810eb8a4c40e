"""Find out what kind of table is somewhere, or make one."""

from __future__ import annotations

import re
from pathlib import Path

from slipstream.spark.lake.base import Archived, Lake, LakeError, NoLake
from slipstream.spark.lake.places import Place, is_object_store, place_at
from slipstream.spark.lake.plain import LOG_DIRECTORY, PlainLake

__all__ = ["FORMATS", "create_lake", "open_lake"]

FORMATS = ("delta", "parquet")
_DELTA_LOG = "_delta_log"
_VERSION = re.compile(r"[0-9]+\.json")


def open_lake(location: str) -> Lake:
    """Open the table at a place.

    Raises:
        LakeError: there is none.
    """
    place = place_at(location)
    if _has_versions(place, LOG_DIRECTORY):
        return PlainLake(location)
    if not _has_versions(place, _DELTA_LOG):
        raise NoLake(f"there is no table at {location}")
    from slipstream.spark.lake.delta import DeltaLake

    return DeltaLake(location)


def create_lake(location: str, facts: Archived, kind: str = "delta") -> Lake:
    """Make an empty table for a stream.

    Raises:
        LakeError: the format is unknown, or the place is taken.
    """
    if kind not in FORMATS:
        raise LakeError(f"there is no format {kind!r}; there are {', '.join(FORMATS)}")
    if not _is_free(location):
        raise LakeError(f"{location} is there already and is no table of ours")
    if is_object_store(location):
        from slipstream.spark.lake.object_place import ObjectPlace

        ObjectPlace(location).prove()
    if kind == "parquet":
        return PlainLake.create(location, facts)
    from slipstream.spark.lake.delta import DeltaLake

    return DeltaLake.create(location, facts)


def _is_free(location: str) -> bool:
    """Whether a place holds nothing, or the log of a table whose maker died before the first version."""
    if not is_object_store(location):
        path = Path(location)
        if path.exists() and (
            not path.is_dir() or any(one.name not in (LOG_DIRECTORY, _DELTA_LOG) for one in path.iterdir())
        ):
            return False
    place = place_at(location)
    return not place.list() and not any(_has_versions(place, log) for log in (LOG_DIRECTORY, _DELTA_LOG))


def _has_versions(place: Place, log: str) -> bool:
    return any(_VERSION.fullmatch(entry.name) for entry in place.list(log))
