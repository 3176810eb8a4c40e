"""Which tables streams become: a place, a format and its catalogue, and what payloads are there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from slipstream.bulk import ConnectOptions, connect
from slipstream.config.lake_secrets import location_problem
from slipstream.spark.lake.base import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.lake.tables import OpenTable
    from slipstream.lake.typed import TypedPayloads

__all__ = ["NAMESPACE", "TablePlan"]

NAMESPACE: Final = "streams"
"""Of Iceberg tables, if nothing else is said."""
_REGISTERED: Final = re.compile(r"schema(?:\s+([A-Za-z0-9_-]+))?")


@dataclass(frozen=True)
class TablePlan:
    """What tables of streams are to be like."""

    location: str
    format: str = "delta"
    catalog: Mapping[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE
    partition: Sequence[str] = ()
    columns: str = ""
    """JSON members as columns, such as `id bigint, name string`; or `schema`, or `schema NAME`: the registered one."""
    dead_letters: str = ""
    """Where payloads go that do not fit the columns."""

    def check(self, streams: Sequence[str]) -> None:
        """Look whether it goes together.

        Raises:
            LakeError: it does not.
        """
        if problem := location_problem(self.location):
            raise LakeError(problem)
        if self.format == "delta" and (self.catalog or self.partition or self.namespace != NAMESPACE):
            raise LakeError("a catalogue, a namespace and partitions are for the format iceberg")
        if self.dead_letters and not self.columns:
            raise LakeError("dead letters go with columns")
        if self.columns and (len(streams) != 1 or "*" in streams[0]):
            raise LakeError("columns go with one stream")

    def opener(self, columns: Callable[[], pa.Schema] | None = None) -> OpenTable:
        """What opens the table of a stream.

        Args:
            columns: of payloads, asked for whenever a table is opened; it gets those that it lacks.

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

            return lambda stream, identity: open_delta(
                self.location, stream, identity, columns() if columns is not None else None
            )
        from slipstream.lake.iceberg_table import IcebergCatalogue

        return IcebergCatalogue(self.location, self.catalog, self.namespace, tuple(self.partition), columns).open

    def payloads(self, reach: ConnectOptions, streams: Sequence[str]) -> TypedPayloads | None:
        """What becomes of payloads; None if they are no columns.

        Raises:
            LakeError: the columns are no list, or no schema is registered.
        """
        if not self.columns:
            return None
        from slipstream.lake.typed import TypedPayloads, read_columns

        named = _REGISTERED.fullmatch(self.columns.strip())
        if named is None:
            return TypedPayloads(read_columns(self.columns), reach, self.dead_letters)
        from slipstream.lake.registered import RegisteredColumns

        registered = RegisteredColumns(named[1] or "")
        with connect(reach) as client:
            registered.follow(client.stream_info(streams[0]))
        return TypedPayloads(registered.columns, reach, self.dead_letters, registered)
