"""A stream as an Iceberg table, through pyiceberg: in a catalogue of SQLite beside the files, or any that it knows.

The position is in the summary of each snapshot, so it changes with the files. The library's own retries are switched
off for these tables: a commit in between may be another writer's, and has to be looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slipstream.config.lake_secrets import secret_property
from slipstream.lake.iceberg_cleaning import (
    ORPHAN_SECONDS,
    erase_rows,
    forget_snapshots,
    note_ranges,
    read_ranges,
    sweep_orphans,
)
from slipstream.spark.lake.base import LakeError, Wish
from slipstream.spark.lake.erasures import covers, merged
from slipstream.spark.lake.files import SCHEMA, filtered

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PARTITIONS", "IcebergCatalogue", "IcebergStreamTable"]

PARTITIONS: Final = ("day", "hour", "subject")
_UPTO: Final = "slipstream.upto"
_IDENTITY: Final = "slipstream.identity"
_STREAM: Final = "slipstream.stream"
_ERASED: Final = "slipstream.erased."
_ERASED_RANGES: Final = 10_000  # every version of the table's metadata has them
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergCatalogue:
    """Where tables are registered."""

    def __init__(
        self,
        location: str,
        properties: Mapping[str, str],
        namespace: str,
        partition: tuple[str, ...] = (),
        columns: Callable[[], pa.Schema] | None = None,
    ) -> None:
        """Connect.

        Args:
            location: of the files of new tables; with no catalogue named, also of `catalog.db`.
            properties: of pyiceberg (`uri`, `type`, …); what they do not say comes from its file and variables.
            namespace: of the tables.
            partition: of new tables.
            columns: of payloads, asked for when a table is opened; it gets those that it lacks.

        Raises:
            LakeError: pyiceberg is missing, a secret is in the properties, or nobody answers.
        """
        if shown := secret_property(properties):
            variable = f"PYICEBERG_CATALOG__SLIPSTREAM__{shown.upper().replace('-', '_').replace('.', '__')}"
            raise LakeError(f"{shown} is a secret; put it into the variable {variable}")
        if location.startswith("az://"):
            raise LakeError(
                "Iceberg tables in Azure are at abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH: others find them "
                "by that name"
            )
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NamespaceAlreadyExistsError

            from slipstream.lake.recorded_io import RECORDED_IO
        except ImportError as error:
            raise LakeError(f"{error.name} is not installed: pip install 'slipstream-server[lake]'") from error
        chosen = dict(properties)
        if "uri" not in chosen and "type" not in chosen:
            if "://" in location:
                raise LakeError("name the catalogue of tables that are not in a local directory: --catalog uri=…")
            Path(location).mkdir(parents=True, exist_ok=True)
            chosen |= {"type": "sql", "uri": f"sqlite:///{Path(location).resolve()}/catalog.db"}
        if "warehouse" not in chosen:
            chosen["warehouse"] = location if "://" in location else f"file://{Path(location).resolve()}"
        if account := _account(chosen["warehouse"]):
            chosen.setdefault("adls.account-name", account)
        chosen.setdefault("py-io-impl", RECORDED_IO)
        self._namespace = namespace
        self._partition = partition
        self._columns = columns
        try:
            self._catalogue = load_catalog("slipstream", **chosen)
            self._catalogue.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            pass
        except (ValueError, OSError) as error:
            raise LakeError(f"the catalogue cannot be used: {error}") from error

    def open(self, stream: str, identity: str | None) -> IcebergStreamTable:
        """The table of a stream, made if it is not there and `identity` says for whom.

        Raises:
            LakeError: it is of another stream, or not of a stream.
        """
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        name = (self._namespace, stream)
        try:
            table = self._catalogue.load_table(name)
        except NoSuchTableError:
            if identity is None:
                raise LakeError(f"there is no table {self._namespace}.{stream}") from None
            with suppress(TableAlreadyExistsError):  # another writer was quicker
                self._create(name, identity)
            table = self._catalogue.load_table(name)
        found = table.properties.get(_IDENTITY)
        if found is None:
            raise LakeError(f"the table {self._namespace}.{stream} was not made for a stream")
        if identity is not None and found != identity:
            raise LakeError(
                f"the table {self._namespace}.{stream} is of an earlier stream of this name, which was deleted and "
                "made anew; rename it, or name another namespace"
            )
        if identity is not None and self._columns is not None:
            self._evolve(table)
        return IcebergStreamTable(table, f"{self._namespace}.{stream}")

    def _evolve(self, table: Any) -> None:
        """Add columns that a table lacks; those it has keep their types, or get wider ones."""
        from pyiceberg.exceptions import ValidationError

        try:
            with table.update_schema() as update:
                update.union_by_name(self._schema())
        except (ValueError, ValidationError) as error:
            raise LakeError(f"the columns do not fit the table {'.'.join(table.name())}: {error}") from error

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        return SCHEMA if self._columns is None else pa.schema([*SCHEMA, *self._columns()])

    def _create(self, name: tuple[str, str], identity: str) -> None:
        from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, Transform

        columns: dict[str, tuple[str, Transform[Any, Any], str]] = {
            "day": ("ts", DayTransform(), "ts_day"),
            "hour": ("ts", HourTransform(), "ts_hour"),
            "subject": ("subject", IdentityTransform(), "subject_is"),
        }
        properties = {**_PROPERTIES, _STREAM: name[1], _IDENTITY: identity}
        schema = self._schema()
        with self._catalogue.create_table_transaction(name, schema=schema, properties=properties) as transaction:
            if self._partition:
                with transaction.update_spec() as spec:
                    for one in self._partition:
                        spec.add_field(*columns[one])


class IcebergStreamTable:
    """See `LakeTable`."""

    def __init__(self, table: Any, place: str) -> None:
        """Use `IcebergCatalogue.open`."""
        self.place = place
        self._table = table

    @property
    def identity(self) -> str:
        return str(self._table.properties[_IDENTITY])

    @property
    def table_id(self) -> str:
        return str(self._table.metadata.table_uuid)

    def position(self) -> int:
        self._table.refresh()
        return self._position()

    def append(self, batches: Iterator[pa.RecordBatch], after: int, upto: int) -> int | None:
        import pyarrow as pa
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        from slipstream.lake.recorded_io import discarding

        found = list(batches)
        if self._position() != after:
            return None
        rows = pa.Table.from_batches(found, found[0].schema if found else self._empty())
        try:
            with discarding(self._table):
                self._table.append(rows, snapshot_properties=self._summary(upto))
        except CommitFailedException:
            return None
        except CommitStateUnknownException:
            return rows.num_rows if self.position() == upto else None
        return int(rows.num_rows)

    def compact(self, file_bytes: int, files: int) -> int:
        from pyiceberg.exceptions import CommitFailedException

        from slipstream.lake.recorded_io import discarding

        self._table.refresh()
        few = _small_neighbours(self._data_files(), file_bytes)
        if len(few) < files:
            return 0
        first, last = min(one[0] for one in few), max(one[1] for one in few)
        rows_filter = f"seq >= {first} and seq <= {last}"
        before = self._table.metadata.current_snapshot_id
        rows = self._table.scan(row_filter=rows_filter, snapshot_id=before).to_arrow().sort_by("seq")
        try:
            with discarding(self._table), self._table.transaction() as transaction:
                transaction.overwrite(rows, rows_filter, snapshot_properties=self._summary(self._position()))
        except CommitFailedException:
            self._table.refresh()
            return 0  # somebody has written meanwhile; the next time
        return len(few)

    def expire(self, keep_seconds: float) -> int:
        table = self._table
        table.refresh()
        moment = datetime.now(UTC) - timedelta(seconds=keep_seconds)
        oldest_ms = int(moment.timestamp() * 1000)
        current = table.metadata.current_snapshot_id
        old = [one for one in table.snapshots() if one.timestamp_ms < oldest_ms and one.snapshot_id != current]
        return forget_snapshots(table, old) + sweep_orphans(table, max(keep_seconds, ORPHAN_SECONDS))

    def erase(self, subjects: Sequence[str]) -> int:
        """Take messages of these subjects out of all files, snapshots and manifests; how many there were.

        Raises:
            LakeError: the table is changed all the time by somebody else.
        """
        return erase_rows(self._table, subjects, lambda: self._summary(self._position()))

    def read(self, wish: Wish, version: int | None) -> Iterator[pa.RecordBatch]:
        table = self._table
        if version is not None and table.snapshot_by_id(version) is None:
            raise LakeError(f"{self.place} has no snapshot {version}")
        bounds = (
            ("seq >=", wish.first_seq),
            ("seq <=", wish.last_seq),
            ("ts_ns >=", wish.start_ns),
            ("ts_ns <", wish.end_ns),
        )
        condition = " and ".join(f"{what} {value}" for what, value in bounds if value is not None) or "seq > 0"
        # Files of partitions overlap, so that order is made here.
        rows = (
            table.scan(row_filter=condition, snapshot_id=version)
            .select(*SCHEMA.names)
            .to_arrow()
            .sort_by("seq")
            .cast(SCHEMA)
        )
        for batch in rows.to_batches(max_chunksize=65_536):
            found = filtered(batch, wish)
            if found.num_rows:
                yield found

    def note_erased(self, ranges: Sequence[Sequence[int]]) -> None:
        """Note that sequences of the stream are about to be erased, for `is_explained`; both ends are inside.

        Notes are properties of the table, so that they are wherever the catalogue is. What is written needs none, and
        one that is too long keeps its beginning: that is where a writer goes on.

        Raises:
            LakeError: the table is changed all the time by somebody else.
        """
        note_ranges(
            self._table, _ERASED, lambda: merged(ranges, self._position())[:_ERASED_RANGES], lambda: self._position()
        )

    def is_explained(self, first: int, last: int) -> bool:
        noted = read_ranges(self._table, _ERASED).values()
        return covers([one for ranges in noted for one in ranges], first, last)

    def _position(self) -> int:
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            found = (snapshot.summary or {}).get(_UPTO)
            if found is not None:
                return int(found)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        # Somebody else's snapshots alone are left. What is behind the newest message was not written.
        return max((one[1] for one in self._data_files()), default=0)

    def _empty(self) -> pa.Schema:
        return self._table.schema().as_arrow()

    def _summary(self, upto: int) -> dict[str, str]:
        return {_UPTO: str(upto), _IDENTITY: self.identity}

    def _data_files(self) -> list[tuple[int, int, int]]:
        """First and last sequence and size of each file, by first sequence."""
        if self._table.current_snapshot() is None:
            return []
        found = []
        for row in self._table.inspect.files().to_pylist():
            metrics = row["readable_metrics"]["seq"]
            found.append((metrics["lower_bound"], metrics["upper_bound"], row["file_size_in_bytes"]))
        return sorted(found)


def _account(location: str) -> str:
    """The storage account of Azure that a place is in; empty if it does not say so."""
    scheme, _, rest = location.partition("://")
    return rest.partition("/")[0].rpartition("@")[2].partition(".")[0] if scheme in ("abfs", "abfss") else ""


def _small_neighbours(files: list[tuple[int, int, int]], file_bytes: int) -> list[tuple[int, int, int]]:
    """The longest row of files in the order of sequences that are small, and together not too large."""
    best: list[tuple[int, int, int]] = []
    one: list[tuple[int, int, int]] = []
    for file in files:
        if file[2] >= file_bytes // 2 or sum(each[2] for each in one) + file[2] > file_bytes:
            one = []
        if file[2] < file_bytes // 2:
            one.append(file)
        if len(one) > len(best):
            best = list(one)
    return best
