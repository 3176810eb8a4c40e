"""Jobs on one table in random order, inside each other, and killed: every message stays where it belongs.

A job is killed at a random place, so that it cleans nothing up, or another one runs there from beginning to end. Spark
is left out, its tasks are done inline: this is about the driver, the table and the server.

    invariant, after every step:  a message that nobody erased is in the stream or in the table, in the table once;
                                  one that was erased is in neither
    at the end:                   the table has everything that was not erased, and its directory nothing else
"""

from __future__ import annotations

import importlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from slipstream.spark import jobs
from slipstream.spark.lake import open_lake
from slipstream.spark.lake.files import read_file
from slipstream.spark.lake.places import place_at
from slipstream.spark.lake.work import LEASE_SECONDS, Work
from slipstream.spark.runtime.errors import SparkSideError
from slipstream.spark.runtime.target import Reach
from support.faulty_s3 import BUCKET, FaultyS3
from support.spark_streams import Streams

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

NO_SPARK = cast(SparkSession, None)
SUBJECTS = 3
STEPS = 12
JOBS = ("archive", "archive", "drop", "erase", "compact", "vacuum")
MODULES = ("archive", "compact", "erase")
STORE_STEPS = 5
STORE_ORDERS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 40))]
ORDERS = [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 120))]


class _Killed(BaseException):
    pass


class Places:
    """Where something may happen in the middle of a job: before and after its tasks and its commits."""

    def __init__(self) -> None:
        self.happens: Callable[[], None] | None = None
        self.left = 0
        self.is_dying = False

    def reached(self) -> None:
        self.left -= 1
        if self.left == 0 and self.happens is not None:
            self.happens()

    def die(self) -> None:
        self.is_dying = True
        raise _Killed


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """Jobs without Spark, with places."""
    found = Places()

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            found.reached()
            result = call(*args, **options)
            found.reached()
            return result

        return wrapped

    @around
    def run_tasks(_: object, items: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
        return [work(item) for item in items]

    for name in MODULES:
        module = importlib.import_module(f"slipstream.spark.jobs.{name}")
        monkeypatch.setattr(module, "run_tasks", run_tasks)
    archive = importlib.import_module("slipstream.spark.jobs.archive")
    monkeypatch.setattr(archive, "at_once", lambda _: 1)
    monkeypatch.setattr(archive, "waves", lambda _, items: [items[at : at + 2] for at in range(0, len(items), 2)])
    monkeypatch.setattr(archive, "_drop", around(archive._drop))
    for module_name, kind in (("delta", "DeltaLake"), ("plain", "PlainLake")):
        lake = getattr(importlib.import_module(f"slipstream.spark.lake.{module_name}"), kind)
        monkeypatch.setattr(lake, "commit", around(lake.commit))
        monkeypatch.setattr(lake, "forget", around(lake.forget))
    discard = Work.discard

    def discard_alive(work: Work) -> int:
        if found.is_dying:
            raise _Killed  # the dead clean nothing up
        return discard(work)

    monkeypatch.setattr(Work, "discard", discard_alive)
    vacuum = importlib.import_module("slipstream.spark.lake.vacuum")
    monkeypatch.setattr(vacuum, "settle_leases", around(vacuum.settle_leases))
    return found


class World:
    """A stream, its table, and what has to be true of them."""

    def __init__(
        self, streams: Streams, name: str, table: str, kind: str, places: Places, seed: int, store: FaultyS3 | None
    ) -> None:
        self.streams, self.name, self.kind, self.places = streams, name, kind, places
        self.random = random.Random(seed)
        self.reach = Reach(servers=streams.url)
        self.table = table
        self.store = store
        self.published: dict[int, int] = {}  # subject by sequence
        self.doomed: set[int] = set()  # somebody has begun to erase them
        self.erased: set[int] = set()  # and has said that it is done
        self.said: list[str] = []
        streams.create(name)

    def publish(self) -> None:
        chosen = [self.random.randrange(SUBJECTS) for _ in range(self.random.randint(1, 12))]
        begin = len(self.published) + 1
        self.streams.publish((f"{self.name}.{one}", b"%d" % number) for number, one in enumerate(chosen, begin))
        self.published |= dict(enumerate(chosen, begin))

    def job(self, which: str, subject: int) -> None:
        """Run a job; that somebody else is in the way is no failure."""
        try:
            if which in ("archive", "drop"):
                jobs.archive(
                    NO_SPARK,
                    self.name,
                    self.table,
                    reach=self.reach,
                    format=self.kind,
                    target_bytes=256,
                    drop=which == "drop",
                )
            elif which == "erase":
                wanted = {number for number, found in self.published.items() if found == subject}
                self.doomed |= wanted
                words = [f"{self.name}.{subject}"]
                jobs.erase(NO_SPARK, words, stream=self.name, location=self.table, reach=self.reach)
                self.erased |= wanted
            else:
                jobs.compact(NO_SPARK, self.table, vacuum=which == "vacuum")
        except SparkSideError as error:
            allowed = ("changed", "there is no table", "just now", "run it again")
            if not any(text in str(error) for text in allowed):
                raise

    def step(self) -> None:
        """A job, with something in the middle of it."""
        first, second = self.random.choice(JOBS), self.random.choice(("kill", *JOBS))
        one, other = self.random.randrange(SUBJECTS), self.random.randrange(SUBJECTS)
        self.places.left = self.random.randint(1, 14)
        self.places.happens = self.places.die if second == "kill" else (lambda: self.job(second, other))
        self.said.append(f"{first} {one}, at {self.places.left} {second} {other}")
        with suppress(_Killed):
            self.job(first, one)
        self.places.is_dying = False
        if self.random.random() < 0.5:  # the dead are taken for dead, sooner or later
            self.age_leases()
        self.check()

    def age_leases(self) -> None:
        moment = time.time() - LEASE_SECONDS - 1
        if self.store is not None:
            for name in self.store.names(f"{self.table.removeprefix(f's3://{BUCKET}/')}/_work/"):
                self.store.objects[name].modified = moment
            return
        for lease in Path(self.table, "_work").glob("*"):
            os.utime(lease, (moment, moment))

    def check(self) -> None:
        archived = Counter(self.archived())
        assert not [number for number, count in archived.items() if count > 1], self.said
        alive = {row["seq"] for row in self.streams.rows(self.name, "seq")}
        assert self.published.keys() - self.doomed <= archived.keys() | alive, self.said
        assert not self.erased & (archived.keys() | alive), self.said

    def archived(self) -> list[int]:
        try:
            lake = open_lake(self.table)
        except SparkSideError:
            return []
        lake.check_content()
        found: list[int] = []
        for file in lake.files():
            for batch in read_file(lake.path_of(file), ("seq", "subject", "payload")):
                for row in batch.to_pylist():
                    assert row["payload"] == b"%d" % row["seq"]
                    assert row["subject"] == f"{self.name}.{self.published[row['seq']]}"
                    found.append(row["seq"])
        return found

    def end(self) -> None:
        self.places.happens = None
        self.job("archive", 0)
        for subject in sorted({self.published[number] for number in self.doomed}):
            self.job("erase", subject)
        self.check()
        assert sorted(self.archived()) == sorted(self.published.keys() - self.doomed), self.said
        assert self.erased == self.doomed
        self.age_leases()
        self.job("vacuum", 0)
        lake = open_lake(self.table)
        left = {entry.name for entry in place_at(self.table).list() if ".parquet" in entry.name}
        assert left == {file.path for file in lake.files()}


@pytest.mark.parametrize("kind", ["delta", "parquet"])
@pytest.mark.parametrize("seed", ORDERS)
def test_every_message_stays_where_it_belongs(
    streams: Streams, name: str, tmp_path: Path, kind: str, places: Places, seed: int
) -> None:
    told(World(streams, name, str(tmp_path / "table"), kind, places, seed, None))


@pytest.fixture(scope="module")
def store() -> Iterator[FaultyS3]:
    found = FaultyS3()
    yield found
    found.close()


@pytest.mark.parametrize("kind", ["delta", "parquet"])
@pytest.mark.parametrize("seed", STORE_ORDERS)
def test_also_in_an_object_store_that_fails(
    streams: Streams, name: str, store: FaultyS3, kind: str, places: Places, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in store.environment.items():
        monkeypatch.setenv(variable, value)
    store.break_with(unavailable=2, lost=2, slow=2, seed=seed)
    told(World(streams, name, f"s3://{BUCKET}/{name}", kind, places, seed, store), steps=STORE_STEPS)
    assert store.seen["unavailable"] and store.seen["lost"] and not store.unsigned


def told(world: World, steps: int = STEPS) -> None:
    for _ in range(steps):
        if world.random.random() < 0.6:
            world.publish()
        world.step()
    world.end()
