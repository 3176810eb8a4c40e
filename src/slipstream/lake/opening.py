"""Which tables streams become: a place, a format and its catalogue, and what payloads are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from slipstream.spark.lake.base import LakeError

if TYPE_CHECKING:
    from slipstream.bulk import ConnectOptions
    from slipstream.lake.tables import OpenTable
    from slipstream.lake.typed import TypedPayloads

__all__ = ["NAMESPACE", "TablePlan"]

NAMESPACE: Final = "streams"
"""Of Iceberg tables, if nothing else is said."""


@dataclass(frozen=True)
class TablePlan:
    """What tables of streams are to be like."""

    location: str
    format: str = "delta"
    catalog: Mapping[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE
    partition: Sequence[str] = ()
    columns: str = ""
    """JSON members as columns, such as `id bigint, name string`."""
    dead_letters: str = ""
    """Where payloads go that do not fit the columns."""

    def check(self, streams: Sequence[str]) -> None:
        """Look whether it goes together.

        Raises:
            LakeError: it does not.
        """
        if self.format == "delta" and (self.catalog or self.partition or self.namespace != NAMESPACE):
            raise LakeError("a catalogue, a namespace and partitions are for the format iceberg")
        if self.dead_letters and not self.columns:
            raise LakeError("dead letters go with columns")
        if self.columns and (self.format != "iceberg" or len(streams) != 1 or "*" in streams[0]):
            raise LakeError("columns go with the format iceberg and one stream")

    def opener(self) -> OpenTable:
        """What opens the table of a stream.

        Raises:
            LakeError: the extra is missing, or the catalogue cannot be used.
        """
        try:
            import deltalake  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise LakeError(f"{error.name} is not installed: pip install 'slipstream-server[lake]'") from error
        if self.format == "delta":
            from slipstream.lake.delta_table import open_delta

            return lambda stream, identity: open_delta(self.location, stream, identity)
        from slipstream.lake.iceberg_table import IcebergCatalogue

        extra = None
        if self.columns:
            from slipstream.lake.typed import read_columns

            extra = read_columns(self.columns)
        return IcebergCatalogue(self.location, self.catalog, self.namespace, tuple(self.partition), extra).open

    def payloads(self, reach: ConnectOptions) -> TypedPayloads | None:
        """What becomes of payloads; None if they are no columns."""
        if not self.columns:
            return None
        from slipstream.lake.typed import TypedPayloads, read_columns

        return TypedPayloads(read_columns(self.columns), reach, self.dead_letters)
