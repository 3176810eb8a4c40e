"""Dead letters as consumers and the Spark sink write them: by cause, and back to where they belong."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slipstream.spark import jobs
from slipstream.spark.jobs.dead_letters import Goal, open_letter
from slipstream.spark.runtime.target import Reach
from support import nats_py
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(300)
CONTENT = ("subject", "headers", "payload")
dlq_module = importlib.import_module("slipstream.spark.jobs.dlq")


class Work:
    """A stream of jobs, a consumer that gives jobs up, and a stream for what was given up."""

    def __init__(self, node: ServerProcess, streams: Streams, name: str) -> None:
        self._node = node
        self._streams = streams
        self.name = name
        self.dead = f"{name}_DEAD"
        streams.create(self.dead, subjects=[f"dead.{name}.>"])
        streams.create(
            name, subjects=[f"{name}.jobs"], max_msg_size=70_000, metadata={"slipstream.dlq": f"dead.{name}.jobs"}
        )

    def give_up(self, *payloads: bytes) -> None:
        """Publish jobs and let the consumer terminate them."""

        async def scenario() -> None:
            async with nats_py.connected(self._node) as client:
                jetstream = client.jetstream()
                before = (await jetstream.stream_info(self.dead)).state.messages
                for payload in payloads:
                    headers = {"Kept": "yes", "Nats-Msg-Id": payload.decode()}
                    await jetstream.publish(f"{self.name}.jobs", payload, headers=headers)
                subscription = await jetstream.pull_subscribe(f"{self.name}.jobs", "worker")
                for message in await subscription.fetch(len(payloads)):
                    await message.term()
                while (await jetstream.stream_info(self.dead)).state.messages < before + len(payloads):
                    pass

        nats_py.run(scenario)

    def write(self, spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
        """Write rows with the sink, which puts aside what the stream does not take."""
        rows = [(*row, None)[:3] for row in rows]
        frame = spark.createDataFrame(rows, "subject string, payload binary, headers map<string, array<string>>")
        options = {"onError": "dlq", "dlqSubject": f"dead.{self.name}.rows"}
        frame.coalesce(1).write.format("slipstream").mode("append").options(
            servers=self._node.url, stream=self.name, **options
        ).save()


@pytest.fixture
def work(node: ServerProcess, streams: Streams, name: str) -> Work:
    return Work(node, streams, name)


def test_letters_of_a_consumer_and_of_the_sink(spark: SparkSession, streams: Streams, reach: Reach, work: Work) -> None:
    name = work.name
    work.give_up(b"1", b"2")
    large = [(f"{name}.jobs", b"x" * size) for size in (80_000, 90_000)]
    headers = {"Kept": ["1", "2"], "Nats-TTL": ["5s"]}
    wrong = (f"{name}.other", b"its header", {"Bad": ["two\nlines"]})
    work.write(spark, [(f"{name}.other", b"row", headers), wrong, *large, ("no subject at all", b"lost")])
    before = streams.rows(name, *CONTENT)
    seen = jobs.dlq(spark, work.dead, reach=reach)
    assert seen["letters"] == 7
    causes = {(row["consumer"], row["subject"]): (row["reason"], row["letters"]) for row in seen["by_cause"]}
    assert causes["worker", f"{name}.jobs"] == ("terminated", 2)
    reason, count = causes["", f"{name}.jobs"]
    assert count == 2 and reason.startswith("its payload has … bytes")
    assert any("is not among the subjects of the stream" in row["reason"] for row in seen["by_cause"])

    driven = jobs.dlq(spark, work.dead, reach=reach, redrive=name, delete=True)
    assert (driven["redriven"], driven["not_redriven"], driven["deleted"]) == (2, 5, 2)
    added = streams.rows(name, *CONTENT)[len(before) :]
    assert added == [
        {"subject": f"{name}.jobs", "headers": [("Kept", ["yes"])], "payload": payload} for payload in (b"1", b"2")
    ]

    config = streams.api(f"STREAM.INFO.{name}")["config"]
    streams.api(f"STREAM.UPDATE.{name}", {**config, "subjects": [f"{name}.>"]})
    assert jobs.dlq(spark, work.dead, reach=reach, redrive=name, delete=True)["deleted"] == 0, "it was left aside"
    driven = jobs.dlq(spark, work.dead, reach=reach, redrive=name, delete=True, again=True)
    assert (driven["redriven"], driven["not_redriven"], driven["deleted"]) == (1, 4, 1)
    kept = [("Kept", ["1", "2"])]
    assert streams.rows(name, *CONTENT)[-1] == {"subject": f"{name}.other", "headers": kept, "payload": b"row"}
    assert streams.state(work.dead)["messages"] == 4


def test_a_letter_that_comes_later(spark: SparkSession, streams: Streams, reach: Reach, work: Work) -> None:
    work.give_up(b"1", b"2", b"3")
    assert jobs.dlq(spark, work.dead, reach=reach, redrive=work.name)["redriven"] == 3
    work.give_up(b"4")  # the worker gets the oldest job, which is the first one, once more
    report = jobs.dlq(spark, work.dead, reach=reach, redrive=work.name)
    assert (report["redriven"], report["copied_before"]) == (1, 3)
    assert jobs.dlq(spark, work.dead, reach=reach, redrive=work.name, delete=True)["deleted"] == 4
    assert streams.payloads(work.name) == [b"1", b"2", b"3", b"1", b"2", b"3", b"4", b"1"]


@pytest.mark.parametrize("function", ["copy_into", "_delete"])
def test_a_driver_dies_before_letters_are_deleted(
    spark: SparkSession, streams: Streams, reach: Reach, work: Work, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    work.give_up(b"1", b"2")
    real = getattr(dlq_module, function)

    def dies(*args: Any, **more: Any) -> None:
        if function == "copy_into":
            real(*args, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(dlq_module, function, dies)
    with pytest.raises(KeyboardInterrupt):
        jobs.dlq(spark, work.dead, reach=reach, redrive=work.name, delete=True)
    monkeypatch.setattr(dlq_module, function, real)
    report = jobs.dlq(spark, work.dead, reach=reach, redrive=work.name, delete=True)
    assert (report["redriven"], report["deleted"]) == (0, 2)
    assert streams.payloads(work.name) == [b"1", b"2"] * 2
    assert streams.state(work.dead)["messages"] == 0


@pytest.mark.parametrize("size", ["", "x", "²", "9" * 30, "-1", "4"])
def test_letters_that_nobody_should_write(size: str) -> None:
    fault = ("Slipstream-Error", ["'a.b' is not among the subjects of the stream (x)"])
    letter = open_letter([fault, ("Slipstream-Subject", ["a.b"]), ("Slipstream-Size", [size])])
    goal = Goal("S", ("a.*",), 10)
    assert goal.takes(letter, 4) is (size == "4")
    assert not goal.takes(open_letter(None), 0)
    assert not goal.takes(open_letter([("Slipstream-Dlq-Stream", ["S"])]), 0), "it says no subject"
    assert not goal.takes(open_letter([("Slipstream-Error", []), ("Slipstream-Subject", ["a.b"])]), 0)
