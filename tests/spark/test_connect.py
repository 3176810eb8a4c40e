"""Spark Connect: clients of a server in the Java machine that these tests have anyway, and pipelines, which need it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slipstream.spark.runtime.errors import SetupError
from slipstream.spark.runtime.remote import remote_session, remote_url
from support.spark_streams import Streams

pytestmark = pytest.mark.timeout(600)
_HERE = Path(__file__).parent
_PIPELINE = _HERE.parents[1] / "examples" / "spark_declarative"


@pytest.fixture(scope="module")
def remote(spark: SparkSession) -> Iterator[str]:
    """Address of a Spark Connect server in the session's own Java machine."""
    java: Any = spark._jvm
    service = getattr(getattr(java.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    context = spark._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", "0").set("spark.connect.grpc.binding.address", "127.0.0.1")
    service.start(context)
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(java.scala.Option.empty(), java.scala.Option.empty())


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_client_reads_writes_and_runs_jobs(remote: str, streams: Streams, name: str, tmp_path: Path) -> None:
    streams.create(name)
    streams.create(f"{name}_COPY")
    streams.create(f"KV_B{name}", subjects=[f"$KV.B{name}.>"])
    streams.publish((f"$KV.B{name}.{number % 5}", b"v") for number in range(20))
    found = json.loads(_run(str(_HERE / "connect_client.py"), remote, streams.url, name, str(tmp_path)))
    refused = found.pop("refused"), found.pop("object_store"), found.pop("lost")
    assert "set it where that is started" in refused[0]
    assert "session on this machine" in refused[1]
    assert "parquet" in refused[2]
    assert found == {
        "same": True,
        "read": 100,
        "lag": {name: 0},
        "archived": 1000,
        "table": 1000,
        "bucket": 5,
    }
    assert sorted(streams.payloads(f"{name}_COPY")) == sorted(b"%d" % number for number in range(1000))


def test_the_declarative_pipeline(remote: str, streams: Streams, spark: SparkSession, tmp_path: Path) -> None:
    streams.create("ORDERS", subjects=["orders.>"])
    streams.create("LARGE", subjects=["large.>"])
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    shutil.copytree(_PIPELINE, spec.parent)
    text = spec.read_text()
    assert "file:///tmp/slipstream-orders" in text
    spec.write_text(text.replace("file:///tmp/slipstream-orders", f"file://{tmp_path}/storage"))
    try:
        orders = ((number, 100 + number % 50) for number in range(300))
        streams.publish((f"orders.{n % 3}", b'{"order": %d, "cents": %d}' % (n, cents)) for n, cents in orders)
        _run("-m", "pyspark.pipelines.cli", "run", "--spec", str(spec), SPARK_REMOTE=remote, NATS_URL=streams.url)
        expected = {number: 100 + number % 50 for number in range(300)}
        assert {row["order"]: row["cents"] for row in spark.table("orders").collect()} == expected
        total = sum(row["cents"] for row in spark.table("revenue").collect())
        assert total == sum(expected.values())
        large = [json.loads(payload)["order"] for payload in streams.payloads("LARGE")]
        assert sorted(large) == [number for number, cents in expected.items() if cents >= 140]
    finally:
        for table in ("orders", "revenue"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
        streams.delete("ORDERS")
        streams.delete("LARGE")


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(SetupError, match=r"sc://127\.0\.0\.1:1 does not answer"):
        remote_session("sc://127.0.0.1:1/;token=secret", "test", {}, {})


def test_where_spark_connect_is_named() -> None:
    assert remote_url("sc://host") == "sc://host"
    assert remote_url("spark://host", {"SPARK_REMOTE": "sc://other"}) is None
    assert remote_url(None, {"SPARK_REMOTE": "sc://other"}) == "sc://other"
    assert remote_url(None, {}) is None
