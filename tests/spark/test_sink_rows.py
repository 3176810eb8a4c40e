"""Rows at the border of what can be a message: sizes, headers, operations, ids, subjects; in every mode.

The sink is called as Spark does, without Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slipstream.spark.runtime.errors import OptionError, SparkSideError
from support import nats_py
from support.server_process import ServerProcess
from support.spark_sink import HEADERS, MESSAGE, Sink
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(120)
MODES = ["transaction", "append", "msgid", "atomic"]
WITH_HEADERS = {**MESSAGE, "headers": HEADERS}
WITH_ID = {**MESSAGE, "msg_id": pa.string()}
ENTRY = {"key": pa.string(), "value": pa.binary(), "op": pa.string()}


@pytest.fixture(params=["ours", "plain"])
def server(request: pytest.FixtureRequest) -> Streams:
    """Each kind of server."""
    node: ServerProcess = request.getfixturevalue("node" if request.param == "ours" else "plain_node")
    return Streams(node.url)


def modes(server: Streams, node: ServerProcess) -> list[str]:
    return MODES if server.url == node.url else MODES[1:]


def options_of(mode: str) -> dict[str, str]:
    return {"mode": mode, "deterministic": "true"} if mode == "msgid" else {"mode": mode}


def causes(streams: Streams, name: str) -> list[str]:
    return [dict(row["headers"])["Slipstream-Error"][0] for row in streams.rows(name)]


@pytest.mark.parametrize("mode", MODES)
def test_a_message_of_exactly_the_limit(node: ServerProcess, streams: Streams, name: str, mode: str) -> None:
    streams.create(name, max_msg_size=200, allow_atomic=True)
    sink = Sink(node.url, MESSAGE, stream=name, **options_of(mode))
    sink.write([(f"{name}.a", b"small")])
    assert streams.payloads(name) == [b"small"]
    if mode in ("transaction", "append"):  # the others add headers
        sink.write([(f"{name}.a", b"x" * 200)], batch=1)
        assert len(streams.payloads(name)[1]) == 200
    with pytest.raises(SparkSideError, match=r"1 of 1 rows.*201 bytes.*the server takes messages of 200 bytes"):
        sink.write([(f"{name}.a", b"x" * 201)], batch=2)


def test_the_largest_message_that_was_read_is_written_back(node: ServerProcess, streams: Streams, name: str) -> None:
    streams.create(name)
    largest = b"x" * 1_048_576
    streams.publish([(f"{name}.a", largest)])
    block = b"NATS/1.0\r\nKind: large\r\n\r\n"
    streams.publish([(f"{name}.a", largest[len(block) :])], block)
    rows = streams.rows(name)
    for mode in ("transaction", "append"):
        sink = Sink(node.url, WITH_HEADERS, stream=name, mode=mode)
        sink.write([(row["subject"], row["payload"], row["headers"]) for row in rows])
    copied = streams.rows(name)
    assert len(copied) == 6
    for row in copied:
        assert {**row, "seq": 0} in [{**one, "seq": 0} for one in rows]
    with pytest.raises(SparkSideError, match=f"{len(block)} of headers"):
        sink.write([(f"{name}.a", largest, [("Kind", ["large"])])])


def test_bad_headers_are_bad_rows(server: Streams, node: ServerProcess, name: str) -> None:
    rows: list[Any] = [
        (f"{name}.a", b"fine", [("A", ["1", "2"])]),
        (f"{name}.a", b"no list", [("A", None)]),
        (f"{name}.a", b"no name", [("", ["1"])]),
        (f"{name}.a", b"two lines", [("A", ["1\r\nB: 2"])]),
    ]
    for number, mode in enumerate(modes(server, node)):
        target, dead = f"{name}T{number}", f"{name}D{number}"
        server.create(target, subjects=[f"{name}.a"], allow_atomic=True)
        server.create(dead, subjects=[f"dead.{name}"])
        with pytest.raises(SparkSideError, match=r"3 of 4 rows.*row 1: its header 'A' has null.*onError=dlq"):
            Sink(server.url, WITH_HEADERS, stream=target, **options_of(mode)).write(rows)
        assert server.payloads(target) == []
        sink = Sink(
            server.url, WITH_HEADERS, stream=target, onError="dlq", dlqSubject=f"dead.{name}", **options_of(mode)
        )
        sink.write(rows)
        if mode != "append":
            sink.write(rows)
        assert server.payloads(target) == [b"fine"], mode
        assert server.payloads(dead) == [b"no list", b"no name", b"two lines"], mode
        assert "line end" in causes(server, dead)[2]
        server.delete(target)
        server.delete(dead)


def test_bad_operations_and_keys_are_bad_rows(node: ServerProcess, streams: Streams, name: str) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            bucket = await client.jetstream().create_key_value(bucket=name, history=3)
            for value in (b"1", b"2"):
                await bucket.put("kept", value)

    nats_py.run(create)
    streams.create(f"{name}D", subjects=[f"dead.{name}"])
    rows: list[Any] = [("a", b"1", "put"), ("b", b"kept", "DROP"), ("*", b"all", "PURGE"), (None, b"x", "PURGE")]
    with pytest.raises(SparkSideError, match=r"3 of 4 rows.*row 1: its op is 'DROP', not PUT.*'\*' is no key"):
        Sink(node.url, ENTRY, bucket=name).write(rows)
    for mode in ("transaction", "append"):
        sink = Sink(node.url, ENTRY, bucket=name, onError="dlq", dlqSubject=f"dead.{name}", mode=mode)
        sink.write(rows)
    found = [(row["subject"].rpartition(".")[2], row["payload"]) for row in streams.rows(f"KV_{name}")]
    assert found == [("kept", b"1"), ("kept", b"2"), ("a", b"1"), ("a", b"1")], "a bad row purges nothing"
    assert streams.payloads(f"{name}D")[:3] == [b"kept", b"", b""]
    assert "op is 'DROP'" in causes(streams, f"{name}D")[0]


def test_rows_need_ids_where_ids_are_what_counts(server: Streams, name: str) -> None:
    server.create(name)
    server.create(f"{name}D", subjects=[f"dead.{name}"])
    rows: list[Any] = [(f"{name}.a", b"1", "one"), (f"{name}.a", b"2", None), (f"{name}.a", b"2", None)]
    with pytest.raises(SparkSideError, match=r"2 of 3 rows.*'msg_id' is empty.*give every row an id.*onError=dlq"):
        Sink(server.url, WITH_ID, stream=name, mode="msgid").write(rows)
    sink = Sink(server.url, WITH_ID, stream=name, mode="msgid", onError="dlq", dlqSubject=f"dead.{name}")
    for _ in range(2):
        sink.write(rows)
    assert server.payloads(name) == [b"1"]
    assert server.payloads(f"{name}D") == [b"2", b"2"], "two rows, each once"


@pytest.mark.parametrize("where", ["another stream", "the same stream"])
def test_dead_letters_of_an_atomic_batch(server: Streams, name: str, where: str) -> None:
    same = where == "the same stream"
    server.create(name, subjects=[f"{name}.>", *([f"dead.{name}"] if same else [])], allow_atomic=True)
    if not same:
        server.create(f"{name}D", subjects=[f"dead.{name}"])
    sink = Sink(server.url, MESSAGE, stream=name, mode="atomic", onError="dlq", dlqSubject=f"dead.{name}")
    rows: list[Any] = [(f"{name}.a", b"1"), ("elsewhere", b"bad"), (f"{name}.a", b"2")]
    for _ in range(2):
        sink.write(rows, [("elsewhere", b"worse")])
        sink.write([("elsewhere", b"nothing else")], batch=1)
    sink.write([(f"{name}.a", b"3")], batch=2)
    good, letters = [b"1", b"2", b"3"], [b"bad", b"worse", b"nothing else"]
    if same:
        assert server.payloads(name) == [b"bad", b"worse", b"1", b"2", b"nothing else", b"3"]
    else:
        assert (server.payloads(name), server.payloads(f"{name}D")) == (good, letters)


def test_a_place_for_dead_letters_is_looked_for_before_anything_else(server: Streams, name: str) -> None:
    server.create(name)
    with pytest.raises(OptionError, match=r"dlqSubject.*'nowhere' is not a subject of exactly one stream"):
        Sink(server.url, WITH_ID, stream=name, mode="msgid", onError="dlq", dlqSubject="nowhere")


def test_wrong_subjects_are_named(server: Streams, node: ServerProcess, name: str) -> None:
    server.create(name, allow_atomic=True)
    for mode in modes(server, node):
        sink = Sink(server.url, MESSAGE, stream=name, **options_of(mode))
        with pytest.raises(SparkSideError, match=rf"'elsewhere' is not among the subjects.*{name}\.>.*onError=dlq"):
            sink.write([(f"{name}.a", b"1"), ("elsewhere", b"2")])
        with pytest.raises(SparkSideError, match=r"is no subject to publish to"):
            sink.write([(f"{name}.*", b"1")])
    assert server.payloads(name) == []


def test_objects_without_a_name(node: ServerProcess, streams: Streams, name: str) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            await client.jetstream().create_object_store(name)

    nats_py.run(create)
    streams.create(f"{name}D", subjects=[f"dead.{name}"])
    columns = {"name": pa.string(), "data": pa.binary()}
    with pytest.raises(SparkSideError, match=r"row 1: it has no name.*onError=dlq"):
        Sink(node.url, columns, objectStore=name).write([("a", b"1"), (None, b"2")])
    sink = Sink(node.url, columns, objectStore=name, onError="dlq", dlqSubject=f"dead.{name}")
    sink.write([("a", b"1"), (None, b"2")])
    assert streams.payloads(f"{name}D") == [b"2"] and streams.state(f"OBJ_{name}")["messages"] == 2


def test_chunks_have_the_size_that_is_asked_for(node: ServerProcess, streams: Streams, name: str) -> None:
    async def create() -> None:
        async with nats_py.connected(node) as client:
            await client.jetstream().create_object_store(name)

    nats_py.run(create)
    columns = {"name": pa.string(), "data": pa.binary()}
    Sink(node.url, columns, objectStore=name, chunkBytes="100").write([("a", b"x" * 250)])
    assert [len(payload) for payload in streams.payloads(f"OBJ_{name}")[:3]] == [100, 100, 50]
    with pytest.raises(OptionError, match=r"chunkBytes.*2097152 is more than the 1048576 bytes"):
        Sink(node.url, columns, objectStore=name, chunkBytes="2m").write([("a", b"x")])


def test_staged_rows_are_kept_as_long_as_is_asked_for(node: ServerProcess, streams: Streams, name: str) -> None:
    """The names of parts say until when; by how much less is the difference of the two."""
    streams.create(name)

    def staged(**options: str) -> int:
        part = Sink(node.url, MESSAGE, stream=name, **options).task([(f"{name}.a", b"x")]).parts[name]
        return int(part["name"].rpartition("-")[2])

    brief, usual = staged(stageTimeout="1h"), staged()
    assert usual - brief in range(23 * 3600, 23 * 3600 + 60)
