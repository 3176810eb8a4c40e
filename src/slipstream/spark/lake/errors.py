"""What can be wrong with a table."""

from __future__ import annotations

from slipstream.spark.runtime.errors import SparkSideError

__all__ = ["LakeConflict", "LakeError", "NoLake"]


class LakeError(SparkSideError):
    """A lake table is missing, belongs to another stream, or was changed by somebody else meanwhile."""


class NoLake(LakeError):
    """There is no table at all."""


class LakeConflict(LakeError):
    """Somebody else made a version since this one was read; nothing was changed. `reload`, look, and try again."""
