"""Find out what kind of table is somewhere, or make one."""

from __future__ import annotations

from pathlib import Path

from slipstream.spark.lake.base import Archived, Lake, LakeError, NoLake
from slipstream.spark.lake.plain import LOG_DIRECTORY, PlainLake

__all__ = ["FORMATS", "create_lake", "open_lake"]

FORMATS = ("delta", "parquet")
_DELTA_LOG = "_delta_log"
_VERSION = "[0-9]*.json"


def open_lake(location: str) -> Lake:
    """Open the table at a place.

    Raises:
        LakeError: there is none.
    """
    if any((Path(location) / LOG_DIRECTORY).glob(_VERSION)):
        return PlainLake(location)
    if not (Path(location) / _DELTA_LOG).is_dir():
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
    place = Path(location)
    if place.exists() and not _is_free(place):
        raise LakeError(f"{location} is there already and is no table of ours")
    if kind == "parquet":
        return PlainLake.create(location, facts)
    from slipstream.spark.lake.delta import DeltaLake

    return DeltaLake.create(location, facts)


def _is_free(place: Path) -> bool:
    """Whether a directory holds nothing but the log of a table whose maker died before the first version."""
    if not place.is_dir() or any(one.name not in (LOG_DIRECTORY, _DELTA_LOG) for one in place.iterdir()):
        return False
    return not any(any((place / log).glob(_VERSION)) for log in (LOG_DIRECTORY, _DELTA_LOG))
