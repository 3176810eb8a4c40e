"""Tables in object stores of others: written, put together, erased, replayed, restored, asked by SQL."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.lake.delta_table import open_delta
from slipstream.lake.erasing import erase
from slipstream.lake.opening import TablePlan
from slipstream.lake.replaying import replay
from slipstream.lake.restoring import restore
from slipstream.lake.service import LakeService
from slipstream.lake.writing import WriteSettings
from slipstream.query.engine import sql
from slipstream.spark import jobs
from slipstream.spark.lake import LakeError, Wish, open_lake
from slipstream.spark.runtime.target import Reach
from support.lossy_http import LossyHttp
from support.real_stores import NAMES, RealStore, program
from support.spark_streams import Streams

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
EVERYTHING = ("seq", "ts_ns", "subject", "hdr_raw", "payload")
# What a simple imitation ignores, so that tables whose commits are files there would lose some.
WITHOUT_CONDITIONS = ("rclone",)
SECRET = "anna"
KILLS = 3
LOST = 8
TURNS = 100  # until a store that was away is there again


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealStore]:
    if program(request.param) is None:
        pytest.skip(f"SLIPSTREAM_OBJECT_STORES has no {request.param}: tools/object_stores.py builds it")
    (tmp_path / "store").mkdir()
    found = RealStore(request.param, tmp_path / "store")
    for variable, value in found.environment().items():
        monkeypatch.setenv(variable, value)
    yield found
    found.kill()


def plan_in(kind: str, store: RealStore, tmp_path: Path, port: int = 0) -> TablePlan:
    # Another place for each test: connections are kept by place, and each test has a server of its own.
    if kind == "delta":
        return TablePlan(store.place(tmp_path.name), "delta")
    catalogue = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    return TablePlan(store.iceberg_place(tmp_path.name), "iceberg", {**catalogue, **store.catalogue(port)})


def rows_of(plan: TablePlan, name: str) -> list[dict[str, Any]]:
    found = plan.opener()(name, None).read(Wish(), None)
    return [row for batch in found for row in batch.select(list(EVERYTHING)).to_pylist()]


def catch_up(service: LakeService) -> None:
    """Turn after turn: what failed is tried again, as by a service that runs."""
    for _ in range(TURNS):
        report = service.turn()
        if not report.failures and not report.streams[0].lag:
            return
        threading.Event().wait(0.1)  # as long as a service waits, or longer
    raise AssertionError(report.failures)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_lives_there(streams: Streams, client: BulkClient, store: RealStore, tmp_path: Path, kind: str) -> None:
    plan, name = plan_in(kind, store, tmp_path), "ORDERS"
    streams.create(name)
    reach = ConnectOptions(streams.url)
    if kind == "delta" and store.name in WITHOUT_CONDITIONS:
        with pytest.raises(LakeError, match="ignores conditions of writes"):
            open_delta(plan.location, name, "identity")
        return
    for _ in range(3):
        streams.fill(name, 100)
        streams.publish([(f"{name}.{SECRET}", b"of anna \x00\xff")], b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n")
        with LakeService(reach, plan.opener(), [name], WriteSettings(file_bytes=2500, compact_files=0)) as service:
            report = service.turn()
            assert not report.failures and not report.streams[0].lag
    golden = streams.rows(name, *EVERYTHING)
    assert rows_of(plan, name) == golden and len(golden) == 303
    table = plan.opener()(name, None)
    assert table.compact(64 << 20, 3) >= 3
    assert table.expire(0.0) > 0
    assert rows_of(plan, name) == golden
    done = erase(table, [f"{name}.{SECRET}"], stream=name, reach=reach, record=str(tmp_path / "records"))
    assert (done["stream_messages"], done["table_messages"]) == (3, 3)
    kept = [row for row in golden if row["subject"] != f"{name}.{SECRET}"]
    assert rows_of(plan, name) == kept
    # What a store keeps of removed objects beside the bucket, and for how long, is its own affair.
    assert not any(b"of anna" in content for content in store.contents())
    if kind == "delta":
        streams.purge(name, keep=5)
        asked = sql(streams.url, f'SELECT count(*) AS n FROM "{name}"', archives={name: f"{plan.location}/{name}"})
        assert asked.read_all().to_pylist() == [{"n": 300}]
    streams.delete(name)
    restore(client, plan.opener()(name, None), {"name": name, "subjects": [f"{name}.>"]})
    assert streams.rows(name, *EVERYTHING) == kept
    streams.delete(name)
    streams.create("AGAIN", subjects=[f"{name}.>"])
    assert replay(client, plan.opener()(name, None), "AGAIN", Wish(11, 60)).messages == 50
    assert streams.payloads("AGAIN") == [row["payload"] for row in kept if 11 <= row["seq"] <= 60]


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_jobs_of_spark_without_spark(
    streams: Streams, store: RealStore, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store.name in WITHOUT_CONDITIONS:
        pytest.skip("no table is made there")
    archive, *others = (
        importlib.import_module(f"slipstream.spark.jobs.{one}") for one in ("archive", "compact", "erase")
    )
    for module in (archive, *others):
        monkeypatch.setattr(module, "run_tasks", lambda _, items, work: [*map(work, items)])
    monkeypatch.setattr(archive, "at_once", lambda _: 1)
    monkeypatch.setattr(archive, "waves", lambda _, items: [items])
    no_spark, reach, name = cast(Any, None), Reach(servers=streams.url), "ORDERS"
    location = store.place(tmp_path.name)
    streams.create(name)
    for _ in range(3):
        streams.fill(name, 100)
        jobs.archive(no_spark, name, location, reach=reach, format=kind, target_bytes=512)
    assert open_lake(location).facts.archived_upto == 300
    jobs.compact(no_spark, location, vacuum=True)
    lake = open_lake(location)
    lake.check_content()
    assert sum(file.rows for file in lake.files()) == 300
    report = jobs.erase(no_spark, [f"{name}.3"], stream=name, location=location, reach=reach)
    assert report.figures["archive_messages"] == 30
    lake = open_lake(location)
    assert sum(file.rows for file in lake.files()) == 270
    streams.delete(name)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_store_is_killed_while_it_is_written_to(
    streams: Streams, store: RealStore, tmp_path: Path, kind: str
) -> None:
    if kind == "delta" and store.name in WITHOUT_CONDITIONS:
        pytest.skip("no table is made there")
    name, plan, chance = "ORDERS", plan_in(kind, store, tmp_path), random.Random(7)
    streams.create(name)
    is_over = threading.Event()

    def kill() -> None:
        for _ in range(KILLS):
            threading.Event().wait(chance.random())  # chance, not order: somewhere in a turn
            store.kill()
            store.start()
        is_over.set()

    killer = threading.Thread(target=kill)
    killer.start()
    filled = 0
    try:
        with LakeService(
            ConnectOptions(streams.url), plan.opener(), [name], WriteSettings(file_bytes=2500, compact_files=4)
        ) as service:
            while not is_over.is_set():
                streams.fill(name, 100, filled)
                filled += 100
                service.turn()  # may fail, as others do while the store is away
            catch_up(service)
    finally:
        killer.join()
    assert rows_of(plan, name) == streams.rows(name, *EVERYTHING)
    assert streams.state(name)["messages"] == filled


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_answers_of_the_store_are_lost(
    streams: Streams, store: RealStore, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change was made and nobody was told: it counts once."""
    if kind == "delta" and store.name in WITHOUT_CONDITIONS:
        pytest.skip("no table is made there")
    name = "ORDERS"
    streams.create(name)
    with LossyHttp(store.port, seed=5) as way:
        for variable, value in store.environment(way.port).items():
            monkeypatch.setenv(variable, value)
        plan = plan_in(kind, store, tmp_path, way.port)
        way.lose(10)
        filled = 0
        while way.lost < LOST:
            streams.fill(name, 60, filled)
            filled += 60
            settings = WriteSettings(file_bytes=2500, compact_files=4)
            with LakeService(ConnectOptions(streams.url), plan.opener(), [name], settings) as service:
                catch_up(service)
        way.lose(0)
        assert rows_of(plan, name) == streams.rows(name, *EVERYTHING)
    assert streams.state(name)["messages"] == filled


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_two_writers_and_one_that_dies(streams: Streams, store: RealStore, tmp_path: Path, kind: str) -> None:
    """`slipstream lake run` twice, killed again and again: each message once, and no word of keys."""
    if kind == "delta" and store.name in WITHOUT_CONDITIONS:
        pytest.skip("no table is made there")
    name, plan, chance = "ORDERS", plan_in(kind, store, tmp_path), random.Random(11)
    streams.create(name)
    command = [sys.executable, "-m", "slipstream", "--server", streams.url, "lake", "run", plan.location]
    command += ["--format", kind, "--every", "100ms", "--file-size", "4k", "--compact-files", "4"]
    command += [word for pair in plan.catalog.items() for word in ("--catalog", "=".join(pair))]
    filled = 0
    heard = tmp_path / "said"
    with open(heard, "wb") as said:

        def begin(*more: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*command, *more], stdout=said, stderr=said)

        with begin() as other:
            try:
                for _ in range(KILLS):
                    with begin() as writer:
                        before = heard.read_text().count("written")
                        while heard.read_text().count("written") < before + 2:
                            streams.fill(name, 10, filled)  # fewer than a slow store takes meanwhile
                            filled += 10
                            threading.Event().wait(chance.random())  # chance, not order: somewhere in a turn
                        writer.kill()
            finally:
                other.kill()
        for _ in range(TURNS):  # whom the other one has just taken the place of says so
            if begin("--once").wait() == 0:
                break
    assert rows_of(plan, name) == streams.rows(name, *EVERYTHING)
    assert streams.state(name)["messages"] == filled
    told = heard.read_text()
    assert not any(secret in told for secret in store.secrets)
    assert not any(secret.encode() in content for secret in store.secrets for content in store.contents())
