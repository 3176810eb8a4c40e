"""Iceberg tables in a REST catalogue: made, written once though answers are lost, compacted, replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.lake.opening import TablePlan
from slipstream.lake.replaying import replay
from slipstream.lake.service import LakeService
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import Wish
from support.rest_catalogue import RestCatalogue
from support.spark_streams import Streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[RestCatalogue]:
    found = RestCatalogue(tmp_path)
    yield found
    found.close()


def test_each_message_once_though_answers_are_lost(
    streams: Streams, client: BulkClient, catalogue: RestCatalogue, tmp_path: Path
) -> None:
    streams.create("ORDERS")
    location = f"file://{tmp_path}/warehouse"
    plan = TablePlan(location, "iceberg", {"type": "rest", "uri": catalogue.url}, partition=("day",))
    settings = WriteSettings(file_bytes=1500, compact_files=0)
    for lost in (0, 1, 2):
        streams.fill("ORDERS", 40)
        catalogue.lost = lost
        with LakeService(ConnectOptions(streams.url), plan.opener(), ["ORDERS"], settings) as service:
            for _ in range(5):
                report = service.turn()
                assert not catalogue.bugs
                if not report.failures and not report.streams[0].lag:
                    break
    assert not catalogue.lost and catalogue.commits > 6
    table = plan.opener()("ORDERS", None)
    assert [row["seq"] for batch in table.read(Wish(), None) for row in batch.to_pylist()] == list(range(1, 121))
    assert table.compact(64 << 20, 2) > 2
    expected = streams.rows("ORDERS", "subject", "hdr_raw", "payload")
    streams.delete("ORDERS")
    streams.create("AGAIN", subjects=["ORDERS.>"])
    assert replay(client, plan.opener()("ORDERS", None), "AGAIN", Wish()).messages == 120
    assert streams.rows("AGAIN", "subject", "hdr_raw", "payload") == expected


def test_of_two_writers_one_is_told(
    streams: Streams, client: BulkClient, catalogue: RestCatalogue, tmp_path: Path
) -> None:
    streams.create("ORDERS")
    streams.fill("ORDERS", 10)
    plan = TablePlan(f"file://{tmp_path}/warehouse", "iceberg", {"type": "rest", "uri": catalogue.url})
    late = plan.opener()("ORDERS", client.bulk_info("ORDERS")["identity"])
    assert late.position() == 0
    writer = StreamWriter("ORDERS", plan.opener(), WriteSettings())
    assert writer.turn(client).written == 10
    writer.release(client)
    from slipstream.spark.lake.files import COLUMNS

    assert late.append(iter(client.read("ORDERS", 1, 10, columns=COLUMNS)), 0, 10) is None
    assert late.position() == 10
