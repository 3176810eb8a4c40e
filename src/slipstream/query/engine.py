"""A query, from its text to Arrow batches: DuckDB in memory, which sees the streams the query names and nothing else.

DuckDB has no access to files, networks, extensions or variables of this program, and its settings are locked before it
sees a query. It has as much memory as it is given, and does not write to disk when that is not enough.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from slipstream.bulk import BulkClient, BulkError, ConnectOptions, connect
from slipstream.errors import SlipstreamError
from slipstream.query.errors import QueryError, StatementError
from slipstream.query.statement import Statement, read_statement
from slipstream.query.streams import QueriedStream, ScanReport, stream_now

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from slipstream.query.archives import ArchivedMessages
    from slipstream.query.stream_scan import StreamDataset

__all__ = ["MEMORY_BYTES", "Query", "sql"]

MEMORY_BYTES: Final = 2 << 30
_SETTINGS: Final[dict[str, Any]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
_RESULT_ROWS: Final = 65_536  # of a batch
_STREAMS_MAX: Final = 100_000


def sql(
    url: str | ConnectOptions,
    query: str,
    *,
    archives: Mapping[str, str] | None = None,
    memory_bytes: int = MEMORY_BYTES,
    time_limit: float | None = None,
) -> pa.RecordBatchReader:
    """Ask streams in SQL; tables are streams by their names.

    Args:
        url: of the server, or options with more in them.
        query: one SELECT, in the words of DuckDB.
        archives: locations of archives by the names of their streams: both are one table.
        memory_bytes: what the query may use; more is an error.
        time_limit: seconds until the last row is read; None for no limit.

    Raises:
        QueryError: it cannot be answered; also while batches are read.
    """
    import pyarrow as pa

    reach = url if isinstance(url, ConnectOptions) else ConnectOptions(url)
    query_object = Query(reach, archives or {}, memory_bytes=memory_bytes, time_limit=time_limit)
    try:
        schema, batches = query_object.run(query)
    except BaseException:
        query_object.close()
        raise

    def rows() -> Iterator[pa.RecordBatch]:
        with query_object:
            yield from batches

    return pa.RecordBatchReader.from_batches(schema, rows())


class Query:
    """One query and what it needs: an engine, a clock."""

    def __init__(
        self,
        reach: ConnectOptions,
        archives: Mapping[str, str],
        *,
        memory_bytes: int = MEMORY_BYTES,
        time_limit: float | None = None,
    ) -> None:
        """Start the engine.

        Raises:
            QueryError: DuckDB or pyarrow is not installed.
        """
        self._reach = reach
        self._archives = dict(archives)
        self._memory_bytes = memory_bytes
        self._time_limit = time_limit
        self._datasets: list[StreamDataset] = []
        self._counted: list[ScanReport] = []
        self._failure: Exception | None = None
        self._connection = _engine(memory_bytes)
        self._timer = threading.Timer(time_limit, self._connection.interrupt) if time_limit else None

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    @property
    def scans(self) -> list[ScanReport]:
        """What was asked of streams so far."""
        return self._counted + [scan for dataset in self._datasets for scan in dataset.scans]

    def run(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Begin to answer; batches may be read once, before this is closed.

        Raises:
            QueryError: it cannot be answered.
        """
        import duckdb

        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        try:
            statement = read_statement(self._connection, query)
            self._register(statement)
            reader = self._connection.sql(statement.text).to_arrow_reader(_RESULT_ROWS)
        except duckdb.Error as error:
            raise self._told(error) from error
        return reader.schema, self._batches(reader)

    def explain(self, query: str) -> str:
        """DuckDB's plan for a query that was run."""
        text = read_statement(self._connection, query).text
        return str(self._connection.execute(f"EXPLAIN {text}").fetchall()[0][1])

    def close(self) -> None:
        """Stop whatever runs."""
        if self._timer is not None:
            self._timer.cancel()
        self._connection.close()

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        import duckdb
        import pyarrow as pa

        try:
            yield from reader
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._told(error) from error

    def _register(self, statement: Statement) -> None:
        """Make the streams that a query names visible under these names."""
        used: set[str] = set()
        seen: dict[str, str] = {}
        with connect(self._reach) as client:
            for table in statement.tables:
                stream = _find(client, table, optional=table.lower() in statement.own)
                if stream is None:
                    continue
                if seen.setdefault(table.lower(), stream.name) != stream.name:
                    raise QueryError(
                        f"{seen[table.lower()]} and {stream.name} are the same name in SQL; ask for one at a time"
                    )
                archive = None
                if stream.name in self._archives:
                    from slipstream.query.archives import open_archived

                    used.add(stream.name)
                    archive = open_archived(client, self._archives[stream.name], stream)
                if statement.counts and archive is None:
                    self._register_rows(table, stream)
                else:
                    self._register_dataset(table, stream, archive)
        if unused := sorted(self._archives.keys() - used):
            raise QueryError(f"the query names no stream {unused[0]!r}, of which an archive was given")

    def _register_dataset(self, table: str, stream: QueriedStream, archive: ArchivedMessages | None) -> None:
        from slipstream.query.stream_scan import StreamDataset

        dataset = StreamDataset(self._reach, stream, archive, self._note_failure)
        self._datasets.append(dataset)
        self._connection.register(table, dataset)

    def _register_rows(self, table: str, stream: QueriedStream) -> None:
        """As many rows as the stream has, of which nobody looks at more than their number.

        They are made by DuckDB itself: what datasets need takes longer to import than such a query to answer.
        """
        name = table.replace('"', '""')
        self._connection.execute(f'CREATE TEMP VIEW "{name}" AS SELECT NULL FROM range({stream.messages})')
        report = ScanReport(stream.name, stream.first, stream.last, (), (), False, live=stream.messages, counted=True)
        self._counted.append(report)

    def _note_failure(self, error: Exception) -> None:
        self._failure = self._failure or error

    def _told(self, error: Exception) -> SlipstreamError:
        """The same in words for people: DuckDB's first line, or what stopped a scan."""
        import duckdb

        if isinstance(self._failure, SlipstreamError):
            return self._failure
        if isinstance(error, duckdb.InterruptException):
            return QueryError(f"the query was stopped after {self._time_limit:g} s")
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "it failed without a word")
        if isinstance(error, duckdb.OutOfMemoryException):
            return QueryError(f"the query needs more than the {self._memory_bytes >> 20:,} MiB of memory it may use")
        wrong = (duckdb.ParserException, duckdb.SyntaxException, duckdb.BinderException, duckdb.CatalogException)
        return StatementError(text) if isinstance(error, wrong) else QueryError(text)


def _engine(memory_bytes: int) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise QueryError(f"{error.name} is not installed: pip install 'slipstream-server[sql]'") from error
    connection = duckdb.connect(config={**_SETTINGS, "memory_limit": f"{memory_bytes}B"})
    connection.execute("SET TimeZone = 'UTC'")  # the same answer everywhere
    connection.execute("SET lock_configuration = true")
    return connection


def _find(client: BulkClient, table: str, *, optional: bool) -> QueriedStream | None:
    """The stream that a name means: of just this name, else the only one that differs in case alone.

    Raises:
        QueryError: there is none, or several.
    """
    try:
        found = stream_now(client, table)
    except BulkError as error:
        if error.err_code or error.retryable:
            raise
        found = None  # a text that is no stream's name
    if found is not None or optional:
        return found
    names = [name for name in _names(client) if name.lower() == table.lower()]
    if not names:
        raise QueryError(f"there is no stream {table!r}")
    if len(names) > 1:
        raise QueryError(f"{table!r} may be {' or '.join(sorted(names))}: write it as it is")
    return stream_now(client, names[0])


def _names(client: BulkClient) -> list[str]:
    known: list[str] = []
    while len(known) < _STREAMS_MAX:
        page = client.link.request("STREAM.NAMES", {"offset": len(known)})
        names = page.get("streams") or []
        known += names
        if not names or len(known) >= int(page.get("total", 0)):
            break
    return known
