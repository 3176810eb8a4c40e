"""Tables in object stores: what a place promises, and streams as tables behind a store that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.lake.delta_table import DeltaStreamTable, open_delta
from slipstream.lake.iceberg_table import IcebergCatalogue
from slipstream.lake.opening import TablePlan
from slipstream.lake.replaying import replay
from slipstream.lake.service import LakeService
from slipstream.lake.tables import OpenTable
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import LakeError, Wish, open_lake
from slipstream.spark.lake.places import Place, joined, place_at, split_path
from slipstream.spark.lake.work import LEASE_SECONDS, working
from slipstream.testing import ServerThread
from support.faulty_s3 import BUCKET, FaultyS3
from support.spark_streams import Streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    found = FaultyS3()
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in found.environment.items():
            patch.setenv(variable, value)
        yield found
    found.close()


@pytest.fixture(autouse=True)
def whole(s3: FaultyS3) -> None:
    """Each test begins with a store that does what it is asked."""
    s3.break_with()


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("lake"))) as server:
        yield Streams(server.url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"S{abs(hash(request.node.nodeid)):x}"


# --- places --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Place:
    return place_at(str(tmp_path / "place") if request.param == "directory" else f"s3://{BUCKET}/{name}/")


def test_files_come_and_go(place: Place) -> None:
    assert place.list() == place.list("folder") == []
    place.write("folder/b", b"one")
    place.write("folder/b", b"other")
    place.create("folder/a", b"\0\xff")
    place.write("c", b"")
    assert sorted((entry.name, entry.size) for entry in place.list("folder")) == [("a", 2), ("b", 5)]
    assert [entry.name for entry in place.list()] == ["c"]  # folders are not in it
    assert (place.read("folder/a"), place.size("folder/b"), place.read("c")) == (b"\0\xff", 5, b"")
    place.remove("folder/a")
    place.remove("folder/a")
    for gone in (place.read, place.size, place.touch, place.source):
        with pytest.raises(FileNotFoundError):
            gone("folder/a")


def test_a_name_is_taken_once(place: Place) -> None:
    won: list[int] = []

    def take(number: int) -> None:
        try:
            place.create("name", b"%d" % number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    assert place.read("name") == b"%d" % winner


def test_no_table_is_made_in_a_store_that_ignores_conditions(s3: FaultyS3, name: str) -> None:
    s3.break_with(careless=True)
    with pytest.raises(LakeError, match="ignores conditions of writes"):
        open_delta(f"s3://{BUCKET}/{name}", "ORDERS", "identity")
    assert not [one for one in s3.objects if one.startswith(name)]
    s3.break_with()
    assert open_delta(f"s3://{BUCKET}/{name}", "ORDERS", "identity").position() == 0


def test_a_file_is_there_when_it_is_whole(place: Place) -> None:
    def dies(file: Any) -> bool:
        file.write(b"half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        place.fill("x", dies)
    assert place.fill("x", lambda file: bool(file.write(b"none")) and False) is None
    assert place.list() == []
    large = bytes(range(256)) * 80_000  # in several parts
    assert place.fill("x", lambda file: bool(file.write(large))) == len(large)
    assert place.read("x") == large


def test_a_touch_is_seen_and_brings_nothing_back(place: Place) -> None:
    place.write("lease", b"mine")
    (before,) = place.list()
    place.touch("lease")
    (after,) = place.list()
    assert after.modified >= before.modified and place.read("lease") == b"mine"
    place.remove("lease")
    with pytest.raises(FileNotFoundError):
        place.touch("lease")
    assert place.list() == []


def test_an_answer_that_is_lost_is_no_refusal(s3: FaultyS3, name: str) -> None:
    place = place_at(f"s3://{BUCKET}/{name}")
    s3.break_with(lost=20, seed=7, only=("PUT",))
    for number in range(10):
        place.create(f"{number}", b"%d" % number)
        with pytest.raises(FileExistsError):
            place.create(f"{number}", b"another")
    assert s3.seen["lost"]
    s3.break_with()
    assert sorted(int(entry.name) for entry in place.list()) == list(range(10))


def test_names_of_places() -> None:
    assert joined("s3://b/x/", "S") == "s3://b/x/S"
    assert split_path("s3://b/x/part") == ("s3://b/x", "part")
    assert split_path("/part") == ("/", "part")
    assert split_path("part") == (".", "part")


def test_what_is_no_store_and_what_is_refused(s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LakeError, match="cannot be used"):
        place_at("carrier-pigeon://x/y")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with pytest.raises(LakeError) as told:
        place_at(f"s3://{BUCKET}/unsigned").read("x")
    assert "hidden-key" not in str(told.value)
    s3.unsigned = 0


# --- tables --------------------------------------------------------------------------------------------------------


def opener(kind: str, s3: FaultyS3, tmp_path: Path, name: str) -> OpenTable:
    place = f"s3://{BUCKET}/tables-{name}"
    if kind == "delta":
        return lambda stream, identity: open_delta(place, stream, identity)
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "s3.endpoint": s3.url,
        "s3.region": "us-east-1",
    }
    return IcebergCatalogue(place, properties, "streams").open


# Arrow waits seconds before it asks again, so that the short form of Iceberg has few faults.
FAULTS = [
    ("delta", {"unavailable": 2, "lost": 3, "slow": 3}, 2),
    ("iceberg", {"slow": 10}, 1),
    pytest.param("iceberg", {"unavailable": 3, "lost": 3, "slow": 3}, 3, marks=pytest.mark.long),
    pytest.param("delta", {"unavailable": 5, "lost": 5, "slow": 5}, 6, marks=pytest.mark.long),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "faults", "rounds"), FAULTS)
def test_a_stream_becomes_a_table_behind_a_store_that_fails(
    streams: Streams,
    client: BulkClient,
    s3: FaultyS3,
    tmp_path: Path,
    name: str,
    kind: str,
    faults: dict[str, int],
    rounds: int,
) -> None:
    streams.create(name)
    open_table = opener(kind, s3, tmp_path, name)
    writer = StreamWriter(name, open_table, WriteSettings(file_bytes=3000, compact_files=3))
    s3.seen.clear()
    s3.break_with(**faults, seed=3)
    for _ in range(rounds):
        streams.fill(name, 60)
        with LakeService(ConnectOptions(streams.url), open_table, [name], WriteSettings(file_bytes=3000)) as service:
            while (report := service.turn()).failures or report.streams[0].lag:
                pass  # what failed is tried again, as by a service that runs
    writer.turn(client)  # puts small files together
    writer.release(client)
    table = open_table(name, None)
    found = [row for batch in table.read(Wish(), None) for row in batch.to_pylist()]
    columns = ("stream", "seq", "ts", "ts_ns", "subject", "headers", "hdr_raw", "payload")
    expected = streams.rows(name, *columns)
    for row in found:
        row["headers"] = row["headers"] and [(key, list(values)) for key, values in row["headers"]]
    assert found == expected and len(found) == 60 * rounds
    assert all(s3.seen[fault] for fault in faults) and not s3.unsigned

    s3.break_with()
    table = open_table(name, None)
    table.compact(64 << 20, files=2)
    assert table.expire(0.0) > 0
    again = f"{name}2"
    streams.delete(name)
    streams.create(again, subjects=[f"{name}.>"])
    assert replay(client, open_table(name, None), again, Wish()).messages == 60 * rounds
    content = ("subject", "hdr_raw", "payload")
    assert streams.rows(again, *content) == [{key: row[key] for key in content} for row in expected]


def test_leases_in_a_store_run_out(streams: Streams, client: BulkClient, s3: FaultyS3, name: str) -> None:
    """By the store's own times: files of a writer that renews its lease no more are swept, and it cannot commit."""
    location = f"s3://{BUCKET}/leased"
    streams.create(name)
    streams.fill(name, 20)
    writer = StreamWriter(name, lambda stream, identity: open_delta(location, stream, identity), WriteSettings())
    writer.turn(client)
    writer.release(client)
    lake = open_lake(joined(location, name))
    with working(lake, "dead") as dead, working(open_lake(joined(location, name)), "alive") as alive:
        left = [f"leased/{name}/part-{work.job}-{'0' * 32}.parquet" for work in (dead, alive)]
        for path in left:
            lake.place.write(split_path(path)[1], b"x")
            s3.objects[path].modified -= 7200  # older than any file that is about to be committed
        s3.objects[f"leased/{name}/_work/{dead.job}"].modified -= LEASE_SECONDS + 1
        alive.renew()
        table = open_delta(location, name, None)
        assert table.expire(3600.0) == 1
        assert [path in s3.objects for path in left] == [False, True]
        with pytest.raises(LakeError, match="did nothing for more than 600 s"):
            dead.commit(lake.facts, operation="append")
        dead.renew()
        assert f"leased/{name}/_work/{dead.job}" not in s3.objects  # whoever breaks a lease has the last word
        alive.lake.reload()
        alive.commit(alive.lake.facts, operation="append")
    assert table.position() == 20


def test_old_versions_are_looked_for_now_and_then(
    streams: Streams, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    streams.create(name)
    streams.fill(name, 5)
    looked: list[str] = []
    expired = DeltaStreamTable.expire

    def expire(table: DeltaStreamTable, keep_seconds: float) -> int:
        looked.append(table.place)
        if len(looked) == 2:
            raise LakeError("the store is away")
        return expired(table, keep_seconds)

    monkeypatch.setattr(DeltaStreamTable, "expire", expire)
    now = [1_000.0]
    monkeypatch.setattr("slipstream.lake.service.time", SimpleNamespace(monotonic=lambda: now[0]))
    plan = TablePlan(str(tmp_path / "lake"), "delta")
    with LakeService(ConnectOptions(streams.url), plan.opener(), [name], WriteSettings()) as service:
        for now[0], count in ((1_001.0, 0), (1_599.9, 0), (1_600.0, 1), (2_199.0, 1)):
            assert not service.turn().failures
            assert len(looked) == count
        now[0] = 2_200.0
        assert service.turn().failures == {name: "old versions stay: the store is away"}
        assert not service.turn().failures  # and the time after is not now


def test_a_file_that_is_gone_is_removed(s3: FaultyS3, tmp_path: Path, name: str) -> None:
    from slipstream.lake.recorded_io import RecordedFileIO

    io = RecordedFileIO({"s3.endpoint": s3.url, "s3.region": "us-east-1"})
    for path in (f"file://{tmp_path}/file", f"s3://{BUCKET}/{name}/file"):
        with io.new_output(path).create() as output:
            output.write(b"x")
        io.delete(path)
        assert not io.new_input(path).exists()
        io.delete(path)  # as by somebody whose first answer was lost
    with pytest.raises(OSError):
        io.delete(f"file://{tmp_path}")


def test_sql_sees_an_archive_in_a_store(streams: Streams, client: BulkClient, name: str) -> None:
    from slipstream.query.engine import sql

    streams.create(name)
    streams.fill(name, 40)
    location = f"s3://{BUCKET}/archive-{name}"
    writer = StreamWriter(name, lambda stream, identity: open_delta(location, stream, identity), WriteSettings())
    writer.turn(client)
    writer.release(client)
    streams.purge(name, keep=10)
    streams.fill(name, 5)
    assert open_lake(f"{location}/{name}").facts.archived_upto == 40
    found = sql(streams.url, f'SELECT count(*) AS n FROM "{name}"', archives={name: f"{location}/{name}"})
    assert found.read_all().to_pylist() == [{"n": 45}]
