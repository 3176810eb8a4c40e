"""Writers, compaction, expiry, erasure and replay of a table, inside each other and killed: nothing is lost or doubled.

Each step runs one of them; at a random place in it (before or after a commit, a look at the table, a file) it dies, or
another one runs there from beginning to end.

    invariant, after every step:  the table has every message up to its position once, unless its erasure has begun;
                                  one whose erasure is done is neither in the table nor in the stream;
                                  a replay has brought messages in their order, each once
    at the end:                   table and replay have everything that was not erased
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from slipstream.bulk import BulkClient, ConnectOptions, connect
from slipstream.errors import SlipstreamError
from slipstream.lake import delta_table, iceberg_cleaning, replaying
from slipstream.lake.erasing import erase
from slipstream.lake.iceberg_table import IcebergStreamTable
from slipstream.lake.opening import TablePlan
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import Wish
from slipstream.spark.lake.delta import DeltaLake
from slipstream.spark.lake.work import Work
from slipstream.testing import ServerThread
from support.spark_streams import Streams

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
SUBJECTS = 3
STEPS = 8
JOBS = ("write", "write", "compact", "expire", "erase", "replay")
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 60))]
# What each says when somebody else is in the way; a second call goes on.
SAID = ("changed all the time", "there is no table", "has expired", "another replay", "just now", "changed meanwhile")


class _Killed(BaseException):
    pass


class Places:
    """Where something may happen in the middle of a job."""

    def __init__(self) -> None:
        self.happens: Callable[[], None] | None = None
        self.left = 0
        self.is_dying = False

    def around(self, patch: pytest.MonkeyPatch, target: Any, name: str) -> None:
        usual = getattr(target, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            self._reached()
            result = usual(*args, **options)
            self._reached()
            return result

        patch.setattr(target, name, wrapped)

    def _reached(self) -> None:
        self.left -= 1
        if self.left == 0 and self.happens is not None:
            self.happens()

    def die(self) -> None:
        self.is_dying = True
        raise _Killed


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    found = Places()
    for target, name in (
        (SqlCatalog, "commit_table"),
        (SqlCatalog, "load_table"),
        (IcebergStreamTable, "_position"),
        (iceberg_cleaning, "_subjects"),
        (iceberg_cleaning, "_files_of"),
        (DeltaLake, "commit"),
        (DeltaLake, "reload"),
        (DeltaLake, "forget"),
        (delta_table, "write_file"),
        (delta_table, "settle_leases"),
        (delta_table, "read_file"),
        (replaying, "_pieces"),
    ):
        found.around(monkeypatch, target, name)
    discard = Work.discard

    def discard_alive(work: Work) -> int:
        if found.is_dying:
            raise _Killed  # the dead clean nothing up
        return discard(work)

    monkeypatch.setattr(Work, "discard", discard_alive)
    return found


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("lake"))) as server:
        yield Streams(server.url)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    """On another server, where the same subjects are free."""
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("copies"))) as server:
        yield Streams(server.url)


class World:
    """A stream, its table, a replay of it, and what has to be true of them."""

    def __init__(
        self, streams: Streams, copies: Streams, name: str, plan: TablePlan, places: Places, seed: int, records: Path
    ) -> None:
        self.streams, self.name, self.plan, self.places, self.records = streams, name, plan, places, records
        self.copies = copies
        self.random = random.Random(seed)
        self.reach = ConnectOptions(streams.url)
        self.published: dict[int, int] = {}  # subject by sequence
        self.doomed: set[int] = set()
        self.erased: set[int] = set()
        self.said: list[str] = []
        streams.create(name)
        copies.create(name)

    def publish(self) -> None:
        chosen = [self.random.randrange(SUBJECTS) for _ in range(self.random.randint(1, 12))]
        begin = len(self.published) + 1
        self.streams.publish((f"{self.name}.{one}", b"%d" % number) for number, one in enumerate(chosen, begin))
        self.published |= dict(enumerate(chosen, begin))

    def job(self, which: str, subject: int) -> None:
        """Do it; that somebody else is in the way is no failure, if it is said."""
        try:
            with connect(self.reach) as client:
                self._do(client, which, subject)
        except SlipstreamError as error:
            assert any(text in str(error) for text in SAID), (which, error, self.said)

    def _do(self, client: BulkClient, which: str, subject: int) -> None:
        open_table = self.plan.opener()
        if which == "write":
            writer = StreamWriter(self.name, open_table, WriteSettings(file_bytes=200, compact_files=0))
            writer.turn(client)
            writer.release(client)
            return
        table = open_table(self.name, None)
        if which == "compact":
            table.compact(1 << 20, 2)
        elif which == "expire":
            table.expire(0.0)
        elif which == "erase":
            wanted = {number for number, found in self.published.items() if found == subject}
            self.doomed |= wanted
            words = [f"{self.name}.{subject}"]
            erase(table, words, stream=self.name, reach=self.reach, record=str(self.records))
            self.erased |= wanted
        else:
            with connect(ConnectOptions(self.copies.url)) as copies:
                replaying.replay(copies, table, self.name, Wish())

    def step(self) -> None:
        first, second = self.random.choice(JOBS), self.random.choice(("kill", *JOBS))
        one, other = self.random.randrange(SUBJECTS), self.random.randrange(SUBJECTS)
        self.places.left = self.random.randint(1, 24)
        self.places.happens = self.places.die if second == "kill" else (lambda: self.job(second, other))
        self.said.append(f"{first} {one}, at {self.places.left} {second} {other}")
        with suppress(_Killed):
            self.job(first, one)
        self.places.happens, self.places.is_dying = None, False
        self.check()

    def check(self) -> None:
        try:
            table = self.plan.opener()(self.name, None)
        except SlipstreamError:
            return  # not made yet
        rows = [row for batch in table.read(Wish(), None) for row in batch.to_pylist()]
        for row in rows:
            assert row["payload"] == b"%d" % row["seq"]
            assert row["subject"] == f"{self.name}.{self.published[row['seq']]}"
        found = [row["seq"] for row in rows]
        assert found == sorted(set(found)), self.said
        upto = table.position()
        assert set(found) <= set(range(1, upto + 1)), self.said
        assert set(range(1, upto + 1)) - self.doomed <= set(found), self.said
        alive = {row["seq"] for row in self.streams.rows(self.name, "seq")}
        assert not self.erased & (set(found) | alive), self.said
        replayed = self.replayed()
        assert replayed == sorted(set(replayed)), self.said

    def replayed(self) -> list[int]:
        return [int(payload) for payload in self.copies.payloads(self.name)]

    def end(self) -> None:
        self.job("write", 0)
        for subject in sorted({self.published[number] for number in self.doomed}):
            self.job("erase", subject)
        self.job("replay", 0)
        self.check()
        table = self.plan.opener()(self.name, None)
        found = {row["seq"] for batch in table.read(Wish(), None) for row in batch.to_pylist()}
        assert found == self.published.keys() - self.doomed and self.erased == self.doomed, self.said
        assert found <= set(self.replayed()), self.said

    def sweep(self) -> None:
        """What the dead have left goes, once it is old enough."""
        lake = Path(self.plan.location)
        for path in lake.rglob("*"):
            if path.is_file():
                os.utime(path, (1, 1))
        table: Any = self.plan.opener()(self.name, None)
        table.expire(0.0)
        if self.plan.format == "delta":
            left = {str(path) for path in lake.rglob("*.parquet") if "_delta_log" not in path.parts}
            assert left == set(DeltaTable(str(lake / self.name)).file_uris()), self.said
            return
        named = iceberg_cleaning._files_of(table._table, table._table.snapshots())
        left = {f"file://{path}" for ending in ("parquet", "avro") for path in lake.rglob(f"*.{ending}")}
        assert left == named, self.said


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled(
    streams: Streams, copies: Streams, tmp_path: Path, kind: str, places: Places, seed: int
) -> None:
    plan = TablePlan(str(tmp_path / "lake"), kind)
    world = World(streams, copies, f"I{kind}{seed}", plan, places, seed, tmp_path / "records")
    for _ in range(STEPS):
        world.publish()
        world.step()
    world.end()
    world.sweep()
