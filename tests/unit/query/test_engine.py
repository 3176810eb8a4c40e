"""SQL over streams of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slipstream
from slipstream.bulk import ConnectOptions, connect
from slipstream.query.engine import Query, sql
from slipstream.query.errors import QueryError, StatementError
from slipstream.spark.lake import Archived, create_lake
from slipstream.spark.lake.files import COLUMNS, write_file
from slipstream.testing import ServerThread
from support.lake_tables import JOB
from support.spark_streams import Streams

ROWS = 1000


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("sql"))) as server:
        streams = Streams(server.url)
        streams.create("ORDERS")
        streams.fill("ORDERS", ROWS)  # ORDERS.0 to ORDERS.9
        streams.create("my-stream", subjects=["dash.>"])
        streams.publish([("dash.a", b'{"id": 7}')], b"NATS/1.0\r\nX: 1\r\nX: 2\r\n\r\n")
        streams.create("Twin", subjects=["twin1"])
        streams.create("TWIN", subjects=["twin2"])
        streams.create("EMPTY", subjects=["empty"])
        yield streams


def ask(streams: Streams, query: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sql(streams.url, query, **options).read_all().to_pylist()
    return rows


def scanned(streams: Streams, query: str) -> tuple[Any, list[dict[str, Any]]]:
    with Query(ConnectOptions(streams.url), {}) as engine:
        rows = [row for batch in engine.run(query)[1] for row in batch.to_pylist()]
        assert len(engine.scans) == 1
        return engine.scans[0], rows


def test_a_stream_is_a_table(streams: Streams) -> None:
    rows = ask(streams, "SELECT * FROM ORDERS ORDER BY seq")
    assert len(rows) == ROWS
    with connect(ConnectOptions(streams.url)) as client:
        expected = [row for batch in client.read("ORDERS", 1, ROWS) for row in batch.to_pylist()]
    assert rows == expected
    assert slipstream.sql is sql


def test_headers_and_payloads(streams: Streams) -> None:
    rows = ask(streams, """SELECT headers['X'] AS x, decode(payload)->>'$.id' AS id FROM "my-stream" """)
    assert rows == [{"x": ["1", "2"], "id": "7"}]


def test_names_are_found_in_any_case_unless_there_are_two(streams: Streams) -> None:
    assert ask(streams, "SELECT count(*) n FROM orders") == [{"n": ROWS}]
    assert ask(streams, "SELECT count(*) n FROM TWIN") == [{"n": 0}]
    with pytest.raises(QueryError, match="may be TWIN or Twin"):
        ask(streams, "SELECT 1 FROM twin")
    with pytest.raises(QueryError, match="the same name in SQL"):
        ask(streams, 'SELECT 1 FROM "Twin", "TWIN"')
    with pytest.raises(QueryError, match="no stream 'nothing'"):
        ask(streams, "SELECT 1 FROM nothing")


def test_a_count_reads_no_message(streams: Streams) -> None:
    scan, rows = scanned(streams, "SELECT count(*) AS n FROM ORDERS WHERE subject = 'ORDERS.3' AND seq <= 500")
    assert rows == [{"n": 50}]
    assert (scan.counted, scan.subjects, scan.last, scan.live) == (True, ("ORDERS.3",), 500, 50)


def test_a_count_of_everything_reads_no_message_either(streams: Streams) -> None:
    scan, rows = scanned(streams, "SELECT count(*) AS n, 'x' AS x, count(*) FROM orders AS o")
    assert rows == [{"n": ROWS, "x": "x", "count_star()": ROWS}]
    assert (scan.counted, scan.stream, scan.first, scan.last, scan.live) == (True, "ORDERS", 1, ROWS, ROWS)
    assert ask(streams, "SELECT count(*) AS n FROM EMPTY") == [{"n": 0}]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM ORDERS WHERE seq > 990", [10]),
        ("SELECT count(*) FILTER (seq > 990) FROM ORDERS", [10]),
        ("SELECT count(*) FROM ORDERS GROUP BY subject", [100] * 10),
        ("SELECT count(*) FROM ORDERS GROUP BY ALL HAVING max(seq) < 5", []),
        ("SELECT count(*) FROM ORDERS a JOIN ORDERS b USING (seq)", [ROWS]),
        ("SELECT count(*) FROM ORDERS NATURAL JOIN (SELECT 7::BIGINT AS seq)", [1]),
        ("SELECT count(*) FROM (SELECT DISTINCT subject FROM ORDERS)", [10]),
        ("SELECT count(DISTINCT subject) FROM ORDERS", [10]),
        ("SELECT count(headers) FROM ORDERS", [0]),
        ("SELECT count(*) FROM ORDERS o(a, b) WHERE b > 990", [10]),
        ("SELECT count(*) FROM ORDERS ORDER BY max(seq)", [ROWS]),
        ("SELECT count(*) FROM ORDERS LIMIT 0", []),
        ("SELECT count(*) FROM ORDERS UNION ALL SELECT count(*) FROM EMPTY", [0, ROWS]),
        ("WITH few AS (SELECT * FROM ORDERS WHERE seq < 4) SELECT count(*) FROM few", [3]),
        ("WITH ORDERS AS (SELECT 1) SELECT count(*) FROM ORDERS", [1]),
        ("SELECT count(*) FROM ORDERS QUALIFY row_number() OVER () = 2", []),
        ("SELECT 1 FROM ORDERS", [1] * ROWS),
    ],
)
def test_counts_of_other_things(streams: Streams, query: str, expected: list[int]) -> None:
    assert sorted(next(iter(row.values())) for row in ask(streams, query)) == expected


def test_messages_that_were_deleted_are_not_counted(streams: Streams) -> None:
    streams.create("HOLES")
    streams.fill("HOLES", 20)
    streams.purge("HOLES", filter="HOLES.3")
    assert ask(streams, "SELECT count(*) AS n FROM HOLES") == [{"n": 18}]
    assert len(ask(streams, "SELECT seq FROM HOLES")) == 18


@pytest.mark.parametrize(
    ("condition", "subjects", "read"),
    [
        ("subject = 'ORDERS.3'", ("ORDERS.3",), 100),
        ("subject IN ('ORDERS.3', 'ORDERS.4')", ("ORDERS.3", "ORDERS.4"), 200),
        ("subject = 'ORDERS.3' OR subject = 'ORDERS.4'", ("ORDERS.3", "ORDERS.4"), 200),
        ("subject LIKE 'ORDERS.%' AND seq > 990", ("ORDERS.>",), 10),
        ("starts_with(subject, 'ORDERS.3')", ("ORDERS.>",), 1000),
        ("seq BETWEEN 11 AND 20", (), 10),
        ("ts < TIMESTAMPTZ '2001-01-01'", (), 0),
        ("subject = 'ORDERS.3' AND decode(payload) LIKE '%3'", ("ORDERS.3",), 100),
        ("stream = 'ORDERS' AND seq > 998", (), 2),
        ("stream = 'OTHER' AND seq > 998", (), 2),
        ("payload = '000003'::BLOB AND seq < 11", (), 10),
        ("NOT subject LIKE 'ORDERS.3%' AND seq <= 20", (), 20),
    ],
)
def test_conditions_go_to_the_index_and_rows_are_right(
    streams: Streams, condition: str, subjects: tuple[str, ...], read: int
) -> None:
    scan, rows = scanned(streams, f"SELECT seq, stream, subject FROM ORDERS WHERE {condition} ORDER BY seq")
    assert (scan.subjects, scan.live) == (subjects, read)
    everything = sql(streams.url, "SELECT * FROM ORDERS").read_all()
    import duckdb

    with duckdb.connect() as plain:
        plain.register("ORDERS", everything)
        table = plain.sql(f"SELECT seq, stream, subject FROM ORDERS WHERE {condition} ORDER BY seq").to_arrow_table()
        assert rows == table.to_pylist()


def test_joins_groups_and_queries_inside_queries(streams: Streams) -> None:
    rows = ask(
        streams,
        """WITH few AS (SELECT * FROM ORDERS WHERE seq <= 20)
           SELECT few.subject, count(*) AS n FROM few JOIN orders AS o USING (seq)
           WHERE o.subject LIKE 'ORDERS.1%' GROUP BY ALL""",
    )
    assert rows == [{"subject": "ORDERS.1", "n": 2}]


def test_an_empty_stream(streams: Streams) -> None:
    assert ask(streams, "SELECT seq FROM EMPTY") == []
    assert ask(streams, "SELECT count(*) AS n FROM EMPTY WHERE seq > 3") == [{"n": 0}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM 'https://example.com/x.parquet'",
    ],
)
def test_nothing_outside_is_reached(streams: Streams, query: str) -> None:
    with pytest.raises(QueryError):
        ask(streams, query)


def test_variables_of_the_program_are_no_tables(streams: Streams) -> None:
    secrets = pa.table({"secret": ["x"]})
    with pytest.raises(QueryError, match="no stream 'secrets'"):
        ask(streams, "SELECT * FROM secrets")
    assert secrets.num_rows == 1


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE ORDERS",
        "SET memory_limit = '9GB'",
        "SELECT 1; SELECT 2",
        "SELEC 1",
        "SELECT nothing FROM ORDERS",
        "",
    ],
)
def test_only_one_select_is_answered(streams: Streams, query: str) -> None:
    with pytest.raises(StatementError):
        ask(streams, query)


def test_limits_of_memory_and_time(streams: Streams) -> None:
    with pytest.raises(QueryError, match="more than the 64 MiB"):
        ask(
            streams,
            "SELECT list(a.payload || b.payload || random()::VARCHAR::BLOB) FROM ORDERS a, ORDERS b, range(100)",
            memory_bytes=64 << 20,
        )
    with pytest.raises(QueryError, match=r"stopped after 0\.2 s"):
        ask(streams, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b", time_limit=0.2)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(slipstream.bulk.BulkError, match="cannot connect"):
        sql(ConnectOptions("nats://127.0.0.1:1", timeout=0.5), "SELECT 1 FROM X")


def archive(streams: Streams, name: str, location: str, upto: int) -> None:
    with connect(ConnectOptions(streams.url)) as client:
        identity = client.bulk_info(name)["identity"]
        lake = create_lake(location, Archived(name, identity))
        file = write_file(location, client.read(name, 1, upto, columns=COLUMNS), job=JOB)
        assert file is not None
        lake.commit(lake.facts.upto(upto), add=[file], operation="archive")


def test_an_archive_and_its_stream_are_one_table(streams: Streams, tmp_path: Path) -> None:
    streams.create("OLD")
    streams.fill("OLD", 100)
    before = ask(streams, "SELECT * FROM OLD ORDER BY seq")
    location = str(tmp_path / "old")
    archive(streams, "OLD", location, 60)
    streams.purge("OLD", seq=41)
    streams.fill("OLD", 10, begin=100)
    archives = {"OLD": location}
    after = ask(streams, "SELECT * FROM OLD ORDER BY seq", archives=archives)
    assert len(after) == 110 and after[:100] == before
    count = "SELECT count(*) AS n FROM OLD WHERE subject = 'OLD.3' AND seq BETWEEN 11 AND 70"
    assert ask(streams, count, archives=archives) == [{"n": 6}]
    assert ask(streams, "SELECT count(*) AS n FROM OLD") == [{"n": 70}]
    streams.purge("OLD", seq=81)
    with pytest.raises(QueryError, match="messages 61 to 80 of OLD are neither archived nor in the stream"):
        ask(streams, "SELECT count(*) FROM OLD", archives=archives)
    with pytest.raises(QueryError, match="names no stream 'ELSE'"):
        ask(streams, "SELECT count(*) FROM OLD", archives={"ELSE": location})
    with pytest.raises(QueryError, match="of another stream"):
        ask(streams, "SELECT count(*) FROM ORDERS", archives={"ORDERS": location})


def test_a_stream_that_vanishes_is_told_in_its_own_words(streams: Streams) -> None:
    streams.create("GOING")
    streams.fill("GOING", 10)
    with Query(ConnectOptions(streams.url), {}) as engine, pytest.raises(slipstream.bulk.BulkError, match="GOING"):
        read = engine._register

        def then_gone(statement: Any) -> None:
            read(statement)
            streams.delete("GOING")

        engine._register = then_gone  # type: ignore[method-assign]
        list(engine.run("SELECT seq FROM GOING")[1])
