"""Jobs of Spark on tables in object stores: one that fails now and then, and those of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.faulty_s3 import BUCKET, FaultyS3
from support.real_stores import NAMES, RealStore, program
from support.spark_streams import Streams

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
FAULTS = {"unavailable": 5, "lost": 3, "seed": 3}
WITH_CONDITIONS = [name for name in NAMES if name != "rclone"]  # which has none, so no table is made there


@pytest.fixture(params=["faulty", *WITH_CONDITIONS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str], tuple[str, ...]]]:
    """Where tables are, what finds them, and what nobody may see."""
    if request.param == "faulty":
        faulty = FaultyS3()
        faulty.break_with(**FAULTS)
        yield f"s3://{BUCKET}/{tmp_path.name}", faulty.environment, (faulty.environment["AWS_SECRET_ACCESS_KEY"],)
        faulty.close()
        return
    if program(request.param) is None:
        pytest.skip(f"SLIPSTREAM_OBJECT_STORES has no {request.param}: tools/object_stores.py builds it")
    (tmp_path / "store").mkdir()
    real = RealStore(request.param, tmp_path / "store")
    yield real.place(tmp_path.name), real.environment(), real.secrets
    real.kill()


def test_every_job(streams: Streams, name: str, store: tuple[str, dict[str, str], tuple[str, ...]]) -> None:
    location, environment, secrets = store
    bucket, target = f"B{name}", f"{name}_BACK"
    streams.create(name)
    streams.fill(name, 300)
    streams.create(f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"])
    streams.publish((f"$KV.{bucket}.{number % 5}", b"v") for number in range(20))
    streams.create(target, subjects=[f"other.{name}"])
    # The replayed messages have the subjects that they had: the target collects them, and the stream no more.
    streams.api(f"STREAM.UPDATE.{name}", {**streams.api(f"STREAM.INFO.{name}")["config"], "subjects": [f"gone.{name}"]})
    streams.api(
        f"STREAM.UPDATE.{target}", {**streams.api(f"STREAM.INFO.{target}")["config"], "subjects": [f"{name}.>"]}
    )
    script = str(Path(__file__).with_name("store_jobs.py"))
    command = [sys.executable, script, streams.url, name, bucket, location, target]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "first": 300,
        "again": 0,
        "audit": True,
        "table": [300, 30],
        "then": 100,
        "keys": 5,
        "view": 5,
        "erased": 30,
        "replayed": 270,
    }
    assert not any(secret in done.stdout + done.stderr for secret in secrets)
